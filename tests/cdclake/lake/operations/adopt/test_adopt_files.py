"""Which files can be adopted, what they become, and which are refused."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.control.plan.open_findings import OpenFindings
from cdclake.errors import (
    CdclakeError,
    CommitConflictError,
    ConfigurationError,
    IntegrityError,
    LakeFilesError,
    LeaseHeldError,
)
from cdclake.lake.limits import EngineLimits
from cdclake.lake.storage.keys import row_keys
from cdclake.model.names import JOB_LOAD_INCREMENTAL
from cdclake.model.partition_folder import parse_partition_folder, partition_folder
from cdclake.model.snapshot import LakeKeys
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.oracle import merge
from tests.builders import FolderInstallation
from tests.cdclake.lake.operations.adopt.adoptable_table import APPLIED, LOADED_UTC, RAW_PATH, AdoptableTable
from tests.cdclake.lake.raw.mutated_files import ABORTS_PYARROW
from tests.cdclake.lake.table import Table, by_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.control.run.report import TableReport

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int32())])
PART = "part-00000-9f1c.c000.snappy.parquet"
OTHER = "part-00001-9f1c.c000.snappy.parquet"
UTC_MILLIS = pa.timestamp("ms", tz="UTC")


def adoptee_in(folder: Path, columns: pa.Schema = COLUMNS, **item: str) -> AdoptableTable:
    return AdoptableTable(Table(folder, columns, {"PrimaryKey": "id", **item}))


@pytest.fixture
def adoptee(tmp_path: Path) -> AdoptableTable:
    return adoptee_in(tmp_path)


def rows(*ids: int, **columns: Any) -> pa.Table:
    """Rows as the walkthrough's jobs write them."""
    values = {"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids], "n": pa.array(ids, pa.int32())}
    return pa.table({**values, "Op": ["I"] * len(ids), **columns})


def source_rows(*ids: int) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = rows(*ids).drop_columns("Op").to_pylist()
    return values


def names_of(error: CdclakeError) -> str:
    return f"{error} {error.details}"


class TestAdoptedTable:
    def test_the_plan_contains_files_rows_columns_keys_and_watermark(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(3, 1, 2))
        adoptee.write(OTHER, rows(9))
        adoptee.table.write_changes("20240305-100000000.parquet", [("D", source_rows(1)[0])])
        adoption = adoptee.plan()
        as_json = adoption.to_json()
        size = (adoptee.folder / PART).stat().st_size
        assert as_json | {"bytes": 0, "data_files": []} == {
            "files": 2,
            "rows": 4,
            "bytes": 0,
            "partitions": 1,
            "primary_key": ["id"],
            "partition_key": [],
            "watermark": APPLIED,
            "full_load_utc": LOADED_UTC,
            "change_files_due": 1,
            "warnings": [],
            "columns": [
                {"name": "id", "type": "bigint"},
                {"name": "name", "type": "string"},
                {"name": "n", "type": "int"},
            ],
            "data_files": [],
        }
        assert as_json["data_files"][0] == {"path": PART, "rows": 3, "bytes": size, "partition": []}  # type: ignore[index]
        assert [(file.key_min, file.key_max) for file in adoption.table.files] == [(1, 3), (9, 9)]
        assert (adoption.table.watermark, adoption.table.floor) == (APPLIED, APPLIED)
        assert adoptee.table.log.head() == 0

    def test_the_item_is_updated_and_the_table_stays_active_or_inactive(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1))
        before = dict(adoptee.state.item)
        adoptee.adopt()
        after = dict(adoptee.state.item)
        keys = {Attribute.LAST_KEYS: str(LakeKeys("id", "", ""))}
        written = {Attribute.FENCING_TOKEN: "1", Attribute.LAST_CHANGE_ID: "1", **keys}
        recorded = {name: before[name] for name in (Attribute.LAST_INCREMENTAL_FILE, Attribute.LAST_FULL_LOAD_DATE)}
        assert json.loads(after.pop(Attribute.LAST_RECORDED)) == recorded
        unknown = {Attribute.LAST_FINDINGS: str(OpenFindings(1)), Attribute.LAST_FULL_LOAD_FILES: ""}
        assert after == {**before, **written, **unknown}

    def test_rows_without_op_and_position_get_both_when_rewritten(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1, 2, 3).drop_columns("Op"))
        adoptee.write(OTHER, rows(11, 12, Op=pa.array(["U", None])))
        adoptee.adopt()
        table = adoptee.table
        changed = [{"id": i, "name": "new", "n": 0} for i in (1, 11)]
        assert table.apply_file("20240305-100000000.parquet", [("U", row) for row in changed])["books"]["updated"] == 2
        for path in table.files():
            stored = pq.read_table(adoptee.folder / path)
            assert stored.schema.names == ["id", "name", "n", "Op", "_cdc_position"]
            assert (stored["Op"].null_count, stored["_cdc_position"].null_count) == (0, 0)
        assert {row.row["id"]: (row.op, row.position) for row in table.rows() if row.row["id"] not in (1, 11)} == {
            2: ("I", ""),
            3: ("I", ""),
            12: ("I", ""),
        }

    def test_columns_may_differ_in_order_case_and_presence(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1, 2))
        odd = rows(3, 4).rename_columns(["ID", "Name", "N", "Op"]).select(["Op", "Name", "ID"])
        odd = odd.set_column(1, "Name", odd["Name"].dictionary_encode())
        adoptee.write(OTHER, odd, store_schema=True)
        adoptee.write("part-2.parquet", rows(5, name=pa.array(["n5"], pa.large_string())), store_schema=True)
        adoptee.adopt()
        table = adoptee.table
        assert table.log.snapshot(1).schema.names == ["id", "name", "n"]
        table.write_changes("20240305-100000000.parquet", [("D", source_rows(i)[0]) for i in (3, 5, 1)])
        assert table.load_incremental()["books"]["deleted"] == 3
        assert {row.row["id"]: row.row for row in table.rows()} == {
            2: {"id": 2, "name": "n2", "n": 2},
            4: {"id": 4, "name": "n4", "n": None},
        }

    def test_an_empty_file_is_adopted_like_others(self, adoptee: AdoptableTable) -> None:
        adoptee.write(OTHER, rows(1))
        with pq.ParquetWriter(adoptee.folder / PART, rows(1).schema):
            pass
        assert pq.ParquetFile(adoptee.folder / PART).num_row_groups == 0
        adoptee.adopt()
        adoptee.table.apply_file("20240305-100000000.parquet", [("I", source_rows(2)[0])])
        assert sorted(row.row["id"] for row in adoptee.table.rows()) == [1, 2]

    def test_widening_a_column_rewrites_all_adopted_files(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, pa.schema([*COLUMNS.remove(2), ("n", pa.int64())]))
        adoptee.write(PART, rows(1))
        adoptee.write(OTHER, rows(2).drop_columns("Op"))
        adoptee.adopt()
        adoptee.table.apply_file("20240305-100000000.parquet", [("I", {"id": 3, "name": "c", "n": 1 << 40})])
        assert {pq.read_schema(adoptee.folder / path).field("n").type for path in adoptee.table.files()} == {pa.int64()}
        assert len(adoptee.table.rows()) == 3

    @pytest.mark.parametrize(
        ("values", "kind", "bounds"),
        [
            (pa.array(["b", "a"]), "string", ("a", "b")),
            (pa.array([date(2024, 3, 2), date(2024, 3, 1)]), "date", (19783, 19784)),
            (pa.array([9, -5], pa.int16()), "smallint", (-5, 9)),
            (pa.array([10, 9], pa.decimal128(5, 1)), "decimal(5,1)", ("10.0", "9.0")),
            (
                pa.array(
                    [datetime(2024, 3, 1, tzinfo=timezone.utc)] * 1 + [datetime(1970, 1, 1, tzinfo=timezone.utc)],
                    UTC_MILLIS,
                ),
                "timestamp",
                (0, 1709251200000000),
            ),
        ],
    )
    def test_keys_of_every_type_are_found_by_file_bounds(
        self, tmp_path: Path, values: pa.Array, kind: str, bounds: tuple[object, object]
    ) -> None:
        columns = pa.schema([("id", values.type), ("n", pa.int32())])
        adoptee = adoptee_in(tmp_path, columns)
        adoptee.write(PART, pa.table({"id": values, "n": pa.array([1, 2], pa.int32())}, columns))
        table = adoptee.table
        adoptee.adopt()
        snapshot = table.log.snapshot(1)
        assert snapshot.schema.columns[0].type == kind
        assert (snapshot.files[0].key_min, snapshot.files[0].key_max) == bounds
        table.write_changes("20240305-100000000.parquet", [("D", {"id": values[0].as_py(), "n": 1})])
        assert table.load_incremental()["books"]["deleted"] == 1

    def test_int96_timestamps_beyond_2262_keep_their_value(self, tmp_path: Path) -> None:
        far = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
        columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
        adoptee = adoptee_in(tmp_path, columns)
        adoptee.write(PART, pa.table({"id": [1, 2], "at": pa.array([far, None], pa.timestamp("us"))}), int96=True)
        assert adoptee.adopt().books.rows_after == 2
        adoptee.table.apply_file("20240305-100000000.parquet", [("U", {"id": 2, "at": far})])
        assert [row.row["at"] for row in adoptee.table.rows()] == [far, far]


