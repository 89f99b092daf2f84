"""A comparison with a table of each format finds all planted differences, and no other."""

from __future__ import annotations

import json
import sys
import zipfile
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.catalog
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

from cdclake.errors import ConfigurationError
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake_cli.shadow.compare import Choice, TableComparison, compare
from cdclake_cli.shadow.differences import DIFFERENT, ONLY_HERE, ONLY_THERE, REPEATED_THERE
from cdclake_cli.shadow.formats.open import open_table
from cdclake_cli.shadow.formats.place import Place
from cdclake_cli.shadow.report import RESULT, ReportFolder
from tests.cdclake.lake.over_time import TABLE, TableOverTime
from tests.cdclake_cli.conftest import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Write = Callable[[Path, pa.Table], str]
    Difference = tuple[str, Any, tuple[str, ...]]

HERE = Path(__file__).parent
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("paid", pa.bool_()),
        ("photo", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
THERE = COLUMNS.set(0, pa.field("id", pa.int64())).set(2, pa.field("price", pa.decimal128(12, 4)))
NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "city": ["Ulm", "Köln", "a b/c=d", None][number % 4],
        "price": None if number % 10 == 9 else Decimal(number) / 4,
        "ratio": number / 3,
        "paid": None if number % 7 == 0 else number % 2 == 0,
        "photo": bytes([number % 256]),
        "day": date(2024, 1, 1) + timedelta(days=number % 60),
        "at": NOON + timedelta(microseconds=number),
    }


CHANGED: dict[str, Any] = {
    "price": Decimal("-1.00"),
    "ratio": None,
    "photo": b"\xff\x00",
    "day": date(1999, 12, 31),
    "at": NOON - timedelta(microseconds=1),
}
"""Values that no row has."""


def planted() -> tuple[list[dict[str, Any]], list[Difference]]:
    """The rows of another table, and 50 differences from the lake table: of every kind, at every column."""
    rows = {number: row(number) for number in range(300)}
    differences: list[Difference] = []
    for number in range(12):
        del rows[number]
        differences.append((ONLY_HERE, number, ()))
    for number in range(1000, 1013):
        rows[number] = row(number)
        differences.append((ONLY_THERE, number, ()))
    for number in range(20, 40):
        names = [name for name in CHANGED if number % 3 == 0 or name == list(CHANGED)[number % len(CHANGED)]]
        rows[number].update({name: CHANGED[name] for name in names})
        differences.append((DIFFERENT, number, tuple(names)))
    again = [rows[50], {**rows[51], "ratio": -1.0}, rows[52], {**rows[53], "paid": None}, rows[1003]]
    differences += [(REPEATED_THERE, one["id"], ()) for one in again]
    return [*again, *rows.values()], differences


def doubtful(rows: pa.Table) -> pa.Table:
    """Rows that are written and deleted again."""
    field = rows.schema.field("id")
    return rows.slice(0, 9).set_column(0, field, pa.chunked_array([list(range(5000, 5009))], field.type))


def delta(folder: Path, rows: pa.Table) -> str:
    """A Delta table with partitions and removed files."""
    where = str(folder / "delta")
    write_deltalake(where, rows.slice(0, 100), partition_by=["city"])
    write_deltalake(where, rows.slice(100), mode="append")
    write_deltalake(where, doubtful(rows), mode="append")
    DeltaTable(where).delete("id >= 5000")
    return where


def iceberg_table(folder: Path, rows: pa.Table) -> Any:
    """An Iceberg table with rows that were deleted, in a catalog."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/iceberg")
    catalog.create_namespace("old")
    table = catalog.create_table("old.orders", rows.schema)
    table.append(rows.slice(0, 150))
    table.append(rows.slice(150))
    table.append(doubtful(rows))
    table.delete("id >= 5000")
    catalog.engine.dispose()
    return table


def iceberg(folder: Path, rows: pa.Table) -> str:
    return str(iceberg_table(folder, rows).metadata_location)


def parquet(folder: Path, rows: pa.Table) -> str:
    """A folder with partitions, Spark's old times, and what other programs leave beside the files."""
    where = folder / "parquet"
    pq.write_to_dataset(rows, where, partition_cols=["city"], use_deprecated_int96_timestamps=True)
    (where / "_SUCCESS").touch()
    (where / "_temporary").mkdir()
    (where / "_temporary" / "half.parquet").write_bytes(b"PAR1")
    (where / "city=Ulm" / ".part.crc").write_bytes(b"x")
    return str(where)


