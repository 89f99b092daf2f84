"""`cdclake tables`: the tables in the state table, their settings, on and off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake.cli.confirm import ask, open_table
from cdclake.cli.options import DryRunOption, TableArgument, YesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for
from cdclake.cli.settings import SETTABLE, parse_settings, settings_of
from cdclake.cli.target import Target
from cdclake.control.admin.settings import change_settings
from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table import TableState

app = typer.Typer()

_COLUMNS = (
    Column("table", "Table"),
    Column("active", "Active"),
    Column("primary_key", "Primary key"),
    Column("partition_key", "Partition key"),
    Column("last_full_load", "Full load (UTC)"),
    Column("last_incremental_file", "Last change file"),
    Column("last_change", "Change"),
    Column("last_run", "Last run"),
)

_PAIR = (Column("name", ""), Column("value", ""))


@app.callback(invoke_without_command=True)
@with_target
def tables(context: typer.Context, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """List the tables if no other verb is given, show one, set keys, turn tables on and off.

    Example: cdclake tables set shop.orders --primary-key id
    """
    if context.invoked_subcommand is None:
        _list(target, output)


@app.command("list")
@with_target
def list_tables(*, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """List the tables that the Controller has registered.

    Example: cdclake tables list --output json
    """
    _list(target, output)


@app.command("show")
@with_target
def show_table(table: TableArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Show all of one table: what a person set, how it stands, and what is in the lake.

    Example: cdclake tables show shop.orders
    """
    from cdclake.cli.aws.services import connect  # boto3 takes a while, and --help needs none

    services = connect(target)
    state = target.installation.find_table(services.state, TableName.parse(table))
    log = services.log(state.name)
    head = log.head()
    facts = lake_facts(log.snapshot(head), log.first_retained() if head else None)
    shown = output_for(output)
    if output is OutputFormat.JSON:
        shown.records("Table", (), [{**state_record(state), "lake": facts}])
        return
    item = state.item
    for title, names in (("Set by a person", SETTABLE), ("Kept by the jobs", sorted(item.keys() - set(SETTABLE)))):
        lines = [{"name": name, "value": item[name]} for name in names if name in item]
        shown.records(f"{state.name}: {title.lower()}", _PAIR, lines)
    columns = facts.pop("columns")
    shown.records(
        f"In the lake, s3://{log.layout.bucket}/{log.layout.table_prefix}",
        _PAIR,
        [{"name": name.replace("_", " "), "value": _text(value)} for name, value in facts.items()],
    )
    shown.records("Columns", (Column("name", "Column"), Column("type", "Type")), columns)


