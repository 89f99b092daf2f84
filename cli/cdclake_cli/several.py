"""Runs a verb for several tables: those that are named, and those that patterns match.

Verbs that only read use `for_each`. Verbs that change lake tables use `change_each`: it lists what they will do, asks
once, and then does it. In both, the error of one table does not stop the others.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import TYPE_CHECKING, Callable, TypeVar

import typer
from botocore.exceptions import BotoCoreError, ClientError

from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.control.jobs.entry import error_line
from cdclake.errors import CdclakeError, ConfigurationError, UnknownTableError, gravest_kind, similar_names
from cdclake.model.table.name import TableName
from cdclake.printable import printable
from cdclake_cli.confirm import DRY_RUN, confirm
from cdclake_cli.errors import concerns_every_table, explain
from cdclake_cli.patterns import EVERY, is_pattern, parse_pattern, tables_of
from cdclake_cli.printing.output import OutputColumn, OutputFormat, output_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from cdclake_cli.target import Target

Result = TypeVar("Result")
Table = TypeVar("Table")

MAX_NAMES = 3
"""Tables that a message names; it says that there are more."""

_TO_DO = (OutputColumn("table", "Table"), OutputColumn("action", "What will be done"))


def matching_names(target: Target, texts: Iterable[str]) -> list[TableName]:
    """The tables that arguments name: names as they are, and the registered tables that patterns match, by name.

    For patterns see `cdclake_cli.patterns`. Each table occurs once. The state table is read only if there is one.

    Raises:
        ConfigurationError: A text is not a table name, or stands for tables in two ways.
        UnknownTableError: No registered table matches a pattern.
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    parsed = {text: parse_pattern(text) for text in texts}
    registered: dict[TableName, None] = {}
    if any(map(is_pattern, parsed)):
        states = connect(target).state.all(target.installation.state_prefix)
        registered = dict.fromkeys(sorted(state.name for state in states))
    found = {text: tables_of(name, registered) if is_pattern(text) else [name] for text, name in parsed.items()}
    unmatched = {text: parsed[text] for text, names in found.items() if not names}
    if unmatched:
        similar = "".join(_similar(pattern, registered) for pattern in unmatched.values())
        remedy = f"{similar}cdclake tables lists the registered tables; quote patterns, or the shell expands them"
        raise UnknownTableError("No registered table matches the pattern", remedy=remedy, pattern=", ".join(unmatched))
    return list(dict.fromkeys(name for names in found.values() for name in names))


def limited_to(target: Target, texts: Sequence[str] | None) -> tuple[TableName, ...]:
    """The tables to limit a verb to; empty for all, also for those that are not registered yet.

    Raises:
        As `matching_names`.
    """
    return () if not texts or EVERY in texts else tuple(matching_names(target, texts))


def first_names(names: Sequence[str]) -> str:
    """The first of some names, for a message."""
    return ", ".join([*names[:MAX_NAMES], *(["..."] if len(names) > MAX_NAMES else [])])


def refuse_several(names: Sequence[TableName], **options: object) -> None:
    """Refuse options that belong to one table, with several.

    Args:
        options: Values by the option's name; None or an empty list if it is not used.

    Raises:
        ConfigurationError: There are several tables, and such an option is used.
    """
    used = [name for name, value in options.items() if value not in (None, [], ())]
    if len(names) > 1 and used:
        message = f"--{used[0].replace('_', '-')} is for one table, and {len(names):,} are named"
        raise ConfigurationError(message, remedy="Name one table", tables=", ".join(map(str, names[:3])))


@contextmanager
def one_table(text: str) -> Iterator[None]:
    """Let the block's error about an unknown table say that the verb takes no pattern, if it was given one.

    Raises:
        ConfigurationError: The table is unknown, and its name is a pattern.
    """
    try:
        yield
    except UnknownTableError as error:
        if is_pattern(text):
            message = f"This works on one table, and '{text}' is a pattern"
            raise ConfigurationError(message, remedy="Name one table; cdclake tables lists them") from error
        raise


class Failures:
    """Collects the errors of tables, so that the other tables go on.

    The error of a single table is raised as it is, and so is an error that every other table would have, too.

    Args:
        tables: How many tables there are.
    """

    def __init__(self, tables: int) -> None:
        self._tables = tables
        self.errors: dict[str, CdclakeError] = {}

    @contextmanager
    def of(self, name: object) -> Iterator[None]:
        """Collect the error of the block, which works on a table."""
        try:
            yield
        except (CdclakeError, BotoCoreError, ClientError) as error:
            explained = explain(error)
            if self._tables == 1 or explained is None or concerns_every_table(error):
                raise
            self.errors[str(name)] = explained


