"""The findings that a table's item holds."""

from __future__ import annotations

import pytest

from cdclake.control.plan.open_findings import MAX_DRIFT_TEXTS, OpenFindings, can_empty_quarantine
from cdclake.model.change.books import Books
from cdclake.model.change.record import ChangeKind
from cdclake.model.drift import ColumnDrift
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import SchemaPolicy
from tests.builders import change_record

NAME = TableName("shop", "order items")


def test_findings_are_read_as_they_were_written():
    found = OpenFindings(7, 3, ("note string added (change 7)",), 2, 4, (5, 6))
    assert OpenFindings.of({"LastFindings": str(found)}) == found


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"later": 1, "drift": []}'])
def test_an_item_without_findings_that_this_version_knows_has_none(text: str):
    assert OpenFindings.of({"LastFindings": text}) is None
    assert OpenFindings.of({}) is None


def test_only_the_policy_warn_keeps_drift_and_only_the_newest():
    records = [change_record(n, drift=(ColumnDrift("added", f"c{n}", "int"),)) for n in range(1, 30)]
    assert OpenFindings(0).after(records, SchemaPolicy.EVOLVE) == OpenFindings(29)
    found = OpenFindings(0).after(records, SchemaPolicy.WARN)
    assert len(found.drift) == MAX_DRIFT_TEXTS
    assert found.drift[-1] == "c29 int added (change 29)"


def test_quarantined_and_suppressed_rows_add_up():
    records = [change_record(n, books=Books(quarantined=n, suppressed=1)) for n in (4, 5)]
    assert OpenFindings(3, 1).after(records, SchemaPolicy.EVOLVE) == OpenFindings(5, 10, (), 2)


def test_updates_of_unknown_keys_add_up_until_the_next_full_load():
    records = [change_record(n, unknown_keys=n) for n in (4, 5)]
    assert OpenFindings(3, unknown_keys=1).after(records, SchemaPolicy.EVOLVE) == OpenFindings(5, unknown_keys=10)
    loaded = [change_record(4, unknown_keys=4), change_record(5, kind=ChangeKind.FULL_LOAD)]
    assert OpenFindings(3, unknown_keys=1).after(loaded, SchemaPolicy.EVOLVE) == OpenFindings(5)


@pytest.mark.parametrize("kind", ChangeKind)
def test_only_new_rows_of_the_source_cannot_empty_the_quarantine(kind: ChangeKind):
    adds = {ChangeKind.INCREMENTAL, ChangeKind.DIRECT, ChangeKind.ADOPTION, ChangeKind.TAKEOVER}
    assert can_empty_quarantine([change_record(1), change_record(2, kind=kind)]) == (kind not in adds)


def test_every_text_names_the_command_that_acknowledges_it():
    texts = OpenFindings(7, 1000, ("a", "b"), 5, 2).texts(NAME)
    assert len(texts) == 4
    assert all("cdclake tables acknowledge 'shop.order items'" in text for text in texts)
    assert "1,000" in texts[0]
    assert OpenFindings(7).texts(NAME) == ()


def test_an_unfinished_erasure_names_the_command_that_finishes_it():
    (text,) = OpenFindings(7, unfinished_erasures=(3, 5)).texts(NAME)
    assert "in the changes 3, 5." in text
    assert "cdclake erase 'shop.order items'" in text
    assert "acknowledge" not in text
