"""The record reader and Arrow's parser agree, and the split of a file into chunks makes no difference."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.lake.raw.csv_records import RecordFormat, UnclosedQuoteError, end_of_records, has_misplaced_quote, records
from cdclake.model.table.settings import CsvDialect

DIALECTS = st.builds(
    CsvDialect,
    delimiter=st.sampled_from([",", "|", "¦"]),
    row_delimiter=st.sampled_from(["\n", "\r\n", ";", "|~|\n"]),
    null_value=st.sampled_from(["NULL", ""]),
    quoting=st.booleans(),
)
noise = st.lists(st.sampled_from(['"', ",", "\n", "\r\n", "a", '""', "NULL", ";", "|~|\n", "¦"]), max_size=25).map(
    "".join
)


def fields(data: bytes, dialect: CsvDialect) -> list[list[bytes | None]]:
    return [record.fields for record in records(data, RecordFormat.of(dialect), whole=True)]


def by_arrow(data: bytes, width: int) -> list[list[bytes | None]]:
    names = [str(i) for i in range(width)]
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=["NULL"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [list(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("null", ["NULL", ""])
def test_an_empty_line_is_blank_whatever_the_text_for_null_is(null: str) -> None:
    form = RecordFormat.of(CsvDialect(null_value=null))
    found = records(b'\n\r\n""\nNULL\na\n,\n', form, whole=True)
    assert [record.blank for record in found] == [True, True, True, False, False, False]


@given(st.lists(st.sampled_from(['"', ",", "\n", "\r\n", "a", '""', "NULL", ' "', '" ']), min_size=1, max_size=25))
def test_records_equal_those_of_arrow(pieces: list[str]) -> None:
    data = "".join(pieces).encode() + b"\n"
    try:
        found = fields(data, CsvDialect())
    except UnclosedQuoteError:
        return
    widths = {len(record) for record in found}
    if len(widths) == 1 and data.strip(b"\r\n"):
        assert by_arrow(data, widths.pop()) == found


@given(DIALECTS, noise, st.integers(0, 60))
def test_splitting_text_at_record_ends_keeps_the_records(dialect: CsvDialect, text: str, at: int) -> None:
    data, form = text.encode(), RecordFormat.of(dialect)
    end = end_of_records(data[:at], form)
    assert end <= at
    try:
        whole = fields(data, dialect)
    except UnclosedQuoteError:
        return
    assert fields(data[:end], dialect) + fields(data[end:], dialect) == whole
    starts = {record.start for record in records(data, form, whole=True)}
    assert end in starts | {0, len(data)}


@given(st.lists(st.lists(st.none() | st.text(max_size=5), min_size=2, max_size=2), min_size=1, max_size=6), DIALECTS)
def test_rfc_4180_text_round_trips(rows: list[list[str | None]], dialect: CsvDialect) -> None:
    if not dialect.quoting or dialect.null_value == "":
        return
    lines = [
        dialect.delimiter.join("NULL" if text is None else '"' + text.replace('"', '""') + '"' for text in row)
        for row in rows
    ]
    data = dialect.row_delimiter.join(lines).encode("utf-8", "surrogatepass")
    expected = [[None if text is None else text.encode("utf-8", "surrogatepass") for text in row] for row in rows]
    assert fields(data, dialect) == expected


@given(st.lists(st.sampled_from(['"', '"', ",", "\n", "\r\n", "a", '","', '"\n"']), min_size=1, max_size=25))
def test_a_misplaced_quote_of_plain_text_is_that_of_one_of_its_records(pieces: list[str]) -> None:
    data, form = "".join(pieces).encode() + b"\n", RecordFormat.of(CsvDialect())
    try:
        marked = any(record.misplaced_quote for record in records(data, form, whole=True))
    except UnclosedQuoteError:
        return
    assert has_misplaced_quote(data, form) == marked


def test_without_quoting_no_quote_is_misplaced() -> None:
    form = RecordFormat.of(CsvDialect(quoting=False))
    assert not has_misplaced_quote(b'1,"a" b\n', form)
    assert not any(record.misplaced_quote for record in records(b'1,"a" b\n', form, whole=True))


def test_without_quoting_quotes_are_plain_characters() -> None:
    assert fields(b'1,"a\n2,b"c"\n', CsvDialect(quoting=False)) == [[b"1", b'"a'], [b"2", b'b"c"']]


def test_an_unclosed_quote_is_an_error() -> None:
    with pytest.raises(UnclosedQuoteError):
        fields(b'1,"a\n2,b\n', CsvDialect())


def test_with_another_row_delimiter_fields_may_contain_newlines() -> None:
    dialect = CsvDialect(row_delimiter="|~|")
    assert fields(b"1,a\nb|~|2,c|d|~|", dialect) == [[b"1", b"a\nb"], [b"2", b"c|d"]]
