"""Rows of an erased key that are older than the erasure stay out, however they arrive; newer ones are accepted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.errors import IntegrityError, RefusedChangeError
from cdclake.lake.storage.keys import keyed_hashes
from cdclake.lake.storage.types import from_arrow, to_arrow
from tests.cdclake.lake.operations.erase.erasable_table import (
    COLUMNS,
    SECRET_ID,
    SECRET_NAME,
    ErasableTable,
    all_objects,
    disable_compression,
    objects_containing,
    row,
    secret,
)
from tests.cdclake.lake.over_time import START
from tests.cdclake.lake.scd2.versions import version_rows

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake.lake.spark.spark_backend import SparkBackend

KEY = str(SECRET_ID)
SEQUENCE = pa.field("AR_H_CHANGE_SEQ", pa.string())
ORDER = pa.field("version", pa.int64())


def put_changes(
    table: ErasableTable, time: str, *rows: tuple[str, dict[str, Any]], added: pa.Field | None = None
) -> dict[str, Any]:
    """Write a change file with that time on the day of `START`, and run."""
    types = {added.name: added.type} if added else None
    return table.apply_file(f"20240305-{time}00000.parquet", rows, types)


def sequenced(number: int, values: dict[str, Any]) -> dict[str, Any]:
    return {"AR_H_CHANGE_SEQ": f"2024030510{number:025d}", **values}


def ids(table: ErasableTable) -> list[int]:
    return [values["id"] for values in table.rows_as_of(table.log.head())]


def assert_stays_erased(table: ErasableTable) -> None:
    assert SECRET_ID not in ids(table)
    assert objects_containing(table, SECRET_ID, SECRET_NAME) == {}


def test_what_the_newest_state_has_forgotten_stays_in_states_that_another_erasure_rewrites(
    table: ErasableTable,
) -> None:
    table.item |= {"LateWindowHours": "1"}
    table.load([row(1), row(7), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(str(SECRET_ID))
    log = table.log
    clean_up(log, plan_clean_up(log, timedelta(0), table.next_time(), log.head()))
    for day in ("10", "11"):
        table.apply_file(f"202403{day}-100000000.parquet", [("U", row(1, name=day))])
    assert [len(log.snapshot(change).erased) for change in (3, log.head())] == [1, 0]
    table.erase("7")
    table.roll_back(to=3, for_good=True)
    assert [erased.change for erased in log.snapshot(log.head()).erased] == [3, 6]
    put_changes(table, "1005", ("I", secret(what=" again")), ("U", row(1, name="late")))
    assert_stays_erased(table)


@pytest.mark.parametrize("op", ["I", "U", "D"])
@pytest.mark.parametrize(
    "item",
    [
        {},
        {"DeleteMode": "soft"},
        {"History": "false"},
        pytest.param({"Readers": "iceberg"}, marks=pytest.mark.slow),
        {"PartitionKey": "city"},
    ],
    ids=str,
)
def test_an_older_row_that_arrives_late_is_left_out_and_counted(
    table: ErasableTable, op: str, item: dict[str, str]
) -> None:
    table.item |= item
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    books = put_changes(table, "1005", (op, secret(what=" again")), ("U", row(1, name="late")), ("I", row(2)))["books"]
    assert (books["suppressed"], books["updated"], books["inserted"], books["absent"]) == (1, 1, 1, 0)
    assert_stays_erased(table)
    assert ids(table) == [1, 2]
    if table.item["History"] == "true":
        assert {version["id"] for version in version_rows(table)} == {1, 2}


def test_a_row_with_a_change_sequence_before_the_delete_is_left_out_of_any_file(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", sequenced(20, secret())), added=SEQUENCE)
    table.erase(KEY)
    late = [("U", sequenced(10, secret())), ("U", sequenced(30, row(1, name="newer")))]
    assert put_changes(table, "1045", *late, added=SEQUENCE)["books"]["suppressed"] == 1
    assert put_changes(table, "1005", ("U", sequenced(40, secret())), added=SEQUENCE)["books"]["suppressed"] == 1
    assert_stays_erased(table)
    assert put_changes(table, "1050", ("I", sequenced(50, secret())), added=SEQUENCE)["books"]["suppressed"] == 0
    assert ids(table) == [1, SECRET_ID]


def test_an_erased_key_is_recognized_after_a_reload_spells_its_column_otherwise(table: ErasableTable) -> None:
    table.item["History"] = "false"  # a history keeps the names of its columns
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", sequenced(20, secret())), added=SEQUENCE)
    table.erase(KEY)
    full_load = pa.Table.from_pylist([row(1)], COLUMNS)
    table.put("LOAD00000001.parquet", full_load.rename_columns(["ID", *COLUMNS.names[1:]]))
    table.set_modified("LOAD00000001.parquet", START + timedelta(days=1))
    table.load_initial()
    summary = put_changes(table, "1045", ("U", sequenced(10, secret())), added=SEQUENCE)
    assert summary["books"]["suppressed"] == 2  # the delete, too: its file was written after the full load
    assert [values["ID"] for values in table.rows_as_of(table.log.head())] == [1]


def test_a_row_with_an_ordering_value_before_the_delete_is_left_out(tmp_path: Path) -> None:
    columns = COLUMNS.append(ORDER)
    table = ErasableTable(tmp_path, columns, {"PrimaryKey": "id", "OrderColumn": "version"})
    table.load([{**row(1), "version": 1}, {**secret(), "version": 1}])
    put_changes(table, "1015", ("D", {**secret(), "version": 5}))
    table.erase(KEY)
    assert put_changes(table, "1045", ("U", {**secret(), "version": 4}))["books"]["suppressed"] == 1
    assert put_changes(table, "1050", ("I", {**secret(), "version": 6}))["books"]["suppressed"] == 0
    assert ids(table) == [1, SECRET_ID]


def test_a_new_row_of_an_erased_key_is_accepted(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    assert put_changes(table, "1016", ("I", secret("Bonn")))["books"]["suppressed"] == 0
    assert put_changes(table, "1005", ("U", secret("Kiel")))["books"]["suppressed"] == 1
    assert [values["city"] for values in table.rows_as_of(table.log.head())] == ["Ulm", "Bonn"]
    assert [version["city"] for version in version_rows(table) if version["id"] == SECRET_ID] == ["Bonn"]


def test_a_file_that_was_written_but_not_applied_before_the_erasure_is_older(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    table.write_changes("20240305-130000000.parquet", [("U", secret("Bonn")), ("I", row(2))])
    table.set_modified("20240305-130000000.parquet", table.next_time() - timedelta(minutes=1))
    table.erase(KEY)
    assert table.load_incremental()["books"]["suppressed"] == 1
    assert_stays_erased(table)


@pytest.mark.slow
@pytest.mark.parametrize("to", [0, 1, 2])
def test_files_that_are_read_again_after_a_rollback_bring_nothing_back(table: ErasableTable, to: int) -> None:
    table.load([row(1), secret()], START - timedelta(hours=1))
    put_changes(table, "1005", ("U", secret("Bonn")), ("I", row(2)))
    put_changes(table, "1010", ("U", secret("Kiel")), ("I", row(3)))
    table.erase(KEY)
    table.roll_back(to)
    if not to:
        assert table.load_initial()["books"]["suppressed"] == 1
    summary = table.load_incremental()
    assert summary["books"]["suppressed"] == (1 if to == 2 else 2)
    assert_stays_erased(table)
    assert ids(table) == [1, 2, 3]


@pytest.mark.parametrize("item", [{}, {"History": "false"}, {"History": "false", "PartitionKey": "city"}], ids=str)
def test_a_reload_takes_what_the_source_contains_but_not_from_files_before_the_erasure(
    table: ErasableTable, item: dict[str, str]
) -> None:
    table.item |= item
    table.load([row(1), secret()], START)
    table.erase(KEY)
    again = table.load([row(1), secret(), row(2)], START + timedelta(minutes=1))
    assert (again["books"]["suppressed"], again["books"]["rows_after"]) == (1, 2)
    assert_stays_erased(table)
    later = table.load([row(1), secret(), row(3)], table.next_time() + timedelta(minutes=1))
    assert (later["books"]["suppressed"], later["books"]["rows_after"]) == (0, 3)


@pytest.mark.spark
def test_tasks_of_spark_leave_out_older_rows(tmp_path: Path, spark_backend: SparkBackend) -> None:
    table = ErasableTable(tmp_path, COLUMNS, {"PrimaryKey": "id"}, spark_backend)
    table.load([row(1), secret()], START)
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    assert put_changes(table, "1005", ("U", secret()), ("I", row(3)))["books"]["suppressed"] == 1
    again = table.load([row(1), secret(), row(2)], START + timedelta(minutes=1))
    assert (again["books"]["suppressed"], again["books"]["rows_after"]) == (1, 2)


def test_a_table_without_a_key_remembers_the_values_that_identified_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disable_compression(monkeypatch)
    table = ErasableTable(tmp_path, COLUMNS, {})
    table.load([row(1), secret()])
    put_changes(table, "1015", ("I", row(2)))
    table.erase(f'{{"name": "{SECRET_NAME}", "id": {KEY}}}')
    books = put_changes(table, "1005", ("I", secret()), ("I", secret(what=" else")), ("I", row(3)))["books"]
    assert (books["suppressed"], books["inserted"]) == (1, 2)


def test_an_erased_key_is_recognized_in_a_wider_type(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.decimal128(6, 1)), ("name", pa.string())])
    table = ErasableTable(tmp_path, columns, {"PrimaryKey": "id"})
    table.load_file("LOAD00000001.parquet", pa.table({"id": ["7.0", "8.0"], "name": ["a", "b"]}).cast(columns))
    table.apply_file(
        "20240305-101500000.parquet", pa.table({"Op": ["I"], "id": ["9.5"], "name": ["c"]}).cast(with_op(columns))
    )
    table.erase("7")
    wider = columns.set(0, pa.field("id", pa.decimal128(12, 4)))
    late = pa.table({"Op": ["U", "U"], "id": ["7.0000", "8.0000"], "name": ["x", "y"]}).cast(with_op(wider))
    assert table.apply_file("20240305-100500000.parquet", late)["books"]["suppressed"] == 1


def with_op(columns: pa.Schema) -> pa.Schema:
    return columns.insert(0, pa.field("Op", pa.string()))


def test_a_late_update_between_keys_leaves_only_the_other_key(table: ErasableTable) -> None:
    """Its delete of the erased key is left out, its row of the other key stays; and the other way around."""
    table.load([row(1), row(2), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    moves = [("U", row(7), {"id": SECRET_ID}), ("U", secret(), {"id": 2})]
    books = table.apply_file("20240305-100500000.parquet", moves)["books"]
    assert (books["suppressed"], books["derived"], books["inserted"], books["deleted"]) == (1, 1, 1, 1)
    assert ids(table) == [1, 7]
    assert_stays_erased(table)


def test_bad_rows_of_older_files_bring_no_content_into_quarantine_that_may_be_of_the_key(table: ErasableTable) -> None:
    table.item |= {"MaxQuarantinedRows": "9", "Schema": "id bigint, city string, name string, amount decimal(10,2)"}
    table.load([row(1), secret()])
    table.apply_file("20240305-101500000.csv", f"D,{KEY},Ulm,{SECRET_NAME},1.50\n".encode())
    table.erase(KEY)
    lines = [
        f"U,{KEY},Ulm,{SECRET_NAME},much",  # has the key
        f"U,{KEY},Ulm,{SECRET_NAME}",  # may have it
        f"U,x{KEY},Ulm,{SECRET_NAME},1.50",  # likewise
        "U,5,Ulm,has another key,much",
    ]
    books = table.apply_file("20240305-100500000.csv", "".join(f"{line}\n" for line in lines).encode())["books"]
    assert (books["suppressed"], books["quarantined"]) == (1, 3)
    assert_stays_erased(table)
    quarantined = "".join(content.decode() for name, content in all_objects(table) if "/quarantine/" in name)
    assert "has another key" in quarantined
    assert quarantined.count("its content is not kept") == 2


def test_an_operator_can_insert_an_erased_key_again(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    assert table.direct("I", [pa.table({"id": [SECRET_ID], "name": ["by hand"]})]).inserted == 1
    assert ids(table) == [1, SECRET_ID]


def test_a_direct_change_that_is_older_than_the_erasure_is_refused(tmp_path: Path) -> None:
    columns = COLUMNS.append(ORDER)
    table = ErasableTable(tmp_path, columns, {"PrimaryKey": "id", "OrderColumn": "version"})
    table.load([{**row(1), "version": 1}, {**secret(), "version": 1}])
    put_changes(table, "1015", ("D", {**secret(), "version": 5}))
    table.erase(KEY)
    with pytest.raises(RefusedChangeError, match="1 rows are older than a change of their key"):
        table.direct("I", [pa.table({"id": [SECRET_ID], "version": [4]})])
    assert ids(table) == [1]


def test_erased_keys_are_forgotten_after_the_late_window_when_no_rollback_reaches_before_the_erasure(
    table: ErasableTable,
) -> None:
    table.item["LateWindowHours"] = "1"
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)

    def is_remembered() -> bool:
        return bool(table.log.snapshot(table.log.head()).erased)

    put_changes(table, "1200", ("U", row(1)))
    assert is_remembered()  # its late window is over, but a file may be stamped in any time zone
    table.apply_file("20240310-100000000.parquet", pa.Table.from_pylist([{"Op": "U", **row(1)}], with_op(COLUMNS)))
    assert is_remembered()  # a rollback can reach the load
    log = table.log
    clean_up(log, plan_clean_up(log, timedelta(0), table.next_time(), log.head()))
    mark = table.lake / table.layout.erasure_key(3)
    report = mark.read_bytes()
    mark.unlink()
    table.apply_file("20240311-100000000.parquet", pa.Table.from_pylist([{"Op": "U", **row(1)}], with_op(COLUMNS)))
    assert is_remembered()  # the erasure is not known to have finished
    mark.write_bytes(report)
    table.apply_file("20240312-100000000.parquet", pa.Table.from_pylist([{"Op": "U", **row(1)}], with_op(COLUMNS)))
    assert not is_remembered()


def test_without_the_secret_nothing_is_applied_until_the_keys_are_erased_again(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    (table.lake / table.layout.erasure_secret_key).unlink()
    table.write_changes("20240305-100500000.parquet", [("U", secret())])
    with pytest.raises(IntegrityError, match=r"secret.*Nothing was applied.*erase all these keys again"):
        table.load_incremental()
    assert table.erase(KEY).change
    assert table.load_incremental()["books"]["suppressed"] == 1
    assert_stays_erased(table)


def test_no_stored_object_but_the_secret_helps_to_guess_an_erased_key(table: ErasableTable) -> None:
    table.load([row(1), secret()])
    put_changes(table, "1015", ("D", secret()))
    table.erase(KEY)
    secret_key = table.layout.erasure_secret_key
    stored = dict(all_objects(table))
    (erased,) = table.log.snapshot(table.log.head()).erased
    assert erased.hashes == tuple(keyed_hashes(stored[secret_key], [pa.array([SECRET_ID])]))
    assert [name for name, content in stored.items() if stored[secret_key] in content] == [secret_key]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (["5", "0", "-7"], ["tinyint", "bigint", "decimal(5,0)", "decimal(9,3)", "float", "double"]),
        (["1.5", "-0.25"], ["decimal(4,2)", "decimal(38,10)", "float", "double"]),
        (["0.1"], ["decimal(2,1)", "decimal(9,5)"]),
        (["müller", ' "a"', ""], ["string"]),
        (["2024-03-05"], ["date"]),
    ],
)
def test_equal_values_have_equal_hashes_in_any_type(values: list[str], kinds: list[str]) -> None:
    def hashed(kind: str) -> list[str | None]:
        return keyed_hashes(b"secret", [pa.array(values).cast(to_arrow(kind))])

    assert from_arrow(to_arrow(kinds[0])) == kinds[0]
    assert len({tuple(hashed(kind)) for kind in kinds}) == 1
    assert len(set(hashed(kinds[0]))) == len(values)
    assert keyed_hashes(b"another", [pa.array(values)]) != keyed_hashes(b"secret", [pa.array(values)])


def test_keys_of_several_columns_do_not_run_into_each_other() -> None:
    one, other = ([pa.array([first]), pa.array([second])] for first, second in (("a", "bc"), ("ab", "c")))
    assert keyed_hashes(b"secret", one) != keyed_hashes(b"secret", other)
    assert keyed_hashes(b"secret", [pa.array(["a"]), pa.array([None], pa.string())]) == [None]
