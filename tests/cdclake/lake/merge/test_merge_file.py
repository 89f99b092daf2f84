"""The per-file kernel, resolve and merge, against the plain rules: thousands of small files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from cdclake.lake.merge.existing_rows import existing_rows_schema
from cdclake.lake.merge.merge_file import MergeResult, MergeSpec, merge
from cdclake.lake.merge.resolve import FILE_INDEX, PARTITION_ID, SOFT_DELETED, Counts, ResolvedBatch, resolve
from cdclake.lake.merge.tasks.write_file import removed_keys
from cdclake.lake.storage.keys import KEY, LEADING_KEY
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.tombstones import tombstone_schema
from cdclake.model.schema import Column, Schema
from cdclake.model.snapshot import DataFile
from tests.examples import examples

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = TableShape(Schema((Column("id", "bigint"), Column("n", "int"))), ("id",), ())
SOFT = replace(SHAPE, soft_delete=True)


class Row(NamedTuple):
    """A row of the lake, or a change: value (None: a delete), position, and whether it is soft-deleted."""

    n: int | None
    position: str
    deleted: bool = False


positions = st.integers(0, 40).map(lambda number: f"{number:02d}")
keys = st.integers(0, 8)
lake_rows = st.dictionaries(keys, st.builds(Row, st.integers(0, 99), st.just("") | positions, st.booleans()))
tombstones_drawn = st.lists(st.tuples(keys, positions), max_size=6)
change_rows = st.dictionaries(positions, st.tuples(keys, st.none() | st.integers(100, 199)), max_size=15)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel")


def test_rows_around_a_range_of_keys_are_in_one_file(folder: Path) -> None:
    bases = []
    for name, ids in (("first", [1, 9, 5, 3, 7]), ("second", [4, 6])):
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist([{"id": one, "n": 0, "Op": "I"} for one in ids], SHAPE.stored), path)
        bases.append(DataFile(str(path), len(ids), path.stat().st_size, (), min(ids), max(ids)))
    keys = tuple(str(folder / f"around-{number}.parquet") for number in range(3))
    removed = pa.table({LEADING_KEY: [9], KEY: [9]})
    added = in_flight({"20": (8, 1), "21": (2, 1)})
    for file_count, expected in ((2, [[1, 7, 2, 8], [5, 3, 4, 6]]), (3, [[1, 2], [5, 3, 4, 6], [7, 8]])):
        spec = MergeSpec(tuple(bases), (), file_count, keys, cuts=(3, 7))
        written = merge(fs.LocalFileSystem(), spec, SHAPE, removed, added).files
        assert [pq.read_table(file.path)["id"].to_pylist() for file in written] == expected
        assert [(file.key_min, file.key_max) for file in written] == [(min(ids), max(ids)) for ids in expected]


def in_flight(changes: dict[str, tuple[int, int | None]]) -> pa.Table:
    rows = [
        {"id": key, "n": n, "Op": "D" if n is None else "U", "_cdc_position": position, LEADING_KEY: key, KEY: key}
        for position, (key, n) in changes.items()
    ]
    return pa.Table.from_pylist(rows, SHAPE.in_flight)


def existing_rows(lake: dict[int, Row], wanted: set[int]) -> pa.Table:
    rows = [
        {
            LEADING_KEY: key,
            KEY: key,
            "_cdc_position": held.position,
            FILE_INDEX: 0,
            PARTITION_ID: "",
            SOFT_DELETED: held.deleted,
        }
        for key, held in lake.items()
        if key in wanted
    ]
    return pa.Table.from_pylist(rows, existing_rows_schema(SHAPE, complete=False))


def tombstone_rows(tombstones: list[tuple[int, str]], wanted: set[int]) -> pa.Table:
    rows = [{LEADING_KEY: key, KEY: key, "_cdc_position": position} for key, position in tombstones if key in wanted]
    return pa.Table.from_pylist(rows, tombstone_schema(SHAPE))


def expected(
    lake: dict[int, Row], tombstones: list[tuple[int, str]], changes: dict[str, tuple[int, int | None]]
) -> dict[int, Row]:
    """The last change of a key wins if it is later than the lake's row and tombstone; no row is soft-deleted."""
    table = {key: held for key, held in lake.items() if not held.deleted}
    for position, (key, n) in sorted(changes.items()):
        deleted_at = max((at for deleted, at in tombstones if deleted == key), default=None)
        known = [at for at in (deleted_at, lake[key].position if key in lake else None) if at is not None]
        if any(position <= at for at in known):
            continue
        table.pop(key, None)
        if n is not None:
            table[key] = Row(n, position)
    return table


