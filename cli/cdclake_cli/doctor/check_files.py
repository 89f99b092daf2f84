"""Findings about files: gaps, damage, bad rows, CSV settings, sizes, the bucket. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from cdclake.control.plan.full_load_gate import quiet_time
from cdclake.control.plan.lost_files import vanished
from cdclake.errors import SchemaMismatchError
from cdclake.lake.raw.bad_values import TextKind, text_kind
from cdclake.lake.raw.rows import BadRowKind
from cdclake.model.names import Sentinel
from cdclake.model.raw.files import INVALID_TIME_REMEDY, RawFiles
from cdclake.model.snapshot import Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import display_utc
from cdclake_cli.dms.attributes import escaped
from cdclake_cli.doctor.clocks import seconds_between_files
from cdclake_cli.doctor.evidence import schemas_root
from cdclake_cli.doctor.findings import Code, Finding, counted
from cdclake_cli.doctor.fixes import s3_settings, tables_set, task_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_cli.doctor.evidence import Evidence
    from cdclake_cli.doctor.sampling import FileFacts

_MANY_FILES = 500
_MAJORITY = 0.9
_LONGER_BATCH_SECONDS = 300
_MAX_VALUES, _MAX_CHARACTERS = 5, 60
_DDL_POLICY = "ChangeProcessingDdlHandlingPolicy"
_REMOVING = ("HandleSourceTableTruncated", "HandleSourceTableDropped")
_KEEP_FILES = task_settings(_DDL_POLICY, **dict.fromkeys(_REMOVING, False))
_FIXES_OF_ROWS = {
    BadRowKind.KEY: "Check that PrimaryKey is the source's key: DMS sends the key with every row",
    BadRowKind.OPERATION: "Find out what else writes these files; MaxQuarantinedRows lets a run quarantine such rows",
    BadRowKind.ORDER: "Check the mapping rule of AR_H_CHANGE_SEQ, or set an OrderColumn that is never null",
    BadRowKind.UNSENT: "Make the source log whole rows, or DMS send the before images of all columns",
    BadRowKind.REPEATED_KEY: "Set PrimaryKey to all columns of the source's key",
}


def check_files(evidence: Evidence) -> Iterator[Finding]:
    """Faults of a table's files."""
    yield from _full_load(evidence)
    yield from _vanished(evidence)
    yield from _truncate_risk(evidence)
    if evidence.unread_transactions:
        text = f"for example {evidence.unread_transactions}"
        folder = evidence.unread_transactions.removeprefix(schemas_root(evidence.state.raw_prefix)).rpartition("/")[0]
        paste = tables_set(evidence.name, "--set", f"{Attribute.CDC_PATH}={folder}")
        fix = "If they contain the table's changes, set CdcPath, and list all columns in Schema"
        yield Finding(Code.TRANSACTIONS_UNREAD, text, fix, paste)
    yield from _unreadable(evidence)
    for file in evidence.listing.invalid_times:
        text = counted(evidence.listing.invalid_time_count, "such file")
        yield Finding(Code.NO_SUCH_TIME, text, INVALID_TIME_REMEDY, file=file.relative)
    yield from _mismatched(evidence)
    yield from _unfinished(evidence)
    yield from _bad_rows(evidence)
    yield from _csv(evidence)
    yield from _surroundings(evidence)


def _full_load(evidence: Evidence) -> Iterator[Finding]:
    loads = evidence.listing.loads
    if not loads:
        loaded = evidence.state.item.get(Attribute.LAST_FULL_LOAD_DATE, Sentinel.NEVER_LOADED) != Sentinel.NEVER_LOADED
        if evidence.listing.change_count and not loaded:
            fix = "Load the table with the DMS task: use migration type full-load-and-cdc, or reload the table"
            yield Finding(
                Code.NO_FULL_LOAD, f"{counted(evidence.listing.change_count, 'change file')}, no LOAD file", fix
            )
        return
    newest = max(file.modified_utc for file in loads)
    arriving = newest + quiet_time(evidence.state, loads) > evidence.now
    if arriving and not evidence.listing.change_count:
        text = f"the newest LOAD file was written at {display_utc(newest)}"
        yield Finding(Code.LOAD_ARRIVING, text, "Wait, then check again")
    elif evidence.missing_loads:
        missing = evidence.missing_loads[0]
        fix = "Check whether the DMS task is still loading. If it is not, reload the table"
        yield Finding(Code.LOAD_GAP, f"{missing} is missing, but a later file exists", fix, file=missing)


