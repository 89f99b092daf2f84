"""`cdclake tables`: list and show registered tables, change their settings, turn them on and off."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.control.admin.change_settings import change_settings
from cdclake.control.plan.fates import Fate
from cdclake.control.plan.lost_files import PendingNote
from cdclake.errors import ConfigurationError
from cdclake.model.layout import require_schema_folder
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import COLUMN_ATTRIBUTES
from cdclake_cli.config.compare import differences
from cdclake_cli.confirm import DRY_RUN, open_table
from cdclake_cli.options import (
    AnyTablesArgument,
    DryRunOption,
    FromFileOption,
    TablesArgument,
    UncheckedOption,
    YesOption,
    with_target,
)
from cdclake_cli.printing.lake_facts import lake_facts
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.settings import SETTABLE, SHOWN, parse_settings, read_settings
from cdclake_cli.several import Step, at_once, change_each, for_each, gathering, limited_to, matching_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState
    from cdclake_cli.printing.output import Output

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

_PAIR = (OutputColumn("name", ""), OutputColumn("value", "", folds=True))

_SETTINGS = (
    OutputColumn("table", "Table"),
    OutputColumn("setting", "Setting"),
    OutputColumn("before", "Before", folds=True),
    OutputColumn("after", "After", folds=True),
    OutputColumn("effect", "Effect"),
)


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
def list_tables(tables: AnyTablesArgument = None, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """List the registered tables.

    Example: cdclake tables list --output json
    """
    _list(target, output, tables or ())


@app.command("show")
@with_target
def show_tables(
    tables: TablesArgument,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Also show internal state, which the jobs keep.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show tables in full: their settings, their state, and their lake tables.

    Example: cdclake tables show shop.orders
    """
    names = matching_names(target, tables)
    for_each(names, lambda name: _show(target, name, output_for(output), output, show_all=show_all))


def _show(target: Target, name: TableName, out: Output, output: OutputFormat, *, show_all: bool) -> None:
    """Show one table."""
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services = connect(target)
    state = target.installation.find_table(services.state, name)
    log = services.log(state.name)
    head = log.head()
    facts = lake_facts(log.snapshot(head), log.retained() if head else None)
    if output is OutputFormat.JSON:
        out.json_record({**_state_record(state), "lake": facts})
        return
    item = state.item
    rest = sorted(item.keys() - set(SETTABLE))
    shown = [attribute for attribute in rest if show_all or attribute in SHOWN]
    for title, attributes in (("settings", SETTABLE), ("state", shown)):
        records = [{"name": attribute, "value": item[attribute]} for attribute in attributes if attribute in item]
        out.records(f"{name}: {title}", _PAIR, records)
    if len(shown) < len(rest):
        out.remark(f"Attributes of internal state not shown: {len(rest) - len(shown):,}; --all shows them")
    columns = facts.pop("columns")
    out.records(
        f"Lake table, s3://{log.layout.bucket}/{log.layout.table_prefix}",
        _PAIR,
        [{"name": name.replace("_", " "), "value": _text(value)} for name, value in facts.items()],
    )
    out.records("Columns", (OutputColumn("name", "Column"), OutputColumn("type", "Type")), columns)


@app.command("set")
@with_target
def set_tables(
    tables: TablesArgument,
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
        bool, typer.Option("--register", help="Register tables first that have no folder of raw files yet.")
    ] = False,
    unchecked: UncheckedOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Change settings of tables: of all that are named, or of none if a setting is wrong for one.

    The other settings stay as they are. Shows what each was before, and when it takes effect.
    Columns must be in a table's newest raw file, or in Schema if there is no file yet.

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
    names = matching_names(target, tables)
    found = _checked(target, names, attributes, register=register, unchecked=unchecked)
    _change(target, found, attributes, output, register=register, dry_run=dry_run)


