"""Findings about keys, operations and partitions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.devkit.dms.files import BEFORE_PREFIX
from cdclake.doctor.findings import Code, Finding, counted
from cdclake.doctor.infer import timestamp_column
from cdclake.doctor.mend import before_image_rule, s3_settings, tables_set
from cdclake.model.schema import DELETE, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.doctor.examination import Examination

_MANY_PARTITIONS = 1_000
_SMALL_PARTITION_BYTES = 4 << 20


def check_keys(seen: Examination) -> Iterator[Finding]:
    """What is wrong with keys, and with what changes tell of them."""
    yield from _operations(seen)
    if seen.settings.primary_key:
        yield from _columns_there(seen)
        yield from _unique(seen)
    yield from _key_changes(seen)
    if seen.settings.partition_key:
        yield from _partitions(seen)


def _operations(seen: Examination) -> Iterator[Finding]:
    nameless = [facts for facts in seen.changes if OP_COLUMN not in facts.columns]
    if nameless:
        paste = s3_settings(IncludeOpForFullLoad=True, CdcInsertsOnly=False, CdcInsertsAndUpdates=False)
        text = f"{len(nameless):,} of {len(seen.changes):,} change files have no Op"
        mend = "Have DMS send all changes, with Op"
        yield Finding(Code.NO_OP, text, mend, paste, nameless[0].file.relative)
    changed = seen.rows.rows[UPDATE] + seen.rows.rows[DELETE]
    if changed and not seen.settings.primary_key:
        likely = [name for name in seen.rows.distinct or () if name != timestamp_column(seen)]
        paste = tables_set(seen.name, "--primary-key", likely[0] if likely else "<columns>")
        mend = (
            f"Set the source's key; {likely[0]} differs in all LOAD rows looked at"
            if likely
            else "Set the source's key"
        )
        yield Finding(
            Code.NO_PRIMARY_KEY,
            f"{counted(seen.rows.rows[UPDATE], 'update')} and {counted(seen.rows.rows[DELETE], 'delete')}",
            mend,
            paste,
        )


def _columns_there(seen: Examination) -> Iterator[Finding]:
    for name in seen.settings.primary_key:
        without = [facts for facts in (*seen.loads, *seen.changes) if not facts.has(name)]
        if without:
            text = f"{len(without):,} of {len(seen.loads) + len(seen.changes):,} files have no column {name}"
            paste = tables_set(seen.name, "--primary-key", "<columns>")
            mend = "Set the key to columns of the files, or have DMS send the column"
            yield Finding(Code.KEY_NOT_THERE, text, mend, paste, without[0].file.relative, column=name)


def _unique(seen: Examination) -> Iterator[Finding]:
    if not all(facts.has(name) for facts in seen.loads for name in seen.settings.primary_key):
        return  # of a part of a key nothing can be said
    repeated = seen.rows.repeated_load_keys()
    if repeated:
        paste = tables_set(seen.name, "--primary-key", "<columns>")
        mend = "Set the key to all columns of the source's key; or remove LOAD files of an earlier load"
        yield Finding(Code.KEY_NOT_UNIQUE, f"{repeated:,} LOAD rows have a key that came before", mend, paste)


def _key_changes(seen: Examination) -> Iterator[Finding]:
    keys, updates = seen.settings.primary_key, seen.rows.rows[UPDATE]
    if not updates or not keys:
        return
    without = [name for name in keys if any(not facts.has(BEFORE_PREFIX + name) for facts in seen.changes)]
    unknown = seen.rows.unknown_updates() if seen.everything_was_read else 0
    rule, names, count = (
        before_image_rule(seen.name),
        ", ".join(without),
        counted(unknown, "key"),
    )
    if without and unknown:
        mend = "Add this mapping rule to the task, and have it reload the table: what is lost does not come again"
        yield Finding(Code.KEY_CHANGE_LOST, count, mend, rule, column=names)
    elif without:
        text = f"{counted(updates, 'update')}, and no before image of {names}"
        yield Finding(Code.NO_BEFORE_IMAGE, text, "Add this mapping rule to the task", rule, column=names)
    elif unknown:
        mend = (
            "Put the file back, or have DMS reload the table; of a table that has it applied already, nothing is lost"
        )
        yield Finding(Code.MISSING_CHANGES, count, mend, column=", ".join(keys))


def _partitions(seen: Examination) -> Iterator[Finding]:
    files = [*seen.loads, *seen.changes]
    for name in seen.settings.partition_key:
        if files and not any(facts.has(name) for facts in files):
            paste = tables_set(seen.name, "--partition-key", "<columns>")
            yield Finding(Code.PARTITION_NOT_THERE, f"no file has {name}", "Set other columns", paste, column=name)
    count = len(seen.rows.partitions)
    load_bytes = sum(file.size_bytes for file in seen.listing.loads)
    if count >= _MANY_PARTITIONS and load_bytes / count < _SMALL_PARTITION_BYTES:
        text = f"{count:,} partitions in the rows looked at"
        paste = tables_set(seen.name, "--partition-key", "<columns of few values>")
        mend = "Partition by a column of fewer values, such as a month, or not at all"
        yield Finding(Code.TOO_MANY_PARTITIONS, text, mend, paste, column=",".join(seen.settings.partition_key))
