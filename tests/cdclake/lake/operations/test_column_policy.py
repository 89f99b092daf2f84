"""No value of a column with a rule is anywhere in the lake, in a log line or in an error: a search of all bytes tells.

The source's values are canaries, which occur nowhere else. Every stored byte is searched for them, after it is
decompressed and decoded: data files of the table and its history, quarantine, snapshots, tombstones, ledger, change
records, manifests and metadata of the Iceberg table.
"""

from __future__ import annotations

import hmac
import io
import tempfile
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import BadRowError, ConfigurationError, RefusedChangeError
from cdclake.hash_secret import with_hash_secret
from cdclake.lake.operations.erase.erase import erase, preview
from cdclake.lake.operations.release import release
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_filter import RowKeys
from cdclake.lake.read.key_history import find_versions
from cdclake.lake.read.row_origin import row_origins
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.schema import parse_columns
from cdclake.model.table.column_policy import ColumnPolicy
from tests.cdclake.lake.iceberg.readers import IcebergReaders
from tests.cdclake.lake.operations.erase.erasable_table import ErasableTable, all_objects, objects_containing
from tests.cdclake.lake.over_time import TABLE
from tests.examples import examples
from tests.logged import logged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.lake.operations.erase.erase import Erasure
    from cdclake.lake.spark.spark_backend import SparkBackend

SECRET = "0123456789abcdef0123456789abcdef"
POLICY = "hash ssn, hash phone, exclude email, redact note, truncate name 3, truncate birth 4"
COLUMNS = pa.schema(
    [
        ("ssn", pa.string()),
        ("phone", pa.int64()),
        ("email", pa.string()),
        ("note", pa.string()),
        ("name", pa.string()),
        ("birth", pa.date32()),
        ("city", pa.string()),
    ]
)
SCHEMA = "ssn string, phone bigint, email string, note string, name string, birth date, city string"
MARK = "CANARY"
PHONE = 915_173_000_000
ITEM = {"PrimaryKey": "ssn", "History": "true", "ColumnPolicy": POLICY, "MaxQuarantinedRows": "99", "Schema": SCHEMA}


def hashed(text: str) -> str:
    return hmac.new(SECRET.encode(), text.encode(), "sha256").hexdigest()


def person(number: int, version: int = 0, city: str = "Ulm", **values: Any) -> dict[str, Any]:
    """A row of canaries. Another version differs in every column but the key."""
    mark = f"{number}.{version}"
    return {
        "ssn": f"{MARK}-SSN-{number}",
        "phone": PHONE + 100 * number + version,
        "email": f"{MARK}-EMAIL-{mark}",
        "note": f"{MARK}-NOTE-{mark}",
        "name": f"Al {MARK}-NAME-{mark}",
        "birth": f"1987-11-{number:02}",
        "city": city,
        **values,
    }


def in_lake(row: dict[str, Any]) -> dict[str, Any]:
    """What the lake may have of a row."""
    return {
        "ssn": hashed(row["ssn"]),
        "phone": hashed(str(row["phone"])),
        "note": "***",
        "name": row["name"][:3],
        "birth": str(row["birth"])[:4],
        "city": row["city"],
    }


@dataclass
class PersonTable(ErasableTable):
    """A table of canaries."""

    item: dict[str, str] = field(default_factory=lambda: dict(ITEM))

    def write(self, name: str, rows: Sequence[dict[str, Any]], *raw_lines: str) -> None:
        """Write a raw file in the format of its name; in CSV, with further lines."""
        columns = list(rows[0])
        if name.endswith(".csv"):
            sink = io.BytesIO()
            nulls = {key: "" if key.startswith("BI_") else "NULL" for key in columns}  # as DMS writes them
            texts = [{key: str(nulls[key] if row[key] is None else row[key]) for key in columns} for row in rows]
            table = pa.Table.from_pylist(texts, pa.schema([(key, pa.string()) for key in columns]))
            pa_csv.write_csv(table, sink, pa_csv.WriteOptions(include_header=True, quoting_style="none"))
            self.put(name, sink.getvalue() + "".join(f"{line}\n" for line in raw_lines).encode())
            return
        schema = pa.schema([(key, _type_of(key)) for key in columns])
        typed = pa.Table.from_pylist(list(rows), pa.schema([(f.name, _as_text(f.type)) for f in schema])).cast(schema)
        self.put(name, typed)

    def erasure_of(self, key: str, reason: str = "request 17") -> Erasure:
        lake = self.log.snapshot(self.log.head())
        keys = RowKeys.parse([key], lake.primary_key, lake.schema, lake.policy.with_secret(SECRET.encode()))
        erasure = self.erasure(raw=True, reason=reason)
        assert erasure.raw is not None
        raw = replace(erasure.raw, settings=with_hash_secret(erasure.raw.settings))
        return replace(erasure, keys=keys, raw=raw)


