"""`cdclake changes`: the change log of a lake table. Read from the lake alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from cdclake.cli.change_columns import LIST_COLUMNS
from cdclake.cli.options import TableArgument, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target
from cdclake.commit.describe import as_after, entry_line, time_text, what_it_did
from cdclake.errors import ConfigurationError
from cdclake.model.change import ChangeKind
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typer._click import Context  # what the method overridden below takes; Typer's own Context is one of it

    from cdclake.cli.output import Output
    from cdclake.commit.log import ChangeLog
    from cdclake.commit.report import LogReport
    from cdclake.model.change import ChangeRecord

_DEFAULT_LAST = 30
_LIST = "list"

_PAIR = (Column("name", ""), Column("value", ""))
_COUNTS = (Column("name", ""), Column("value", "", number=True))


class _ListByDefault(TyperGroup):
    """Takes `changes SCHEMA.TABLE` for `changes list SCHEMA.TABLE`: no verb has a dot, and every table name has."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Put the verb in if there is none."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListByDefault,
    no_args_is_help=True,
    help="List the changes of a lake table, or show all of one. Example: cdclake changes shop.orders",
)


@app.command(_LIST)
@with_target
def list_changes(
    table: TableArgument,
    *,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest changes.")] = _DEFAULT_LAST,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """List a table's changes, the newest last; the word list may be left out.

    The note says which change the table shows now, what a rollback undid, what is too old to go back to, and who made a
    direct change and why.

    Example: cdclake changes shop.orders --last 10
    """
    from cdclake.commit.report import newest_changes

    log = _log(target, table)
    with progress(f"Reading the change log of {log.layout.name}"):
        report = newest_changes(log, last)
    show_list(log, report, output_for(output))


@app.command("show")
@with_target
def show_change(
    table: TableArgument,
    change: Annotated[int, typer.Argument(metavar="CHANGE", min=1, help="Its number.")],
    *,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show all of one change: its books, its files, who made it, and how long each phase took.

    Example: cdclake changes show shop.orders 3
    """
    log = _log(target, table)
    head = log.head()
    if change > head:
        message = f"{log.layout.name} has no change {change}: its newest is {head or 'none'}"
        raise ConfigurationError(message, remedy=f"cdclake changes {log.layout.name.typed} lists its changes")
    record = log.record(change)
    retained = change >= log.first_retained()
    if output is OutputFormat.JSON:
        data = json.loads(record.to_bytes())
        data["seconds"] = log.seconds(record)
        facts = {"table": str(log.layout.name), **data, "shows": record.content_change, "retained": retained}
        output_for(output).records("Change", (), [facts])
    else:
        _show_record(log, record, output_for(output), retained=retained)


def show_list(log: ChangeLog, report: LogReport, shown: Output) -> None:
    """Print a list of changes, and what is to be known about it."""
    name = str(log.layout.name)
    if not report.head:
        shown.remark(f"{name} has no changes in s3://{log.layout.bucket}/{log.layout.prefix}")
        return
    lines = [{"table": name, **entry_line(entry)} for entry in report.entries]
    shown.records(f"Changes of {name}", LIST_COLUMNS, lines)
    if len(report.entries) < report.head:
        shown.remark(f"The newest {len(report.entries)} of {report.head} changes; --last N shows more.")
    if not any(entry.shown for entry in report.entries):
        shown.remark(f"The table is {as_after(report.shown)}.")
    if report.first_retained > 1:
        shown.remark(f"One can go back to change {report.first_retained} or a later one.")


def _log(target: Target, table: str) -> ChangeLog:
    from cdclake.cli.aws.services import connect  # boto3 takes a while, and --help needs none

    return connect(target).log(TableName.parse(table))


def _show_record(log: ChangeLog, record: ChangeRecord, shown: Output, *, retained: bool) -> None:
    title = f"Change {record.change} of {log.layout.name}"
    seconds = log.seconds(record)
    shown.records(title, _PAIR, list(_pairs(_facts(log, record, seconds, retained=retained))))
    shown.records("Rows", _COUNTS, list(_pairs((_words(name), n) for name, n in asdict(record.books).items())))
    if seconds:
        shown.records("Seconds", _COUNTS, list(_pairs(seconds.items())))
    for header, names in (
        ("Raw files read", record.raw_files if record.kind is not ChangeKind.DIRECT else ()),
        ("Raw files left out as too late", record.too_late),
        ("Bad rows put aside", tuple(f"s3://{log.layout.bucket}/{key}" for key in record.quarantine)),
        ("Data files added", tuple(file.path for file in record.added)),
        ("Data files retired", record.retired),
        ("Data files restored", record.restored),
    ):
        if names:
            shown.records("", (Column("name", f"{header} ({len(names):,})"),), [{"name": name} for name in names])


def _facts(
    log: ChangeLog, record: ChangeRecord, seconds: Mapping[str, float], *, retained: bool
) -> Iterator[tuple[str, object]]:
    yield "Time (UTC)", time_text(record.created_utc)
    yield "Kind", what_it_did(record)
    if record.made_by:
        yield "Made by", record.made_by
    if record.reason:
        yield "Reason", record.reason
    yield "One can go back to it", retained
    yield "Run", record.run_id
    yield "Fencing token", record.fencing_token
    yield "Bytes read", f"{record.bytes_read:,}"
    yield "Bytes added", f"{record.bytes_added:,}"
    yield "Seconds", round(sum(seconds.values()), 3)
    yield "Record", f"s3://{log.layout.bucket}/{log.layout.change_key(record.change)}"


def _pairs(facts: Iterable[tuple[str, object]]) -> Iterator[dict[str, object]]:
    return ({"name": name, "value": value} for name, value in facts)


def _words(name: str) -> str:
    return name.replace("_", " ")