class TestPartitions:
    DAYS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("city", pa.string())])

    def adoptee(self, folder: Path, **item: str) -> AdoptableTable:
        return adoptee_in(folder, self.DAYS, PartitionKey="day,city", **item)

    def test_partition_values_come_from_folders_and_types_from_the_newest_raw_file(self, tmp_path: Path) -> None:
        adoptee = self.adoptee(tmp_path)
        table = adoptee.table
        stay = {"id": 1, "name": "n1", "day": date(2024, 3, 1), "city": "a/b"}
        adoptee.write(f"day=2024-03-01/city=a%2Fb/{PART}", rows(1).drop_columns("n"))
        adoptee.write(f"day=__HIVE_DEFAULT_PARTITION__/city=Ulm/{PART}", rows(2).drop_columns("n"))
        table.write_changes("20240305-100000000.parquet", [("U", {**stay, "name": "new"}), ("D", {**stay, "id": 2})])
        adoptee.adopt()
        snapshot = table.log.snapshot(1)
        assert [column.type for column in snapshot.schema] == ["bigint", "string", "date", "string"]
        assert [file.partition for file in snapshot.files] == [("2024-03-01", "a/b"), (None, "Ulm")]
        table.load_incremental()
        assert [row.row for row in table.rows()] == [{**stay, "name": "new"}]

    def test_a_declared_type_needs_no_raw_file(self, tmp_path: Path) -> None:
        adoptee = self.adoptee(tmp_path, Schema="id bigint, name string, day date, city string")
        adoptee.write(f"day=2024-03-01/city=Ulm/{PART}", rows(1))
        assert adoptee.plan().table.schema.names == ["id", "name", "n", "day", "city"]

    def test_an_unknown_partition_type_must_be_declared(self, tmp_path: Path) -> None:
        adoptee = self.adoptee(tmp_path)
        adoptee.write(f"day=2024-03-01/city=Ulm/{PART}", rows(1))
        with pytest.raises(ConfigurationError, match="type of the partition column day") as caught:
            adoptee.plan()
        assert "Schema" in caught.value.remedy

    def test_another_notation_of_a_partition_value_is_accepted_with_a_warning(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(
            tmp_path, pa.schema([("id", pa.int64()), ("k", pa.int32())]), PartitionKey="k", Schema="id bigint, k int"
        )
        adoptee.write(f"k=007/{PART}", pa.table({"id": [1, 2]}))
        adoption = adoptee.plan()
        assert adoption.table.files[0].partition == ("7",)
        assert any("names differently" in warning for warning in adoption.warnings)
        adoptee.adopt()
        summary = adoptee.table.apply_file("20240305-100000000.parquet", [("U", {"id": 1, "k": 7})])
        assert (summary["books"]["updated"], adoptee.table.files()) == (1, ["k=7/000000000002-00001.parquet"])

    def test_a_key_in_the_folders_is_checked_and_has_bounds(self, tmp_path: Path) -> None:
        columns = pa.schema([("id", pa.int64()), ("k", pa.int32())])
        adoptee = adoptee_in(tmp_path, columns, PrimaryKey="k,id", PartitionKey="k", Schema="id bigint, k int")
        adoptee.write(f"k=1/{PART}", pa.table({"id": [1, 2]}))
        adoptee.write(f"k=2/{PART}", pa.table({"id": [1, 2]}))
        adoptee.adopt()
        bounds = [row_keys([pa.array([k, k]), pa.array([1, 2])])[0].to_pylist() for k in (1, 2)]
        assert [[file.key_min, file.key_max] for file in adoptee.table.log.snapshot(1).files] == bounds

    def test_a_null_partition_of_a_key_column_is_a_null_key(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, PrimaryKey="k,id", PartitionKey="k", Schema="id bigint, k int")
        adoptee.write(f"k=__HIVE_DEFAULT_PARTITION__/{PART}", pa.table({"id": [1, 2]}))
        with pytest.raises(LakeFilesError, match=r"^2 rows .* null in a key"):
            adoptee.plan()

    @pytest.mark.parametrize("text", ["Ulm", "a/b", "x=y", "100%", "%41", "né ü", "a b", "\x7f"])
    def test_partition_folder_names_round_trip(self, text: str) -> None:
        folder = partition_folder(("the city",), (text,)).rstrip("/")
        assert parse_partition_folder(folder) == ("the city", text)

    @pytest.mark.parametrize("folder", ["day", "=x", "day=", ""])
    def test_other_folder_names_are_not_partitions(self, folder: str) -> None:
        assert parse_partition_folder(folder) is None


def as_csv(adoptee: AdoptableTable) -> None:
    (adoptee.folder / "notes.csv").write_text("a,b\n")


def cut_short(adoptee: AdoptableTable) -> None:
    path = adoptee.folder / OTHER
    path.write_bytes((adoptee.folder / PART).read_bytes()[:-9])


def damaged_page(adoptee: AdoptableTable) -> None:
    path = adoptee.folder / PART
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 30 + whole[34:])


