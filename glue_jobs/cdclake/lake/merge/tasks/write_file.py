"""Writes the data files of one task, and its tombstone file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.merge.merge_file import MergeSpec, merge
from cdclake.lake.merge.resolve import KEPT_AS_DELETED
from cdclake.lake.merge.sorted_rows import SortedRows, parts_of
from cdclake.lake.merge.tasks.cuts import cuts_around
from cdclake.lake.raw.quarantine import Quarantine, quarantine_rows
from cdclake.lake.storage.reader import fetched_together, uncompressed_bytes
from cdclake.lake.storage.tombstones import TombstonePlan, tombstone_schema, write_tombstones

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.adapters.filesystem import FetchedFiles
    from cdclake.lake.merge.read_changes import Locations
    from cdclake.lake.merge.rewrite_plan import RewritePlan
    from cdclake.lake.merge.tasks.route import TaskEdits
    from cdclake.lake.spark.backend import Task
    from cdclake.lake.storage.shape import TableShape
    from cdclake.lake.storage.writer import Encodings
    from cdclake.model.snapshot import DataFile, KeyValue, TombstoneFile


@dataclass(frozen=True)
class WriteResult:
    """What a task wrote.

    Attributes:
        files: Data files; `path` is the staged key.
        tombstones: A tombstone file.
        forgotten: Greatest position of a tombstone that it dropped; empty if it dropped none.
    """

    files: tuple[DataFile, ...] = ()
    tombstones: tuple[TombstoneFile, ...] = ()
    forgotten: str = ""
    quarantine: Quarantine = Quarantine()  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class WriteContext:
    """What all tasks of a rewrite share.

    Attributes:
        plan: The rewrite's tasks.
        tombstone_plan: The plan for the tombstone files; the task after the plan's last executes it.
        files: The data files that the tasks replace, by index.
        full_load: Whether the rows are a full load's.
        max_bad_rows: Number of bad rows that the change may quarantine.
        repeated: See `MergeSpec.repeated`.
    """

    plan: RewritePlan
    tombstone_plan: TombstonePlan
    files: Mapping[int, DataFile]
    shape: TableShape
    locations: Locations
    full_load: bool
    max_bad_rows: int
    repeated: frozenset[str] = frozenset()

    def bases(self, task: Task) -> tuple[DataFile, ...]:
        """The data files that a task replaces, `path` being the object key."""
        files = (self.files[i] for i in self.plan.tasks[task.number].bases)
        return tuple(replace(file, path=self.locations.layout.data_key(file.path)) for file in files)

    @contextmanager
    def bases_in_turn(self, task: Task, fs: FileSystem) -> Iterator[FileSystem | FetchedFiles]:
        """Where a task reads its bases, see `fetched_together`, in its turn to have their rows in memory."""
        bases = self.bases(task)
        source = fetched_together(fs, bases, self.shape.limits)
        with task.turn(partial(uncompressed_bytes, source, bases)):
            yield source


def write_files(
    fs: FileSystem, task: Task, edits: TaskEdits, *, context: WriteContext, encodings: Encodings
) -> WriteResult:
    """Write the files of one task of the rewrite.

    Args:
        encodings: Shared with other tasks of the rewrite.
    """
    locations, shape = context.locations, context.shape
    if task.number == len(context.plan.tasks):
        key = f"{locations.tombstones}-{task.attempt}.parquet"
        new = pa.concat_tables([tombstone_schema(shape).empty_table(), *(parts_of(edits.rows) if edits.rows else ())])
        file, forgotten = write_tombstones(fs, key, context.tombstone_plan, new, shape)
        return WriteResult(tombstones=(file,), forgotten=forgotten)
    removed, soft_deleted = removed_keys(edits.removals, shape)
    file_count = context.plan.tasks[task.number].file_count
    added = edits.rows or shape.in_flight.empty_table()
    with context.bases_in_turn(task, fs) as source:
        return rewrite_files(fs, task, context, removed, added, soft_deleted, file_count, source, encodings)


def rewrite_files(
    fs: FileSystem,
    task: Task,
    context: WriteContext,
    removed: pa.Table | None,
    added: pa.Table | SortedRows,
    soft_deleted: pa.Table | None,
    file_count: int,
    source: FileSystem,
    encodings: Encodings | None = None,
) -> WriteResult:
    """Write the data files of a task without removed rows and with added ones, see `merge`.

    Args:
        file_count: Number of files to write, unless they are cut around the rows that change.
    """
    locations, shape = context.locations, context.shape
    target, bases = context.plan.tasks[task.number], context.bases(task)
    cuts: Sequence[KeyValue] = target.cuts
    if cuts:
        file_count = target.file_count
    elif target.sizes and target.bases and isinstance(added, pa.Table):
        cuts = cuts_around(source, bases, shape, added, (removed, soft_deleted), target.sizes)
        file_count = len(cuts) + 1 if cuts else file_count
    spec = MergeSpec(
        bases=bases,
        partition=target.partition,
        file_count=file_count,
        staged_keys=tuple(
            f"{locations.staging}{task.number:05d}-{file:03d}-{task.attempt}.parquet" for file in range(file_count)
        ),
        cuts=tuple(cuts),
        full_load=context.full_load,
        repeated=context.repeated,
        purge_soft_deleted=not shape.soft_delete and any(base.deleted for base in bases),
    )
    merged = merge(fs, spec, shape, removed, added, soft_deleted, source, encodings)
    quarantine_key = f"{locations.quarantine}write-{task.number:05d}.jsonl"
    quarantine = quarantine_rows(fs, quarantine_key, merged.duplicates, context.max_bad_rows)
    return WriteResult(merged.files, quarantine=quarantine)


def removed_keys(removals: Sequence[pa.Table], shape: TableShape) -> tuple[pa.Table | None, pa.Table | None]:
    """Leading keys and keys of rows to remove from their files, and of rows to soft-delete there.

    Args:
        removals: See `ResolvedBatch.removals`.
    """
    if not removals:
        return None, None
    keys = pa.concat_tables(removals)
    if not shape.soft_delete:
        return keys, None
    return keys.filter(pc.invert(keys[KEPT_AS_DELETED])), keys.filter(keys[KEPT_AS_DELETED])
