"""The layout of data files: row groups, dictionaries and texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.storage import writer as file_writer
from cdclake.lake.storage.reader import read_batches
from cdclake.lake.storage.shape import ENCODED_TEXT, TableShape
from cdclake.lake.storage.writer import DataFileWriter, Encodings
from cdclake.model.schema import Column, Schema

if TYPE_CHECKING:
    from pathlib import Path


SHAPE = TableShape(Schema((Column("id", "bigint"), Column("city", "string"), Column("note", "string"))), ("id",), ())


def rows(first: int, count: int, cities: list[str] | None = None) -> pa.Table:
    ids = range(first, first + count)
    names = cities or ["Ulm", "Köln"]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": [names[i % len(names)] for i in ids],
            "note": [f"note {i}" for i in ids],
            "Op": ["I"] * count,
            "_cdc_position": [""] * count,
        }
    )


def write(
    folder: Path,
    tables: list[pa.Table],
    name: str = "a.parquet",
    encodings: Encodings | None = None,
    limits: EngineLimits = DEFAULT_LIMITS,
) -> pq.ParquetFile:
    shape = replace(SHAPE, limits=limits)
    writer = DataFileWriter(LocalFileSystem(), [str(folder / name)], shape, (), 10**9, encodings)
    for table in tables:
        writer.write(table)
    writer.close()
    return pq.ParquetFile(folder / name)


def encoded_batches(path: Path) -> list[pa.Table]:
    return list(read_batches(LocalFileSystem(), str(path), SHAPE, encoded=True))


def test_small_batches_become_one_row_group(tmp_path: Path) -> None:
    written = write(tmp_path, [rows(0, 1000), rows(1000, 1), rows(1001, 10)])
    assert written.num_row_groups == 1
    assert written.read()["id"].to_pylist() == list(range(1011))


def test_a_row_group_has_a_bounded_number_of_rows(tmp_path: Path) -> None:
    written = write(tmp_path, [rows(0, 250), rows(250, 30)], limits=EngineLimits(row_group_rows=100))
    assert [written.metadata.row_group(i).num_rows for i in range(written.num_row_groups)] == [100, 100, 80]
    assert written.read()["id"].to_pylist() == list(range(280))


@pytest.mark.parametrize(("row_bytes", "rows"), [(100, 16_384), (1_000, 2_097), (1_000_000, 1_024)])
def test_fewer_long_rows_are_encoded_at_once(row_bytes: float, rows: int) -> None:
    assert file_writer.batch_rows(row_bytes) == rows


def test_only_repetitive_columns_are_written_with_a_dictionary(tmp_path: Path) -> None:
    written = write(tmp_path, [rows(0, 20_000)])
    assert columns_with_dictionary(written) == {"city", "Op", "_cdc_position"}


def columns_with_dictionary(written: pq.ParquetFile) -> set[str]:
    group = written.metadata.row_group(0)
    columns = map(group.column, range(group.num_columns))
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


def test_small_files_share_a_choice_of_dictionaries(tmp_path: Path) -> None:
    encodings, distinct = Encodings(), [f"city {i}" for i in range(10_000)]
    small = write(tmp_path, [rows(0, 100)], "a.parquet", encodings)
    like_it = write(tmp_path, [rows(100, 150, distinct)], "b.parquet", encodings)
    longer = write(tmp_path, [rows(250, 400, distinct)], "c.parquet", encodings)
    large = write(tmp_path, [rows(0, 20_000)], "d.parquet", encodings)
    own = {"city", "Op", "_cdc_position"}
    assert columns_with_dictionary(small) == columns_with_dictionary(like_it) == columns_with_dictionary(large) == own
    assert columns_with_dictionary(longer) == own - {"city"}
    assert like_it.read().to_pylist() == rows(100, 150, distinct).to_pylist()


def test_larger_files_share_a_choice_if_they_may(tmp_path: Path) -> None:
    distinct = [f"city {i}" for i in range(10_000)]
    for shared_rows, has_own in ((8_192, True), (20_000, False)):
        encodings = Encodings(shared_rows)
        write(tmp_path, [rows(0, 10_000)], "a.parquet", encodings)
        second = write(tmp_path, [rows(10_000, 10_000, distinct)], "b.parquet", encodings)
        assert ("city" not in columns_with_dictionary(second)) == has_own


def test_repetitive_texts_stay_encoded_in_a_rewrite(tmp_path: Path) -> None:
    write(tmp_path, [rows(0, 20_000)])
    (batch,) = encoded_batches(tmp_path / "a.parquet")
    assert {field.name for field in batch.schema if field.type == ENCODED_TEXT} == {"city", "Op", "_cdc_position"}
    again = write(tmp_path, [batch.slice(5), rows(20_000, 3, ["Bonn"])], "b.parquet")
    assert again.num_row_groups == 1
    assert again.schema_arrow.field("city").type == pa.string()
    expected = pa.concat_tables([rows(5, 19_995), rows(20_000, 3, ["Bonn"])])
    assert again.read().to_pylist() == expected.to_pylist()
    plain_bytes = write(tmp_path, [expected], "c.parquet").metadata.row_group(0).total_byte_size
    assert again.metadata.row_group(0).total_byte_size <= 1.01 * plain_bytes  # still dictionary-encoded


def test_plain_and_encoded_texts_mix_in_one_file(tmp_path: Path) -> None:
    write(tmp_path, [rows(0, 5_000)])
    (batch,) = encoded_batches(tmp_path / "a.parquet")
    both = write(tmp_path, [rows(5_000, 10), batch, rows(5_010, 10)], "b.parquet").read()
    expected = pa.concat_tables([rows(5_000, 10), rows(0, 5_000), rows(5_010, 10)])
    assert both.to_pylist() == expected.to_pylist()


def test_nulls_survive_with_and_without_encoding(tmp_path: Path) -> None:
    table = rows(0, 6_000).set_column(1, "city", pa.array([None, "Ulm", ""] * 2_000))
    write(tmp_path, [table])
    (batch,) = encoded_batches(tmp_path / "a.parquet")
    assert write(tmp_path, [batch, table], "b.parquet").read()["city"].to_pylist() == [None, "Ulm", ""] * 4_000


def test_the_text_of_a_removed_row_is_not_in_the_new_file(tmp_path: Path) -> None:
    cities: list[str | None] = ["Ulm", "Köln", None, "Zwickau-Süd"]
    table = rows(0, 8_000).set_column(1, "city", pa.array(cities * 2_000, pa.string()))
    write(tmp_path, [table])
    (batch,) = encoded_batches(tmp_path / "a.parquet")
    assert batch.schema.field("city").type == ENCODED_TEXT
    kept = [city for city in cities if city != "Zwickau-Süd"]
    again = write(tmp_path, [batch.filter(pc.fill_null(pc.not_equal(batch["city"], "Zwickau-Süd"), True))], "b.parquet")
    assert again.read()["city"].to_pylist() == kept * 2_000
    content = (tmp_path / "b.parquet").read_bytes()
    assert "Köln".encode() in content
    assert b"Zwickau" not in content
