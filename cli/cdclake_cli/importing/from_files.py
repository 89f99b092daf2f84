"""Settings that raw files need or suggest: what CSV files do not say themselves, and keys. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.lake.raw.added_columns import SEQUENCE_COLUMN
from cdclake.lake.storage.types import from_arrow, to_arrow
from cdclake.model.names import Sentinel
from cdclake.model.schema import INTEGER_TYPES, OP_COLUMN, Column, Schema
from cdclake.model.table.attributes import Attribute
from cdclake_cli.dms.attributes import attributes_for, escaped
from cdclake_cli.doctor.findings import Code, Severity, counted
from cdclake_cli.doctor.infer import timestamp_column
from cdclake_cli.doctor.types.check_types import key_text
from cdclake_cli.doctor.types.keys import likeliest
from cdclake_cli.importing.proposal import ProposedSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.doctor.csv.dialect import CsvGuess
    from cdclake_cli.doctor.diagnose import Examination
    from cdclake_cli.doctor.findings import Finding
    from cdclake_cli.sources.catalog import CatalogTable

_PROPOSED = frozenset({Code.NO_PRIMARY_KEY, Code.UNTYPED, Code.SCHEMA_MISSING})
"""Findings about what is proposed anyway."""


def from_endpoint(table: CatalogTable, settings: DmsSettings) -> Iterator[ProposedSetting]:
    """The settings of CSV files that the settings of DMS's endpoint and the source's columns make."""
    unknown = _unknown_types(table)
    columns = pa.schema([(one.name, to_arrow(one.type or "string")) for one in table.columns])
    for name, value in attributes_for(settings, columns, (), (), table.added).items():
        if name == Attribute.SCHEMA:
            types = ProposedSetting(
                name, value, "columns and types of the source, as the endpoint's settings order them"
            )
            yield types.doubted(unknown) if unknown else types
        elif value != Sentinel.NONE or name == Attribute.CSV_NULL_VALUE:  # for which it is a text like others
            yield ProposedSetting(name, value, "setting of the endpoint")


def from_csv_and_catalog(found: Examination, table: CatalogTable) -> Iterator[ProposedSetting]:
    """The settings of CSV files with the columns of the source; nothing if there are no CSV files with rows."""
    guess = found.guess
    if guess is None:
        return
    yield from _dialect(found, guess)
    schema, doubt = _columns(found, guess, table)
    yield ProposedSetting(
        Attribute.ADD_COLUMN_NAME,
        str(bool(guess.header)).lower(),
        "first lines, which are names of the source's columns" if guess.header else "first lines",
        sure=not (doubt and guess.header) and not guess.header_unclear,
    )
    types = ProposedSetting(Attribute.SCHEMA, schema.declaration, "types of the source")
    doubts = [one for one in (doubt, _unknown_types(table)) if one]
    yield types.doubted("; ".join(doubts)) if doubts else types


def from_csv(found: Examination, findings: Sequence[Finding]) -> Iterator[ProposedSetting]:
    """The settings that CSV files suggest alone."""
    guess, proposal = found.guess, found.proposal
    if guess is None:
        return
    yield from _dialect(found, guess)
    if guess.header_unclear:
        evidence = "the first lines may be names or texts: find out which"
        yield ProposedSetting(Attribute.ADD_COLUMN_NAME, "true", evidence, sure=False)
    if proposal and proposal.schema:
        read, bad = counted(proposal.verified_rows, "row"), counted(proposal.bad_values, "bad value")
        evidence = f"types that values look like; {read} read with them, {bad}"
        if not guess.header and not guess.header_unclear:
            evidence += "; the files have no header line: write the columns' names"
        yield ProposedSetting(Attribute.SCHEMA, proposal.schema.declaration, evidence, sure=False)
    elif any(one.code is Code.SCHEMA_MISSING for one in findings):
        evidence = "CSV files without a header line need the columns' names and types"
        yield ProposedSetting(Attribute.SCHEMA, "id bigint, name string", evidence, sure=False)


def key_candidates(found: Examination) -> Iterator[ProposedSetting]:
    """Columns whose values are unique in the full load: no proof that they always are."""
    keys = list(found.proposal.keys) if found.proposal else []
    if not keys:
        types = {name: from_arrow(kind) for name, kind in found.types.types.items()}
        simple = [name for name, kind in types.items() if kind in (*INTEGER_TYPES, "string")]
        keys = likeliest(
            found.types.typed_keys.candidates(lambda _, values: values.combine_chunks()), simple, list(types)
        )
    for key in keys:
        if key.is_unique and key.names != (timestamp_column(found.evidence),):
            yield ProposedSetting(Attribute.PRIMARY_KEY, ",".join(key.names), key_text(key), sure=False)


def order_candidate(found: Examination) -> Iterator[ProposedSetting]:
    """DMS's time of the commit, if nothing else orders the changes."""
    evidence = found.evidence
    columns, time = {name for facts in evidence.files for name in facts.columns}, timestamp_column(evidence)
    if time and SEQUENCE_COLUMN not in columns and not any(evidence.statistics.sequence_like.values()):
        reason = f"the files have no {SEQUENCE_COLUMN}, and this column has only times, as DMS's commit times"
        yield ProposedSetting(Attribute.ORDER_COLUMN, time, reason, sure=False)


