"""Erasure from the raw bucket removes only the rows from change files, and deletes full loads completely."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.commit.undo import plan_rollback
from cdclake.control.plan.decision import DecisionKind
from cdclake.control.plan.plan_table import plan_table
from cdclake.errors import CommitConflictError, ConfigurationError, InputError, PastRetentionError
from cdclake.lake.operations.erase import raw_files
from cdclake.lake.operations.erase.erase import erase, preview
from cdclake.lake.operations.release import release
from cdclake.lake.raw.csv import batches
from cdclake.model.raw.files import RawFiles
from cdclake.model.schema import parse_columns
from cdclake.model.table.name import TableName
from cdclake.model.table.seen import Seen
from cdclake.model.table.settings import TableSettings
from cdclake.model.table.state import TableState
from tests.builders import recorded
from tests.cdclake.lake.operations.erase.erasable_table import (
    COLUMNS,
    SECRET_ID,
    SECRET_NAME,
    ErasableTable,
    objects_containing,
    row,
    secret,
    without,
)
from tests.cdclake.lake.over_time import START
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW
from tests.cdclake.lake.table import RAW_PREFIX
from tests.dying_store import Death, DiedError, DyingStore

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore

KEY = str(SECRET_ID)
SCHEMA = "id bigint, city string, name string, amount decimal(10,2)"


def raw_names(table: ErasableTable) -> list[str]:
    folder = table.raw / RAW_PREFIX
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def raw_bytes(table: ErasableTable) -> bytes:
    return b"".join(
        gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
        for path in table.raw.rglob("*")
        if path.is_file()
    )


def set_time(table: ErasableTable, name: str, minute: int) -> None:
    """Set a raw file's time to some minutes after `START`."""
    table.set_modified(name, START + timedelta(minutes=minute))


def load(table: ErasableTable, minute: int, rows: list[dict[str, Any]]) -> None:
    assert table.load(rows, START + timedelta(minutes=minute))["change"]


def is_in_raw(table: ErasableTable) -> bool:
    content = raw_bytes(table)
    return any(form in content for form in (SECRET_NAME.encode(), KEY.encode(), SECRET_ID.to_bytes(8, "little")))


def test_a_full_load_is_deleted_and_change_files_are_rewritten(table: ErasableTable) -> None:
    table.load([row(1), secret(), row(2)])
    table.apply(("U", secret("Bonn")), ("U", row(1, "Rom")))
    table.apply(("I", row(3)))
    untouched = table.raw_path("20240305-100200000.parquet").read_bytes()
    state = table.rows_as_of(3)
    expected = preview(table.erasure(KEY, raw=True)).touched
    counts = (expected.full_load_rows, expected.full_load_files, expected.change_rows, expected.change_files)
    assert counts == (1, 1, 1, 1)
    assert is_in_raw(table)
    assert table.erase(KEY, raw=True).touched == expected
    assert not is_in_raw(table)
    assert raw_names(table) == ["20240305-100100000.parquet", "20240305-100200000.parquet"]
    assert table.raw_path("20240305-100200000.parquet").read_bytes() == untouched
    (left,) = pq.read_table(table.raw_path("20240305-100100000.parquet")).to_pylist()
    assert (left["Op"], left["id"], left["city"]) == ("U", 1, "Rom")
    assert table.rows_as_of(4) == without(state, SECRET_ID)
    assert table.log.record(4).raw_names == ("LOAD00000001.parquet", "20240305-100100000.parquet")


def test_the_next_run_is_unaffected_by_an_erasure(table: ErasableTable) -> None:
    table.item["LateWindowHours"] = "0"
    table.load([row(1), secret()])
    table.apply(("U", secret("Bonn")), ("U", row(1, "Rom")))
    table.apply(("U", row(1, "Ulm")))
    for name in ("20240305-100100000.parquet", "20240305-100200000.parquet"):
        set_time(table, name, 1)  # before they were applied, according to the test clock
    table.erase(KEY, raw=True)
    nothing = table.load_incremental()
    assert (nothing["change"], nothing["too_late"]) == (None, [])
    table.apply(("U", row(1, "Kiel")))
    assert [values["city"] for values in table.rows_as_of(5)] == ["Kiel"]


def test_a_rollback_can_reach_the_full_load_but_no_earlier_change(table: ErasableTable) -> None:
    load(table, 1, [row(1), secret()])
    table.apply(("U", row(1, "Rom")))
    set_time(table, "20240305-100100000.parquet", 2)
    load(table, 3, [row(1, "Kiel"), secret(), row(2)])
    table.apply(("U", secret("Bonn")), ("U", row(2, "Rom")))
    state = table.rows_as_of(4)
    table.erase(KEY, raw=True)
    for change in (1, 2):
        with pytest.raises(PastRetentionError):
            plan_rollback(table.log, change)
    table.roll_back(to=3)
    assert table.load_incremental()["raw_files"] == 1
    after = table.rows_as_of(table.log.head())
    for values in (*after, *state):
        del values["_cdc_position"]  # the rows have new numbers in the rewritten file
    assert after == without(state, SECRET_ID)