def that_aborts(adoptee: AdoptableTable) -> None:
    (adoptee.folder / OTHER).write_bytes(ABORTS_PYARROW.read_bytes())


def put(path: str, rows: pa.Table) -> Callable[[AdoptableTable], None]:
    return lambda adoptee: adoptee.write(path, rows)


BAD: dict[str, tuple[Callable[[AdoptableTable], None], str, str]] = {
    "not a Parquet file": (as_csv, "cannot be read as Parquet", "notes.csv"),
    "a truncated file": (cut_short, "cannot be read as Parquet", OTHER),
    "a file that makes pyarrow end the process": (that_aborts, "cannot be read as Parquet: the metadata", OTHER),
    "a damaged page of keys": (damaged_page, "cannot be read as Parquet", PART),
    "an empty file": (lambda a: (a.folder / "x.parquet").touch(), "cannot be read as Parquet", "x.parquet"),
    "an extra folder": (put(f"2024/{OTHER}", rows(9)), "is in 2024 instead of no folder", f"2024/{OTHER}"),
    "a partition folder": (put(f"day=1/{OTHER}", rows(9)), "is partitioned by day", f"day=1/{OTHER}"),
    "no key column": (put(OTHER, rows(9).drop_columns("id")), "lacks the key column id", OTHER),
    "a narrower type": (put(OTHER, rows(9, n=pa.array([9], pa.int16()))), "is int in one file .* and smallint", OTHER),
    "another type": (put(OTHER, rows(9, n=["nine"])), "is int in one file .* and string", OTHER),
    "unsigned": (put(OTHER, rows(9, k=pa.array([9], pa.uint32()))), "Column k .* uint32", OTHER),
    "a list": (put(OTHER, rows(9, k=[[1]])), "Column k .* list", OTHER),
    "a time": (put(OTHER, rows(9, k=pa.array([9], pa.time64("us")))), "Column k .* time64", OTHER),
    "no zone": (put(OTHER, rows(9, k=pa.array([9], pa.timestamp("us")))), r"Column k .* timestamp\[us\]", OTHER),
    "nanoseconds": (
        put(OTHER, rows(9, k=pa.array([9], pa.timestamp("ns", "UTC")))),
        r"Column k .* timestamp\[ns",
        OTHER,
    ),
    "an operation that is a number": (put(OTHER, rows(9, Op=pa.array([1]))), "Column Op .* int64", OTHER),
    "two columns that differ in case": (put(OTHER, rows(9, Name=["x"])), "two columns Name", OTHER),
    "a reserved column": (put(OTHER, rows(9, _key=["x"])), "two columns _key, or the name is reserved", OTHER),
    "a reserved file name": (put("000000000001-00001.parquet", rows(9)), "name that is reserved", "000000000001-00001"),
    "a key of another file": (put(OTHER, rows(2, 9)), "^1 rows .* repeat the key", OTHER),
    "repeated keys in a file": (put(OTHER, rows(9, 9, 9)), "^2 rows .* repeat the key", OTHER),
    "null keys": (put(OTHER, rows(9, 10, id=pa.array([None, 4], pa.int64()))), "^1 rows .* null in a key", OTHER),
    "deletes": (put(OTHER, rows(9, 10, Op=["D", "I"])), "^1 rows .* an Op other than I and U", OTHER),
}


