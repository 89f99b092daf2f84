"""The commands of docs/undo.md, run in order, do what the document says."""

import shlex

import boto3

from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.model.change.record import ChangeKind
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake_cli.target import Target
from tests import ROOT
from tests.builders import LakeBuilder
from tests.cdclake_cli.test_docs import commands

ORDERS = TableName("shop", "orders")


def test_the_documents_session_goes_as_it_says(cdclake, state):
    registered = Target().installation.new_state(ORDERS)
    state.register(registered)
    table = LakeBuilder(ChangeLog(S3Store(boto3.client("s3"), "cdclake-lake"), Target().installation.layout(ORDERS)))
    first = table.change(rows=100, kind=ChangeKind.FULL_LOAD)
    table.change(rows=50)
    table.change(rows=20, retired=(first.added[0].path,))
    for arguments in commands("cdclake", [ROOT / "docs" / "undo.md"]):
        result = cdclake.at_terminal(*arguments, answer="y")
        assert result.exit_code == 0, (shlex.join(arguments), result.output)
    kinds = [(record.kind.value, record.content_change) for record in table.log.records(4, table.log.head())]
    assert kinds == [("rollback", 2), ("reapply", 3), ("rollback", 1)]
    assert table.log.record(6).reason == "wrong prices since change 2"
    after = state.get(registered.path)
    assert (after.active, after.settings.retention_days) == (False, 90)
    assert after.item[Attribute.LAST_CHANGE_ID] == "6"
    assert table.log.retained().first == 3  # the only one of those changes that was the newest in the last 30 days
