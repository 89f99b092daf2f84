"""`cdclake clean-up`: delete objects of lake tables that the retention time does not need."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.model.table.settings import MAX_RETENTION_DAYS
from cdclake_cli.confirm import open_table, warn_if_running, warn_of_catalog_error
from cdclake_cli.options import DryRunOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import Step, change_each, matching_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName

_COLUMNS = (OutputColumn("kind", "Kind"), OutputColumn("objects", "Objects", number=True))
_KINDS = {
    "data_files": "Retired data files",
    "snapshots": "Snapshots",
    "tombstones": "Tombstone files",
    "ledger": "Segments of the ledger of raw files",
    "quarantine": "Bad rows that crashed runs quarantined",
    "staging": "Staged files of crashed runs",
    "copies": "Copies of retired files, made for reading",
    "marks": "Marks of published changes",
    "iceberg": "Files of the Iceberg table",
}
"""The text for each count of a clean-up plan."""


@with_target
def clean_up(
    tables: TablesArgument,
    *,
    retention_days: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_RETENTION_DAYS, help="Days to retain. Default: the table's RetentionDays, or 30 if not set."
        ),
    ] = None,
    keep_every_state: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_RETENTION_DAYS,
            metavar="DAYS",
            help="Days to keep every state. Default: the table's KeepEveryState, or 1 if not set.",
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Permanently delete what no state to be kept needs.

    Every state of the last day is kept, then one per six hours for a week, then one per day within the retention time.
    You can still roll back to them, and read them. Change records are never deleted.

    Example: cdclake clean-up shop.orders --retention-days 30 --dry-run
    """

    def prepare(name: TableName) -> Step | None:
        return _prepare(target, name, retention_days, keep_every_state, output)

    change_each(matching_names(target, tables), prepare, output, yes=yes, dry_run=dry_run)


def _prepare(
    target: Target, name: TableName, retention_days: int | None, keep_every_state: int | None, output: OutputFormat
) -> Step | None:
    """Show what to delete of one table; None if there is nothing."""
    lake_table, out = open_table(target, name), output_for(output)
    settings = lake_table.state.settings
    days = settings.retention_days if retention_days is None else retention_days
    every = settings.keep_every_state if keep_every_state is None else keep_every_state
    retention, keep_every = timedelta(days=days), timedelta(days=every)
    with progress(f"Planning the clean-up of {name}"):
        plan = lake_table.plan_clean_up(retention, keep_every)
    warn_if_running(lake_table, out)
    result = {"table": str(name), "done": False, "retention_days": days, "keep_every_state": every, **plan.to_json()}
    if output is OutputFormat.TABLE:
        records = [{"kind": text, "objects": result[count]} for count, text in _KINDS.items()]
        out.records(f"Clean-up of {name} (days retained: {days})", _COLUMNS, records)
        if lake_table.log.head():
            out.remark(f"Afterwards you can roll back to {plan.retained}.")
    if not plan.count:
        out.json_record(result)
        out.remark(f"{name}: there is nothing to delete.")
        return None

    def delete() -> None:
        with progress(f"Cleaning up {name}"):
            done = lake_table.clean_up(retention, keep_every)
        if output is OutputFormat.JSON:
            out.json_record({**result, **done.to_json(), "done": True})
        else:
            out.remark(f"Done. Objects of {name} deleted: {done.count:,}.")
        warn_of_catalog_error(lake_table, out)

    return Step(f"Permanently delete these objects of {name} ({plan.count:,})", delete, result)