class TestRefused:
    @pytest.mark.parametrize("case", BAD)
    def test_with_file_and_remedy_before_anything_changes(self, adoptee: AdoptableTable, case: str) -> None:
        adoptee.write(PART, rows(1, 2))
        damage, message, file = BAD[case]
        damage(adoptee)
        before = adoptee.hashes()
        with pytest.raises(LakeFilesError, match=message) as caught:
            adoptee.plan()
        assert file in names_of(caught.value)
        assert caught.value.remedy
        assert adoptee.hashes() == before
        assert adoptee.table.log.head() == 0

    def test_errors_do_not_contain_repeated_keys(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, PrimaryKey="name")
        adoptee.write(PART, rows(1, name=["a secret"]))
        adoptee.write(OTHER, rows(2, name=["a secret"]))
        with pytest.raises(LakeFilesError, match="1 rows") as caught:
            adoptee.plan()
        assert "a secret" not in names_of(caught.value)
        assert caught.value.details["files"] == f"{PART}, {OTHER}"

    def test_an_unknown_key_column_is_a_configuration_error(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, PrimaryKey="code")
        adoptee.write(PART, rows(1))
        with pytest.raises(ConfigurationError, match="no key column code"):
            adoptee.plan()

    def test_folders_of_other_columns_are_refused_with_the_setting(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, PartitionKey="name", Schema="id bigint, name string, n int")
        adoptee.write(f"Name=x/{PART}", rows(1).drop_columns("name"))
        with pytest.raises(LakeFilesError, match="partitioned by Name") as caught:
            adoptee.plan()
        assert "PartitionKey is 'name'" in caught.value.remedy

    def test_a_folder_with_an_invalid_value_is_refused(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, PartitionKey="n", Schema="n int")
        adoptee.write(f"n=many/{PART}", rows(1).drop_columns("n"))
        with pytest.raises(LakeFilesError, match="no valid int for n"):
            adoptee.plan()

    def test_a_partition_column_inside_the_file_is_refused(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, PartitionKey="n", Schema="n int")
        adoptee.write(f"n=1/{PART}", rows(1))
        with pytest.raises(LakeFilesError, match="partition column n, like its folder"):
            adoptee.plan()

    def test_an_empty_folder_is_refused(self, adoptee: AdoptableTable) -> None:
        (adoptee.folder / "_SUCCESS").touch()
        with pytest.raises(ConfigurationError, match="no files to adopt"):
            adoptee.plan()

    def test_an_existing_lake_table_is_refused(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1))
        planned = adoptee.plan().table
        adoptee.adopt()
        with pytest.raises(ConfigurationError, match="already a lake table, at change 1"):
            adoptee.plan()
        with pytest.raises(ConfigurationError, match="already a lake table, at change 1"):
            adoptee.registered("second").adopt(planned)