def test_raw_rows_that_are_not_applied_yet_stop_the_erasure(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    table.write_changes("20240305-110000000.parquet", [("U", secret("Bonn")), ("I", row(5))])
    before = raw_bytes(table)
    with pytest.raises(ConfigurationError, match=r"not in the lake yet.*nothing was changed"):
        table.erase(KEY, raw=True)
    assert raw_bytes(table) == before
    assert table.log.head() == 1
    table.load_incremental()
    table.erase(KEY, raw=True)
    assert not is_in_raw(table)
    assert [values["id"] for values in table.rows_as_of(3)] == [1, 5]


@pytest.mark.parametrize("case", ["gone", "ignored", "skipped"])
def test_load_files_of_which_none_is_to_be_loaded_are_deleted(table: ErasableTable, case: str) -> None:
    table.write_load([row(2)], number=2)
    load(table, 1, [row(1), secret()])
    if case == "gone":
        table.raw_path("LOAD00000002.parquet").unlink()
    elif case == "ignored":
        table.item["IgnoreFiles"] = "LOAD00000002.parquet"
    else:
        table.write_load([row(9), secret("Bonn")], number=2)  # of a load that is not to be taken
        with pytest.raises(ConfigurationError, match=r"not in the lake yet .* list them in IgnoreFiles"):
            table.erase(KEY, raw=True)
        table.item["IgnoreFiles"] = "LOAD*"
    table.erase(KEY, raw=True)
    assert not is_in_raw(table)
    assert raw_names(table) == []


def test_load_files_are_not_deleted_while_one_is_to_be_loaded(table: ErasableTable) -> None:
    load(table, 1, [row(1), secret()])
    table.write_load([row(2)], number=2)
    with pytest.raises(ConfigurationError, match=r"not in the lake yet .*LOAD00000001"):
        table.erase(KEY, raw=True)
    assert len(raw_names(table)) == 2


def test_a_row_whose_key_changed_stays_and_is_reported(table: ErasableTable) -> None:
    table.load([row(1)])
    table.apply_file("20240305-110000000.parquet", [("I", secret(), None), ("U", row(7), {"id": SECRET_ID})])
    result = preview(table.erasure(KEY, raw=True))
    counts, out_of_reach = result.touched, result.out_of_reach
    assert counts.change_rows == 1
    assert any("1 rows of raw files that change the key to another one" in sentence for sentence in out_of_reach)
    table.erase(KEY, "7", raw=True)
    assert not is_in_raw(table)
    assert [values["id"] for values in table.rows_as_of(3)] == [1]


@pytest.mark.parametrize("null", ["NULL", ""])
def test_an_empty_line_is_no_row_whatever_the_text_for_null_is(table: ErasableTable, null: str) -> None:
    table.item |= {"CsvNullValue": null, "Schema": SCHEMA}
    table.load([row(1)])
    text = f'Op,id,city,name,amount\n\nI,2,"a\rb",x,1.5\n\nI,{KEY},x,{SECRET_NAME},1.5\nI,3,x,x,1.5\n'
    table.apply_file("20240305-110000000.csv", text.encode())
    table.erase(KEY, raw=True)
    assert not is_in_raw(table)
    assert raw_bytes(table).count(b"\n\n") == 2
    assert [values["id"] for values in table.rows_as_of(3)] == [1, 2, 3]


HEADER = "Op,id,city,name,amount\n"
LINES = [
    'I,1,Ulm,"line one\nline two, and ""quoted""",1.50\n',
    f"I,{KEY},Ulm,{SECRET_NAME},1.50\n",
    "U,1,NULL,,2.50\n",
    f'U,{KEY},Bonn,"{SECRET_NAME}\n",1.50\n',
    f"U,{KEY},{SECRET_NAME}\n",
    "D,4,Ulm,x,1.50",
]
KEPT = [LINES[0], LINES[2], LINES[5]]


@pytest.mark.sampled(quick=3)
@pytest.mark.parametrize("header", ["", HEADER])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_rows_are_removed_and_the_others_stay_byte_for_byte(
    table: ErasableTable, header: str, zipped: bool, end: str
) -> None:
    table.item |= {"Schema": SCHEMA, "MaxQuarantinedRows": "5"}
    table.load([row(1)])
    name = "20240305-110000000.csv" + ".gz" * zipped

    def content(lines: list[str]) -> bytes:
        return (header + "".join(lines)).replace("\n", end).encode()

    table.apply_file(name, gzip.compress(content(LINES)) if zipped else content(LINES))
    done = table.erase(KEY, raw=True)
    assert (done.touched.change_rows, done.touched.bad_rows) == (3, 1)
    left = table.raw_path(name).read_bytes()
    assert (gzip.decompress(left) if zipped else left) == content(KEPT)
    assert table.load_incremental()["change"] is None


def test_rows_of_other_tables_stay_in_transaction_files(table: ErasableTable) -> None:
    table.item |= {"Schema": SCHEMA, "CdcPath": "transactions"}
    table.load([row(1)])
    lines = [
        "I,orders,shop,2,Ulm,name,1.50\n",
        f"I,orders,shop,{KEY},Ulm,{SECRET_NAME},1.50\n",
        f"I,customers,shop,{KEY},another table\n",
        "U,orders,shop,2,Bonn,name,1.50\n",
    ]
    file = table.raw / "transactions" / "CDC_TXN-20240305110000000.csv"
    file.parent.mkdir()
    file.write_text("".join(lines))
    table.load_incremental()
    table.erase(KEY, raw=True)
    assert file.read_text() == "".join([lines[0], ",,\n", *lines[2:]])
    assert table.load_incremental()["change"] is None
    assert _rows_in(table, file.name, "orders") == [0, 3]
    assert _rows_in(table, file.name, "customers") == [2]  # unchanged, so bad rows of that table can still be released


def _rows_in(table: ErasableTable, transactions: str, name: str) -> list[int]:
    raw, settings = lake_filesystem(table.raw.as_uri()).open(), TableSettings.from_item(table.item)
    settings = settings if name == "orders" else replace(settings, schema=parse_columns("id bigint, name string"))
    found = batches(raw, table.raw_file(transactions, "transactions"), settings, TableName("shop", name))
    return [number for rows in found for number in rows.numbers.tolist()]


def test_a_csv_file_without_remaining_rows_is_deleted(table: ErasableTable) -> None:
    table.item["Schema"] = SCHEMA
    table.load([row(1)])
    for minute, line in enumerate((f"I,{KEY},Ulm,{SECRET_NAME},1.50\n", "U,1,Rom,name,1.50\n"), 1):
        table.apply_file(f"20240305-100{minute}00000.csv", line.encode())
    table.erase(KEY, raw=True)
    assert raw_names(table) == ["20240305-100200000.csv", "LOAD00000001.parquet"]
    table.roll_back(to=1)
    assert table.load_incremental()["raw_files"] == 1
    assert [values["city"] for values in table.rows_as_of(table.log.head())] == ["Rom"]


def test_bad_rows_of_a_rewritten_file_cannot_be_released(table: ErasableTable) -> None:
    table.item |= {"MaxQuarantinedRows": "5", "Schema": SCHEMA}
    table.load([row(1)])
    names = [f"20240305-100{minute}00000.csv" for minute in (1, 2, 3)]
    table.put(names[0], f"I,{KEY},Ulm,{SECRET_NAME},1.50\nI,5,Ulm,five,many\nI,6,Ulm,six,1.50\n".encode())
    table.apply_file(names[1], b"I,7,Ulm,seven,many\n")
    table.erase(KEY, raw=True)
    table.raw_path(names[0]).write_text("I,5,Ulm,five,5.00\nI,6,Ulm,six,1.50\n")
    table.raw_path(names[1]).write_text("I,7,Ulm,seven,7.00\n")
    with pytest.raises(InputError, match=rf"An erasure removed rows from 1 raw files.*{names[0]}.*by hand"):
        release(table.run(), names)
    assert release(table.run(), [names[1]])["books"]["inserted"] == 1

    table.roll_back(to=2)  # does not change raw files
    with pytest.raises(InputError, match="An erasure removed rows"):
        release(table.run(), [names[0]])
    table.roll_back(to=1)
    table.raw_path(names[0]).write_text("I,5,Ulm,five,many\nI,6,Ulm,six,1.50\n")
    table.load_incremental()
    table.raw_path(names[0]).write_text("I,5,Ulm,five,5.00\nI,6,Ulm,six,1.50\n")
    assert (
        release(table.run(), [names[0]])["books"]["inserted"] == 1
    )  # quarantined after the erasure, so with the new numbers


@pytest.mark.slow
@pytest.mark.parametrize("call", [1, 2, 3])
def test_the_next_erasure_completes_one_that_crashed_at_the_raw_bucket(table: ErasableTable, call: int) -> None:
    table.load([row(1), secret()])
    for _ in range(2):
        table.apply(("U", secret("Bonn")), ("U", row(1, "Rom")))
    crashing = table.erasure(KEY, raw=True)
    assert crashing.raw
    raw = cast("ObjectStore", DyingStore(crashing.raw.store, Death(call, carried_out=False)))
    with pytest.raises(DiedError):
        erase(replace(crashing, raw=replace(crashing.raw, store=raw)), table.runs)
    assert is_in_raw(table)
    assert table.erase(KEY, raw=True).change
    assert not is_in_raw(table)
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}