def _vanished(evidence: Evidence) -> Iterator[Finding]:
    known = Snapshot(watermark=evidence.state.watermark)
    lost = vanished(evidence.state, RawFiles(changes=evidence.listing.pending), known, None)
    if lost:
        fix = (
            "Put the files back, or reload the table with DMS; cdclake tables unfreeze continues without them. To make"
            " DMS keep files when the source truncates or drops a table, set this in the task"
        )
        yield Finding(Code.FILES_VANISHED, f"change files not applied: {lost}", fix, _KEEP_FILES)


def _truncate_risk(evidence: Evidence) -> Iterator[Finding]:
    if evidence.task is None:
        return
    policy = evidence.task.sections.get(_DDL_POLICY) or {}
    on = [name for name in _REMOVING if policy.get(name, True)]  # both default to true
    if on:
        text = f"{' and '.join(on)} of the task {'is' if len(on) == 1 else 'are'} true"
        yield Finding(Code.TRUNCATE_RISK, text, "Make the task keep the files", _KEEP_FILES)


def _unreadable(evidence: Evidence) -> Iterator[Finding]:
    fix = "Reload the table with DMS, or move the file out of the raw folder"
    reported = {file.key for file in evidence.listing.empty}
    for file in evidence.listing.empty:
        text = counted(evidence.listing.empty_count, "empty file")
        yield Finding(Code.UNREADABLE_FILE, text, fix, file=file.relative)
    for facts in evidence.files:
        if facts.error and not isinstance(facts.error, SchemaMismatchError) and facts.file.key not in reported:
            if _is_schema_missing(evidence, facts):
                continue
            error = facts.error
            yield Finding(Code.UNREADABLE_FILE, error.message.rstrip("."), error.remedy, file=facts.file.relative)


def _is_schema_missing(evidence: Evidence, facts: FileFacts) -> bool:
    return facts.file.transactions and evidence.settings.schema is None


def _mismatched(evidence: Evidence) -> Iterator[Finding]:
    by_message: defaultdict[str, list[FileFacts]] = defaultdict(list)
    for facts in evidence.files:
        if isinstance(facts.error, SchemaMismatchError):
            by_message[facts.error.message].append(facts)
    for message, files in by_message.items():
        error = files[0].error
        assert error is not None
        text = f"{message}; {counted(len(files), 'file')}" if len(files) > 1 else message
        column = str(error.details.get("column") or "")
        yield Finding(Code.SCHEMA_MISMATCH, text, error.remedy, file=files[0].file.relative, column=column)


def _unfinished(evidence: Evidence) -> Iterator[Finding]:
    fix = "Reload the table with DMS, or check that CsvRowDelimiter matches the endpoint"
    for facts in evidence.files:
        if facts.ends_with_delimiter is False and facts.error is None:
            yield Finding(Code.UNFINISHED_FILE, "the last row is not terminated", fix, file=facts.file.relative)


def _bad_rows(evidence: Evidence) -> Iterator[Finding]:
    for reason, bad in evidence.statistics.bad_rows.items():
        fault, values = evidence.statistics.faults[reason], evidence.statistics.bad_values[reason].most_common()
        fix, paste = _fix_of_rows(evidence, bad.kind)
        null = next((value for value, _ in values if text_kind(value) is TextKind.NULL), None)
        if fault.looks is TextKind.NULL and fault.in_csv and null is not None and _has_declared_nulls(evidence):
            declared, paste = evidence.settings.csv.null_value, ""
            fix = (
                f"The files have two texts for null, '{declared}' and '{null}', and {Attribute.CSV_NULL_VALUE} is one:"
                f" convert the other at the source, or declare {fault.column} as string"
            )
        elif fault.looks is TextKind.NULL and fault.in_csv and null is not None:
            fix = f"If '{null}' stands for null, set it as the null text"
            paste = tables_set(evidence.name, "--set", f"{Attribute.CSV_NULL_VALUE}={null}")
        elif fault.looks is TextKind.NUMBER:
            fix = f"Declare a wider type of {fault.column} in {Attribute.SCHEMA}"
        elif fault.looks is not TextKind.OTHER:
            fix = f"Convert {fault.column} at the source, or declare it as string in {Attribute.SCHEMA}"
        text = f"{counted(bad.count, 'row')}: {reason}" + (f"; {fault.description}" if fault.description else "")
        shown = tuple(f"'{_cut(value)}' in {counted(count, 'row')}" for value, count in values[:_MAX_VALUES])
        yield Finding(Code.BAD_ROWS, text, fix, paste, bad.file, bad.row, fault.column, values=shown)


def _has_declared_nulls(evidence: Evidence) -> bool:
    """Whether rows have the text for null that the settings declare."""
    return evidence.null_declared and any(count.total() for count in evidence.statistics.null_counts.values())


