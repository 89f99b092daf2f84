"""`cdclake tables`: list and show registered tables, change their settings, turn them on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake.control.admin.change_settings import change_settings, checked_settings, starts_reload
from cdclake.control.plan.fates import Fate
from cdclake.control.plan.lost_files import PendingNote
from cdclake.errors import ConfigurationError
from cdclake.model.layout import require_schema_folder
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import COLUMN_ATTRIBUTES
from cdclake_cli.confirm import DRY_RUN, confirm, open_table
from cdclake_cli.options import (
    DryRunOption,
    FromFileOption,
    TableArgument,
    TablePatternArgument,
    YesOption,
    with_target,
)
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.settings import SETTABLE, parse_settings, read_settings
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cdclake.model.retained import Retained
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState

app = typer.Typer()

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("active", "Active"),
    OutputColumn("primary_key", "Primary key"),
    OutputColumn("partition_key", "Partition key"),
    OutputColumn("last_full_load", "Full load", time=True),
    OutputColumn("last_incremental_file", "Last change file"),
    OutputColumn("last_change", "Change"),
    OutputColumn("last_run", "Last run"),
)

_PAIR = (OutputColumn("name", ""), OutputColumn("value", ""))


@app.callback(invoke_without_command=True)
@with_target
def tables(context: typer.Context, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """List, show and configure tables; turn them on and off.

    Without a verb, lists them.

    Example: cdclake tables set shop.orders --primary-key id
    """
    if context.invoked_subcommand is None:
        _list(target, output)


@app.command("list")
@with_target
def list_tables(*, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """List the registered tables.

    Example: cdclake tables list --output json
    """
    _list(target, output)


@app.command("show")
@with_target
def show_table(table: TableArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Show one table in full: its settings, its state, and its lake table.

    Example: cdclake tables show shop.orders
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services = connect(target)
    state = target.installation.find_table(services.state, TableName.parse(table))
    log = services.log(state.name)
    head = log.head()
    facts = _lake_facts(log.snapshot(head), log.retained() if head else None)
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.json_record({**_state_record(state), "lake": facts})
        return
    item = state.item
    for title, names in (("settings", SETTABLE), ("state", sorted(item.keys() - set(SETTABLE)))):
        records = [{"name": name, "value": item[name]} for name in names if name in item]
        out.records(f"{state.name}: {title}", _PAIR, records)
    columns = facts.pop("columns")
    out.records(
        f"Lake table, s3://{log.layout.bucket}/{log.layout.table_prefix}",
        _PAIR,
        [{"name": name.replace("_", " "), "value": _text(value)} for name, value in facts.items()],
    )
    out.records("Columns", (OutputColumn("name", "Column"), OutputColumn("type", "Type")), columns)


@app.command("set")
@with_target
def set_table(
    table: TablePatternArgument,
    *,
    primary_key: Annotated[str | None, typer.Option(help="Key columns, comma-separated; null for none.")] = None,
    partition_key: Annotated[
        str | None, typer.Option(help="Partition columns, comma-separated; null for none.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help='Columns of CSV files, such as "id int, name string".')] = None,
    history: Annotated[bool | None, typer.Option(help="Keep every version of each row, in a second folder.")] = None,
    readers: Annotated[
        str | None,
        typer.Option(help="What readers open: folder (plain Parquet), iceberg (an Iceberg table), or both."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="ATTRIBUTE=VALUE", help="Any other setting. Repeatable.")
    ] = None,
    from_file: FromFileOption = None,
    register: Annotated[
        bool, typer.Option("--register", help="Register the table first, if it has no folder of raw files yet.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Do not compare the columns named with the raw files.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Change settings of a table, or of each that a pattern matches. The other settings stay as they are.

    Columns must be in the table's newest raw file, or in Schema if there is no file yet.

    Example: cdclake tables set shop.orders --primary-key id --set LateWindowHours=48
    """
    attributes = {**read_settings(from_file), **parse_settings(settings or [])}
    named = {
        Attribute.PRIMARY_KEY: primary_key,
        Attribute.PARTITION_KEY: partition_key,
        Attribute.SCHEMA: schema,
        Attribute.READERS: readers,
    }
    attributes.update({name: value for name, value in named.items() if value is not None})
    if history is not None:
        attributes[Attribute.HISTORY] = str(history).lower()
    if not attributes:
        remedy = "Use --primary-key, --partition-key, --schema, --history, --readers, --set or --from"
        raise ConfigurationError("There is nothing to set", remedy=remedy)
    _change(target, table, attributes, output, register=register, unchecked=unchecked)