def test_rewritten_files_behind_the_late_window_do_not_count_as_late(table: ErasableTable) -> None:
    table.item["LateWindowHours"] = "0"
    table.load([row(1)])
    table.apply(("U", secret("Bonn")))
    table.apply(("U", row(1, "Ulm")))
    for minute in (1, 2):
        set_time(table, f"20240305-100{minute}00000.parquet", minute)
    table.write_changes("20240305-100030000.parquet", [("I", secret("Rom")), ("I", row(9))])  # never applied
    table.erase(KEY, raw=True)
    assert not is_in_raw(table)
    state = TableState.new("raw", "shop/", "orders/").with_attributes(
        **table.item, ActiveFlag="true", LastSeen=str(Seen(START + timedelta(minutes=10)))
    )
    files = [table.raw_file(name) for name in raw_names(table) if name.startswith("2024")]
    now = START + timedelta(minutes=20)
    files = [file if "1002" in file.relative else replace(file, modified_utc=now) for file in files]
    lake = table.log.snapshot(table.log.head())
    decision = plan_table(state, RawFiles(changes=files), now, lake, recorded=recorded(lake, files))
    assert (decision.kind, decision.too_late) == (DecisionKind.NOTHING_NEW, 1)
    assert "1 change file (20240305-100030000.parquet) too late, so not applied" in decision.findings[0]
    assert lake.ledger.recent["20240305-100100000.parquet"].identity == ""
    table.apply(("U", row(1, "Kiel")))
    assert table.log.snapshot(table.log.head()).ledger.recent["20240305-100100000.parquet"].identity


