"""Columns of CSV files without types are reported, with a Schema that cdclake accepts."""

from __future__ import annotations

import csv
import io
import shlex
import subprocess
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.folder import FolderStore
from cdclake.lake.raw.normalize import normalize
from cdclake.lake.raw.reader import inspect_raw_file, read_raw
from cdclake.lake.storage.shape import TableShape
from cdclake.model.raw.files import raw_files
from cdclake.model.schema import Column, Schema
from cdclake.model.table.state import TableState
from cdclake_cli.doctor.diagnose import RawBucket, diagnose
from cdclake_cli.doctor.findings import Code
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cdclake_cli.doctor.findings import Finding

LOAD, CHANGE = "LOAD00000001.csv", "20240305-101500000.csv"
NOW = datetime(2024, 3, 6, tzinfo=timezone.utc)


def state(**attributes: str) -> TableState:
    return TableState.new("raw", "shop/", "orders/").with_attributes(**attributes)


def put(root: Path, name: str, *rows: Sequence[object]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    path = root / "shop" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8")


def faults(root: Path, lake: Schema | None = None, /, **attributes: str) -> list[Finding]:
    """All findings but that the files are new."""
    raw = RawBucket(FolderStore(root), lake_filesystem(root.as_uri()).open())
    report = diagnose(raw, state(**attributes), NOW, lake=lake)
    return [one for one in report.findings if one.code is not Code.LOAD_ARRIVING]


def untyped(findings: list[Finding]) -> list[Finding]:
    """Those of columns without types: one, or none."""
    return [one for one in findings if one.code is Code.UNTYPED]


def finding(root: Path, lake: Schema | None = None, **attributes: str) -> Finding:
    """The finding of columns without types."""
    (found,) = untyped(faults(root, lake, **attributes))
    return found


def words_of(command: str) -> list[str]:
    """The words of a command, as a shell splits it."""
    if "$'" not in command:
        return shlex.split(command)
    shell = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], check=True, capture_output=True, text=True)
    return shell.stdout.split("\0")[:-1]


def proposed(root: Path, lake: Schema | None = None, **attributes: str) -> dict[str, str]:
    """The attributes in the command of the finding."""
    return attributes_in(finding(root, lake, **attributes))


def attributes_in(found: Finding) -> dict[str, str]:
    words = words_of(found.paste)
    assert words[:4] == ["cdclake", "tables", "set", "shop.orders"]
    options = dict(zip(words[4::2], words[5::2], strict=True))
    settings = dict(
        word.split("=", 1) for option, word in zip(words[4::2], words[5::2], strict=True) if option == "--set"
    )
    key = {"PrimaryKey": options["--primary-key"]} if "--primary-key" in options else {}
    return {"Schema": options["--schema"], **settings, **key}


def bad_values(root: Path, settings: dict[str, str]) -> int:
    """Bad rows when cdclake reads all files with these settings."""
    table, store = state(**settings), FolderStore(root)
    fs, files = lake_filesystem(root.as_uri()).open(), raw_files(store.list("shop/orders/"), "shop/orders/")
    bad = 0
    for file in (*files.full_load, *files.changes):
        inspection = inspect_raw_file(fs, file, table.settings)
        for part in inspection.parts:
            for raw in read_raw(fs, part, table.settings):
                shape = TableShape(inspection.schema, table.settings.primary_key, ())
                bad += len(normalize([raw], [file], shape, table.settings).bad_rows)
    return bad


def test_types_null_text_and_key_are_proposed_with_counts(tmp_path: Path) -> None:
    header = ("flight", "carrier", "delay", "price", "day", "at", "late", "zip", "german")
    same = ("2024-03-05", "2024-03-05 10:00:00", "t")
    rows = [
        (i, "NA" if i == 1 else "LH", "NA" if i > 23 else i - 5, f"{i}.5", *same, f"0{i}", "5.3.24")
        for i in range(1, 101)
    ]
    put(tmp_path, LOAD, header, *rows)
    settings = proposed(tmp_path)
    assert settings == {
        "Schema": "flight bigint, carrier string, delay bigint, price decimal(18,1), day date, at timestamp,"
        " late boolean, zip string, german string",
        "CsvNullValue": "NA",
        "PrimaryKey": "flight",
    }
    assert bad_values(tmp_path, settings) == 0
    found = finding(tmp_path)
    assert found.seen == "9 columns untyped: Schema does not declare them; 100 rows looked at"
    assert "found 0 bad values" in found.fix
    assert {
        "delay bigint: all of 23 values fit",
        "'NA': 1 in carrier (string), 77 in delay (bigint); proposed as CsvNullValue",
        "german string: text, and look like times in another format than yyyy-mm-dd HH:MM:SS",
        "key flight: 100 distinct values in 100 LOAD rows, no nulls",
    } <= set(found.details)


