"""Takes bad rows that were put aside into the table after all, read once more by the settings as they are now."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cdclake.commit.quarantine import quarantined_files
from cdclake.errors import InputError
from cdclake.lake.merge.rewrite_plan import unchanged_files
from cdclake.lake.operations.commit import commit, snapshot_after
from cdclake.lake.operations.compute import compute, require_same_keys, table_shape
from cdclake.lake.operations.history import base_schema
from cdclake.lake.raw.reader import Slice, inspect
from cdclake.lake.spark.in_process import InProcessSpark
from cdclake.model.change import ChangeKind
from cdclake.model.rawfiles import RawKind
from cdclake.model.schema import merge_schemas
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.snapshot import Snapshot

_MOST_NAMES = 3


def release(run: TableRun, names: Collection[str], reason: str = "", made_by: str = "") -> dict[str, Any]:
    """Take the bad rows of some raw files into the table, as one change. In this process: they are few.

    They get the positions that they would have had, so later changes of their keys count for more. A row that is bad
    still is put aside again, by this change.

    Args:
        run: The table, its settings mended.
        names: Raw files, relative to the table's raw folder, that `cdclake.commit.quarantine.quarantined_files` lists.
        reason: Why, for the change record.
        made_by: Who, likewise.

    Returns:
        Summary of the change; `change` is None if there are no such rows.

    Raises:
        InputError: A raw file is gone, lies behind the late window or was written anew by an erasure, or more rows are
            bad still than may be put aside.
        ConfigurationError: The table's keys are not those that the lake table was made with.
    """
    started = time.perf_counter()
    before = run.current()
    numbers: dict[str, set[int]] = {}
    put_aside_in: dict[str, int] = {}
    for found in quarantined_files(run.log, before.change):
        if found.raw_file in names:
            numbers.setdefault(found.raw_file, set()).update(row["row"] for row in found.rows if row["row"] is not None)
            put_aside_in[found.raw_file] = found.change  # of several changes the oldest, which comes last
    if not numbers:
        return {"table": str(run.layout.name), "change": None, "reason": "no bad rows of these files are put aside"}
    files = _raw_files(run, before, numbers)
    _check_numbers(run, before, put_aside_in)
    fs = run.raw_fs.open()
    looks = [inspect(fs, file, run.settings) for file in files]
    schema = base_schema(run, before, reloads=False)
    for file, look in zip(files, looks, strict=True):
        schema = merge_schemas(schema, look.schema, file.relative)
    shape = table_shape(run, schema)
    require_same_keys(run, before, shape)
    parts = [Slice(file, file.size_bytes, only_rows=frozenset(numbers[file.relative])) for file in files]
    spark = InProcessSpark()
    result = compute(run, spark, before, shape, parts).after_listing(time.perf_counter() - started)
    after = snapshot_after(run, before, shape, result, unchanged_files(before.files, result.rewritten))
    return commit(run, before, after, result, ChangeKind.RELEASE, files, reason=reason, made_by=made_by)


def _raw_files(run: TableRun, before: Snapshot, names: Collection[str]) -> list[RawFile]:
    """The raw files as they lie in the raw bucket.

    Raises:
        InputError: One is not there, or is too old.
    """
    full_load, changes = list_raw_files(run.raw, run.raw_prefix, run.settings.cdc_path)
    there = {file.relative: file for file in (*full_load, *changes)}
    gone = sorted(name for name in names if name not in there)
    if gone:
        message = f"{len(gone)} raw files that bad rows are of are no longer in the raw bucket"
        remedy = "Leave them out, or insert the rows by hand; nothing was changed"
        raise InputError(message, remedy=remedy, table=run.layout.name, file=", ".join(gone[:_MOST_NAMES]))
    found = [there[name] for name in sorted(names)]
    old = [file.relative for file in found if file.kind is RawKind.CHANGE and file.order < before.horizon]
    if old:
        message = f"{len(old)} raw files lie behind the late window, and deletes since then are not remembered"
        remedy = "Leave them out, or insert the rows by hand; nothing was changed"
        raise InputError(message, remedy=remedy, table=run.layout.name, file=", ".join(old[:_MOST_NAMES]))
    return found


def _check_numbers(run: TableRun, before: Snapshot, put_aside_in: Mapping[str, int]) -> None:
    """Look that rows are still where they were in their raw files. What an erasure wrote anew no rollback brings back.

    Args:
        put_aside_in: Raw file to the number of the change that put rows of it aside.

    Raises:
        InputError: An erasure has taken rows out of a raw file since, and the others have other numbers.
    """
    oldest = min(put_aside_in.values())
    since = takewhile(lambda record: record.change > oldest, run.log.newest_first(before.change))
    erasures = [record for record in since if record.kind is ChangeKind.ERASURE]
    moved = [
        name
        for name, change in sorted(put_aside_in.items())
        if any(name in record.raw_files and record.change > change for record in erasures)
    ]
    if moved:
        message = f"An erasure took rows out of {len(moved)} raw files, in which others now have other numbers"
        remedy = "Leave these files out, or insert the rows by hand; nothing was changed"
        raise InputError(message, remedy=remedy, table=run.layout.name, file=", ".join(moved[:_MOST_NAMES]))
