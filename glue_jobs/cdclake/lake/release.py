"""Takes bad rows that were put aside into the table after all, read once more by the settings as they are now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from cdclake.commit.put_aside import put_aside
from cdclake.errors import InputError
from cdclake.lake.compute import compute, require_same_keys, shape_of
from cdclake.lake.finish import finish, snapshot_after
from cdclake.lake.history import columns_before
from cdclake.lake.in_process import InProcessSpark
from cdclake.lake.raw_reader import Slice, inspect
from cdclake.lake.rewrite_plan import files_that_stay
from cdclake.model.change import ChangeKind
from cdclake.model.rawfiles import RawKind
from cdclake.model.schema import merge_schemas
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark import SparkContext

    from cdclake.lake.table_run import TableRun
    from cdclake.model.rawfiles import RawFile
    from cdclake.model.snapshot import Snapshot

_MOST_NAMES = 3


def release(run: TableRun, names: Collection[str], reason: str = "", made_by: str = "") -> dict[str, Any]:
    """Take the bad rows of some raw files into the table, as one change. In this process: they are few.

    They get the positions that they would have had, so later changes of their keys count for more. A row that is bad
    still is put aside again, by this change.

    Args:
        run: The table, its settings mended.
        names: Raw files, relative to the table's raw folder, that `cdclake.commit.put_aside` knows of.
        reason: Why, for the change record.
        made_by: Who, likewise.

    Returns:
        Summary of the change; `change` is None if there are no such rows.

    Raises:
        InputError: A raw file is gone or lies behind the late window, or more rows are bad still than may be put aside.
        ConfigurationError: The table's keys are not those that the lake table was made with.
    """
    started = time.perf_counter()
    before = run.current()
    numbers: dict[str, set[int]] = {}
    for found in put_aside(run.log, before.change):
        if found.raw_file in names:
            numbers.setdefault(found.raw_file, set()).update(row["row"] for row in found.rows if row["row"] is not None)
    if not numbers:
        return {"table": str(run.layout.name), "change": None, "reason": "no bad rows of these files are put aside"}
    files = _raw_files(run, before, numbers)
    fs = run.raw_fs.open()
    looks = [inspect(fs, file, run.settings) for file in files]
    schema = columns_before(run, before, reloads=False)
    for file, look in zip(files, looks, strict=True):
        schema = merge_schemas(schema, look.schema, file.relative)
    shape = shape_of(run, schema)
    require_same_keys(run, before, shape)
    parts = [Slice(file, file.size_bytes, only=frozenset(numbers[file.relative])) for file in files]
    spark = cast("SparkContext", InProcessSpark())
    result = compute(run, spark, before, shape, parts).after_listing(time.perf_counter() - started)
    after = snapshot_after(run, before, shape, result, files_that_stay(before.files, result.rewritten))
    return finish(run, before, after, result, ChangeKind.RELEASE, files, reason=reason, made_by=made_by)


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
