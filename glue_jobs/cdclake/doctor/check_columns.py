"""Findings about columns and their values: types, nulls that are none, text that is cut. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.doctor.findings import Code, Finding, counted
from cdclake.doctor.infer import timestamp_column
from cdclake.doctor.mend import s3_settings, tables_set, task_settings
from cdclake.doctor.tally import KILOBYTE, LOAD
from cdclake.lake.raw.reader import ADDED_PREFIXES
from cdclake.model.names import Attribute
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN, UPDATE, wider_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.doctor.examination import Examination
    from cdclake.doctor.look import FileFacts

_LEAST_ROWS = 100
_LEAST_NULLS = 3
_LEAST_CUT = 3
_LEAST_LOB_KILOBYTES = 64
_UNBOUNDED = "decimal(28,6)"
_UNSENT_TEXT = "?NOT_SENT?"


def check_columns(seen: Examination) -> Iterator[Finding]:
    """What is wrong with columns and their values."""
    yield from _types(seen)
    yield from _changing(seen)
    yield from _unsent(seen)
    yield from _deletes(seen)
    yield from _cut(seen)


def _types(seen: Examination) -> Iterator[Finding]:
    readable = [*seen.loads, *seen.changes]
    declared = {column.name.lower() for column in seen.settings.schema or ()}
    told: dict[str, tuple[str, str]] = {}
    clashing: set[str] = set()
    for facts in readable:
        for name, kind in facts.types.items():
            key = name.lower()
            if key in declared or name.startswith(ADDED_PREFIXES) or name == OP_COLUMN:
                continue
            was, first = told.setdefault(key, (kind, facts.file.relative))
            wider = wider_type(was, kind)
            if wider is None and key not in clashing:
                clashing.add(key)
                text = f"{was} in {first}, {kind} here"
                mend = f"Declare the column's type in {Attribute.SCHEMA}, or have DMS reload the table"
                paste = tables_set(seen.name, "--schema", f"{name} <type>")
                yield Finding(Code.TYPES_CLASH, text, mend, paste, facts.file.relative, column=name)
            elif wider is not None:
                told[key] = (wider, first)
    for name, (kind, file) in told.items():
        if kind == _UNBOUNDED:
            mend = "Give the column precision and scale at the source, and have DMS reload the table"
            column = next(one for facts in readable for one in facts.types if one.lower() == name)
            quoted = [part.replace('"', '""') for part in (seen.name.schema, seen.name.table, column)]
            paste = 'ALTER TABLE "{}"."{}" ALTER COLUMN "{}" TYPE numeric(38, 12);'.format(*quoted)
            yield Finding(Code.UNBOUNDED_NUMERIC, f"of the type {kind}", mend, paste, file, column=column)


def _changing(seen: Examination) -> Iterator[Finding]:
    readable = [facts for facts in (*seen.loads, *seen.changes) if not facts.file.transactions]
    if not readable:
        return
    first, texts, where = _source(readable[0]), [], ""
    for facts in readable[1:]:
        now = _source(facts)
        if now != first:
            come, gone = sorted(now.keys() - first.keys()), sorted(first.keys() - now.keys())
            other = sorted(name for name in now.keys() & first.keys() if now[name] != first[name])
            texts += [
                f"{name} {what}"
                for what, names in (("comes", come), ("goes", gone), ("changes", other))
                for name in names
            ]
            where, first = where or facts.file.relative, now
    if texts:
        yield Finding(Code.COLUMNS_CHANGE, "; ".join(dict.fromkeys(texts)), "Nothing is to be done", file=where)


def _source(facts: FileFacts) -> dict[str, str]:
    """The source's columns of a file by name in lower case, with their types if it tells any."""
    return {
        name.lower(): facts.types.get(name, "")
        for name in facts.columns
        if name != OP_COLUMN and not name.startswith(ADDED_PREFIXES)
    }


def _unsent(seen: Examination) -> Iterator[Finding]:
    rows, nulls = seen.rows.rows, seen.rows.nulls
    told = rows[LOAD] + rows[INSERT]
    if told < _LEAST_ROWS or seen.settings.csv.no_sup_value is not None:
        return
    names = [
        name
        for name, count in nulls[UPDATE].items()
        if count >= _LEAST_NULLS and not name.startswith(ADDED_PREFIXES)
        if name in nulls[LOAD] or name in nulls[INSERT]
        if not nulls[LOAD][name] and not nulls[INSERT][name]
    ]
    if names:
        mend = (
            "Have the source log whole rows: PostgreSQL REPLICA IDENTITY FULL, MySQL binlog_row_image=FULL, Oracle"
            " supplemental logging of all columns. Or, with CSV, have DMS mark what was not sent"
        )
        paste = ""
        if seen.csv is not None:
            command = tables_set(seen.name, "--set", f"{Attribute.CSV_NO_SUP_VALUE}={_UNSENT_TEXT}")
            paste = f"{s3_settings(UseCsvNoSupValue=True, CsvNoSupValue=_UNSENT_TEXT)}\n{command}"
        count = max(nulls[UPDATE][name] for name in names)
        text = f"{count:,} of {counted(rows[UPDATE], 'update')}, and none of {told:,} other rows"
        yield Finding(Code.UNSENT_VALUES, text, mend, paste, column=", ".join(names))


def _deletes(seen: Examination) -> Iterator[Finding]:
    rows, nulls = seen.rows.rows, seen.rows.nulls
    keys = {name.lower() for name in seen.settings.primary_key}
    source = _beside_keys(seen.changes, {*keys, timestamp_column(seen).lower()})
    filled = [name for name in source if nulls[LOAD][name] + nulls[INSERT][name] < rows[LOAD] + rows[INSERT]]
    if not (keys and filled and rows[DELETE]):
        return
    if all(nulls[DELETE][name] == rows[DELETE] for name in source):
        mend = "If updates lack values too, have PostgreSQL log whole rows"
        quoted = [part.replace('"', '""') for part in (seen.name.schema, seen.name.table)]
        paste = 'ALTER TABLE "{}"."{}" REPLICA IDENTITY FULL;'.format(*quoted)
        yield Finding(Code.KEY_ONLY_DELETES, f"all of {counted(rows[DELETE], 'delete')}", mend, paste)


def _beside_keys(changes: Sequence[FileFacts], left_out: set[str]) -> list[str]:
    """The source's columns but some, which are given in lower case."""
    names = {name: None for facts in changes for name in facts.columns if name != OP_COLUMN}
    return [name for name in names if name.lower() not in left_out and not name.startswith(ADDED_PREFIXES)]


def _cut(seen: Examination) -> Iterator[Finding]:
    for name, longest in seen.rows.longest.items():
        whole = longest.size_bytes > 0 and longest.size_bytes % KILOBYTE == 0
        if not whole or longest.count < _LEAST_CUT or not longest.different or name.startswith(ADDED_PREFIXES):
            continue
        if longest.count == seen.rows.values(name):
            continue  # a column of fixed length
        kilobytes = longest.size_bytes // KILOBYTE
        text = f"{longest.count:,} values of {kilobytes:,} kB, and none longer"
        mend = "Raise LobMaxSize in the task above the longest value at the source, and have it reload the table"
        more = max(4 * kilobytes, _LEAST_LOB_KILOBYTES)
        paste = task_settings("TargetMetadata", SupportLobs=True, LimitedSizeLobMode=True, LobMaxSize=more)
        yield Finding(Code.CUT_TEXT, text, mend, paste, column=name)
