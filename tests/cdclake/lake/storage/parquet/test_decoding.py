"""Row groups are read in steps of bounded size in memory, whatever their footers and encodings."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from cdclake.lake.limits import EngineLimits
from cdclake.lake.raw import parquet
from cdclake.lake.storage.parquet.decoding import decoded, plan_step
from cdclake.lake.storage.parquet.footer import footer_of
from cdclake.lake.storage.wide_rows import row_bytes
from tests.examples import examples

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 10_000
VALUE_BYTES = 16
"""Most bytes of a value that is no text, its offset or its validity."""

COLUMNS = st.one_of(
    st.tuples(st.just("numbers"), st.integers(1, 3)),
    st.tuples(
        st.sampled_from(["PLAIN", "dictionary", "DELTA_BYTE_ARRAY", "bytes", "stored dictionary"]), st.integers(1, 60)
    ),
)


def column(kind: str, distinct: int, runs: list[tuple[int, int]]) -> pa.Array:
    """Values of some length, repeated in runs."""
    texts: list[Any] = []
    for number, (length, count) in enumerate(runs):
        texts += [None if length == 0 else f"{(number * 7 + i) % distinct:03d}" + "x" * length for i in range(count)]
    if kind == "numbers":
        return pa.array([None if text is None else len(text) for text in texts], pa.int64())
    values = pa.array(texts, pa.string())
    if kind == "stored dictionary":
        return values.dictionary_encode()
    return values.cast(pa.binary()) if kind == "bytes" else values


def bound_bytes(batch: pa.RecordBatch) -> int:
    """`MAX_BYTES`, what a single long row needs, and what is no text."""
    longest = int(row_bytes(pa.Table.from_batches([batch])).max(initial=0))
    columns: int = batch.num_columns
    return MAX_BYTES + longest + len(batch) * columns * VALUE_BYTES


@examples(thorough=5_000, ci=150, test=20)
@given(
    columns=st.lists(COLUMNS, min_size=1, max_size=4),
    runs=st.lists(st.tuples(st.sampled_from([0, 1, 30, 500, 3_000]), st.integers(1, 120)), min_size=1, max_size=5),
    row_group_rows=st.integers(1, 400),
    is_dictionary_short=st.booleans(),
)
def test_no_step_needs_more_memory_than_its_limit(
    columns: list[tuple[str, int]], runs: list[tuple[int, int]], row_group_rows: int, *, is_dictionary_short: bool
) -> None:
    kinds = {f"c{i}": kind for i, (kind, _) in enumerate(columns)}
    rows = pa.table({f"c{i}": column(*one, runs) for i, one in enumerate(columns)})
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        row_group_size=row_group_rows,
        use_dictionary=[name for name, kind in kinds.items() if kind in ("dictionary", "bytes", "stored dictionary")],
        column_encoding={name: kind for name, kind in kinds.items() if kind == "DELTA_BYTE_ARRAY"},
        dictionary_pagesize_limit=2_000 if is_dictionary_short else 1 << 20,
        write_batch_size=16,
    )
    source = pa.BufferReader(sink.getvalue())
    footer, schema = footer_of(source), pq.read_schema(source)
    read = []
    for number, group in enumerate(footer.row_groups):
        mean = max(1, group.rows * MAX_BYTES // max(group.memory_bytes, MAX_BYTES))  # plain texts are as in the file
        step = plan_step(source, footer, schema, [number], schema.names, mean, MAX_BYTES)
        file = pq.ParquetFile(source, read_dictionary=list(step.dictionaries))
        for batch in file.iter_batches(step.rows, row_groups=[number]):
            if "PLAIN" not in kinds.values() and not is_dictionary_short:
                texts = [one for one in batch.columns if not pa.types.is_dictionary(one.type)]
                assert sum(one.nbytes for one in texts) <= bound_bytes(batch)
            read += list(decoded(batch, (), MAX_BYTES))
    for batch in read:
        assert not any(map(pa.types.is_dictionary, batch.schema.types))
        assert batch.nbytes <= bound_bytes(batch) or "PLAIN" in kinds.values()
    assert list(chain.from_iterable(batch.to_pylist() for batch in read)) == rows.to_pylist()


@pytest.mark.parametrize("encoding", ["dictionary", "stored dictionary", "DELTA_BYTE_ARRAY", "many columns"])
def test_batches_of_a_small_raw_file_stay_small_in_memory(tmp_path: Path, encoding: str) -> None:
    count, limit = 20_000, 1 << 20
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * (count // 2) + [1] * (count // 2), pa.int32()), ["y", "x" * 10_000]
    )
    columns: dict[str, pa.Array] = {"text": texts if encoding == "stored dictionary" else texts.cast(pa.string())}
    if encoding == "many columns":
        columns = {f"c{i}": pa.repeat(pa.scalar(1, pa.int64()), count) for i in range(150)}
    path = tmp_path / "LOAD00000001.parquet"
    delta = {"text": encoding} if encoding == "DELTA_BYTE_ARRAY" else None
    pq.write_table(pa.table(columns), path, use_dictionary=not delta, column_encoding=delta, row_group_size=count)
    assert path.stat().st_size < 200_000
    default = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(default)
    pa.set_memory_pool(pool)
    try:
        sizes = [
            (batch.columns.num_rows, batch.columns.nbytes)
            for batch in parquet.batches(LocalFileSystem(), str(path), None, 0, limits=EngineLimits(batch_bytes=limit))
        ]
    finally:
        pa.set_memory_pool(default)
    assert sum(rows for rows, _ in sizes) == count
    assert max(size for _, size in sizes) <= 1.1 * limit
    assert pool.max_memory() < 12 * limit  # decoded, the file has 100 or 24 times the limit
