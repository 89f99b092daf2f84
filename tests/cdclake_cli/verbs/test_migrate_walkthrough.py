"""`cdclake migrate-walkthrough` checks all tables, asks, and adopts those that are sound."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.model.change.record import ChangeKind
from cdclake.model.layout import LakeLayout
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from tests.cdclake.lake.over_time import versioned_bucket
from tests.cdclake_cli.walkthrough.test_check import late_file, sound, walkthrough

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.aws, pytest.mark.long]


def upload(root: Path) -> datetime:
    """Copy both folders to their buckets, as DMS and the jobs write them. Returns the time of the last LOAD file."""
    client = boto3.client("s3")
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    loaded: Any = None
    for path in sorted(paths, key=lambda path: not path.name.startswith("LOAD")):
        bucket, _, key = path.relative_to(root).as_posix().partition("/")
        client.put_object(Bucket=f"cdclake-{bucket}", Key=key, Body=path.read_bytes())
        if path.name.startswith("LOAD"):
            loaded = client.head_object(Bucket=f"cdclake-{bucket}", Key=key)["LastModified"]
    assert isinstance(loaded, datetime)
    return loaded


def head(table: str) -> int:
    lake = S3Store(boto3.client("s3"), "cdclake-lake")
    return ChangeLog(lake, LakeLayout("cdclake-lake", "", TableName("shop", table))).head()


def test_sound_tables_are_adopted_and_the_others_left(
    cdclake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = walkthrough(tmp_path, 0), walkthrough(tmp_path, 1)
    sound(good, 0)
    late_file(bad, 1)
    with versioned_bucket(monkeypatch, "cdclake-lake", "cdclake-raw"):
        client = boto3.client("dynamodb")
        create_state_table(client, STATE_TABLE)
        loaded = upload(tmp_path)
        for table in (good, bad):
            registered = TableState.new("cdclake-raw", "shop/", f"{table.name}/")
            watermark = table.item["LastIncrementalFile"].rpartition("/")[2]
            own = {name: table.item[name] for name in ("PrimaryKey", "PartitionKey", "ActiveFlag")}
            DynamoState(client, STATE_TABLE).register(
                registered.with_attributes(
                    **own,
                    LastFullLoadDate=f"{loaded:%Y-%m-%d %H:%M:%S}",
                    LastIncrementalFile=registered.path + watermark,
                )
            )
        glue = boto3.client("glue")
        glue.create_job(Name="DMSCDC_Controller", Role="any", Command={"Name": "pythonshell"})
        glue.create_trigger(
            Name="hourly",
            Type="SCHEDULED",
            Schedule="cron(0 * * * ? *)",
            Actions=[{"JobName": "DMSCDC_Controller"}],
            StartOnCreation=True,
        )

        checked = cdclake("migrate-walkthrough", "--dry-run")
        assert checked.exit_code == 6, checked.output
        for text in ("rows-differ", "sound", "Turn these triggers off", "hourly", "Dry run", "1 of 2 tables"):
            assert text in checked.output
        assert (head(good.name), head(bad.name)) == (0, 0)

        records = cdclake("migrate-walkthrough", "--dry-run", "-o", "json").stdout
        assert '"code": "rows-differ"' in records

        refused = cdclake("migrate-walkthrough", "-o", "json")
        assert (refused.exit_code, head(good.name)) == (2, 0)

        migrated = cdclake("migrate-walkthrough", "--yes")
        assert migrated.exit_code == 6, migrated.output
        assert "The way back: cdclake tables pause shop.t00 && cdclake rollback shop.t00 --to 1" in migrated.output
        assert (head(good.name), head(bad.name)) == (1, 0)
        lake = S3Store(boto3.client("s3"), "cdclake-lake")
        record = ChangeLog(lake, LakeLayout("cdclake-lake", "", TableName("shop", good.name))).record(1)
        assert record.kind is ChangeKind.ADOPTION
        assert "is a lake table already" in cdclake.ok("migrate-walkthrough", f"shop.{good.name}", "--yes").output
