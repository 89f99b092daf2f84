"""Findings about columns and their values: types, values that were not sent, truncated text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.names import Sentinel
from cdclake.model.schema import ADDED_PREFIXES, DELETE, INSERT, OP_COLUMN, UPDATE
from cdclake.model.table.attributes import Attribute
from cdclake.model.type_widening import wider_type
from cdclake_cli.doctor.findings import Code, Finding, counted
from cdclake_cli.doctor.fixes import s3_settings, tables_set, task_settings
from cdclake_cli.doctor.infer import timestamp_column
from cdclake_cli.doctor.row_statistics import KILOBYTE, LOAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake_cli.doctor.evidence import Evidence
    from cdclake_cli.doctor.sampling import FileFacts

_MIN_ROWS = 100
_MIN_NULLS = 3
_MIN_CUT = 3
_MIN_LOB_KILOBYTES = 64
_UNBOUNDED = "decimal(28,6)"
_UNSENT_TEXT = "?NOT_SENT?"


def check_columns(evidence: Evidence) -> Iterator[Finding]:
    """Faults of columns and their values."""
    yield from _types(evidence)
    yield from _column_changes(evidence)
    yield from _missing_columns(evidence)
    yield from _unsent_values(evidence)
    yield from _unsent_not_there(evidence)
    yield from _key_only_deletes(evidence)
    yield from _truncated_text(evidence)


def _types(evidence: Evidence) -> Iterator[Finding]:
    readable = [*evidence.loads, *evidence.changes]
    declared = {column.name.lower() for column in evidence.settings.schema or ()}
    types: dict[str, tuple[str, str]] = {}  # widest type and first file, by column
    clashing: set[str] = set()
    for facts in readable:
        for name, kind in facts.types.items():
            key = name.lower()
            if key in declared or _is_added(name):
                continue
            was, first = types.setdefault(key, (kind, facts.file.relative))
            wider = wider_type(was, kind)
            if wider is None and key not in clashing:
                clashing.add(key)
                text = f"{was} in {first}, {kind} in this file"
                fix = f"Declare the column's type in {Attribute.SCHEMA}, or reload the table with DMS"
                paste = tables_set(evidence.name, "--schema", f"{name} <type>")
                yield Finding(Code.TYPES_CLASH, text, fix, paste, facts.file.relative, column=name)
            elif wider is not None:
                types[key] = (wider, first)
    for name, (kind, file) in types.items():
        if kind == _UNBOUNDED:
            fix = "Declare precision and scale of the column at the source, then reload the table with DMS"
            column = next(column for facts in readable for column in facts.types if column.lower() == name)
            quoted = [part.replace('"', '""') for part in (evidence.name.schema, evidence.name.table, column)]
            paste = 'ALTER TABLE "{}"."{}" ALTER COLUMN "{}" TYPE numeric(38, 12);'.format(*quoted)
            yield Finding(Code.UNBOUNDED_NUMERIC, f"the type is {kind}", fix, paste, file, column=column)


def _column_changes(evidence: Evidence) -> Iterator[Finding]:
    readable = _with_own_columns(evidence)
    if not readable:
        return
    before, texts, where = _source_columns(readable[0]), [], ""
    for facts in readable[1:]:
        now = _source_columns(facts)
        if now != before:
            added, dropped = sorted(now.keys() - before.keys()), sorted(before.keys() - now.keys())
            changed = sorted(name for name in now.keys() & before.keys() if now[name] != before[name])
            texts += [
                f"{name} {verb}"
                for verb, names in (("is added", added), ("is dropped", dropped), ("changes", changed))
                for name in names
            ]
            where, before = where or facts.file.relative, now
    if texts:
        yield Finding(Code.COLUMNS_CHANGE, "; ".join(dict.fromkeys(texts)), "No action needed", file=where)


def _missing_columns(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.settings.primary_key or Attribute.MISSING_COLUMNS in evidence.state.item:
        return
    known: dict[str, str] = {}
    updates, files, missing = 0, [], dict[str, None]()
    for facts in _with_own_columns(evidence):
        sent = {name.lower(): name for name in facts.columns if not _is_added(name)}
        absent = [name for lower, name in known.items() if lower not in sent]
        statistics = evidence.statistics.files.get(facts.file.relative)
        if absent and statistics and statistics.updates:
            updates += statistics.updates
            files.append(facts.file.relative)
            missing |= dict.fromkeys(absent)
        known = {**sent, **known}
    if files:
        text = f"{counted(updates, 'update')} in {counted(len(files), 'file')}"
        fix = (
            "If the source dropped the columns, let updates set them to null. Otherwise make it log whole rows, or set"
            f" {Attribute.MISSING_COLUMNS} to keep"
        )
        paste = tables_set(evidence.name, "--set", f"{Attribute.MISSING_COLUMNS}=null")
        yield Finding(Code.MISSING_COLUMNS, text, fix, paste, files[0], column=", ".join(missing))


def _with_own_columns(evidence: Evidence) -> list[FileFacts]:
    """Files that tell their columns; `Schema` has the columns of transaction files."""
    return [facts for facts in (*evidence.loads, *evidence.changes) if not facts.file.transactions]


def _is_added(name: str) -> bool:
    return name == OP_COLUMN or name.startswith(ADDED_PREFIXES)


def _source_columns(facts: FileFacts) -> dict[str, str]:
    """Types of a file's source columns by lowercase name; empty types if the file has none."""
    return {name.lower(): facts.types.get(name, "") for name in facts.columns if not _is_added(name)}


