"""Releases quarantined rows into the table: reads them again, with the table's current settings."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cdclake.commit.ledger import entries as ledger_entries
from cdclake.commit.quarantine import quarantined_files
from cdclake.errors import InputError
from cdclake.lake.operations.commit import commit
from cdclake.lake.operations.compute import compute, inspect_changes, require_known_keys
from cdclake.lake.operations.corrected_rows import require_corrected
from cdclake.lake.operations.history import last_full_load_utc
from cdclake.lake.raw.rows import Slice
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.change.record import ChangeKind
from cdclake.model.raw.files import file_order
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.model.raw.files import RawFile, RawFiles
    from cdclake.model.snapshot import Snapshot

_MAX_NAMES = 3


def release(run: TableRun, names: Collection[str], reason: str = "", made_by: str = "") -> dict[str, Any]:
    """Apply the quarantined rows of some raw files as one change. Runs in this process, because they are few.

    The rows keep their original positions, so later changes of their keys still win. Rows that are still bad are
    quarantined again by this change.

    Args:
        run: The table, with corrected settings.
        names: Raw files, relative to the table's raw folder, as `quarantined_files` lists them.
        reason: Why, for the change record.
        made_by: Who requested it, for the change record.

    Returns:
        Summary of the change; its `change` is None if the files have no quarantined rows.

    Raises:
        InputError: A raw file is gone, is behind the late window or was rewritten by an erasure, a row in it is not
            evidently the quarantined one (because the file, or how it is split into rows, changed since), a change
            since may not have sent a value of a row, or more rows are still bad than may be quarantined.
        ConfigurationError: The table's keys differ from those that the lake table was created with.
    """
    started = time.perf_counter()
    before = run.current()
    bad_rows: dict[str, dict[int, dict[str, Any]]] = {}
    quarantined_by: dict[str, int] = {}
    split_otherwise: set[str] = set()
    entries = quarantined_files(run.log, before.change)
    for entry in entries:
        if entry.raw_file in names:
            rows = {row["row"]: row for row in entry.rows if row["row"] is not None}
            bad_rows[entry.raw_file] = {**rows, **bad_rows.get(entry.raw_file, {})}
            quarantined_by[entry.raw_file] = entry.change  # the oldest change comes last
            if entry.row_rules != run.settings.csv.row_rules:
                split_otherwise.add(entry.raw_file)
    if not bad_rows:
        return {"table": str(run.layout.name), "change": None, "reason": "these files have no quarantined rows"}
    raw = list_raw_files(run.raw, run.raw_prefix, run.settings)
    files = _raw_files(run, before, raw, bad_rows)
    _require_same_numbers(run, before, quarantined_by)
    change = inspect_changes(run, before, files)
    known = {name: entry.identity for name, entry in ledger_entries(run.log, before.ledger, bad_rows).items()}
    known.update(before.ledger.loads)
    for file, inspection in zip(files, change.inspections, strict=True):
        edited = (known.get(file.relative) or file.identity) != file.identity
        if edited or (file.relative in split_otherwise and file.format.is_text):
            read_by = None if edited else quarantined_by[file.relative]
            require_corrected(run, inspection.parts, bad_rows[file.relative], read_by)
    parts = [Slice(file, file.size_bytes, only_rows=frozenset(bad_rows[file.relative])) for file in files]
    released_utc = _loaded_utc(before, raw)
    backend, shape = InProcessBackend(), change.shape
    result = compute(
        run, backend, before, shape, parts, started=started, ordering=change.ordering, released_utc=released_utc
    )
    load_rows_remain = any(_is_load(entry.raw_file) and entry.raw_file not in names for entry in entries)
    load_in_quarantine = load_rows_remain or bool(result.quarantine_keys)
    facts = replace(before, ordering=change.ordering, load_in_quarantine=load_in_quarantine)
    # The other rows of an edited file are not compared: a change file stays overwritten, a LOAD file is not reloaded.
    facts = replace(facts, ledger=facts.ledger.with_loads(files))
    unknown_keys = require_known_keys(run, before, change, result)
    return commit(
        run,
        before,
        facts,
        shape,
        result,
        ChangeKind.RELEASE,
        files,
        reason=reason,
        made_by=made_by,
        unknown_keys=unknown_keys,
    )


def _is_load(raw_file: str) -> bool:
    return not file_order(raw_file)


def _raw_files(run: TableRun, before: Snapshot, raw: RawFiles, names: Collection[str]) -> list[RawFile]:
    """The files in the raw bucket that have these names.

    Raises:
        InputError: A file does not exist, or is behind the late window.
    """
    listed = {file.relative: file for file in (*raw.full_load, *raw.changes, *raw.ignored)}
    gone = sorted(name for name in names if name not in listed)
    if gone:
        raise _refused(run, f"{len(gone)} raw files with bad rows are no longer in the raw bucket", gone)
    files = [listed[name] for name in sorted(names)]
    old = [one for one in sorted(names) if (before.forgotten if _is_load(one) else file_order(one) < before.horizon)]
    if old:
        message = f"{len(old)} raw files are behind the late window, so later deletes of their keys may be forgotten"
        raise _refused(run, message, old)
    return files


def _loaded_utc(before: Snapshot, raw: RawFiles) -> datetime | None:
    """When the first file of the last full load was written, as far as none was written again; None if never loaded."""
    newest = last_full_load_utc(before)
    written = [file.modified_utc for file in raw.full_load if file.relative in before.ledger.loads]
    return min([newest, *written]) if newest else None


def _require_same_numbers(run: TableRun, before: Snapshot, quarantined_by: Mapping[str, int]) -> None:
    """Check that the rows still have the same numbers in their raw files. A rollback does not undo an erasure there.

    Args:
        quarantined_by: For each raw file, the number of the oldest change that quarantined rows of it.

    Raises:
        InputError: An erasure removed rows from a raw file since, so the other rows have new numbers.
    """
    oldest = min(quarantined_by.values())
    since = takewhile(lambda record: record.change > oldest, run.log.newest_first(before.change))
    erasures = [record for record in since if record.kind is ChangeKind.ERASURE]
    moved = [
        name
        for name, change in sorted(quarantined_by.items())
        if any(name in record.raw_names and record.change > change for record in erasures)
    ]
    if moved:
        message = f"An erasure removed rows from {len(moved)} raw files, which changed the numbers of the other rows"
        raise _refused(run, message, moved)


def _refused(run: TableRun, message: str, files: Sequence[str]) -> InputError:
    remedy = "Leave these files out, or insert the rows by hand; nothing was changed"
    return InputError(message, remedy=remedy, table=run.layout.name, file=", ".join(files[:_MAX_NAMES]))