def _cut(value: str) -> str:
    return value if len(value) <= _MAX_CHARACTERS else f"{value[:_MAX_CHARACTERS]}..."


def _fix_of_rows(evidence: Evidence, kind: BadRowKind) -> tuple[str, str]:
    if kind is BadRowKind.WIDTH:
        return "Make DMS quote fields, and check that Schema lists every column except Op", s3_settings(Rfc4180=True)
    if kind is BadRowKind.VALUE:
        command = tables_set(evidence.name, "--schema", "<columns and types>")
        return "Correct the column's type in Schema, and check that CsvNullValue matches the endpoint", command
    return _FIXES_OF_ROWS[kind], ""


def _csv(evidence: Evidence) -> Iterator[Finding]:
    guess = evidence.csv
    if evidence.settings.schema is None:
        headerless = guess is not None and not (guess.header or guess.header_unclear)
        if guess is not None and guess.header_unclear:
            fix = f"If it is a header, set {Attribute.ADD_COLUMN_NAME} to true; else list all columns in Schema"
            paste = "\n".join(
                tables_set(evidence.name, *arguments)
                for arguments in (("--set", f"{Attribute.ADD_COLUMN_NAME}=true"), ("--schema", "<name type, ...>"))
            )
            text = f"{counted(guess.width, 'text')}, all distinct, and none a number or time"
            yield Finding(Code.HEADER_UNCLEAR, text, fix, paste)
        elif headerless or any(_is_schema_missing(evidence, facts) for facts in evidence.files):
            columns = f"the {counted(guess.width, 'column')}" if guess else "all columns"
            fix = f"List {columns} of the files in order, without Op; or make DMS write a header line"
            paste = f"{tables_set(evidence.name, '--schema', '<name type, ...>')}\n{s3_settings(AddColumnName=True)}"
            yield Finding(Code.SCHEMA_MISSING, "CSV files without a header line", fix, paste)
    if guess is None:
        return
    comparisons = (
        (Attribute.CSV_DELIMITER, evidence.settings.csv.delimiter, guess.dialect.delimiter, guess.sure),
        (Attribute.CSV_ROW_DELIMITER, evidence.settings.csv.row_delimiter, guess.dialect.row_delimiter, guess.sure),
        (Attribute.CSV_NULL_VALUE, evidence.settings.csv.null_value, guess.null_text, guess.null_text is not None),
    )
    for name, expected, actual, sure in comparisons:
        if sure and actual is not None and expected != actual:
            text = f"{name} is '{escaped(expected)}', but the files seem to use '{escaped(actual)}'"
            fix, command = "Match the setting to the endpoint", ""
            if _is_misread(evidence):
                fix += ": look it up, because cdclake read not all sampled rows with this one either"
            else:
                command = tables_set(evidence.name, "--set", f"{name}={escaped(actual)}")
            yield Finding(Code.CSV_DIALECT, text, fix, command)


def _is_misread(evidence: Evidence) -> bool:
    """Whether CSV files or rows of them could not be split into fields, with the dialect that was guessed."""
    csv = [facts for facts in evidence.files if facts.file.format.is_text]
    return any(facts.error for facts in csv) or any(
        bad.kind is BadRowKind.WIDTH for bad in evidence.statistics.bad_rows.values()
    )


def _surroundings(evidence: Evidence) -> Iterator[Finding]:
    listing = evidence.listing
    if listing.other_count:
        text = f"{counted(listing.other_count, 'object')}, for example {listing.other[0]}"
        yield Finding(
            Code.OTHER_FILES, text, f"Rename them, move them elsewhere, or list them in {Attribute.IGNORE_FILES}"
        )
    is_many = listing.change_count >= _MANY_FILES and listing.small_count >= _MAJORITY * listing.change_count
    if is_many and (seconds_between_files(listing.timeline) or 0) < _LONGER_BATCH_SECONDS:
        average = listing.change_bytes // listing.change_count
        text = f"{listing.change_count:,} change files of {average:,} bytes on average"
        paste = s3_settings(CdcMaxBatchInterval=_LONGER_BATCH_SECONDS)
        yield Finding(
            Code.MANY_SMALL_FILES, text, "If the lake may lag further behind, make DMS write less often", paste
        )
    if evidence.versioned:
        command = ["aws", "s3api", "put-bucket-versioning", "--bucket", evidence.state.bucket]
        command += ["--versioning-configuration", "Status=Suspended"]
        yield Finding(Code.VERSIONED_BUCKET, "versioning is on", "Suspend it", shlex.join(command))