@app.command()
@with_target
def activate(tables: TablesArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Turn tables on, so that runs work on them.

    Example: cdclake tables activate shop.orders
    """
    _switch(target, tables, Sentinel.ACTIVE, output)


@app.command()
@with_target
def pause(tables: TablesArgument, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Turn tables off, so that runs skip them.

    Their lake tables stay, and activate continues from there. After a rollback, this leaves a table off on purpose: it
    no longer needs action.

    Example: cdclake tables pause shop.orders
    """
    _switch(target, tables, Sentinel.INACTIVE, output)


@app.command()
@with_target
def acknowledge(
    tables: TablesArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Acknowledge what tables lack and what changed at their sources, so that they are no longer incomplete.

    This covers quarantined rows, files that arrived too late, and changed columns. If SchemaPolicy stopped a table,
    it also accepts the new columns, and the next run applies the file. Quarantined rows can still be released.

    Example: cdclake tables acknowledge shop.orders
    """
    out = output_for(output)

    def prepare(name: TableName) -> Step:
        lake_table = open_table(target, name)
        seen = lake_table.to_acknowledge()
        for finding in seen.findings:
            out.remark(f"{name}: {finding}")
        if seen.accepts:
            out.remark(f"{name}: columns changed at the source, and the last run applied nothing: {seen.accepts}")
        if not seen.findings and not seen.accepts:
            out.remark(f"{name}: there is nothing to acknowledge.")
        return Step(f"Acknowledge this for {name}", lambda: _state_record(lake_table.acknowledge(seen)))

    names = matching_names(target, tables)
    change_each(names, prepare, output, yes=yes, dry_run=dry_run, show=partial(out.records, "Tables", _COLUMNS))


@app.command()
@with_target
def unfreeze(
    tables: TablesArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Unfreeze tables without their missing change files.

    The changes in these files are lost.

    Example: cdclake tables unfreeze shop.orders
    """
    out = output_for(output)

    def prepare(name: TableName) -> Step:
        lake_table = open_table(target, name)
        noted = PendingNote.of_item(lake_table.state.item)
        if noted.files:
            seen = f"{noted.files}, the last is {noted.last}"
            out.remark(f"{name}: change files that were due when a run last looked: {seen}")
            out.remark(f"Those that are missing: cdclake files {name.typed} --fate {Fate.VANISHED.value}")
        else:
            out.remark(f"No run has noted due change files of {name}.")

        def forget() -> dict[str, object]:
            cleared = {Attribute.LAST_PENDING: Sentinel.NONE}
            return _state_record(change_settings(lake_table.states, lake_table.state, cleared))

        return Step(f"Unfreeze {name}, and lose the changes in the missing files", forget)

    names = matching_names(target, tables)
    change_each(names, prepare, output, yes=yes, dry_run=dry_run, show=partial(out.records, "Tables", _COLUMNS))


@app.command()
@with_target
def reset(
    tables: TablesArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Forget lake tables that are lost, so that the next run loads them again from their raw files.

    Only if the lake has no file of a table. Settings stay.

    Example: cdclake tables reset shop.orders
    """
    out = output_for(output)

    def prepare(name: TableName) -> Step:
        lake_table = open_table(target, name)
        lake_table.check_resettable()
        if dry_run:
            last = lake_table.state.last_change
            out.remark(f"The state table would forget change {last} of {name} and all before it.")
        action = f"Forget all changes of {name}, of which the lake has none"
        return Step(action, lambda: _state_record(lake_table.reset()))

    names = matching_names(target, tables)
    change_each(names, prepare, output, yes=yes, dry_run=dry_run, show=partial(out.records, "Tables", _COLUMNS))


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


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def _set_value(item: Mapping[str, str], attribute: str) -> str | None:
    value = item.get(attribute)
    return None if value in (Sentinel.NONE, Sentinel.NEVER_LOADED) else value


def _list(target: Target, output: OutputFormat, tables: Sequence[str] = ()) -> None:
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    store, out = connect(target).state, output_for(output)
    names = limited_to(target, tables)
    if names:
        read = partial(target.installation.find_table, store)
        for_each(names, read, lambda found: out.records("Tables", _COLUMNS, [_state_record(state) for state in found]))
        return
    states = sorted(store.all(target.installation.state_prefix), key=lambda state: state.name)
    out.records("Tables", _COLUMNS, [_state_record(state) for state in states])
    if not states:
        prefix = target.installation.state_prefix
        out.remark(f"No tables of {prefix} are registered. cdclake run finds and registers tables.")


def _checked(
    target: Target, names: Sequence[TableName], attributes: Mapping[str, str], *, register: bool, unchecked: bool
) -> list[TableState]:
    """The states of tables whose settings can be changed, by name.

    Raises:
        CdclakeError: As `cdclake_cli.several.gathering`: a setting is wrong for one, or one is not registered and is
            not to be.
    """
    from cdclake_cli.aws.services import connect
    from cdclake_cli.config.column_checks import check_change, column_checks

    services = connect(target)
    names_columns = not COLUMN_ATTRIBUTES.isdisjoint(attributes)

    def read(name: TableName) -> TableState:
        if not register:
            return target.installation.find_table(services.state, name)
        require_schema_folder(name)
        new = target.installation.new_state(name)
        return services.state.get(new.path) or new

    def check(before: TableState) -> TableState:
        check_change(checks, before, attributes)
        return before

    found: list[TableState] = []
    good: list[TableState] = []
    with gathering(len(names), remedy="Nothing was changed") as failures:
        at_once(read, names, failures, found, name=str)
        named = [state.with_attributes(**attributes) for state in found if names_columns]
        with column_checks(target, services, named, unchecked=unchecked) as checks:
            at_once(check, found, failures, good)
    return sorted(good, key=lambda state: state.name)


def _switch(target: Target, tables: Sequence[str], flag: str, output: OutputFormat) -> None:
    """Turn tables on or off."""
    from cdclake_cli.aws.services import connect

    store, names = connect(target).state, matching_names(target, tables)

    def switch(name: TableName) -> TableState:
        return change_settings(store, target.installation.find_table(store, name), {Attribute.ACTIVE_FLAG: flag})

    out = output_for(output)
    for_each(names, switch, lambda found: out.records("Tables", _COLUMNS, [_state_record(state) for state in found]))


def _change(
    target: Target,
    found: Sequence[TableState],
    attributes: Mapping[str, str],
    output: OutputFormat,
    *,
    register: bool,
    dry_run: bool,
) -> None:
    """Change settings of tables, and show each before and after."""
    from cdclake_cli.aws.services import connect

    store = connect(target).state

    def change(before: TableState) -> tuple[TableState, TableState]:
        if dry_run:
            return before, before.with_attributes(**attributes)
        if register:
            store.register(before)
        return before, change_settings(store, before, attributes)

    changed: list[tuple[TableState, TableState]] = []
    try:
        with gathering(len(found)) as failures:
            at_once(change, found, failures, changed)
    finally:
        if changed:
            _show_changed(sorted(changed, key=lambda pair: pair[0].name), attributes, output, dry_run=dry_run)


def _show_changed(
    changed: Sequence[tuple[TableState, TableState]],
    attributes: Mapping[str, str],
    output: OutputFormat,
    *,
    dry_run: bool,
) -> None:
    """Show settings before and after: a line for each, or a JSON object for each table."""
    out, records = output_for(output), []
    for before, after in changed:
        changes = differences(before, attributes)
        record = {**_state_record(after), "done": not dry_run, "differences": [one.record for one in changes]}
        out.json_record(record)
        records += [{"table": str(after.name), **one.line} for one in changes]
    if output is OutputFormat.TABLE:
        out.records("Settings", _SETTINGS, records)
    if dry_run:
        out.remark(DRY_RUN)