def lake_of(folder: Path, columns: pa.Schema, rows: Sequence[dict[str, Any]], **item: str) -> TableOverTime:
    lake = TableOverTime(folder, columns, dict(item))
    lake.load(list(rows))
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> TableOverTime:
    """The lake table `shop.orders`."""
    return lake_of(tmp_path_factory.mktemp("lake"), COLUMNS, [row(number) for number in range(300)], PrimaryKey="id")


def compared(lake: TableOverTime, where: str, choice: Choice | None = None, **options: Any) -> TableComparison:
    location = TableLocation.at(lake.location, TABLE)
    return compare(location, table_as_of(location.log()), open_table(where), where, choice, **options)


def reported(folder: Path, key: str) -> list[Difference]:
    """All differences in a report."""
    differences = pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))
    return [(one["kind"], one["key"][key], tuple(one["columns"] or ())) for one in differences.to_pylist()]


@pytest.mark.parametrize("write", [delta, iceberg, parquet])
def test_all_planted_differences_are_found_and_no_other(lake: TableOverTime, tmp_path: Path, write: Write) -> None:
    rows, differences = planted()
    assert len(differences) == 50
    where = write(tmp_path, pa.Table.from_pylist(rows, THERE))
    report = tmp_path / "report"
    found = compared(lake, where, report=ReportFolder(Place(str(report))), parts=5)
    assert Counter(reported(report, "id")) == Counter(differences)
    assert (found.only_here, found.only_there, found.different, found.repeated_there) == (12, 13, 20, 5)
    assert (found.rows_here, found.rows_there, found.differing_rows, found.equal) == (300, 306, 50, False)
    assert found.columns == Counter(name for _, _, names in differences for name in names)
    assert [remark.partition(":")[0] for remark in found.types][:2] == ["id", "price"] or write is parquet
    assert json.loads((report / RESULT).read_text())["differing_rows"] == 50


@pytest.mark.parametrize("write", [delta, iceberg, parquet])
def test_equal_tables_are_equal(lake: TableOverTime, tmp_path: Path, write: Write) -> None:
    where = write(tmp_path, pa.Table.from_pylist([row(number) for number in reversed(range(300))], THERE))
    report = tmp_path / "report"
    found = compared(lake, where, report=ReportFolder(Place(str(report))))
    assert (found.equal, found.differing_rows, found.rows_there, found.samples) == (True, 0, 300, ())
    assert reported(report, "id") == []


def unpacked(folder: Path, name: str, log: str) -> str:
    """A table that its format's own writer made, see `README.md` beside it."""
    with zipfile.ZipFile(HERE / f"{name}.zip") as archive:
        archive.extractall(folder)
    (found,) = (path for path in folder.iterdir() if (path / log).is_dir())
    return str(found)


def hudi(folder: Path, name: str) -> str:
    return unpacked(folder, f"hudi/{name}", ".hoodie")


LIVE = ("09c3e10c-*_20260307135802835.parquet", "c154592d-*_20260307135803380.parquet")
"""The files of `copy_on_write.zip` that its timeline leaves: those of the clustering, and of the commit after it."""


def live_rows(where: str) -> list[dict[str, Any]]:
    files = [next(Path(where).glob(pattern)) for pattern in LIVE]
    rows = pa.concat_tables(pq.read_table(file) for file in files)
    return list(rows.drop_columns([name for name in rows.column_names if name.startswith("_hoodie")]).to_pylist())


HUDI_COLUMNS = pa.schema(
    [
        ("txn_id", pa.string()),
        ("account_id", pa.string()),
        ("txn_ts", pa.int64()),
        ("txn_datetime", pa.timestamp("us", "UTC")),
        ("txn_date", pa.date32()),
        ("amount", pa.decimal128(10, 2)),
        ("currency", pa.string()),
        ("txn_type", pa.string()),
        ("merchant_name", pa.string()),
        ("is_international", pa.bool_()),
        ("fee_amount", pa.decimal128(10, 2)),
        ("txn_metadata", pa.string()),
    ]
)


