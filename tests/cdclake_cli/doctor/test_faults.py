"""The doctor finds each fault where it is, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.adapters.dms import DmsTask
from cdclake.control.plan.lost_files import PendingNote
from cdclake.errors import ConfigurationError, InputError, UnknownTableError
from cdclake_cli.dms.files import change_bytes
from cdclake_cli.dms.names import change_path
from cdclake_cli.doctor.dms.recommended import task_settings
from cdclake_cli.doctor.dms.setting import Source, by_section
from cdclake_cli.doctor.findings import Code
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW
from tests.cdclake_cli.doctor.feed import COLUMNS, GOOD, MINUTE, SEQUENCE, RawFolder, row

if TYPE_CHECKING:
    from cdclake_cli.doctor.findings import Finding

CSV: dict[str, object] = {**GOOD, "DataFormat": "csv"}


def without(*names: str, **more: object) -> dict[str, object]:
    """Recommended settings without some of them."""
    return {name: value for name, value in {**GOOD, **more}.items() if name not in names}


@pytest.fixture
def empty(tmp_path: Path) -> RawFolder:
    return RawFolder(tmp_path)


@pytest.fixture
def raw(empty: RawFolder) -> RawFolder:
    return empty.filled()


def one_finding(raw: RawFolder, item: dict[str, str] | None = None, **more: Any) -> Finding:
    findings = raw.diagnose(item, **more).findings
    assert len(findings) == 1, [(finding.code.value, finding.seen) for finding in findings]
    return findings[0]


@pytest.mark.parametrize("names", [GOOD, {**CSV, "CompressionType": "gzip"}], ids=["parquet", "gzip"])
@pytest.mark.parametrize("part", [0, 0.6], ids=["empty", "truncated"])
def test_an_unreadable_file_is_found(tmp_path: Path, names: dict[str, object], part: float) -> None:
    raw = RawFolder(tmp_path, names).filled()
    path = raw.change(("I", row(1)))
    data = raw.file(path).read_bytes()
    raw.file(path).write_bytes(data[: int(len(data) * part)])
    finding = one_finding(raw)
    assert (finding.code, finding.file) == (Code.UNREADABLE_FILE, path)


def test_a_file_that_makes_pyarrow_end_the_process_is_found(raw: RawFolder) -> None:
    path = raw.change(("I", row(1)))
    raw.file(path).write_bytes(ABORTS_PYARROW.read_bytes())
    finding = one_finding(raw)
    assert (finding.code, finding.file) == (Code.UNREADABLE_FILE, path)


def test_an_impossible_time_in_a_name_is_found(raw: RawFolder) -> None:
    path = raw.change(("I", row(1)))
    raw.file(path).rename(raw.file("20240305-106500000.parquet"))
    finding = one_finding(raw)
    assert (finding.code, finding.file) == (Code.NO_SUCH_TIME, "20240305-106500000.parquet")


def test_truncated_plain_csv_is_found_by_its_last_row(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, CSV).filled()
    path = raw.change(("I", row(1)), ("I", row(2)))
    data = raw.file(path).read_bytes()
    raw.file(path).write_bytes(data[:-1])
    assert (one_finding(raw).code, one_finding(raw).file) == (Code.UNFINISHED_FILE, path)
    raw.file(path).write_bytes(data[:-9])
    findings = raw.diagnose().findings
    assert [(finding.code, finding.file) for finding in findings] == [
        (Code.UNFINISHED_FILE, path),
        (Code.BAD_ROWS, path),
    ]


def test_bad_rows_are_counted_by_reason_without_their_values(raw: RawFolder) -> None:
    path = raw.change(("I", row(1)), ("secret", row(2)), ("I", {**row(3), "id": None}), ("X", row(4)))
    findings = raw.diagnose().findings
    assert "secret" not in str(findings)
    assert ["quarantine such rows" in findings[0].fix, "PrimaryKey" in findings[1].fix] == [True, True]
    assert [(finding.code, finding.file, finding.row, finding.seen) for finding in findings] == [
        (Code.BAD_ROWS, path, 1, "2 rows: The operation of a change row is not I, U or D"),
        (Code.BAD_ROWS, path, 2, "1 row: Key column id is null"),
    ]


def test_a_bad_row_without_a_change_sequence_is_not_mended_by_a_type(raw: RawFolder) -> None:
    changes = raw.changes(("I", row(1)), ("I", row(2)))
    changes = replace(changes, headers=pa.table({SEQUENCE: ["", "x"]}))
    raw.put(change_path(raw.settings, raw.now), change_bytes(changes, raw.settings))
    findings = raw.diagnose().findings
    assert [(finding.code, finding.row, finding.paste) for finding in findings] == [
        (Code.BAD_ROWS, 0, ""),
        (Code.BAD_ROWS, 1, ""),
    ]
    assert all("mapping rule" in finding.fix for finding in findings)


def test_a_value_that_does_not_parse_is_mended_by_a_type(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, CSV).filled()
    raw.change(("I", row(1)))
    finding = one_finding(raw, raw.attributes(Schema=raw.attributes()["Schema"].replace("day date", "day int")))
    assert (finding.code, "--schema" in finding.paste) == (Code.BAD_ROWS, True)


def test_a_row_with_too_few_fields_is_bad(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, CSV).filled()
    path = raw.change(("I", row(1)), ("I", row(2)))
    raw.file(path).write_bytes(raw.file(path).read_bytes() + b"I,1,2\n")
    finding = one_finding(raw)
    assert (finding.code, finding.file, finding.row) == (Code.BAD_ROWS, path, 2)
    assert '"Rfc4180": true' in finding.paste


def test_a_gap_in_the_full_load_is_found(empty: RawFolder) -> None:
    empty.load([row(1)])
    empty.load([row(2)], number=3)
    empty.change(("I", row(3)))
    finding = one_finding(empty)
    assert (finding.code, finding.file) == (Code.LOAD_GAP, "LOAD00000002")


def test_an_arriving_full_load_is_not_a_gap(empty: RawFolder) -> None:
    empty.load([row(1)])
    empty.load([row(2)], number=3)
    empty.now -= timedelta(hours=24, minutes=-5)
    report = empty.diagnose()
    assert [finding.code for finding in report.findings] == [Code.LOAD_ARRIVING]
    assert not report.has_errors


def test_changes_without_a_full_load_are_found_unless_a_load_was_applied(empty: RawFolder) -> None:
    empty.change(("I", row(1)))
    assert one_finding(empty).code is Code.NO_FULL_LOAD
    assert empty.findings(empty.attributes(LastFullLoadDate="2024-03-05 00:00:00")) == {}


def test_files_that_disappeared_before_they_were_applied_are_found(raw: RawFolder) -> None:
    first = raw.change(("I", row(1)))
    second = raw.change(("I", row(2)))
    note = str(PendingNote.of([first, second]))
    assert raw.findings(raw.attributes(LastPending=note)) == {}
    raw.file(first).unlink()
    finding = one_finding(raw, raw.attributes(LastPending=note))
    assert finding.code is Code.FILES_VANISHED
    assert finding.seen == f"change files not applied: 1 ({first})"
    assert '"HandleSourceTableTruncated": false' in finding.paste


@pytest.mark.parametrize(
    "item", [{"LastIncrementalFile": "elsewhere"}, {"LastFullLoadDate": "yesterday"}, {"LateWindowHours": "some"}]
)
def test_an_attribute_that_would_stop_a_run_is_refused(raw: RawFolder, item: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(item))):
        raw.diagnose(raw.attributes(**item))


@pytest.mark.parametrize("folder", ["cdc", "shop_changes/all"])
def test_transaction_files_without_a_cdc_path_are_found(empty: RawFolder, folder: str) -> None:
    empty.load([row(1)])
    file = empty.root / folder / "CDC_TXN-20240305101500123.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"I,orders,shop,2024-03-05 10:15:00.000000,2,b,2,2024-03-05,,\n")
    finding = one_finding(empty)
    assert (finding.code, finding.paste) == (
        Code.TRANSACTIONS_UNREAD,
        f"cdclake tables set shop.orders --set CdcPath={folder}",
    )
    without_schema = empty.diagnose(empty.attributes(CdcPath=folder)).findings
    assert [finding.code for finding in without_schema] == [Code.SCHEMA_MISSING]


def test_no_op_is_found(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, without("BeforeImages", CdcInsertsAndUpdates="true")).filled()
    finding = one_finding(raw)
    assert finding.code is Code.NO_OP
    assert '"CdcInsertsAndUpdates": false' in finding.paste


def test_a_missing_ordering_column_is_found_with_the_rule_that_adds_it(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, without("HeaderColumns")).filled()
    finding = one_finding(raw)
    assert finding.code is Code.NO_ORDER
    assert '"expression": "$AR_H_CHANGE_SEQ"' in finding.paste
    assert '{"schema-name": "shop", "table-name": "orders"}' in finding.paste
    assert raw.findings(raw.attributes(OrderColumn="ts")) == {}


def test_a_renamed_change_sequence_is_recognized(tmp_path: Path) -> None:
    columns = COLUMNS.append(pa.field("transact_id", pa.string()))
    raw = RawFolder(tmp_path, without("HeaderColumns"), columns)
    raw.load([row(1)])
    raw.change(*[("I", row(i, transact_id=f"20240305101500{i:021d}")) for i in range(2, 5)])
    assert one_finding(raw).paste == "cdclake tables set shop.orders --set OrderColumn=transact_id"
    assert raw.findings(raw.attributes(OrderColumn="transact_id")) == {}


def test_an_ordering_column_that_is_missing_or_decreases_is_found(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, without("HeaderColumns"))
    raw.load([row(1)])
    path = raw.change(("I", row(9)), ("I", row(4)), ("I", row(8)))
    assert raw.findings(raw.attributes(OrderColumn="seq")).keys() == {"order-not-there"}
    finding = one_finding(raw, raw.attributes(OrderColumn="id"))
    assert (finding.code, finding.file, finding.row, finding.column) == (Code.ORDER_FALLS, path, 1, "id")


def test_a_key_change_without_a_before_image_is_found(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, without("BeforeImages")).filled()
    finding = one_finding(raw)
    assert (finding.code, finding.column) == (Code.NO_BEFORE_IMAGE, "id")
    assert '"add-before-image-columns"' in finding.paste
    assert '"column-filter": "pk-only"' in finding.paste
    raw.change(("U", row(77_777)))
    assert one_finding(raw).code is Code.KEY_CHANGE_LOST


def test_key_changes_with_before_images_are_found_until_unique_checks_is_set(raw: RawFolder) -> None:
    path = raw.change(("U", row(77_777)), ("U", row(77_778)), ("U", row(7)), before=[row(5), row(6)])
    finding = one_finding(raw)
    assert (finding.code, finding.file, finding.seen) == (Code.NO_UNIQUE_CHECKS, path, "2 updates")
    assert finding.paste == "cdclake tables set shop.orders --set 'UniqueChecks=<immediate or deferred>'"
    for value in ("immediate", "deferred"):
        assert raw.findings(raw.attributes(UniqueChecks=value)) == {}


def test_a_task_that_removes_files_when_the_source_is_truncated_is_found(raw: RawFolder) -> None:
    policy = {"HandleSourceTableTruncated": True, "HandleSourceTableDropped": False}
    sections = by_section(task_settings(Source.MYSQL))
    task = DmsTask({**sections, "ChangeProcessingDdlHandlingPolicy": policy})
    finding = one_finding(raw, task=task)
    assert (finding.code, finding.seen) == (Code.TRUNCATE_RISK, "HandleSourceTableTruncated of the task is true")
    assert "truncate-risk" in raw.findings(task=DmsTask({}))
    assert raw.findings(task=DmsTask(sections)) == {}


def test_a_lost_file_with_inserts_is_found_by_later_updates(raw: RawFolder) -> None:
    lost = raw.change(("I", row(9_000)), ("I", row(9_001)))
    raw.change(("U", row(9_000)), ("U", row(9_001)), ("U", row(9_001)))
    raw.change(("U", row(88_888)), ("U", row(88_888)), before=[row(5), None])
    item = raw.attributes(UniqueChecks="immediate")
    assert raw.findings(item) == {}
    raw.file(lost).unlink()
    finding = one_finding(raw, item)
    assert (finding.code, finding.seen) == (Code.MISSING_CHANGES, "2 keys")


def test_lost_keys_are_not_reported_from_a_partial_sample(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, without("BeforeImages")).filled()
    raw.change(("U", row(77_777)))
    assert raw.findings(max_files=3).keys() == {"no-before-image"}


def test_missing_wrong_and_repeated_keys_are_found(raw: RawFolder) -> None:
    keyless = one_finding(raw, raw.attributes(PrimaryKey="null"))
    assert (keyless.code, keyless.seen) == (Code.NO_PRIMARY_KEY, "30 updates and 3 deletes")
    assert keyless.paste == "cdclake tables set shop.orders --primary-key id"
    assert raw.findings(raw.attributes(PrimaryKey="id,nr")).keys() == {"key-not-there", "no-before-image"}
    raw.load([row(3), row(4)])
    assert raw.findings() == {"key-not-unique": "2 LOAD rows repeat the key of an earlier row"}


def test_missing_partition_columns_and_too_many_partitions_are_found(empty: RawFolder) -> None:
    empty.load([row(i) for i in range(1_200)])
    assert empty.findings(empty.attributes(PartitionKey="week")).keys() == {"partition-not-there"}
    assert empty.findings(empty.attributes(PartitionKey="day")) == {}
    assert empty.findings(empty.attributes(PartitionKey="name")).keys() == {"too-many-partitions"}


def test_names_that_jump_back_at_the_end_of_daylight_saving_time_are_found(tmp_path: Path) -> None:
    names = without("HeaderColumns", DatePartitionEnabled="true", DatePartitionTimezone="Europe/Berlin")
    raw = RawFolder(tmp_path, names)
    raw.now = datetime(2024, 10, 26, 23, 50, tzinfo=timezone.utc)
    raw.load([row(1)])
    paths = []
    for i in range(8):
        raw.now += timedelta(minutes=17)
        paths.append(raw.change(("I", row(i + 100))))
    findings = raw.diagnose().findings
    assert [finding.code for finding in findings] == [Code.NAMES_GO_BACKWARDS, Code.NO_ORDER]
    assert findings[0].file == paths[3]
    assert findings[0].seen.startswith("by 1:00:00")


def test_names_in_local_time_are_found_even_in_copied_files(tmp_path: Path) -> None:
    names = without("HeaderColumns", DatePartitionEnabled="true", DatePartitionTimezone="Asia/Kolkata")
    raw = RawFolder(tmp_path, names).filled()
    assert raw.findings().keys() == {"no-order", "local-time-names"}
    for path in raw.root.rglob("*.parquet"):
        os.utime(path, (4e9, 4e9))  # copied: only the timestamp column shows the offset
    report = raw.diagnose()
    assert {finding.code.value for finding in report.findings} == {"no-order", "local-time-names"}
    assert {finding.name: finding.value for finding in report.inferred}["DatePartitionTimezone"] == "UTC+5.5 h"
    assert raw.findings(raw.attributes(OrderColumn="ts")) == {}


def test_a_late_file_is_not_a_clock_shift(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, without("HeaderColumns")).filled()
    late = raw.change(("I", row(5_000)))
    for i in range(4):
        raw.change(("I", row(5_001 + i)))
    os.utime(raw.file(late), (raw.now.timestamp(), raw.now.timestamp()))
    assert raw.findings().keys() == {"no-order"}


@pytest.mark.parametrize(
    ("names", "item", "codes"),
    [
        (GOOD, {}, {"delivered-twice"}),
        (without("HeaderColumns"), {}, {"no-order", "delivered-twice-no-order"}),
        (GOOD, {"History": "true"}, {"delivered-twice"}),
        (without("HeaderColumns"), {"History": "true", "OrderColumn": "ts"}, {"delivered-twice-in-history"}),
    ],
)
def test_rows_delivered_twice_are_found_and_no_note_if_the_history_doubles_them(
    tmp_path: Path, names: dict[str, object], item: dict[str, str], codes: set[str]
) -> None:
    raw = RawFolder(tmp_path, names).filled()
    made = raw.change(*[("I", row(2_000 + i)) for i in range(12)])
    raw.now += MINUTE
    again = raw.put(change_path(raw.settings, raw.now), raw.file(made).read_bytes())
    findings = raw.diagnose(raw.attributes(**item)).findings
    assert {finding.code.value for finding in findings} == codes
    assert findings[-1].file == again


def test_two_tasks_that_write_one_table_are_found(raw: RawFolder) -> None:
    first = raw.changes(*[("I", row(3_000 + i)) for i in range(3)])
    stamp = "2024030510200000"
    for numbers in ((1, 5, 9), (3, 6, 12)):
        headers = pa.table({SEQUENCE: [f"{stamp}{n:019d}" for n in numbers]})
        raw.now += MINUTE
        made = type(first)(first.operations, first.committed_utc, first.rows, first.before, headers)
        raw.put(change_path(raw.settings, raw.now), change_bytes(made, raw.settings))
    assert one_finding(raw).code is Code.TWO_WRITERS


def test_values_missing_from_updates_are_found(raw: RawFolder) -> None:
    raw.change(*[("U", row(i, name=None)) for i in range(5)])
    finding = one_finding(raw)
    assert (finding.code, finding.column) == (Code.UNSENT_VALUES, "name")
    assert finding.seen == "5 of 35 updates, but none of 260 other rows"
    (again,) = raw.diagnose(raw.attributes(NullMeansUnsent="price")).findings
    assert again.paste == "cdclake tables set shop.orders --set NullMeansUnsent=price,name"


def test_updates_that_lack_columns_are_found_until_missing_columns_is_set(raw: RawFolder) -> None:
    raw.columns = COLUMNS.remove(1)
    raw.change(("I", row(9_000)), ("D", row(7)))
    assert raw.findings() == {"columns-change": "name is dropped"}
    path = raw.change(("I", row(9_001)), ("U", row(8)), ("U", row(9)))
    finding, note = raw.diagnose().findings
    assert (finding.code, finding.file, finding.column) == (Code.MISSING_COLUMNS, path, "name")
    assert finding.seen == "2 updates in 1 file"
    assert finding.paste == "cdclake tables set shop.orders --set MissingColumns=null"
    assert (note.code, note.paste) == (Code.COLUMNS_CHANGE, "")
    for value in ("keep", "null"):
        assert raw.findings(raw.attributes(MissingColumns=value)).keys() == {"columns-change"}


def test_updates_before_a_column_is_added_lack_none(raw: RawFolder) -> None:
    raw.columns = COLUMNS.append(pa.field("gift", pa.bool_()))
    raw.change(("U", row(8)))
    assert raw.findings() == {"columns-change": "gift is added"}


@pytest.mark.parametrize(("names", "right"), [("nmae,name", "name"), ("nmae", "null")])
def test_a_column_of_null_means_unsent_that_no_file_has_is_found(raw: RawFolder, names: str, right: str) -> None:
    assert raw.findings(raw.attributes(NullMeansUnsent="NAME")) == {}
    finding = one_finding(raw, raw.attributes(NullMeansUnsent=names))
    assert (finding.code, finding.column) == (Code.UNSENT_NOT_THERE, "nmae")
    assert finding.paste == f"cdclake tables set shop.orders --set NullMeansUnsent={right}"


def test_nulls_that_also_occur_in_inserts_are_no_finding(raw: RawFolder) -> None:
    raw.change(*[("U", row(i, name=None)) for i in range(5)], ("I", row(9_000, name=None)))
    assert raw.findings() == {}


def test_deletes_with_only_the_key_are_found(empty: RawFolder) -> None:
    empty.load([row(i) for i in range(50)])
    empty.change(*[("D", {"id": i}) for i in range(5)])
    assert one_finding(empty).code is Code.KEY_ONLY_DELETES


def test_text_truncated_by_limited_lob_mode_is_found(empty: RawFolder) -> None:
    texts = [f"{i}{'x' * 40_000}"[: 32 * 1024] for i in range(4)]
    empty.load([row(i, name=text) for i, text in enumerate([*texts, "short"])])
    finding = one_finding(empty)
    assert (finding.code, finding.column, finding.seen) == (Code.CUT_TEXT, "name", "4 values of 32 kB, none longer")
    assert '"LobMaxSize": 128' in finding.paste


def test_long_values_of_fixed_length_are_no_finding(empty: RawFolder) -> None:
    empty.load([row(i, name=f"{i:01024d}") for i in range(9)])
    assert empty.findings() == {}


def test_a_numeric_without_precision_is_found(tmp_path: Path) -> None:
    columns = COLUMNS.set(2, pa.field("price", pa.decimal128(28, 6)))
    raw = RawFolder(tmp_path, columns=columns)
    raw.load([row(1, price=Decimal("0.611111"))])
    finding = one_finding(raw)
    assert (finding.code, finding.column) == (Code.UNBOUNDED_NUMERIC, "price")
    assert 'ALTER TABLE "shop"."orders" ALTER COLUMN "price"' in finding.paste


def test_incompatible_types_are_distinguished_from_added_and_widened_columns(empty: RawFolder) -> None:
    empty.load([row(1)])
    empty.columns = COLUMNS.set(2, pa.field("price", pa.decimal128(18, 2))).append(pa.field("gift", pa.bool_()))
    empty.change(("I", row(2)))
    finding = one_finding(empty)
    assert (finding.code, finding.seen) == (Code.COLUMNS_CHANGE, "gift is added; price changes")
    empty.columns = COLUMNS.set(2, pa.field("price", pa.string()))
    path = empty.change(("I", row(3, price="4")))
    clash = empty.diagnose().findings[0]
    assert (clash.code, clash.column, clash.file) == (Code.TYPES_CLASH, "price", path)


def test_csv_without_schema_or_with_wrong_settings_is_found(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, {**CSV, "CsvDelimiter": ";", "CsvNullValue": "\\N"}).filled()
    raw.change(*[("I", row(7_000 + i, price=None)) for i in range(5)])
    good = raw.attributes()
    assert raw.findings(good) == {}
    without = {name: value for name, value in good.items() if name != "CsvNullValue"}
    assert raw.findings({**without, "CsvDelimiter": ","}).keys() == {"csv-dialect"}
    assert raw.findings({**good, "CsvNullValue": "NULL"}).keys() == {"bad-rows"}
    headerless = raw.diagnose({"PrimaryKey": "column_2", "CsvDelimiter": ";", "CsvNullValue": "\\N"})
    assert headerless.findings[0].code is Code.SCHEMA_MISSING
    assert "List the 7 columns" in headerless.findings[0].fix


def test_a_schema_with_too_few_columns_is_found(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, CSV).filled()
    findings = raw.diagnose(raw.attributes(Schema="ts string, id bigint")).findings
    assert [finding.code for finding in findings] == [Code.SCHEMA_MISMATCH] * 2
    assert [finding.seen.rpartition("; ")[2] for finding in findings] == ["2 files", "3 files"]


@pytest.mark.parametrize("registered", [True, False])
def test_a_folder_with_files_of_other_names_only_is_an_error_that_names_one(empty: RawFolder, registered: bool) -> None:
    empty.put("orders-1.json", b"{}")
    empty.put("orders-2.json", b"{}")
    with pytest.raises(
        InputError if registered else UnknownTableError, match=r"2 other files.*orders-1\.json"
    ) as refused:
        empty.diagnose(registered=registered)
    assert "rename" in refused.value.remedy


def test_a_versioned_bucket_foreign_objects_and_many_small_files_are_noted(raw: RawFolder) -> None:
    raw.put("notes.txt", b"hello")
    assert raw.findings(versioned=True).keys() == {"versioned-bucket", "other-files"}
    raw.file("notes.txt").unlink()
    path = raw.change()
    for i in range(500):
        name = change_path(raw.settings, raw.now + i * MINUTE)
        if not raw.file(name).exists():
            os.link(raw.file(path), raw.file(name))
    report = raw.diagnose()
    assert {finding.code.value for finding in report.findings} == {"many-small-files"}
    assert report.files_opened == 2 + 30
    assert not report.has_errors


@pytest.mark.parametrize(("minutes", "codes"), [(1, {"many-small-files"}), (20, set())])
def test_small_files_are_many_only_if_dms_writes_often(raw: RawFolder, minutes: int, codes: set[str]) -> None:
    path = raw.change()
    for night in range(10):  # between which nothing happens
        for number in range(50):
            name = change_path(raw.settings, raw.now - (night * 24 * 60 + number * minutes) * MINUTE)
            if not raw.file(name).exists():
                os.link(raw.file(path), raw.file(name))
    assert {finding.code.value for finding in raw.diagnose().findings} == codes


def test_every_finding_code_has_a_test() -> None:
    files = (Path(__file__).with_name(name) for name in ("test_faults.py", "test_check_dms.py", "test_types.py"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [code.value for code in Code if f'"{code.value}"' not in text and f"Code.{code.name}" not in text] == []