@app.command("set")
@with_target
def set_table(
    table: TableArgument,
    *,
    primary_key: Annotated[str | None, typer.Option(help="Key columns, comma-separated; null for none.")] = None,
    partition_key: Annotated[
        str | None, typer.Option(help="Partition columns, comma-separated; null for none.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help='Columns of CSV files, e.g. "id int, name string".')] = None,
    history: Annotated[bool | None, typer.Option(help="Keep every version of each row in a table beside it.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="ATTRIBUTE=VALUE", help="Any other setting; may be repeated.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from", exists=True, dir_okay=False, help="JSON file with settings; options count before it."),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="Register the table if it is not, as one without a folder of its own.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Change a table's settings. What is not named stays as it is.

    Example: cdclake tables set shop.orders --primary-key id --set LateWindowHours=48
    """
    attributes = {**settings_of(from_file), **parse_settings(settings or [])}
    named = {Attribute.PRIMARY_KEY: primary_key, Attribute.PARTITION_KEY: partition_key, Attribute.SCHEMA: schema}
    attributes.update({name: value for name, value in named.items() if value is not None})
    if history is not None:
        attributes[Attribute.HISTORY] = str(history).lower()
    if not attributes:
        remedy = "Give --primary-key, --partition-key, --schema, --history, --set or --from"
        raise ConfigurationError("Nothing to set", remedy=remedy)
    _change(target, table, attributes, output, register=register)


@app.command()
@with_target
def activate(table: TableArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Let the jobs work on a table.

    Example: cdclake tables activate shop.orders
    """
    _change(target, table, {Attribute.ACTIVE_FLAG: Sentinel.ACTIVE}, output)


@app.command()
@with_target
def pause(table: TableArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Keep the jobs off a table. Its lake table stays, and activate goes on from there.

    Example: cdclake tables pause shop.orders
    """
    _change(target, table, {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE}, output)


@app.command()
@with_target
def unfreeze(
    table: TableArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Let a frozen table go on without the change files that vanished: what was in them is lost.

    Example: cdclake tables unfreeze shop.orders
    """
    shown = output_for(output)
    found = open_table(target, table)
    item = found.state.item
    if item.get(Attribute.LAST_PENDING, Sentinel.NONE) == Sentinel.NONE:
        shown.remark(f"No run has noted change files of {table} that are still to be applied.")
    else:
        shown.remark(f"Change files still to be applied, as the last run noted: {item[Attribute.LAST_PENDING]}")
    if dry_run:
        shown.remark("This is a dry run: nothing was done.")
        return
    ask(f"Let {table} go on without those that vanished, and lose what was in them?", yes=yes, output=output)
    after = change_settings(found.states, found.state, {Attribute.LAST_PENDING: Sentinel.NONE})
    shown.records("Tables", _COLUMNS, [state_record(after)])


def state_record(state: TableState) -> dict[str, object]:
    """A table's state as printed."""
    item = state.item
    return {
        "table": str(state.name),
        "active": state.active,
        "primary_key": _set_value(item, Attribute.PRIMARY_KEY),
        "partition_key": _set_value(item, Attribute.PARTITION_KEY),
        "last_full_load": _set_value(item, Attribute.LAST_FULL_LOAD_DATE),
        "last_incremental_file": state.watermark or None,
        "last_change": item.get(Attribute.LAST_CHANGE_ID),
        "last_run": item.get(Attribute.LAST_RUN_STATE),
        "last_error": item.get(Attribute.LAST_ERROR) or None,
        "item": dict(item),
    }


def lake_facts(lake: Snapshot, first_retained: int | None) -> dict[str, Any]:
    """What is in the lake of a table, good for JSON.

    Args:
        lake: The table after its newest change.
        first_retained: Number of the oldest change that one can go back to; None if there is no change.
    """
    history = lake.history.files if lake.history else ()
    return {
        "change": lake.change,
        "rows": lake.rows,
        "deleted_rows": lake.deleted_rows,
        "files": len(lake.files),
        "bytes": sum(file.bytes for file in lake.files),
        "partitions": len({file.partition for file in lake.files}),
        "remembered_deletes": sum(file.rows for file in lake.tombstones),
        "history_versions": sum(file.rows for file in history),
        "history_files": len(history),
        "history_bytes": sum(file.bytes for file in history),
        "watermark": lake.watermark,
        "first_retained": first_retained,
        "columns": [{"name": column.name, "type": column.type} for column in lake.schema],
    }


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def _set_value(item: Mapping[str, str], attribute: str) -> str | None:
    value = item.get(attribute)
    return None if value in (Sentinel.NONE, Sentinel.NEVER_LOADED) else value


def _list(target: Target, output: OutputFormat) -> None:
    from cdclake.cli.aws.services import connect  # boto3 takes a while, and --help needs none

    states = sorted(connect(target).state.all(target.installation.state_prefix), key=lambda state: state.name)
    shown = output_for(output)
    shown.records("Tables", _COLUMNS, [state_record(state) for state in states])
    if not states:
        prefix = target.installation.state_prefix
        shown.remark(f"No tables of {prefix} are registered. cdclake run looks for them and registers them.")


def _change(
    target: Target, table: str, attributes: dict[str, str], output: OutputFormat, *, register: bool = False
) -> None:
    from cdclake.cli.aws.services import connect

    state, name = connect(target).state, TableName.parse(table)
    if register:
        state.register(target.installation.new_state(name))
    before = target.installation.find_table(state, name)
    after = change_settings(state, before, attributes)
    output_for(output).records("Tables", _COLUMNS, [state_record(after)])