def test_all_planted_differences_from_a_hudi_table_are_found_and_no_other(tmp_path: Path) -> None:
    where = hudi(tmp_path, "copy_on_write")
    rows = live_rows(where)
    assert len(rows) == 14
    differences: list[Difference] = [(ONLY_THERE, one["txn_id"], ()) for one in rows[:4]]
    for number, one in enumerate(rows[4:12]):
        name, value = [("amount", Decimal("0.01")), ("currency", None), ("txn_date", date(1999, 1, 1))][number % 3]
        one[name] = value
        differences.append((DIFFERENT, one["txn_id"], (name,)))
    new = [{**rows[13], "txn_id": f"TXN-{number}"} for number in range(500, 538)]
    differences += [(ONLY_HERE, one["txn_id"], ()) for one in new]
    assert len(differences) == 50
    (tmp_path / "lake").mkdir()
    lake = lake_of(tmp_path / "lake", HUDI_COLUMNS, [*rows[4:], *new], PrimaryKey="txn_id")
    report = tmp_path / "report"
    found = compared(lake, where, report=ReportFolder(Place(str(report))), parts=3)
    assert Counter(reported(report, "txn_id")) == Counter(differences)
    assert (found.format, found.version, found.rows_there) == ("Hudi", "instant 20260307135803380", 14)
    assert found.types == ("amount: decimal(10,2) in the lake, decimal(15,2) there; compared as decimal(15,2)",)


def test_a_hudi_table_equals_the_lake_table_with_its_rows(tmp_path: Path) -> None:
    where = hudi(tmp_path, "copy_on_write")
    (tmp_path / "lake").mkdir()
    lake = lake_of(tmp_path / "lake", HUDI_COLUMNS, live_rows(where), PrimaryKey="txn_id")
    assert compared(lake, where).equal


def test_an_earlier_instant_of_hudi_is_read(tmp_path: Path) -> None:
    first = open_table(hudi(tmp_path, "copy_on_write"), "20260307135753543")
    read = pa.concat_tables(first.batches(["txn_id"]))["txn_id"].to_pylist()
    assert sorted(read) == [f"TXN-00{number}" for number in range(1, 9)]


def test_deletes_in_log_files_of_hudi_are_applied(tmp_path: Path) -> None:
    where = hudi(tmp_path, "merge_on_read")
    table = open_table(where)
    (riders,) = {tuple(sorted(batch["rider"].to_pylist())) for batch in [pa.concat_tables(table.batches(["rider"]))]}
    assert riders == tuple(f"rider-{letter}" for letter in "EFGIJ")


def test_nested_columns_of_hudi_are_refused_by_name_unless_they_are_ignored(tmp_path: Path) -> None:
    where = hudi(tmp_path, "partitioned")
    columns = pa.schema(
        [("id", pa.int32()), ("name", pa.string()), ("byteField", pa.int8()), ("mapField", pa.string())]
    )
    (tmp_path / "lake").mkdir()
    names = ((1, "Alice", 10), (2, "Bob", 20), (3, "Carol", 10), (4, "Diana", 30))
    rows = [{"id": number, "name": name, "byteField": part, "mapField": "{}"} for number, name, part in names]
    lake = lake_of(tmp_path / "lake", columns, rows, PrimaryKey="id")
    with pytest.raises(ConfigurationError, match="mapField: string in the lake, map<"):
        compared(lake, where)
    others = ("*Field", "isActive")
    found = compared(lake, where, Choice(ignore=(*others, "mapField"), key=("id",)))
    assert found.equal
    parts = compared(lake, where, Choice(ignore=("mapField",)))
    assert (parts.differing_rows, parts.equal) == (0, False)
    assert "arrayField" in parts.columns_only_there


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [("deletion_vectors", ["value"], 8), ("column_mapping", ["Company Very Short", "Super Name"], 5)],
)
def test_deletion_vectors_and_column_mapping_of_delta_are_applied(
    tmp_path: Path, name: str, columns: list[str], rows: int
) -> None:
    table = open_table(unpacked(tmp_path, f"delta/{name}", "_delta_log"))
    read = pa.concat_tables(table.batches(columns))
    assert (table.schema.names, read.column_names, read.num_rows) == (columns, columns, rows)
    assert table.rows in (None, rows)
    assert all(None not in column.to_pylist() for column in read.columns)


class Unread:
    """A table whose rows nobody may read."""

    format, version, rows = "any", "", None
    schema = pa.schema([("id", pa.int64()), ("price", pa.float64())])

    def batches(self, columns: Sequence[str]) -> Any:
        message = "its rows are read"
        raise AssertionError(message)