def _unsent_values(evidence: Evidence) -> Iterator[Finding]:
    rows, nulls = evidence.statistics.row_counts, evidence.statistics.null_counts
    whole_rows = rows[LOAD] + rows[INSERT]
    known = {name.lower() for name in evidence.settings.null_means_unsent}
    if whole_rows < _MIN_ROWS or evidence.settings.csv.no_sup_value is not None:
        return
    names = [
        name
        for name, count in nulls[UPDATE].items()
        if count >= _MIN_NULLS and not name.startswith(ADDED_PREFIXES)
        if name in nulls[LOAD] or name in nulls[INSERT]
        if not nulls[LOAD][name] and not nulls[INSERT][name] and name.lower() not in known
    ]
    if names:
        fix = (
            "Make the source log whole rows: PostgreSQL REPLICA IDENTITY FULL, MySQL binlog_row_image=FULL, Oracle"
            " supplemental logging of all columns. With CSV, DMS can mark unsent values instead"
        )
        unsent = ",".join((*evidence.settings.null_means_unsent, *names))
        paste = tables_set(evidence.name, "--set", f"{Attribute.NULL_MEANS_UNSENT}={unsent}")
        if evidence.csv is None or evidence.settings.history:  # a history cannot have CsvNoSupValue
            fix = f"{fix.partition(' With CSV')[0]} Else a null of these columns can mean that the value was not sent"
        else:
            command = tables_set(evidence.name, "--set", f"{Attribute.CSV_NO_SUP_VALUE}={_UNSENT_TEXT}")
            paste = f"{s3_settings(UseCsvNoSupValue=True, CsvNoSupValue=_UNSENT_TEXT)}\n{command}"
        count = max(nulls[UPDATE][name] for name in names)
        text = f"{count:,} of {counted(rows[UPDATE], 'update')}, but none of {counted(whole_rows, 'other row')}"
        yield Finding(Code.UNSENT_VALUES, text, fix, paste, column=", ".join(names))


def _unsent_not_there(evidence: Evidence) -> Iterator[Finding]:
    files, names = [*evidence.loads, *evidence.changes], evidence.settings.null_means_unsent
    right = [name for name in names if any(facts.has(name) for facts in files)]
    wrong = [name for name in names if name not in right]
    if files and wrong:
        paste = tables_set(evidence.name, "--set", f"{Attribute.NULL_MEANS_UNSENT}={','.join(right) or Sentinel.NONE}")
        text = f"it is {','.join(names)}"
        yield Finding(Code.UNSENT_NOT_THERE, text, "Name other columns, or none", paste, column=", ".join(wrong))


def _key_only_deletes(evidence: Evidence) -> Iterator[Finding]:
    rows, nulls = evidence.statistics.row_counts, evidence.statistics.null_counts
    keys = {name.lower() for name in evidence.settings.primary_key}
    source = _source_names(evidence.changes, {*keys, timestamp_column(evidence).lower()})
    filled = [name for name in source if nulls[LOAD][name] + nulls[INSERT][name] < rows[LOAD] + rows[INSERT]]
    if not (keys and filled and rows[DELETE]):
        return
    if all(nulls[DELETE][name] == rows[DELETE] for name in source):
        fix = "If updates lack values too, make PostgreSQL log whole rows"
        quoted = [part.replace('"', '""') for part in (evidence.name.schema, evidence.name.table)]
        paste = 'ALTER TABLE "{}"."{}" REPLICA IDENTITY FULL;'.format(*quoted)
        yield Finding(Code.KEY_ONLY_DELETES, f"all of {counted(rows[DELETE], 'delete')}", fix, paste)


def _source_names(changes: Sequence[FileFacts], excluded: set[str]) -> list[str]:
    """Names of the source's columns; `excluded` contains lowercase names."""
    names = {name: None for facts in changes for name in facts.columns if name != OP_COLUMN}
    return [name for name in names if name.lower() not in excluded and not name.startswith(ADDED_PREFIXES)]


def _truncated_text(evidence: Evidence) -> Iterator[Finding]:
    for name, longest in evidence.statistics.longest.items():
        whole = longest.size_bytes > 0 and longest.size_bytes % KILOBYTE == 0
        if not whole or longest.count < _MIN_CUT or not longest.differ or name.startswith(ADDED_PREFIXES):
            continue
        if longest.count == evidence.statistics.value_count(name):
            continue  # a column of fixed length
        kilobytes = longest.size_bytes // KILOBYTE
        text = f"{longest.count:,} values of {kilobytes:,} kB, none longer"
        fix = "Raise LobMaxSize in the task above the longest value at the source, then reload the table"
        more = max(4 * kilobytes, _MIN_LOB_KILOBYTES)
        paste = task_settings("TargetMetadata", SupportLobs=True, LimitedSizeLobMode=True, LobMaxSize=more)
        yield Finding(Code.CUT_TEXT, text, fix, paste, column=name)
