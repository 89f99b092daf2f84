"""Findings about files as such: gaps, damage, bad rows, CSV, sizes, the bucket. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.control.plan.lost_files import vanished
from cdclake.doctor.examination import schemas_root
from cdclake.doctor.findings import Code, Finding, counted
from cdclake.doctor.mend import s3_settings, tables_set, task_settings
from cdclake.errors import SchemaMismatchError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.rawfiles import NO_SUCH_TIME_REMEDY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.doctor.examination import Examination
    from cdclake.doctor.look import FileFacts

_MANY_FILES = 500
_MOSTLY = 0.9
_LONGER_BATCH_SECONDS = 300
_DDL_POLICY = "ChangeProcessingDdlHandlingPolicy"
_REMOVING = ("HandleSourceTableTruncated", "HandleSourceTableDropped")
_KEEP_FILES = task_settings(_DDL_POLICY, **dict.fromkeys(_REMOVING, False))


def check_files(seen: Examination) -> Iterator[Finding]:
    """What is wrong with the files of a table as such."""
    yield from _full_load(seen)
    yield from _vanished(seen)
    yield from _truncated(seen)
    if seen.unread_transactions:
        text = f"such as {seen.unread_transactions}"
        folder = seen.unread_transactions.removeprefix(schemas_root(seen.state.raw_prefix)).rpartition("/")[0]
        paste = tables_set(seen.name, "--set", f"{Attribute.CDC_PATH}={folder}")
        mend = "Set CdcPath, and name all columns in Schema, if the table is in them"
        yield Finding(Code.TRANSACTIONS_UNREAD, text, mend, paste)
    yield from _unreadable(seen)
    for file in seen.listing.timeless:
        text = f"one of {seen.listing.timeless_count:,}"
        yield Finding(Code.NO_SUCH_TIME, text, NO_SUCH_TIME_REMEDY, file=file.relative)
    yield from _mismatched(seen)
    yield from _unfinished(seen)
    yield from _bad_rows(seen)
    yield from _csv(seen)
    yield from _around(seen)


def _full_load(seen: Examination) -> Iterator[Finding]:
    loads = seen.listing.loads
    if not loads:
        loaded = seen.state.item.get(Attribute.LAST_FULL_LOAD_DATE, Sentinel.NEVER_LOADED) != Sentinel.NEVER_LOADED
        if seen.listing.change_count and not loaded:
            mend = "Have the DMS task load the table: migration type full-load-and-cdc, or reload the table"
            yield Finding(Code.NO_FULL_LOAD, f"{counted(seen.listing.change_count, 'change file')}, no LOAD file", mend)
        return
    newest = max(file.modified_utc for file in loads)
    arriving = newest + timedelta(minutes=seen.settings.full_load_quiet_minutes) > seen.now
    if arriving and not seen.listing.change_count:
        when = f"{newest:%Y-%m-%d %H:%M:%S}"
        yield Finding(Code.LOAD_ARRIVING, f"the newest LOAD file was written at {when} UTC", "Wait, and look again")
    elif seen.missing_loads:
        missing = seen.missing_loads[0]
        mend = "Look whether the DMS task is still loading. If not, have it reload the table"
        yield Finding(Code.LOAD_GAP, f"{missing} is missing, and a later file is there", mend, file=missing)


def _vanished(seen: Examination) -> Iterator[Finding]:
    note = seen.state.item.get(Attribute.LAST_PENDING, "")
    count = vanished(note, seen.state.watermark, seen.listing.pending) if note else 0
    if count:
        mend = (
            "Put the files back, or have DMS reload the table; cdclake tables unfreeze goes on without them. So that"
            " DMS keeps files when the source truncates or drops a table, set this in the task"
        )
        yield Finding(Code.FILES_VANISHED, f"{counted(count, 'change file')} not applied", mend, _KEEP_FILES)


def _truncated(seen: Examination) -> Iterator[Finding]:
    if seen.task is None:
        return
    policy = seen.task.get(_DDL_POLICY) or {}
    on = [name for name in _REMOVING if policy.get(name, True)]  # true is the default of both
    if on:
        text = f"{' and '.join(on)} of the task {'is' if len(on) == 1 else 'are'} true"
        yield Finding(Code.TRUNCATE_RISK, text, "Have the task keep the files", _KEEP_FILES)


def _unreadable(seen: Examination) -> Iterator[Finding]:
    mend = "Have DMS write it again (reload the table), or move it out of the raw folder"
    told = {file.key for file in seen.listing.empty}
    for file in seen.listing.empty:
        yield Finding(Code.UNREADABLE_FILE, f"empty, one of {seen.listing.empty_count:,}", mend, file=file.relative)
    for facts in seen.files:
        if facts.error and not isinstance(facts.error, SchemaMismatchError) and facts.file.key not in told:
            if _is_schema_missing(seen, facts):
                continue
            yield Finding(Code.UNREADABLE_FILE, facts.error.message.rstrip("."), mend, file=facts.file.relative)


def _is_schema_missing(seen: Examination, facts: FileFacts) -> bool:
    return facts.file.transactions and seen.settings.schema is None


def _mismatched(seen: Examination) -> Iterator[Finding]:
    by_message: defaultdict[str, list[FileFacts]] = defaultdict(list)
    for facts in seen.files:
        if isinstance(facts.error, SchemaMismatchError):
            by_message[facts.error.message].append(facts)
    for message, found in by_message.items():
        error = found[0].error
        assert error is not None
        text = f"{message}; {len(found):,} files" if len(found) > 1 else message
        column = str(error.details.get("column") or "")
        yield Finding(Code.SCHEMA_MISMATCH, text, error.remedy, file=found[0].file.relative, column=column)


def _unfinished(seen: Examination) -> Iterator[Finding]:
    mend = "Have DMS write it again (reload the table), or look whether CsvRowDelimiter is that of the endpoint"
    for facts in seen.files:
        if facts.finished is False and facts.error is None:
            yield Finding(Code.UNFINISHED_FILE, "the last row has no end", mend, file=facts.file.relative)


def _bad_rows(seen: Examination) -> Iterator[Finding]:
    for reason, bad in seen.rows.bad.items():
        mend, paste = _mend_of_rows(seen, reason)
        yield Finding(Code.BAD_ROWS, f"{counted(bad.count, 'row')}: {reason}", mend, paste, bad.file, bad.row)


def _mend_of_rows(seen: Examination, reason: str) -> tuple[str, str]:
    if "fields where" in reason:
        return "Have DMS quote fields, and see that Schema names every column but Op", s3_settings(Rfc4180=True)
    if reason.startswith("The key column"):
        return "See whether PrimaryKey names the source's key: DMS sends that with every row", ""
    if reason.startswith("The operation"):
        return "See what writes these files besides DMS; MaxQuarantinedRows lets a run leave such rows out", ""
    command = tables_set(seen.name, "--schema", "<columns and types>")
    return "Correct the column's type in Schema; CsvNullValue must be that of the endpoint", command


def _csv(seen: Examination) -> Iterator[Finding]:
    guess = seen.csv
    if seen.settings.schema is None:
        nameless = guess is not None and not guess.header
        if nameless or any(_is_schema_missing(seen, facts) for facts in seen.files):
            width = f"{guess.width} columns" if guess else "all columns"
            mend = f"Name {width} of the files in order, Op left out; or have DMS write a line of names"
            paste = f"{tables_set(seen.name, '--schema', '<name type, ...>')}\n{s3_settings(AddColumnName=True)}"
            yield Finding(Code.SCHEMA_MISSING, "CSV files without a line of names, and no Schema", mend, paste)
    if guess is None:
        return
    told = (
        (Attribute.CSV_DELIMITER, seen.settings.csv.delimiter, guess.dialect.delimiter, guess.sure),
        (Attribute.CSV_ROW_DELIMITER, seen.settings.csv.row_delimiter, guess.dialect.row_delimiter, guess.sure),
        (Attribute.CSV_NULL_VALUE, seen.settings.csv.null_value, guess.null_text, guess.null_text is not None),
    )
    for name, ours, theirs, sure in told:
        if sure and theirs is not None and ours != theirs:
            text = f"{name} is '{_escaped(ours)}', and files seem to have '{_escaped(theirs)}'"
            command = tables_set(seen.name, "--set", f"{name}={_escaped(theirs)}")
            yield Finding(Code.CSV_DIALECT, text, "Set it as in the endpoint", command)


def _escaped(text: str) -> str:
    return text.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")


def _around(seen: Examination) -> Iterator[Finding]:
    listing = seen.listing
    if listing.other_count:
        text = f"{counted(listing.other_count, 'object')}, such as {listing.other[0]}"
        yield Finding(Code.OTHER_FILES, text, "Move them elsewhere if they are yours")
    if listing.change_count >= _MANY_FILES and listing.small_count >= _MOSTLY * listing.change_count:
        average = listing.change_bytes // listing.change_count
        text = f"{listing.change_count:,} change files of {average:,} bytes on average"
        paste = s3_settings(CdcMaxBatchInterval=_LONGER_BATCH_SECONDS)
        yield Finding(Code.MANY_SMALL_FILES, text, "Have DMS wait longer, if the lake may be later", paste)
    if seen.versioned:
        command = ["aws", "s3api", "put-bucket-versioning", "--bucket", seen.state.bucket]
        command += ["--versioning-configuration", "Status=Suspended"]
        yield Finding(Code.VERSIONED_BUCKET, "versioning is on", "Suspend it", shlex.join(command))