def _type_of(name: str) -> pa.DataType:
    return pa.string() if name == "Op" else COLUMNS.field(name.removeprefix("BI_")).type


def _as_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_date(kind) else kind


def changes(ending: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Change files: inserts, updates, deletes, updates of the key, and bad rows."""
    old = {"BI_ssn": None, "BI_name": None}
    yield (
        f"20240305-100100000.{ending}",
        [
            {"Op": "I", **person(4), **old},
            {"Op": "U", **person(1, 1), "BI_ssn": person(1)["ssn"], "BI_name": person(1)["name"]},
            {"Op": "D", **person(2), **old},
        ],
    )
    yield (
        f"20240305-100200000.{ending}",
        [
            {"Op": "U", **person(5, city="Bonn"), "BI_ssn": person(3)["ssn"], "BI_name": person(3)["name"]},
            {"Op": "D", **person(8), **old},
            {"Op": f"{MARK}-OP", **person(6), **old},
            {"Op": "U", **person(6, ssn=None), **old},
        ],
    )


def fill(table: PersonTable, ending: str) -> None:
    table.write(f"LOAD00000001.{ending}", [person(number) for number in (1, 2, 3)])
    table.load_initial()
    for name, rows in changes(ending):
        lines = []
        if ending == "csv":
            lines = [f"U,{MARK}-SSN-9,{MARK}-PHONE,e,n,{MARK},1987-11-09,Ulm,,", f"U,{MARK}-SSN-9,{MARK},{MARK}"]
        table.write(name, rows, *lines)
        table.load_incremental()


EXPECTED = [in_lake(one) for one in (person(1, 1), person(4), person(5, city="Bonn"))]


def rows_of(table: PersonTable) -> list[dict[str, Any]]:
    found = [{name: row[name] for name in EXPECTED[0]} for row in table.rows_as_of(table.log.head())]
    return sorted(found, key=lambda row: [row["ssn"] for row in EXPECTED].index(row["ssn"]))


def leaks(table: PersonTable) -> dict[str, list[str | int]]:
    """Objects with a value of the source."""
    numbers = [PHONE + 100 * number + version for number in range(1, 10) for version in (0, 1)]
    dates = [f"1987-11-{number:02}" for number in range(1, 10)]
    return objects_containing(table, MARK, *numbers, *map(str, numbers), *dates, SECRET)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, SECRET)


@pytest.fixture
def table(tmp_path: Path) -> PersonTable:
    return PersonTable(tmp_path, COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("readers", ["folder", "both"])
def test_no_value_of_a_column_with_a_rule_is_stored_or_logged(table: PersonTable, ending: str, readers: str) -> None:
    table.item["Readers"] = readers
    with logged() as stream:
        fill(table, ending)
    assert rows_of(table) == EXPECTED
    assert leaks(table) == {}
    assert MARK not in stream.getvalue()
    names = {name.partition("/_cdclake/")[2].partition("/")[0] for name, _ in all_objects(table)}
    assert sum(map(len, (record.quarantine for record in table.log.records(1, 3)))) == 1 + (ending == "csv"), names
    if readers == "both":
        found = sorted(IcebergReaders(table.lake, table.layout).rows("true"), key=lambda row: str(row["ssn"]))
        assert [{name: row[name] for name in EXPECTED[0]} for row in found] == sorted(
            EXPECTED, key=lambda row: str(row["ssn"])
        )


def test_the_search_finds_values_that_are_there(table: PersonTable) -> None:
    """The same table without the policy leaks from objects of every kind."""
    table.item["ColumnPolicy"] = "null"
    fill(table, "csv")
    found = " ".join(leaks(table))
    assert all(f"/{kind}/" in found for kind in ("quarantine", "snapshots", "tombstones", "retired"))


def test_an_error_about_bad_rows_shows_no_value(table: PersonTable) -> None:
    table.item["MaxQuarantinedRows"] = "0"
    with logged() as stream, pytest.raises(BadRowError) as refused:
        fill(table, "csv")
    assert MARK not in f"{refused.value} {refused.value.details} {stream.getvalue()}"
    assert leaks(table) == {}


@pytest.mark.spark
def test_spark_hashes_as_this_process_does(table: PersonTable, spark_backend: SparkBackend) -> None:
    table.spark = spark_backend
    fill(table, "parquet")
    assert rows_of(table) == EXPECTED
    assert leaks(table) == {}


def test_a_key_is_named_by_the_value_of_the_source(table: PersonTable) -> None:
    fill(table, "csv")
    location, key = TableLocation.at(table.location, TABLE), f"{MARK}-SSN-1"
    versions = find_versions(location, [key], SECRET.encode())
    assert [(row["operation"], row["ssn"]) for row in versions.rows] == [
        ("insert", hashed(key)),
        ("update", hashed(key)),
    ]
    assert [one.file for one in row_origins(location, [key], SECRET.encode())] == ["20240305-100100000.csv"]
    for search in (find_versions, row_origins):
        with pytest.raises(ConfigurationError, match="the secret is missing"):
            search(location, [key])
        with pytest.raises(ConfigurationError, match="another secret"):
            search(location, [key], b"!" * 32)


@pytest.mark.parametrize("column", ["note", "name"])
def test_a_column_that_many_rows_have_the_same_text_in_is_no_key(column: str) -> None:
    policy = replace(ColumnPolicy.parse(POLICY), secret=SECRET.encode())
    with pytest.raises(ConfigurationError, match=f"{column}, whose values the lake does not tell apart"):
        RowKeys.parse([f'{{"{column}": "x"}}'], [], parse_columns(f"{column} string"), policy)


def test_a_row_is_erased_by_the_value_of_the_source_also_from_raw_files(table: PersonTable) -> None:
    fill(table, "csv")
    gone = hashed(f"{MARK}-SSN-1")
    assert preview(table.erasure_of(f"{MARK}-SSN-1")).touched.change_rows == 1
    with pytest.raises(ConfigurationError, match="contains a key"):
        preview(table.erasure_of(f"{MARK}-SSN-1", reason=f"as {MARK}-SSN-1 wishes"))
    result = erase(table.erasure_of(f"{MARK}-SSN-1"), table.runs)
    assert (result.touched.rows, result.touched.versions, result.touched.full_load_files) == (1, 2, 1)
    assert objects_containing(table, gone) == {}
    assert not any(f"{MARK}-SSN-1,".encode() in path.read_bytes() for path in table.raw.rglob("*.csv"))
    assert any("key cannot be read" in one for one in result.out_of_reach)  # of rows without content
    table.write("20240305-100150000.csv", [{"Op": "U", **person(1, 1)}])  # a late copy of the same row
    table.load_incremental()
    assert gone not in {row["ssn"] for row in table.rows_as_of(table.log.head())}


def test_bad_rows_are_released_from_the_same_file(table: PersonTable) -> None:
    table.item["Schema"] = SCHEMA.replace("name string", "name int")
    fill_name = "20240305-100100000.csv"
    table.write("LOAD00000001.csv", [person(1, name="5")])
    table.load_initial()
    table.write(fill_name, [{"Op": "I", **person(4)}])
    table.load_incremental()
    assert leaks(table) == {}
    table.item["Schema"] = SCHEMA
    assert release(table.run(), [fill_name])["books"]["inserted"] == 1
    assert leaks(table) == {}


@pytest.mark.parametrize("policy", ["null", "hash ssn", POLICY.replace("exclude email", "redact email")])
def test_another_policy_is_refused_until_the_table_is_loaded_again(table: PersonTable, policy: str) -> None:
    fill(table, "csv")
    table.item["ColumnPolicy"] = policy
    table.write("20240305-100300000.csv", [{"Op": "I", **person(7)}])
    with pytest.raises(ConfigurationError, match="created with ColumnPolicy"):
        table.load_incremental()
    assert leaks(table) == {}


def test_another_secret_is_refused_until_the_table_is_loaded_again(
    table: PersonTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(table, "csv")
    monkeypatch.setenv(HASH_SECRET_VARIABLE, SECRET[::-1])
    table.write("20240305-100300000.csv", [{"Op": "I", **person(7)}])
    with pytest.raises(ConfigurationError, match="The secret is another one"):
        table.load_incremental()
    table.load_again()
    assert table.log.snapshot(table.log.head()).policy.since == table.log.head()


@pytest.mark.parametrize("secret", ["", "short"])
def test_without_a_secret_nothing_is_read(table: PersonTable, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, secret)
    with pytest.raises(ConfigurationError, match="secret"):
        fill(table, "csv")
    assert table.log.head() == 0


@pytest.mark.parametrize("first", ["LOAD00000001.csv", "20240305-100100000.csv"])
def test_a_rule_for_a_column_that_no_file_has_is_refused(table: PersonTable, first: str) -> None:
    table.item["ColumnPolicy"] += ", exclude emial"
    operation = {} if first.startswith("LOAD") else {"Op": "I"}
    table.write(first, [{**operation, **person(1)}])
    with pytest.raises(ConfigurationError, match="no raw file has a column emial"):
        table.load_initial() if first.startswith("LOAD") else table.load_incremental()
    assert table.log.head() == 0


def test_a_direct_change_is_refused(table: PersonTable) -> None:
    fill(table, "csv")
    with pytest.raises(RefusedChangeError, match="has a ColumnPolicy"):
        table.direct("I", [pa.table({"ssn": [MARK]})])
    assert leaks(table) == {}


@pytest.mark.slow
@pytest.mark.parametrize("readers", ["folder", "both"])
@pytest.mark.parametrize("history", ["true", "false"])
def test_after_a_reload_and_a_clean_up_nothing_is_left_of_what_was_there_before(
    table: PersonTable, readers: str, history: str
) -> None:
    table.item |= {"ColumnPolicy": "null", "Readers": readers}
    fill(table, "csv")
    assert leaks(table)
    table.item |= {"ColumnPolicy": POLICY, "History": history}
    with logged() as stream:
        table.write("LOAD00000001.csv", [person(1, 1), person(4), person(5, city="Bonn")])
        table.load_again()
    assert "the history begins anew" in stream.getvalue()
    assert rows_of(table) == EXPECTED
    assert leaks(table)  # of states that a rollback still reaches
    with pytest.raises(ConfigurationError, match="retained states from before its ColumnPolicy"):
        preview(table.erasure_of(f"{MARK}-SSN-1"))
    for _ in range(2):  # files of the Iceberg table go with the next one
        table.clean_up(timedelta(), timedelta(hours=30))
    assert leaks(table) == {}
    assert rows_of(table) == EXPECTED
    preview(table.erasure_of(f"{MARK}-SSN-1"))
    if history == "true":
        versions = find_versions(TableLocation.at(table.location, TABLE), [f"{MARK}-SSN-1"], SECRET.encode())
        assert [row["ssn"] for row in versions.rows] == [hashed(f"{MARK}-SSN-1")]


def test_a_rollback_to_another_policy_stops_the_table(table: PersonTable) -> None:
    table.item["ColumnPolicy"] = "null"
    fill(table, "csv")
    before = table.log.head()
    table.item["ColumnPolicy"] = POLICY
    table.write("LOAD00000001.csv", [person(1, 1)])
    table.load_again()
    table.roll_back(before)
    table.write("20240305-100300000.csv", [{"Op": "I", **person(7)}])
    with pytest.raises(ConfigurationError, match="created with ColumnPolicy ''"):
        table.load_incremental()


def test_erased_keys_are_not_loaded_in_another_form(table: PersonTable) -> None:
    table.item["ColumnPolicy"] = "exclude email"
    fill(table, "csv")
    table.erase(f"{MARK}-SSN-1")
    table.item["ColumnPolicy"] = POLICY
    with pytest.raises(ConfigurationError, match="rows of erased keys would come back"):
        table.load_again()


OPERATIONS = st.tuples(st.sampled_from("IUUD"), st.integers(1, 4), st.integers(0, 2), st.none() | st.integers(1, 4))
"""Operation, number and version of a person, and of an update perhaps the number before."""


def with_images(operation: str, row: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    images = {f"BI_{name}": before[name] if before and operation == "U" else None for name in ("ssn", "name")}
    return {"Op": operation, **row, **images}


@examples(thorough=1_000, ci=20, test=6)
@given(st.lists(st.lists(OPERATIONS, max_size=6), max_size=3), st.booleans())
def test_the_lake_is_as_if_the_source_had_sent_what_the_policy_leaves(
    files: list[list[tuple[str, int, int, int | None]]], at_once: bool
) -> None:
    """For any changes, also of keys: the rows are those of a table without a policy whose raw files were treated."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(HASH_SECRET_VARIABLE, SECRET)
        item = {"PrimaryKey": "ssn", "UniqueChecks": "immediate"}
        plain = PersonTable(Path(folder) / "plain", COLUMNS, dict(item))
        table = PersonTable(Path(folder) / "treated", COLUMNS, {**item, "ColumnPolicy": POLICY})
        first: list[tuple[str, int, int, int | None]] = [("I", 1, 0, None), ("I", 2, 0, None)]
        for number, operations in enumerate([first, *files]):
            name = f"20240305-1001{number:02}000.parquet"
            rows = [
                (op, person(one, version), person(before) if before else None)
                for op, one, version, before in operations
            ]
            if rows:
                table.write(name, [with_images(*row) for row in rows])
                sent = [with_images(op, in_lake(row), before and in_lake(before)) for op, row, before in rows]
                plain.put(name, pa.Table.from_pylist(sent, pa.schema([(key, pa.string()) for key in sent[0]])))
            if not at_once or number == len(files):
                plain.load_incremental()
                table.load_incremental()
        assert table.rows_as_of(table.log.head()) == plain.rows_as_of(plain.log.head())