class TestLargeTables:
    """Keys of a table too large to be compared at once."""

    @staticmethod
    def large(folder: Path, key: str) -> AdoptableTable:
        adoptee = adoptee_in(folder, PrimaryKey=key)
        adoptee.table.limits = EngineLimits(adopted_key_bytes=1000, adopted_key_step=10)
        return adoptee

    @pytest.mark.parametrize("key", ["id", "name", "name,id"])
    def test_distinct_keys_are_accepted(self, tmp_path: Path, key: str) -> None:
        adoptee = self.large(tmp_path, key)
        for i in range(3):
            adoptee.write(f"part-{i}.parquet", rows(*range(i, 900, 3)))
        assert adoptee.plan().table.rows == 900

    @pytest.mark.parametrize("key", ["id", "name", "name,id"])
    def test_any_repeated_key_is_found(self, tmp_path: Path, key: str) -> None:
        adoptee = self.large(tmp_path, key)
        for i in range(3):
            adoptee.write(f"part-{i}.parquet", rows(*range(i, 900, 3)))
        adoptee.write("part-9.parquet", rows(7, 450, 899))
        with pytest.raises(LakeFilesError, match=r"^3 rows") as caught:
            adoptee.plan()
        assert caught.value.details["files"] == "part-0.parquet, part-1.parquet, part-2.parquet and 1 more"

    def test_a_very_frequent_key_is_refused_before_it_fills_the_memory(self, tmp_path: Path) -> None:
        adoptee = self.large(tmp_path, "name")
        adoptee.write(PART, rows(*range(900), name=["same"] * 900))
        with pytest.raises(LakeFilesError, match=r"^At least 89 rows"):
            adoptee.plan()