def errors(findings: Sequence[Finding]) -> Iterator[str]:
    """What the doctor finds wrong, a line each, without what the proposal is about anyway."""
    for one in findings:
        if one.kind.severity is Severity.ERROR and one.code not in _PROPOSED:
            column = f", column {one.column}" if one.column else ""
            yield f"cdclake doctor, {one.code.value}{column}: {one.kind.title}; {one.seen}"


def _dialect(found: Examination, guess: CsvGuess) -> Iterator[ProposedSetting]:
    """What differs from DMS's defaults."""
    now, read = found.evidence.settings.csv, guess.dialect
    for attribute, default, value in (
        (Attribute.CSV_DELIMITER, now.delimiter, read.delimiter),
        (Attribute.CSV_ROW_DELIMITER, now.row_delimiter, read.row_delimiter),
    ):
        if value != default:
            yield ProposedSetting(attribute, escaped(value), "rows of the files", sure=guess.sure)
    null_text = found.proposal.csv.null_value if found.proposal else guess.null_text
    if null_text not in (None, now.null_value):
        evidence = "what stands for null in columns of numbers or times"
        yield ProposedSetting(Attribute.CSV_NULL_VALUE, str(null_text), evidence, sure=False)


def _columns(found: Examination, guess: CsvGuess, table: CatalogTable) -> tuple[Schema, str]:
    """The columns of CSV files with the source's types, and why they may be wrong; empty if they are right."""
    source = Schema(tuple(Column(one.name, _csv_type(one.type)) for one in table.columns))
    if guess.header:
        there = {name.lower() for name in guess.header}
        missing = [column.name for column in source if column.name.lower() not in there]
        known = Schema(tuple(column for column in source if column.name.lower() in there))
        return (known or source), f"the files lack {', '.join(missing)}" if missing else ""
    whole = Schema((*source, *(Column(name, "string") for name in table.added)))
    if guess.header_unclear:
        return whole, "the first lines may be names or rows"
    if guess.width == len(whole):
        return whole, ""
    times = timestamp_column(found.evidence)
    if guess.width == len(whole) + 1 and times == _first_column(found):
        stamped = Schema((Column("dms_timestamp", "timestamp"), *whole))
        return stamped, "the first column has only times: write the name that TimestampColumnName has"
    return whole, f"rows have {counted(guess.width, 'field')}, the source has {counted(len(whole), 'column')}"


def _first_column(found: Examination) -> str:
    return next((name for facts in found.evidence.files for name in facts.columns if name != OP_COLUMN), "")


def _csv_type(kind: str | None) -> str:
    """Bytes are hexadecimal digits in CSV."""
    return "string" if kind in (None, "binary") else kind


def _unknown_types(table: CatalogTable) -> str:
    names = [f"{one.name} ({one.declared})" for one in table.columns if one.type is None]
    return f"how DMS sends {', '.join(names)} is unknown" if names else ""
