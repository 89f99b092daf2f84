"""`cdclake apply`: make the tables as a file says."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import AttentionError, CommitConflictError, ConfigurationError, similar_names
from cdclake_cli.confirm import DRY_RUN, confirm
from cdclake_cli.options import DryRunOption, UncheckedOption, YesOption, with_target
from cdclake_cli.patterns import parse_pattern
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import first_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake_cli.aws.services import Services
    from cdclake_cli.config.compare import Comparison, TableChange
    from cdclake_cli.config.model import Config
    from cdclake_cli.printing.output import Output

_MOST_ROWS = 200
_SETTING = (
    OutputColumn("setting", "Setting"),
    OutputColumn("before", "Before"),
    OutputColumn("after", "After"),
    OutputColumn("effect", "Effect"),
)
_COLUMNS = (OutputColumn("table", "Table"), *_SETTING)
_GROUPS = (OutputColumn("count", "Tables", number=True), OutputColumn("names", "Such as"), *_SETTING)


@with_target
def apply(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file of tables.")
    ] = Path("cdclake.yml"),
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only show the differences; exit status 6 if there are any.")
    ] = False,
    register: Annotated[
        bool, typer.Option("--register", help="Register the tables that the file names and that are not registered.")
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Also change what needs tables to be loaded again, such as their keys.")
    ] = False,
    unchecked: UncheckedOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Make the settings of tables as a file says: cdclake.yml, or another one.

    Shows each difference and what it means, asks, and changes the tables. What the file does not set stays as it is,
    and so do tables that it does not match. If a setting is wrong for one table, nothing is changed.

    Example: cdclake apply cdclake.yml --dry-run
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it
    from cdclake_cli.config.carry_out import carry_out, checked
    from cdclake_cli.config.column_checks import column_checks
    from cdclake_cli.config.read import read_config

    services, out = connect(target), output_for(output)
    config = read_config(file, os.environ)
    with progress("Comparing the file with the tables") as bar:
        found = _compare(config, services, register=register)
        bar.describe("Checking the differences")
        named = [change.after for change in found.changes if change.names_columns]
        with column_checks(target, services, named, unchecked=unchecked) as checks:
            changes = checked(found.changes, checks)
    if output is OutputFormat.TABLE:
        _show(changes, out)
    _remark(found, out)
    if check or dry_run:
        _print_json(changes, found, out, done=False)
    if check:
        if changes or found.unregistered:
            raise _differs(changes, found)
    elif dry_run:
        out.remark(DRY_RUN)
    elif changes:
        _require_consent(changes, reload=reload)
        confirm(_question(changes), yes=yes, output=output)
        if _agreed(_compare(config, services, register=register)) != _agreed(found):
            message = "Settings of tables changed after the differences were shown. Nothing was done"
            raise CommitConflictError(message, remedy="Run the same command again and check them")
        done: list[TableChange] = []
        try:
            with progress(f"Changing {len(changes):,} tables"):
                carry_out(services.state, changes, done)
        finally:
            _print_json(sorted(done, key=lambda change: change.name), found, out, done=True)
            out.remark(f"Changed: {_tables(len(done))}.")


def _compare(config: Config, services: Services, *, register: bool) -> Comparison:
    from cdclake_cli.config.compare import compare

    place = services.installation
    states = services.state.all(place.state_prefix)
    return compare(config, states, place.new_state if register else None)


def _show(changes: Sequence[TableChange], out: Output) -> None:
    """Print a line for each difference; of many, one for all tables that differ in the same way."""
    rows = [{"table": str(change.name), **one} for change in changes for one in _lines(change)]
    if len(rows) <= _MOST_ROWS:
        if rows:
            out.records("Differences", _COLUMNS, rows)
        return
    groups = defaultdict[tuple[object, ...], list[str]](list)
    for row in rows:
        groups[tuple(row[column.key] for column in _SETTING)].append(str(row["table"]))
    records = [
        {"count": len(names), "names": first_names(names), **dict(zip((column.key for column in _SETTING), group))}
        for group, names in groups.items()
    ]
    out.records("Differences", _GROUPS, records)


def _lines(change: TableChange) -> Sequence[Mapping[str, object]]:
    """The differences of a table for people."""
    new = {"setting": "", "before": "not registered", "after": "registered", "effect": "is new"}
    return [*([new] if change.is_new else []), *(one.line for one in change.differences)]


def _print_json(changes: Sequence[TableChange], found: Comparison, out: Output, *, done: bool) -> None:
    for change in changes:
        out.json_record(
            {
                "table": str(change.name),
                "registered": done or not change.is_new,
                "reloads": change.reloads,
                "done": done,
                "differences": [one.record for one in change.differences],
            }
        )
    for name in found.unregistered:
        out.json_record({"table": str(name), "registered": False, "reloads": False, "done": False, "differences": []})


def _remark(found: Comparison, out: Output) -> None:
    """Print what the differences do not tell."""
    from cdclake_cli.config.model import key_of  # not needed for --help

    known = [str(change.name) for change in found.changes] + [str(name) for name in found.unmatched]
    for name in found.unregistered:
        near = similar_names(str(name), known)
        out.remark(f"{name} is not registered. {near}cdclake run registers it with its raw files, --register now.")
    for pattern in found.unused:
        literally = f" A table of this name is written {key_of(parse_pattern(pattern))}." if "[" in pattern else ""
        out.remark(f"'{pattern}' matches no registered table.{literally}")
    for name in found.rolled_back:
        out.remark(f"{name} stays off, because of a rollback. To turn it on: cdclake tables activate {name.typed}")
    out.remark(
        f"Tables that differ from the file: {len(found.changes):,}; as in the file: {found.equal:,};"
        f" not in the file and left alone: {len(found.unmatched):,}."
    )


def _require_consent(changes: Sequence[TableChange], *, reload: bool) -> None:
    reloading = [str(change.name) for change in changes if change.reloads]
    if reloading and not reload:
        message = (
            f"{_tables(len(reloading))} must be loaded again for this: {first_names(reloading)}. Nothing was changed"
        )
        raise ConfigurationError(message, remedy="Add --reload, or correct the file")


def _differs(changes: Sequence[TableChange], found: Comparison) -> AttentionError:
    names = [*(str(change.name) for change in changes), *map(str, found.unregistered)]
    message = f"{_tables(len(names))} not as the file says: {first_names(names)}"
    return AttentionError(message, remedy="cdclake apply makes them so; cdclake export-config writes them to a file")


def _agreed(found: Comparison) -> list[object]:
    """What the user saw of the differences."""
    return [
        (change.name, change.settings, [change.before.item.get(name) for name in change.settings])
        for change in found.changes
    ]


def _question(changes: Sequence[TableChange]) -> str:
    reloading = sum(change.reloads for change in changes)
    again = f", and let {_tables(reloading)} be loaded again" if reloading else ""
    return f"Change {_tables(len(changes))}{again}?"


def _tables(count: int) -> str:
    return f"{count:,} {'table' if count == 1 else 'tables'}"