def test_types_are_refused_before_anything_is_read(lake: TableOverTime) -> None:
    location = TableLocation.at(lake.location, TABLE)
    with pytest.raises(ConfigurationError, match="price"):
        compare(location, table_as_of(location.log()), Unread(), "any")


@pytest.mark.parametrize(("package", "log"), [("deltalake", "_delta_log"), ("hudi", ".hoodie")])
def test_a_missing_package_is_told_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, log: str
) -> None:
    (tmp_path / log).mkdir()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=r"cdclake-cli\[formats\]"):
        open_table(str(tmp_path))


def test_versions_of_tables_are_read(lake: TableOverTime, tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([row(number) for number in range(300)], COLUMNS)
    write_deltalake(str(tmp_path / "delta"), rows)
    DeltaTable(str(tmp_path / "delta")).delete("id < 10")
    table = iceberg_table(tmp_path, rows)
    first = table.metadata.snapshots[0].snapshot_id
    location = TableLocation.at(lake.location, TABLE)
    for where, version, equal in (
        (str(tmp_path / "delta"), "0", True),
        (str(tmp_path / "delta"), "", False),
        (table.metadata_location, str(first), False),
        (table.metadata_location, "", True),
    ):
        found = compare(location, table_as_of(location.log()), open_table(where, version), where)
        assert found.equal is equal, where
        assert found.version.split()[-1].isdecimal()


def test_a_table_in_a_catalog_is_found(lake: TableOverTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iceberg(tmp_path, pa.Table.from_pylist([row(number) for number in range(300)], COLUMNS))
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # it reads its configuration when it is imported
    assert compared(lake, "iceberg:test:old.orders").equal
    monkeypatch.setenv("PYICEBERG_CATALOG__LOST__URI", f"sqlite:///{tmp_path}/none/catalog.db")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    for wrong in ("iceberg:test:old.none", "iceberg:test", "iceberg:none:old.orders", "iceberg:lost:old.orders"):
        with pytest.raises(ConfigurationError):
            open_table(wrong)


def test_an_iceberg_table_has_the_names_that_it_has_now_and_a_snapshot_those_of_its_time(tmp_path: Path) -> None:
    table = iceberg_table(tmp_path, pa.table({"id": range(300), "city": ["Ulm"] * 300}))
    with table.update_schema() as change:
        change.rename_column("city", "town")
    renamed = table.refresh().metadata_location
    assert open_table(renamed).schema.names == ["id", "town"]
    assert {town for batch in open_table(renamed).batches(["town"]) for town in batch["town"].to_pylist()} == {"Ulm"}
    snapshot = str(table.current_snapshot().snapshot_id)
    assert open_table(renamed, snapshot).schema.names == ["id", "city"]


def test_a_table_without_a_key_is_compared_by_whole_rows(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    columns = pa.schema([("a", pa.string()), ("b", pa.int64())])
    rows: list[dict[str, Any]] = [{"a": "x", "b": 1}, {"a": "x", "b": 1}, {"a": "y", "b": None}]
    lake = lake_of(tmp_path / "lake", columns, rows)
    write_deltalake(str(tmp_path / "delta"), pa.Table.from_pylist([*rows[1:], {"a": "y", "b": 2}], columns))
    found = compared(lake, str(tmp_path / "delta"))
    assert (found.only_here, found.only_there, found.different, found.key) == (1, 1, 0, ())
    assert compared(lake, str(tmp_path / "delta"), Choice(ignore=("b",), key=("a",))).repeated_here == 1


def test_what_is_no_table_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "metadata").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "hudi" / ".hoodie").mkdir(parents=True)
    for where, text in (
        (str(tmp_path), "only its catalog knows"),
        (str(tmp_path / "none"), "There is nothing"),
        ("~no.such.user/orders", "no home folder"),
        (str(tmp_path / "empty"), "no Parquet files"),
        (str(tmp_path / "broken"), "a.parquet"),
        (str(tmp_path / "delta"), "Delta table cannot be read"),
        (str(tmp_path / "hudi"), "Hudi table cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            open_table(where)
    with pytest.raises(ConfigurationError, match="no versions"):
        open_table(str(tmp_path / "empty"), "3")
    with pytest.raises(ConfigurationError, match="Delta table cannot be read"):
        open_table(str(tmp_path / "delta"), "9" * 30)


def test_files_of_a_folder_may_lack_columns_and_have_other_widths(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"name": ["x"], "id": pa.array([2], pa.int64())}), tmp_path / "b.parquet")
    table = open_table(str(tmp_path))
    assert (table.rows, table.schema.field("id").type) == (2, pa.int64())
    rows = pa.concat_tables(table.batches(["id", "name"])).to_pylist()
    assert rows == [{"id": 1, "name": None}, {"id": 2, "name": "x"}]


def test_columns_of_files_are_one_whatever_their_case_and_the_form_of_their_values(tmp_path: Path) -> None:
    at = pa.array([NOON], pa.timestamp("us", "UTC"))
    columns: list[tuple[list[str], pa.DataType, pa.DataType]] = [
        (["ID", "name", "at"], pa.string(), pa.timestamp("us")),
        (["id", "Name", "AT"], pa.dictionary(pa.int32(), pa.string()), pa.timestamp("ms", "UTC")),
        (["id", "name", "at"], pa.string_view(), pa.timestamp("us", "Europe/Berlin")),
    ]
    for number, (names, text, time) in enumerate(columns):
        values = [pa.array([number]), pa.array(["x"]).cast(text), at.cast(time)]
        pq.write_table(pa.table(values, names=names), tmp_path / f"{number}.parquet")
    table = open_table(str(tmp_path))
    assert table.schema.names == ["ID", "name", "at"]
    rows = pa.concat_tables(table.batches(table.schema.names)).to_pylist()
    assert rows == [{"ID": number, "name": "x", "at": NOON} for number in range(3)]


def test_columns_of_one_file_that_differ_in_case_are_two(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "v": [2], "V": [3]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [4], "v": [5]}), tmp_path / "b.parquet")
    table = open_table(str(tmp_path))
    rows = pa.concat_tables(table.batches(["V", "v"])).to_pylist()
    assert rows == [{"V": 3, "v": 2}, {"V": None, "v": 5}]