def expected_softly(
    lake: dict[int, Row], tombstones: list[tuple[int, str]], changes: dict[str, tuple[int, int | None]]
) -> dict[int, Row]:
    """The last insert or update of a key stays, soft-deleted if a delete follows."""
    table = {}
    for key in lake.keys() | {key for key, _ in changes.values()}:
        held, deleted_at = lake.get(key), max((at for deleted, at in tombstones if deleted == key), default="")
        news = [(at, n) for at, (of, n) in sorted(changes.items()) if of == key and (not held or at > held.position)]
        upserts = [Row(n, at) for at, n in news if n is not None]
        deletes = [at for at, n in news if n is None and at > deleted_at]
        if upserts:
            row = upserts[-1]
            table[key] = row._replace(deleted=max([deleted_at, *deletes]) >= row.position)
        elif held:
            table[key] = held._replace(deleted=held.deleted or bool(deletes))
    return table


def write_base(path: Path, lake: dict[int, Row]) -> None:
    rows = [
        {"id": key, "n": held.n, "Op": "D" if held.deleted else "I", "_cdc_position": held.position}
        for key, held in lake.items()
    ]
    pq.write_table(pa.Table.from_pylist(rows, SHAPE.stored), path, row_group_size=3)


def merged(
    folder: Path, lake: dict[int, Row], resolved: ResolvedBatch, file_count: int, shape: TableShape
) -> MergeResult:
    empty = shape.in_flight.empty_table()
    additions = pa.concat_tables([empty, *resolved.replacements.values(), resolved.inserts.rows])
    removed, soft_deleted = removed_keys(list(resolved.removals.values()), shape)
    staged = tuple(f"new-{file}.parquet" for file in range(file_count))
    base = DataFile("base.parquet", len(lake), (folder / "base.parquet").stat().st_size)
    spec = MergeSpec((base,) if lake else (), (), file_count, staged, purge_soft_deleted=not shape.soft_delete)
    return merge(fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), spec, shape, removed, additions, soft_deleted)


def check(
    folder: Path,
    lake: dict[int, Row],
    tombstones: list[tuple[int, str]],
    changes: dict[str, tuple[int, int | None]],
    file_count: int,
    shape: TableShape,
) -> Counts:
    """Check the written files against the rules, and each file against its statistics."""
    wanted = {key for key, _ in changes.values()}
    resolved = resolve(in_flight(changes), existing_rows(lake, wanted), tombstone_rows(tombstones, wanted), shape)
    write_base(folder / "base.parquet", lake)
    result = merged(folder, lake, resolved, file_count, shape)

    table = (expected_softly if shape.soft_delete else expected)(lake, tombstones, changes)
    tables = [pq.read_table(folder / file.path) for file in result.files]
    rows = [row for one in tables for row in one.to_pylist()]
    assert {row["id"]: Row(row["n"], row["_cdc_position"], row["Op"] == "D") for row in rows} == table
    assert len(rows) == len(table)
    for file, one in zip(result.files, tables, strict=True):
        assert (file.rows, file.key_min, file.key_max, file.deleted) == (
            len(one),
            min(one["id"].to_pylist()),
            max(one["id"].to_pylist()),
            one["Op"].to_pylist().count("D"),
        )

    counts = resolved.counts
    assert counts.applied + counts.superseded == len(changes)
    assert counts.inserted + counts.updated + counts.deleted + counts.absent == counts.applied
    live_before, live_after = (sum(not held.deleted for held in state.values()) for state in (lake, table))
    assert live_before + counts.inserted - counts.deleted == live_after
    return counts


@pytest.mark.xdist_group("first half")
@examples(thorough=10_000, ci=200, test=100)
@given(lake=lake_rows, tombstones=tombstones_drawn, changes=change_rows, file_count=st.integers(1, 3))
def test_the_kernel_equals_the_rules_and_counts_soft_deletes_as_deletes(
    folder: Path,
    lake: dict[int, Row],
    tombstones: list[tuple[int, str]],
    changes: dict[str, tuple[int, int | None]],
    file_count: int,
) -> None:
    live = {key: held.position for key, held in lake.items() if not held.deleted}
    older = [(key, at) for key, at in tombstones if at <= live.get(key, at)]  # a live row has no later tombstone
    hard, soft = (check(folder, lake, older, changes, file_count, shape) for shape in (SHAPE, SOFT))
    assert hard == soft