class TestItem:
    def load_files(self, adoptee: AdoptableTable, *seconds: int) -> None:
        """Write LOAD files the given numbers of seconds after the item's date."""
        loaded = datetime.strptime(LOADED_UTC, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
        for number, after in enumerate(seconds, 1):
            adoptee.table.write_load(source_rows(number), number)
            adoptee.table.set_modified(f"LOAD{number:08X}.parquet", loaded + timedelta(seconds=after + 0.25))

    def test_the_newest_load_file_gives_the_full_load_date(self, adoptee: AdoptableTable) -> None:
        self.load_files(adoptee, 0, 60, 5)
        adoptee.write(PART, rows(1, 2, 3))
        adoption = adoptee.plan()
        assert adoption.table.full_load_utc == "2024-03-01 12:01:00"
        assert [warning for warning in adoption.warnings if "2 more LOAD files" in warning] == list(adoption.warnings)
        adoptee.adopt()
        assert adoptee.state.item[Attribute.LAST_FULL_LOAD_DATE] == "2024-03-01 12:01:00"

    @pytest.mark.parametrize(("seconds", "warned"), [((9,), True), ((-9, 9), True), ((0,), False), ((-9, -5), False)])
    def test_a_newer_full_load_stays_due_with_a_warning(
        self, adoptee: AdoptableTable, seconds: tuple[int, ...], warned: bool
    ) -> None:
        self.load_files(adoptee, *seconds)
        adoptee.write(PART, rows(1))
        adoption = adoptee.plan()
        assert adoption.table.full_load_utc == LOADED_UTC
        assert any("will reload the table" in warning for warning in adoption.warnings) == warned

    def test_an_item_without_state_gives_warnings(self, tmp_path: Path) -> None:
        item = {
            Attribute.LAST_FULL_LOAD_DATE: "1900-01-01 00:00:00",
            Attribute.LAST_INCREMENTAL_FILE: RAW_PATH + "0.parquet",
        }
        adoptee = adoptee_in(tmp_path, **item, PrimaryKey="null")
        self.load_files(adoptee, 0)
        adoptee.table.write_changes(APPLIED, [("I", source_rows(1)[0])])
        adoptee.write(PART, rows(1))
        first, second, third = adoptee.plan().warnings
        assert "will replace the table" in first
        assert "No PrimaryKey is set" in second
        assert "apply all 1 change files" in third

    def test_a_watermark_that_is_not_a_change_file_is_refused(self, tmp_path: Path) -> None:
        adoptee = adoptee_in(tmp_path, LastIncrementalFile=RAW_PATH + "last.parquet")
        adoptee.write(PART, rows(1))
        with pytest.raises(ConfigurationError, match="not a change file"):
            adoptee.plan()


class TestConcurrentChanges:
    def test_a_file_written_after_planning_stops_the_adoption(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1))
        planned = adoptee.plan().table
        adoptee.write(OTHER, rows(2))
        with pytest.raises(LakeFilesError, match="changed while its files were read") as caught:
            adoptee.registered().adopt(planned)
        assert caught.value.details["foreign"] == 1
        assert (adoptee.table.log.head(), Attribute.LEASE_HOLDER in adoptee.state.item) == (0, False)

    @pytest.mark.parametrize("attribute", [Attribute.PRIMARY_KEY, Attribute.LAST_INCREMENTAL_FILE])
    def test_an_item_changed_after_planning_stops_the_adoption(self, adoptee: AdoptableTable, attribute: str) -> None:
        adoptee.write(PART, rows(1))
        registered, planned = adoptee.registered(), adoptee.plan().table
        adoptee.states.set_attributes(RAW_PATH, {attribute: "name"})
        with pytest.raises(CommitConflictError, match="changed after the plan was shown"):
            registered.adopt(planned)
        assert adoptee.table.log.head() == 0

    def test_a_running_job_stops_the_adoption(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1))
        planned = adoptee.plan().table
        adoptee.states.acquire_lease(RAW_PATH, "jr_1", adoptee.clock(), 300)
        with pytest.raises(LeaseHeldError):
            adoptee.registered().adopt(planned)

    def test_a_run_that_lost_its_lease_cannot_commit_after_it(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1))
        adoptee.states.acquire_lease(RAW_PATH, "jr_1", adoptee.clock(), 300)
        adoptee.clock.advance(301)
        record = adoptee.adopt()
        assert (record.change, record.fencing_token) == (2, 2)  # change 1 fences off the other run
        assert adoptee.table.log.snapshot(2).rows == 1
        assert adoptee.state.item[Attribute.LAST_CHANGE_ID] == "2"