@pytest.mark.parametrize("content", [b"PAR1 and no more", ABORTS_PYARROW.read_bytes()])
def test_an_unreadable_raw_file_is_reported(table: ErasableTable, content: bytes) -> None:
    table.load([row(1), secret()])
    table.apply(("U", row(1, "Rom")))
    table.raw_path("20240305-100100000.parquet").write_bytes(content)
    out_of_reach = preview(table.erasure(KEY, raw=True)).out_of_reach
    assert any("1 raw files that cannot be read: 20240305-100100000.parquet" in sentence for sentence in out_of_reach)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_a_parquet_file_keeps_its_columns_and_compression(table: ErasableTable, compression: str) -> None:
    table.load([row(1)])
    fields: list[Any] = [pa.field("Op", pa.string()), pa.field("at", pa.string(), nullable=False), *COLUMNS]
    schema = pa.schema(fields)
    rows = [{"Op": "I", "at": "2024-03-05 11:00:00.000000", **values} for values in (secret(), row(2))]
    path = table.raw_path("20240305-110000000.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression=compression)
    table.load_incremental()
    table.erase(KEY, raw=True)
    parquet = pq.ParquetFile(path)
    assert parquet.schema_arrow.equals(schema)
    assert parquet.metadata.row_group(0).column(0).compression == (
        "UNCOMPRESSED" if compression == "none" else compression.upper()
    )
    assert parquet.read().to_pylist() == rows[1:]


@pytest.mark.parametrize("form", ["parquet", "csv.gz"])
def test_raw_files_that_another_erasure_changed_since_are_left_alone(
    table: ErasableTable, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Their rows have other numbers."""
    table.item["Schema"] = SCHEMA
    table.load([row(2)])
    if form == "parquet":
        table.apply(("I", row(1)), ("I", secret()), ("I", row(3)))
    else:
        lines = b"I,1,Ulm,one,1.50\nI,%d,Ulm,%s,1.50\nI,3,Ulm,three,1.50\n" % (SECRET_ID, SECRET_NAME.encode())
        table.apply_file("20240305-100100000.csv.gz", gzip.compress(lines))
    begin = raw_files.rewrite

    def paused(*arguments: Any) -> None:
        monkeypatch.setattr(raw_files, "rewrite", begin)
        table.erase("1", raw=True)
        begin(*arguments)

    monkeypatch.setattr(raw_files, "rewrite", paused)
    with pytest.raises(CommitConflictError, match="Another run changed an object"):
        table.erase(KEY, raw=True)
    table.erase(KEY, raw=True)
    assert not is_in_raw(table)
    assert b"three" in raw_bytes(table) or b"name 3" in raw_bytes(table)
    assert b"name 1" not in raw_bytes(table)
