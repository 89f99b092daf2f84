"""`cdclake resync`: have DMS load tables from their sources again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdclake.errors import AttentionError, ConfigurationError
from cdclake.model.table.attributes import Attribute
from cdclake_cli.options import DryRunOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import Step, change_each, matching_names
from cdclake_cli.signals import exiting_on_signals
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName
    from cdclake_cli.aws.dms_reload import TableLoad


@with_target
def resync(
    tables: TablesArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Have DMS load tables from their sources again, and wait until it has.

    For tables that differ from their sources. Asks the DMS task in DmsTask, one table after the other. The next run
    then replaces the lake table, or with ReloadMode diff what differs. If this command is stopped, DMS goes on.

    Example: cdclake resync shop.orders
    """
    names = matching_names(target, tables)
    change_each(names, lambda name: _prepare(target, name, output), output, yes=yes, dry_run=dry_run)


def _prepare(target: Target, name: TableName, output: OutputFormat) -> Step:
    """Check that DMS can reload a table."""
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services, out = connect(target), output_for(output)
    state = services.installation.find_table(services.state, name)
    task = state.settings.dms_task
    if not task:
        remedy = f"Set it: cdclake tables set {name.typed} --set {Attribute.DMS_TASK}=ARN. Or reload the table in DMS"
        message = f"{Attribute.DMS_TASK} is not set"
        raise ConfigurationError(message, remedy=remedy, table=name)
    before = services.reloads.before_reload(task, name)
    source = f"{before.schema}.{before.table}"
    out.remark(f"{name}: DMS reports '{before.state}' for {source}, rows of its last full load: {before.rows:,}")

    def reload() -> None:
        services.reloads.reload(task, before)
        with progress(f"DMS reloads {source}") as bar, exiting_on_signals():

            def describe(load: TableLoad) -> None:
                bar.describe(f"DMS reloads {source}: '{load.state}', rows: {load.rows:,}")

            try:
                load = services.reloads.wait(task, name, before, describe)
            except AttentionError:
                raise
            except BaseException:  # such as a signal, a lost connection or expired credentials
                bar.note(f"This command no longer waits. DMS goes on reloading {source}. To watch it: cdclake status")
                raise
        if output is OutputFormat.JSON:
            out.json_record(_record(name, task, load, done=True))
        else:
            out.remark(f"Done. DMS has reloaded {source}, rows: {load.rows:,}.")
        if state.active:
            minutes = state.settings.full_load_quiet_minutes
            how = "compares it with the table" if state.settings.reload_by_difference else "replaces the table with it"
            out.remark(f"A run {how} when no file has arrived for {minutes} minutes: cdclake run {name.typed}")
        else:
            out.remark(f"{name} is off, so no run loads it. To turn it on: cdclake tables activate {name.typed}")

    return Step(f"Have DMS reload {name}", reload, _record(name, task, before, done=False))


def _record(name: TableName, task: str, load: TableLoad, *, done: bool) -> dict[str, Any]:
    """What is printed as JSON."""
    return {"table": str(name), "done": done, "task": task, "state": load.state, "rows": load.rows}