def test_one_damaged_value_keeps_a_column_text_and_is_counted(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"), *((i, "one" if i == 7 else i) for i in range(50)))
    assert proposed(tmp_path)["Schema"] == "id bigint, n string"
    assert "n string: 49 of 50 values fit bigint" in finding(tmp_path).details


def test_a_value_that_only_cdclake_refuses_keeps_a_column_text(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n", "day"), *((i, 10**18 * i, f"2023-02-{i:02}") for i in range(1, 30)))
    settings = proposed(tmp_path)
    assert settings["Schema"] == "id bigint, n string, day string"
    assert "day string: 1 value does not fit date" in " ".join(finding(tmp_path).details)


def test_change_files_must_fit_too(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"), (1, 5), (2, 6))
    put(tmp_path, CHANGE, ("Op", "id", "n"), ("U", 1, "seven"))
    settings = proposed(tmp_path)
    assert settings["Schema"] == "id bigint, n string"
    assert bad_values(tmp_path, settings) == 0


def test_a_proposal_comes_with_the_dialect_that_the_files_were_read_with(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"), *((i, i) for i in range(20)))
    path = tmp_path / "shop" / "orders" / LOAD
    path.write_text(path.read_text(encoding="utf-8").replace(",", "\t"), encoding="utf-8")
    settings = proposed(tmp_path)
    assert settings == {"Schema": "id bigint, n bigint", "CsvDelimiter": "\\t", "PrimaryKey": "id"}
    assert bad_values(tmp_path, settings) == 0


def test_a_null_text_that_is_quoted_is_text(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"), *((i, "NA" if i > 3 else i) for i in range(20)))
    path = tmp_path / "shop" / "orders" / LOAD
    path.write_text(path.read_text(encoding="utf-8").replace("NA", '"NA"'), encoding="utf-8")
    assert proposed(tmp_path)["Schema"] == "id bigint, n string"


def test_files_without_rows_propose_nothing(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"))
    assert [one.paste for one in untyped(faults(tmp_path)) if one.paste] == []


def test_a_column_that_only_change_files_have_is_looked_at_there(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id",), (1,), (2,))
    put(tmp_path, CHANGE, ("Op", "id", "n"), ("U", 1, 7), ("U", 2, 8))
    settings = proposed(tmp_path)
    assert settings["Schema"] == "id bigint, n bigint"
    assert bad_values(tmp_path, settings) == 0


def test_a_pair_of_columns_may_be_the_key(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("shop", "order", "note"), *((i // 10, i % 10, "x") for i in range(100)))
    assert proposed(tmp_path)["PrimaryKey"] == "shop,order"


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        (("1", " 1", "2"), None),
        (("1.0", "1.00", "2"), None),
        (("2024-01-01", "2024-01-01 00:00:00", "2024-01-02"), None),
        (("NA", "DE", "FR"), None),
        (("IT", "DE", "FR"), "code"),
    ],
)
def test_a_key_has_distinct_values_also_as_its_type_and_none_is_the_null_text(
    tmp_path: Path, keys: tuple[str, ...], key: str | None
) -> None:
    put(tmp_path, LOAD, ("code", "n"), *zip(keys, ("NA", 4, "NA"), strict=True))
    settings = proposed(tmp_path)
    assert settings["CsvNullValue"] == "NA"
    assert settings.get("PrimaryKey") == key


def test_a_key_is_not_null_in_change_files_either(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("code", "n"), ("DE", 4), ("FR", "NA"))
    assert proposed(tmp_path)["PrimaryKey"] == "code"
    put(tmp_path, CHANGE, ("Op", "code", "n"), ("I", "NA", 5))
    assert "PrimaryKey" not in proposed(tmp_path)


def test_a_column_that_the_newest_file_lacks_is_proposed_unchecked(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"), (1, 4), (2, 5))
    put(tmp_path, CHANGE, ("Op", "ID", "N"), ("U", 1, 5))
    assert "--unchecked" not in finding(tmp_path).paste
    put(tmp_path, CHANGE, ("Op", "id"), ("U", 1))
    assert finding(tmp_path).paste.endswith(" --unchecked")


def put_parquet(root: Path, **columns: pa.Array) -> None:
    path = root / "shop" / "orders" / "LOAD00000001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


IDS, CENT = pa.array([1, 2], pa.int32()), [Decimal("1.25"), Decimal("2.50")]


@pytest.mark.parametrize(
    ("loaded", "values", "kind"),
    [
        (pa.array([1.0, 2.5]), ("4.5", "5.25"), "double"),
        (pa.array([1.0, 2.5]), ("4", "5"), "double"),
        (pa.array([1.0, 2.5], pa.float32()), ("4.5", "5.5"), "float"),
        (pa.array(CENT, pa.decimal128(10, 2)), ("4.5", "5"), "decimal(10,2)"),
        (pa.array(CENT, pa.decimal128(10, 2)), ("4.125", "5"), "decimal(18,3)"),
        (pa.array([1, 2], pa.int32()), ("4", "5"), "int"),
        (pa.array([1, 2], pa.int32()), ("4", "5000000000"), "bigint"),
        (pa.array([1, 2], pa.int64()), ("4", "5.5"), "decimal(20,1)"),
        (pa.array([1, 2], pa.int64()), ("4", "five"), "string"),
        (pa.array(["1", "2"]), ("4", "5"), "string"),
        (pa.array([date(2024, 1, 1)] * 2), ("2024-01-02", "2024-01-03 10:00:00"), "timestamp"),
        (pa.array([0, 1], pa.timestamp("us")), ("2024-01-02", "2024-01-03"), "timestamp"),
        (pa.array([True, False]), ("f", "t"), "boolean"),
        (pa.array([None, None], pa.null()), ("4", "5"), "bigint"),
    ],
)
def test_the_type_in_parquet_files_goes_before_what_values_look_like(
    tmp_path: Path, loaded: pa.Array, values: tuple[str, str], kind: str
) -> None:
    put_parquet(tmp_path, id=IDS, n=loaded)
    put(tmp_path, CHANGE, ("Op", "id", "n"), ("U", 1, values[0]), ("U", 2, values[1]))
    settings = proposed(tmp_path, PrimaryKey="id")
    assert settings == {"Schema": f"id int, n {kind}"}
    assert bad_values(tmp_path, {**settings, "PrimaryKey": "id"}) == 0


def test_the_type_in_the_lake_table_goes_before_what_values_look_like(tmp_path: Path) -> None:
    lake = Schema((Column("ID", "int"), Column("n", "double"), Column("t", "string")))
    put(tmp_path, CHANGE, ("Op", "id", "n", "t", "new"), ("U", 1, 1.5, 5, 6))
    assert proposed(tmp_path, lake)["Schema"] == "id int, n double, t string, new bigint"
    assert "n double: as in the lake table" in finding(tmp_path, lake).details
    put(tmp_path, LOAD, ("id", "n", "t", "new"), (1, 1.5, 5, 6))  # loaded as text, without types
    assert proposed(tmp_path, lake)["Schema"] == "id int, n double, t bigint, new bigint"


def test_values_that_the_lake_table_cannot_have_are_counted(tmp_path: Path) -> None:
    put(tmp_path, CHANGE, ("Op", "id", "n"), ("U", 1, "x"), ("U", 2, "5"))
    found = finding(tmp_path, Schema((Column("id", "bigint"), Column("n", "double"))))
    assert "n string: 1 value does not fit double, the type in the lake table" in found.details


@pytest.mark.parametrize("nulls", [("NA", "null"), ("null", "NA"), ("NULL", "NA"), ("\\N", "null"), ("NULL", "null")])
@pytest.mark.parametrize("counts", [(40, 5), (5, 40), (20, 20)])
def test_with_two_null_texts_nothing_is_found_after_the_proposal_is_followed(
    tmp_path: Path, nulls: tuple[str, str], counts: tuple[int, int]
) -> None:
    (first, second), (few, many) = nulls, counts
    rows = [
        (i, first if i < few else i, second if i < many else i, first if i < few else i, f"2024-01-{i % 28 + 1:02}")
        for i in range(50)
    ]
    put(tmp_path, LOAD, ("id", "a", "b", "c", "day"), *rows)
    settings = proposed(tmp_path)
    assert bad_values(tmp_path, settings) == 0
    assert faults(tmp_path, **settings) == []
    pasted = [one.paste for one in faults(tmp_path) if one.code is Code.CSV_DIALECT]
    assert {shlex.split(paste)[-1] for paste in pasted} <= {f"CsvNullValue={settings.get('CsvNullValue')}"}


def test_a_declared_null_text_stays(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "a", "b"), *((i, "NA" if i < 5 else i, "null" if i < 30 else i) for i in range(50)))
    settings = proposed(tmp_path, CsvNullValue="NA")
    assert settings == {"Schema": "id bigint, a bigint, b string", "PrimaryKey": "id"}
    typed = {"Schema": "id bigint, a bigint, b bigint", "PrimaryKey": "id", "CsvNullValue": "NA"}
    (bad,) = faults(tmp_path, **typed)
    assert (bad.code, bad.paste) == (Code.BAD_ROWS, "")
    assert "two texts for null, 'NA' and 'null'" in bad.fix


def test_nan_is_no_null_text_of_doubles(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "x"), (1, "NaN"), (2, "1e5"), (3, "-Infinity"))
    assert proposed(tmp_path) == {"Schema": "id bigint, x double", "PrimaryKey": "id"}


def test_names_that_need_quotes_and_files_without_a_header_get_a_schema_that_is_read(tmp_path: Path) -> None:
    put(tmp_path / "odd", LOAD, ("id, no", "it's `odd` (1)", "x y"), (1, 2, "a"), (2, 3, "b"))
    settings = proposed(tmp_path / "odd")
    assert settings["PrimaryKey"] == "it's `odd` (1)"  # an attribute of several names separates them by commas
    assert bad_values(tmp_path / "odd", settings) == 0
    put(tmp_path / "bare", LOAD, (1, "a", 2.5), (2, "b", 3.5))
    assert proposed(tmp_path / "bare")["Schema"] == "column_1 bigint, column_2 string, column_3 decimal(18,1)"
    assert "replace column_1 and the like by the columns' names" in finding(tmp_path / "bare").fix


def test_a_first_line_that_may_be_a_row_is_found_and_none_of_its_texts_is_shown(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("Annabel", "Rome"), ("Bob", "Bonn"), ("Eve", "Oslo"))
    (found,) = faults(tmp_path)
    assert found.code is Code.HEADER_UNCLEAR
    assert found.paste == (
        "cdclake tables set shop.orders --set AddColumnName=true\n"
        "cdclake tables set shop.orders --schema '<name type, ...>'"
    )
    assert "Annabel" not in str(found)
    assert [one.code for one in faults(tmp_path, AddColumnName="true")] == [Code.UNTYPED]
    assert [one.code for one in faults(tmp_path, AddColumnName="false")] == [Code.SCHEMA_MISSING, Code.UNTYPED]
    assert [one.code for one in faults(tmp_path, Schema="name string, city string", AddColumnName="false")] == []
    put(tmp_path, "LOAD00000002.csv", ("Joe", "Graz"))
    assert [one.code for one in faults(tmp_path)] == [Code.SCHEMA_MISSING, Code.UNTYPED]
    settings = proposed(tmp_path)
    assert settings["AddColumnName"] == "false"
    assert bad_values(tmp_path, settings) == 0
    assert faults(tmp_path, **settings) == []


def test_a_header_above_texts_is_no_fault(tmp_path: Path) -> None:
    people = [("Ann", "Rome"), ("Bob", "Bonn"), ("Eve", "Oslo"), ("Joe", "Graz"), ("Zoe", "Kiel")]
    put(tmp_path, LOAD, ("name", "city"), *people)
    assert [one.code for one in faults(tmp_path)] == [Code.UNTYPED]
    put(tmp_path, LOAD, ("Name", "City"), *people)
    assert [one.code for one in faults(tmp_path)] == [Code.HEADER_UNCLEAR]
    assert [one.code for one in faults(tmp_path, PrimaryKey="name")] == [Code.UNTYPED]


@pytest.mark.parametrize("row", ["\r", "\x1e"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_proposal_for_other_row_delimiters_reads_the_rows(tmp_path: Path, row: str, delimiter: str) -> None:
    put(tmp_path, LOAD, ("id", "n", "text"), *((i, i, "a. b" if i % 7 else "c") for i in range(20)))
    path = tmp_path / "shop" / "orders" / LOAD
    text = path.read_text(encoding="utf-8").replace(",", delimiter).replace(".", ",").replace("\n", row)
    path.write_bytes((text if delimiter == ";" else text.replace("a, b", '"a, b"')).encode())
    settings = proposed(tmp_path)
    assert settings["Schema"] == "id bigint, n bigint, text string"
    assert bad_values(tmp_path, settings) == 0
    assert faults(tmp_path, **settings) == []
    assert {one.code for one in faults(tmp_path)} == {Code.UNTYPED, Code.CSV_DIALECT}


def test_nothing_is_proposed_before_the_delimiter_is_known(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id",), *((i,) for i in range(5)))
    found = finding(tmp_path)
    assert found.paste == ""
    assert "Set CsvDelimiter first, also if it is ','" in found.fix
    assert proposed(tmp_path, CsvDelimiter=",")["Schema"] == "id bigint"


def test_a_dialect_that_does_not_read_all_rows_is_not_proposed(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n"), *((i, i) for i in range(20)), ("x",))
    path = tmp_path / "shop" / "orders" / LOAD
    path.write_text(path.read_text(encoding="utf-8").replace(",", ";"), encoding="utf-8")
    dialect = next(one for one in faults(tmp_path) if one.code is Code.CSV_DIALECT)
    assert (dialect.paste, "look it up" in dialect.fix) == ("", True)
    found = finding(tmp_path)
    assert found.paste == ""
    assert "and 1 row with another number of fields" in found.fix


@pytest.mark.parametrize("schema", ["id bigint, n string", "N string, ID string"])
def test_declared_columns_are_not_untyped(tmp_path: Path, schema: str) -> None:
    put(tmp_path, LOAD, ("id", "n"), (1, 5), (2, 6))
    assert untyped(faults(tmp_path, Schema=schema)) == []


def test_the_types_of_declared_columns_stay(tmp_path: Path) -> None:
    put(tmp_path, LOAD, ("id", "n", "m"), (1, 5, 6), (2, 6, 7))
    assert finding(tmp_path, Schema="n string").seen.startswith("2 columns untyped")
    assert proposed(tmp_path, Schema="n string")["Schema"] == "id bigint, n string, m bigint"


VALUES = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-50, 50).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.floats().map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["", " ", "NA", "NULL", "n/a", "NaN", "t", "false", "2024-02-30", "1,5", "1e400", "+1", "-0"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=5),
)


DIGITS = st.integers(0, 9).map(str)
COLUMN = st.one_of(*(st.lists(values, min_size=5, max_size=5) for values in (VALUES, DIGITS)))


@examples(thorough=3000, ci=150, test=20)
@given(st.lists(COLUMN, min_size=2, max_size=5))
def test_cdclake_accepts_what_it_proposes(tmp_path_factory: pytest.TempPathFactory, columns: list[list[str]]) -> None:
    root = tmp_path_factory.mktemp("raw")
    put(root, LOAD, [f"column {i}" for i in range(len(columns))], *zip(*columns, strict=True))
    for found in untyped(faults(root)):
        settings = attributes_in(found)
        settings.pop("PrimaryKey", None)
        assert bad_values(root, settings) == 0