@pytest.fixture
def cdclake(monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    return Command()


def command(cdclake: Command, lake: TableOverTime, where: str, *more: str) -> Any:
    return cdclake("compare", TABLE, "--with", where, "--lake-bucket", lake.location, *more)


@pytest.mark.slow
def test_the_command_shows_the_differences_and_exits_with_6(
    cdclake: Command, lake: TableOverTime, tmp_path: Path
) -> None:
    where = delta(tmp_path, pa.Table.from_pylist(planted()[0], THERE))
    result = command(cdclake, lake, where, "--report", str(tmp_path / "report"))
    assert result.exit_code == 6, result.output
    for text in ("There: Delta", "only there", "Columns that differ", "by id", "compared as bigint", "50 rows"):
        assert text in result.output
    record = json.loads(command(cdclake, lake, where, "-o", "json").stdout)
    assert (record["equal"], record["differing_rows"], record["change"]) == (False, 50, 1)
    (sample, *_) = (one for one in record["samples"] if one["kind"] == DIFFERENT)
    assert all(set(value) == {"here", "there"} for value in sample["values"].values())
    again = command(cdclake, lake, where, "--report", str(tmp_path / "report"))
    assert (again.exit_code, "There are files in" in again.stderr) == (2, True)


@pytest.mark.slow
def test_the_command_exits_with_0_if_the_tables_are_equal(
    cdclake: Command, lake: TableOverTime, tmp_path: Path
) -> None:
    rows = pa.Table.from_pylist([row(number) for number in range(300)], COLUMNS).rename_columns(
        ["id", "town", *COLUMNS.names[2:]]
    )
    pq.write_table(rows.append_column("loaded_at", [["now"] * 300]), tmp_path / "orders.parquet")
    options = ("--rename", "town=city", "--ignore", "loaded_*", "--as-of", "1", "--key", "id")
    result = command(cdclake, lake, str(tmp_path / "orders.parquet"), *options)
    assert result.exit_code == 0, result.output
    for wrong in (("--rename", "town"), ("--version", "1"), ("--as-of", "7")):
        assert command(cdclake, lake, str(tmp_path / "orders.parquet"), *wrong).exit_code == 2


def test_a_file_that_vanishes_meanwhile_is_worth_another_try(tmp_path: Path) -> None:
    from cdclake.errors import RetryableError

    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    table = open_table(str(tmp_path))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(RetryableError, match="is not there"):
        list(table.batches(["id"]))
