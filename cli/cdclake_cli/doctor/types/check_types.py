"""The finding about CSV columns without types: what their values look like, and settings with types. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.table.attributes import Attribute
from cdclake_cli.dms.attributes import escaped
from cdclake_cli.doctor.findings import Code, Finding, agreeing, counted
from cdclake_cli.doctor.fixes import tables_set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import CsvDialect, TableSettings
    from cdclake_cli.doctor.csv.dialect import CsvGuess
    from cdclake_cli.doctor.types.keys import KeyCandidate
    from cdclake_cli.doctor.types.proposal import Proposal, ProposedColumn

_MAX_NULL_TEXTS = 3


def check_types(
    proposal: Proposal | None,
    settings: TableSettings,
    name: TableName,
    guess: CsvGuess | None,
    newest: Collection[str],
    *,
    delimiters_known: bool = True,
) -> Iterator[Finding]:
    """Columns of CSV files that are text because nothing declares their types.

    Args:
        proposal: Types for them; None if there are none.
        newest: Columns of the newest file, with which `tables set` compares those that settings name.
        delimiters_known: Whether the settings declare them, or the rows show them.
    """
    if proposal is None:
        return
    text = (
        f"{counted(len(proposal.columns), 'column')} untyped: {Attribute.SCHEMA} does not declare"
        f" {'it' if len(proposal.columns) == 1 else 'them'}; {counted(proposal.rows, 'row')} looked at"
    )
    details = [_column(column) for column in proposal.columns]
    details += _null_texts(proposal, settings.csv.null_value)
    details += [f"key {', '.join(key.names)}: {key_text(key)}" for key in proposal.keys]
    if not proposal.schema:
        fix = "Check again when there are rows, and without the other findings: cdclake read none with these types"
        yield Finding(Code.UNTYPED, text, fix, details=tuple(details))
        return
    read, bad = counted(proposal.verified_rows, "row"), counted(proposal.bad_values, "bad value")
    if proposal.bad_rows:
        bad += f" and {counted(proposal.bad_rows, 'row')} with another number of fields"
    fix = (
        f"Declare the types. cdclake read {read} with these and found {bad}; declare string where"
        " text is meant. A loaded table whose types change needs a reload"
    )
    if settings.schema is None and guess and not guess.header:
        fix += f". The files have no header line: replace {proposal.schema.names[0]} and the like by the columns' names"
    if not delimiters_known:
        fix = (
            f"Set {Attribute.CSV_DELIMITER} first, also if it is '{escaped(settings.csv.delimiter)}': the rows do not"
            " show which character separates fields. Then check again"
        )
        yield Finding(Code.UNTYPED, text, fix, details=tuple(details))
        return
    arguments = _arguments(proposal, settings, guess)
    if newest and not {one.lower() for one in proposal.schema.names} <= {one.lower() for one in newest}:
        arguments.append("--unchecked")
    is_doubtful = proposal.bad_rows and _delimiters(proposal.csv) != _delimiters(settings.csv)
    paste = "" if is_doubtful else tables_set(name, *arguments)
    yield Finding(Code.UNTYPED, text, fix, paste, details=tuple(details))


def _delimiters(dialect: CsvDialect) -> tuple[str, str]:
    return dialect.delimiter, dialect.row_delimiter


def _arguments(proposal: Proposal, settings: TableSettings, guess: CsvGuess | None) -> list[str]:
    null_text: str | None = settings.csv.null_value
    if guess and guess.null_text not in (None, proposal.csv.null_value):
        null_text = None  # declared, so that no guess overrides it
    arguments = ["--schema", proposal.schema.declaration]
    for attribute, now, proposed in (
        (Attribute.CSV_DELIMITER, settings.csv.delimiter, proposal.csv.delimiter),
        (Attribute.CSV_ROW_DELIMITER, settings.csv.row_delimiter, proposal.csv.row_delimiter),
        (Attribute.CSV_NULL_VALUE, null_text, proposal.csv.null_value),
    ):
        if now != proposed:
            value = proposed if attribute == Attribute.CSV_NULL_VALUE else escaped(proposed)
            arguments += ["--set", f"{attribute}={value}"]
    has_header = proposal.csv.add_column_name
    if has_header is not None and settings.csv.add_column_name is None:
        arguments += ["--set", f"{Attribute.ADD_COLUMN_NAME}={str(has_header).lower()}"]
    unique = [key.names for key in proposal.keys if key.is_unique]
    if unique and not settings.primary_key:
        arguments += ["--primary-key", ",".join(unique[0])]
    return arguments


def key_text(key: KeyCandidate) -> str:
    """The evidence for a key."""
    return f"{counted(key.distinct, 'distinct value')} in {counted(key.rows, 'LOAD row')}, no nulls"


def _column(column: ProposedColumn) -> str:
    shapes = column.shapes
    if column.source and column.type == column.likely:
        reason = f"as in {column.source}"
    elif column.source:
        do = agreeing(column.refused, "does", "do")
        reason = f"{counted(column.refused, 'value')} {do} not fit {column.likely}, the type in {column.source}"
    elif not shapes.values:
        reason = "a guess, because there are no values"
    elif column.type != "string":
        reason = "the value fits" if shapes.values == 1 else f"all of {shapes.values:,} values fit"
    elif column.refused:
        do = agreeing(column.refused, "does", "do")
        reason = f"{counted(column.refused, 'value')} {do} not fit {column.likely}"
    else:
        kind, fits = shapes.nearest
        of_all = f"{fits:,} of {counted(shapes.values, 'value')} {agreeing(fits, 'fits', 'fit')}"
        reason = f"{of_all} {kind}" if fits else "text"
        if shapes.other_times == shapes.values:
            reason += f", {_resembling(shapes.values, 'time')} in another format than yyyy-mm-dd HH:MM:SS"
        elif shapes.other_numbers == shapes.values and not fits:
            reason += f", {_resembling(shapes.values, 'number')} in another format than 1234.56"
    return f"{column.name} {column.type}: {reason}" + (f", {shapes.nulls:,} null or empty" if shapes.nulls else "")


def _resembling(count: int, noun: str) -> str:
    return f"and looks like a {noun}" if count == 1 else f"and look like {noun}s"


def _null_texts(proposal: Proposal, current: str) -> Iterator[str]:
    """Texts like null, with the columns that have them; text columns would lose them as values."""
    types = {column.name: column.type for column in proposal.columns}
    for text, columns in list(proposal.null_like().items())[:_MAX_NULL_TEXTS]:
        places = ", ".join(f"{count:,} in {name} ({types[name]})" for name, count in columns.items())
        is_not = "" if text == proposal.csv.null_value else "not "
        yield f"'{text}': {places}; {is_not}proposed as {Attribute.CSV_NULL_VALUE}"
    if proposal.csv.null_value == current:
        yield f"{Attribute.CSV_NULL_VALUE} stays '{current}'"
