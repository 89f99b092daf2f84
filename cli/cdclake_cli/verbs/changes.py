"""`cdclake changes`: show the change logs of lake tables. Reads the lake bucket only."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from cdclake.commit.describe import clock_text, effect_text, entry_fields, file_sections, state_text
from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake.model.times import display_utc, duration_text, iso_utc
from cdclake_cli.known_table import known_log
from cdclake_cli.options import TableArgument, TablesArgument, with_target
from cdclake_cli.printing.change_columns import LIST_COLUMNS
from cdclake_cli.printing.cost import cost_text, place_text
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import for_each, matching_names, one_table
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typer._click import Context  # the type in TyperGroup's signatures

    from cdclake.commit.log import ChangeLog
    from cdclake.commit.report import LogReport
    from cdclake.model.change.record import ChangeRecord
    from cdclake_cli.printing.output import Output

_DEFAULT_LAST = 30
_LIST = "list"

_PAIR = (OutputColumn("name", ""), OutputColumn("value", ""))
_COUNTS = (OutputColumn("name", ""), OutputColumn("value", "", number=True))


class _ListByDefault(TyperGroup):
    """Reads `changes SCHEMA.TABLE` as `changes list SCHEMA.TABLE`: table names contain a dot, and verbs do not."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Add the verb if it is missing."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ListByDefault,
    no_args_is_help=True,
    help="List the changes of lake tables, or show one in full.\n\nExample: cdclake changes shop.orders",
)


@app.command(_LIST)
@with_target
def list_changes(
    tables: TablesArgument,
    *,
    last: Annotated[int, typer.Option(min=1, help="Number of newest changes to list of each table.")] = _DEFAULT_LAST,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """List the changes of tables, newest last. You can omit the word list.

    The delay is the time from when DMS wrote the oldest change file until the change was visible.
    The note marks the current change, undone changes and changes that are no longer retained, and names the author and
    reason of a direct change.

    Example: cdclake changes shop.orders --last 10
    """
    from cdclake.commit.report import newest_changes

    def list_one(name: TableName) -> None:
        log = known_log(target, name)
        with progress(f"Reading the change log of {name}"):
            report = newest_changes(log, last)
        _show_list(log, report, output_for(output))

    for_each(matching_names(target, tables), list_one)


@app.command("show")
@with_target
def show_change(
    table: TableArgument,
    change: Annotated[int, typer.Argument(metavar="CHANGE", min=1, help="Change number.")],
    *,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show one change of one table in full: books, files, author, time of each phase, place and cost.

    Example: cdclake changes show shop.orders 3
    """
    with one_table(table):
        log = known_log(target, TableName.parse(table))
    head = log.head()
    if change > head:
        message = f"{log.layout.name} has no change {change}: the newest is {head or 'none'}"
        raise ConfigurationError(message, remedy=f"cdclake changes {log.layout.name.typed} lists the changes")
    record = log.record(change)
    retained = change in log.retained()
    if output is OutputFormat.JSON:
        data = json.loads(record.to_bytes())
        data["seconds"] = log.seconds(record)
        result = {"table": str(log.layout.name), **data, "shows": record.content_change, "retained": retained}
        delay = log.delays([record]).get(change)
        times = {
            "visible_utc": iso_utc(delay.visible_utc) if delay else None,
            "delay_seconds": delay.seconds if delay else None,
            "newest_delay_seconds": delay.newest_seconds if delay else None,
        }
        output_for(output).json_record({**result, **times})
    else:
        _show_record(log, record, output_for(output), retained=retained)


def _show_list(log: ChangeLog, report: LogReport, out: Output) -> None:
    name = str(log.layout.name)
    if not report.head:
        out.remark(f"{name} has no changes in s3://{log.layout.bucket}/{log.layout.prefix}")
        return
    records = [{"table": name, **entry_fields(entry)} for entry in report.entries]
    out.records(f"Changes of {name}", LIST_COLUMNS, records)
    if len(report.entries) < report.head:
        out.remark(f"The newest {len(report.entries)} of {report.head} changes; --last shows more.")
    if not any(entry.current for entry in report.entries):
        out.remark(f"The table is {state_text(report.content_change)}.")
    if report.retained.through:
        out.remark(f"You can roll back to {report.retained}.")


def _show_record(log: ChangeLog, record: ChangeRecord, out: Output, *, retained: bool) -> None:
    title = f"Change {record.change} of {log.layout.name}"
    seconds = log.seconds(record)
    out.records(title, _PAIR, list(_pairs(_facts(log, record, seconds, retained=retained))))
    out.records(
        "Rows", _COUNTS, list(_pairs((name.replace("_", " "), rows) for name, rows in asdict(record.books).items()))
    )
    if seconds:
        out.records("Seconds", _COUNTS, list(_pairs(seconds.items())))
    quarantine = [f"s3://{log.layout.bucket}/{key}" for key in record.quarantine]
    for header, names in file_sections(record, quarantine):
        out.records("", (OutputColumn("name", f"{header} ({len(names):,})"),), [{"name": name} for name in names])


def _facts(
    log: ChangeLog, record: ChangeRecord, seconds: Mapping[str, float], *, retained: bool
) -> Iterator[tuple[str, object]]:
    yield "Time", display_utc(record.created_utc)
    if record.clock_utc:
        yield "Clock", clock_text(record)
    yield "Kind", effect_text(record)
    if record.made_by:
        yield "Author", record.made_by
    if record.reason:
        yield "Reason", record.reason
    if delay := log.delays([record]).get(record.change):
        newest = f", and {duration_text(delay.newest_seconds)} of the newest file"
        yield "Delay", f"{duration_text(delay.seconds)}{newest if delay.newest_seconds != delay.seconds else ''}"
    yield "Retained", retained
    if record.place.host:
        yield "Computed by", place_text(record.place)
        yield "Cost", cost_text(record.place, sum(seconds.values()))
    yield "Run", record.run_id
    yield "Fencing token", record.fencing_token
    yield "Bytes read", f"{record.bytes_read:,}"
    yield "Bytes added", f"{record.bytes_added:,}"
    yield "Seconds", round(sum(seconds.values()), 3)
    yield "Record", f"s3://{log.layout.bucket}/{log.layout.change_key(record.change)}"


def _pairs(facts: Iterable[tuple[str, object]]) -> Iterator[dict[str, object]]:
    return ({"name": name, "value": value} for name, value in facts)