@contextmanager
def gathering(tables: int, remedy: str = "") -> Iterator[Failures]:
    """Collect the errors of tables in the block; at its end print each with its reason, and raise the gravest.

    Args:
        tables: How many tables there are.
        remedy: Of the error that is raised.

    Raises:
        CdclakeError: Of the kind of the gravest error, if there is one.
    """
    failures = Failures(tables)
    try:
        yield failures
    finally:
        for name, error in failures.errors.items():
            typer.echo(f"{printable(name)}: {error_line(error)}", err=True)
    if failures.errors:
        message = f"{len(failures.errors)} of {tables} tables failed: {', '.join(failures.errors)}"
        raise gravest_kind(failures.errors.values())(message, remedy=remedy)


def at_once(
    work: Callable[[Table], Result],
    tables: Sequence[Table],
    failures: Failures,
    done: list[Result],
    name: Callable[[Table], object] = attrgetter("name"),
) -> None:
    """Do the work for many tables at the same time. The error of one table does not stop the others.

    Args:
        tables: The tables, as the work takes them.
        done: Gets the results of the tables without an error, in any order, also if an error ends the work.
        name: Tells a table's name.

    Raises:
        As `Failures`: an error that every table would have.
    """

    def attempt(table: Table) -> None:
        with failures.of(name(table)):
            done.append(work(table))

    in_parallel(attempt, tables, CALLS_AT_ONCE)


def for_each(
    names: Sequence[TableName],
    work: Callable[[TableName], Result],
    show: Callable[[list[Result]], None] | None = None,
) -> None:
    """Do the work for each table. The error of one table does not stop the others.

    Args:
        show: Gets the results of the tables without an error, at the end, if there are any.

    Raises:
        CdclakeError: As `gathering`.
    """
    with gathering(len(names)) as failures, _shown(show) as results:
        for name in names:
            with failures.of(name):
                results.append(work(name))


@dataclass(frozen=True)
class Step:
    """What a verb will do to a table, and has shown.

    Attributes:
        action: One sentence without its end, that names the table, for the list and the question.
        carry_out: Does it.
        preview: What `--dry-run` prints as JSON; None for nothing.
    """

    action: str
    carry_out: Callable[[], Mapping[str, object] | None]
    preview: Mapping[str, object] | None = None


def change_each(
    names: Sequence[TableName],
    prepare: Callable[[TableName], Step | None],
    output: OutputFormat,
    *,
    yes: bool,
    dry_run: bool,
    show: Callable[[list[Mapping[str, object]]], None] | None = None,
) -> None:
    """Prepare a step for each table, ask once, and carry them out. The error of one table does not stop the others.

    Args:
        prepare: Shows what will be done to a table; None if there is nothing to do.
        yes: Do not ask.
        dry_run: Only prepare.
        show: Gets what the steps returned, at the end, if there is anything.

    Raises:
        CdclakeError: As `gathering`.
        ConfigurationError: It needs an answer, and cannot ask.
        typer.Exit: The user declines.
    """
    out = output_for(output)
    steps: dict[TableName, Step] = {}
    with gathering(len(names)) as failures, _shown(show) as results:
        for name in names:
            with failures.of(name):
                if step := prepare(name):
                    steps[name] = step
        if len(steps) > 1 and output is OutputFormat.TABLE:
            listed = [{"table": str(name), "action": step.action} for name, step in steps.items()]
            out.records("All tables", _TO_DO, listed)
        if dry_run and steps:
            for step in steps.values():
                if step.preview is not None:
                    out.json_record(step.preview)
            out.remark(DRY_RUN)
        elif steps:
            confirm(_question(list(steps.values())), yes=yes, output=output)
            for name, step in steps.items():
                with failures.of(name):
                    result = step.carry_out()
                    results.extend([result] if result is not None else [])


@contextmanager
def _shown(show: Callable[[list[Result]], None] | None) -> Iterator[list[Result]]:
    """Collect results, and show them at the end of the block, also if an error ends it."""
    results: list[Result] = []
    try:
        yield results
    finally:
        if show and results:
            show(results)


def _question(steps: list[Step]) -> str:
    return f"{steps[0].action}?" if len(steps) == 1 else f"Do this to {len(steps):,} tables?"


def _similar(pattern: TableName, names: Collection[TableName]) -> str:
    """Suggests names in the schemas that a pattern matches, and other schemas that have tables it matches."""
    others = {TableName(name.schema, pattern.table) for name in names if fnmatchcase(name.table, pattern.table)}
    near = {name for name in names if fnmatchcase(name.schema, pattern.schema)}
    return similar_names(pattern.typed, sorted(name.typed for name in others | near))