@app.command()
@with_target
def activate(table: TablePatternArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Turn a table on, or each that a pattern matches, so that runs work on it.

    Example: cdclake tables activate shop.orders
    """
    _change(target, table, {Attribute.ACTIVE_FLAG: Sentinel.ACTIVE}, output)


@app.command()
@with_target
def pause(table: TablePatternArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Turn a table off, or each that a pattern matches, so that runs skip it.

    Its lake table stays, and activate continues from there. After a rollback, this leaves the table off on purpose: it
    no longer needs action.

    Example: cdclake tables pause shop.orders
    """
    _change(target, table, {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE}, output)


@app.command()
@with_target
def acknowledge(
    table: TableArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Acknowledge what a table lacks and what changed at its source, so that it is no longer incomplete.

    This covers quarantined rows, files that arrived too late, and changed columns. If SchemaPolicy stopped the table,
    it also accepts the new columns, and the next run applies the file. Quarantined rows can still be released.

    Example: cdclake tables acknowledge shop.orders
    """
    out = output_for(output)
    lake_table = open_table(target, table)
    seen, name = lake_table.to_acknowledge(), lake_table.state.name
    for finding in seen.findings:
        out.remark(f"{name}: {finding}")
    if seen.accepts:
        out.remark(f"{name}: columns changed at the source, and the last run applied nothing: {seen.accepts}")
    if not seen.findings and not seen.accepts:
        out.remark(f"{name}: there is nothing to acknowledge.")
    if dry_run:
        out.remark(DRY_RUN)
        return
    confirm(f"Acknowledge this for {name}?", yes=yes, output=output)
    after = lake_table.acknowledge(seen)
    out.records("Tables", _COLUMNS, [_state_record(after)])


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
    """Unfreeze a table without its missing change files.

    The changes in these files are lost.

    Example: cdclake tables unfreeze shop.orders
    """
    out = output_for(output)
    lake_table = open_table(target, table)
    noted = PendingNote.of_item(lake_table.state.item)
    if noted.files:
        out.remark(f"Change files that were due when a run last looked: {noted.files}, the last is {noted.last}")
        out.remark(f"Those that are missing: cdclake files {table} --fate {Fate.VANISHED.value}")
    else:
        out.remark(f"No run has noted due change files of {table}.")
    if dry_run:
        out.remark(DRY_RUN)
        return
    confirm(f"Unfreeze {table}, and lose the changes in the missing files?", yes=yes, output=output)
    after = change_settings(lake_table.states, lake_table.state, {Attribute.LAST_PENDING: Sentinel.NONE})
    out.records("Tables", _COLUMNS, [_state_record(after)])


@app.command()
@with_target
def reset(
    table: TableArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Forget a lake table that is lost, so that the next run loads it again from its raw files.

    Only if the lake has no file of the table. Its settings stay.

    Example: cdclake tables reset shop.orders
    """
    out = output_for(output)
    lake_table = open_table(target, table)
    lake_table.check_resettable()
    name = lake_table.state.name
    if dry_run:
        out.remark(f"The state table would forget change {lake_table.state.last_change} of {name} and all before it.")
        out.remark(DRY_RUN)
        return
    confirm(f"Forget all changes of {name}, of which the lake has none?", yes=yes, output=output)
    out.records("Tables", _COLUMNS, [_state_record(lake_table.reset())])


def _state_record(state: TableState) -> dict[str, object]:
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


def _lake_facts(lake: Snapshot, retained: Retained | None) -> dict[str, Any]:
    """Figures of a lake table.

    Args:
        lake: The table after its newest change.
        retained: The changes to roll back to; None if there is no change.
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
        "first_retained": retained and retained.first,
        "all_retained_from": retained and retained.through + 1,
        "retained_before": list(retained.kept) if retained else [],
        "columns": [{"name": column.name, "type": column.type} for column in lake.schema],
    }


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def _set_value(item: Mapping[str, str], attribute: str) -> str | None:
    value = item.get(attribute)
    return None if value in (Sentinel.NONE, Sentinel.NEVER_LOADED) else value


def _list(target: Target, output: OutputFormat) -> None:
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    states = sorted(connect(target).state.all(target.installation.state_prefix), key=lambda state: state.name)
    out = output_for(output)
    out.records("Tables", _COLUMNS, [_state_record(state) for state in states])
    if not states:
        prefix = target.installation.state_prefix
        out.remark(f"No tables of {prefix} are registered. cdclake run finds and registers tables.")


def _change(
    target: Target,
    table: str,
    attributes: dict[str, str],
    output: OutputFormat,
    *,
    register: bool = False,
    unchecked: bool = True,
) -> None:
    """Change settings of all tables that a name or pattern matches, or of none if a setting is wrong for one."""
    from cdclake_cli.aws.services import connect

    services = connect(target)
    if register:
        new = target.installation.new_state(TableName.parse(table))
        require_schema_folder(new.name)
        found = [services.state.get(new.path) or new]
    else:
        found = target.installation.find_tables(services.state, table)
    for before in found:
        lake = None
        if attributes.keys() & COLUMN_ATTRIBUTES:
            log = services.log(before.name)
            lake = log.snapshot(log.head())
        after = checked_settings(before, attributes, lake)
        if lake and not unchecked:
            _check_columns(target, after, attributes.keys(), lake, reloads=starts_reload(attributes))
    states = []
    for before in found:
        if register:
            services.state.register(before)
        states.append(change_settings(services.state, before, attributes))
    output_for(output).records("Tables", _COLUMNS, [_state_record(after) for after in states])


def _check_columns(
    target: Target, state: TableState, changed: Collection[str], lake: Snapshot, *, reloads: bool
) -> None:
    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake_cli.aws.environment import aws_environment
    from cdclake_cli.aws.services import connect
    from cdclake_cli.doctor.check_settings import RawReader, check_columns

    with aws_environment(target):
        services = connect(target)
        raw = RawReader(services.raw, lambda: lake_filesystem(target.raw_bucket).open())
        check_columns(raw, state, changed, services.clock(), lake, reloads=reloads)