class TestAfterAdoption:
    def test_runs_refuse_before_and_continue_from_the_watermark_after(self, adoptee: AdoptableTable) -> None:
        table = adoptee.table
        before = source_rows(1, 2, 3)
        adoptee.write(PART, rows(1, 2))
        adoptee.write(OTHER, rows(3))
        table.write_changes(APPLIED, [("D", before[0])])  # applied already, according to the item
        table.write_changes("20240305-100000000.parquet", [("U", {**before[1], "name": "new"}), ("D", before[2])])

        with pytest.raises(IntegrityError, match=r"cdclake adopt shop\.orders"):
            self.process(adoptee)
        adoptee.clock.advance(3600)
        adoptee.adopt()
        assert self.process(adoptee).rounds[0].loads == [JOB_LOAD_INCREMENTAL]
        assert by_key(table.rows(), ("id",)) == merge(("id",), before, table.changes[1:])
        assert adoptee.state.item[Attribute.LAST_INCREMENTAL_FILE] == f"{RAW_PATH}20240305-100000000.parquet"
        assert self.process(adoptee).rounds[0].loads == []

    def process(self, adoptee: AdoptableTable) -> TableReport:
        installation = FolderInstallation(adoptee.table.root, clock=adoptee.clock)
        installation.states = adoptee.states
        return installation.bring_up_to_date([RAW_PATH], "run-1").only

    def test_a_clean_up_keeps_live_adopted_files_and_deletes_retired_ones(self, adoptee: AdoptableTable) -> None:
        adoptee.write(PART, rows(1, 2))
        adoptee.write(OTHER, rows(11))
        adoptee.adopt()
        table = adoptee.table
        table.item["TargetFileBytes"] = str((adoptee.folder / PART).stat().st_size)  # so that no files are merged
        table.apply_file("20240305-100000000.parquet", [("D", source_rows(1)[0])])
        retired = table.lake / table.layout.retired_key(PART)
        registered = adoptee.registered("clean-up")
        adoptee.clock.advance(24 * 3600)
        assert registered.plan_clean_up(timedelta(days=9)).data_files == ()
        assert retired.exists()
        registered.clean_up(timedelta(hours=1))
        assert not retired.exists()
        assert (adoptee.folder / OTHER).exists()
        assert sorted(row.row["id"] for row in table.rows()) == [2, 11]

    def test_rows_of_adopted_files_are_erased_after_a_rollback(self, adoptee: AdoptableTable) -> None:
        """No column has a field id then, but ids that the undone change gave are taken."""
        adoptee.write(PART, rows(1, 2))
        adoptee.adopt()
        table = adoptee.table
        table.apply_file("20240305-100000000.parquet", [("I", source_rows(3)[0])])
        adoptee.registered("undo").rollback()
        done = adoptee.erase("1")
        assert (done.change, done.touched.rows) == (4, 1)
        assert [row.row["id"] for row in table.rows()] == [2]
        assert [file.has_field_ids for file in table.log.snapshot(4).files] == [False]
        table.runs = table.log.record(4).fencing_token
        table.load_incremental(APPLIED)
        assert sorted(row.row["id"] for row in table.rows()) == [2, 3]
        snapshot = table.log.snapshot(5)
        assert min(snapshot.field_ids.by_column.values()) == table.log.snapshot(2).field_ids.last + 1


def test_a_file_of_before_the_watermark_that_appears_after_the_adoption_is_too_late(adoptee: AdoptableTable) -> None:
    adoptee.write("a.parquet", rows(1))
    table, there, missed = adoptee.table, "20240305-070000000.parquet", "20240305-080000000.parquet"
    table.write_changes(there, [("U", source_rows(1)[0])])
    adoptee.adopt()
    table.write_changes(missed, [("I", source_rows(8)[0])])
    assert table.load_incremental()["too_late"] == [missed]
    table.write_changes("20240305-100000000.parquet", [("I", source_rows(2)[0])])
    assert table.load_incremental()["too_late"] == [missed]
    adoptee.registered("undo").rollback()
    assert table.load_incremental()["too_late"] == [missed]
