"""`cdclake repair` and `cdclake clean-up`: put a lake table's files right, and delete for good what is old."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.confirm import ask, open_table, tell_of_catalog, warn_if_at_work
from cdclake.cli.options import DryRunOption, TableArgument, YesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target
from cdclake.model.table import MAX_RETENTION_DAYS

if TYPE_CHECKING:
    from cdclake.commit.clean_up import CleanUpPlan

_OBJECT_COLUMNS = (Column("what", "What"), Column("objects", "Objects", number=True))
_WHAT = {
    "data_files": "Retired data files",
    "snapshots": "Lists of data files",
    "tombstones": "Files of remembered deletes",
    "quarantine": "Bad rows that runs which died had put aside",
    "staging": "What runs which died had staged",
    "copies": "Copies of retired files, made to be read",
    "marks": "Notes that a change is published",
}


@with_target
def clean_up(
    table: TableArgument,
    *,
    retention_days: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_RETENTION_DAYS, help="Days to keep; else the table's RetentionDays, 30 if unset."),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Delete for good what no change within the retention time needs.

    What the table was at any time within it can still be gone back to and read. Change records stay for ever.

    Example: cdclake clean-up shop.orders --retention-days 30 --dry-run
    """
    lake_table = open_table(target, table)
    name, shown = lake_table.state.name, output_for(output)
    days = lake_table.state.settings.retention_days if retention_days is None else retention_days
    retention = timedelta(days=days)
    with progress(f"Looking for what {name} does not need any more"):
        plan = lake_table.plan_clean_up(retention)
    warn_if_at_work(lake_table, shown)
    facts = {"table": str(name), "done": False, "retention_days": days, **plan.to_json()}
    if output is OutputFormat.TABLE:
        shown.records(f"Clean-up of {name} (days kept: {days})", _OBJECT_COLUMNS, _object_lines(plan))
        shown.remark(f"After it, one can go back to change {plan.first_retained} or a later one.")
    if dry_run or not plan.count:
        if output is OutputFormat.JSON:
            shown.records("Clean-up", (), [facts])
        shown.remark("This is a dry run: nothing was done." if plan.count else "There is nothing to delete.")
        return
    ask(f"Delete these {plan.count:,} objects of {name} for good?", yes=yes, output=output)
    with progress(f"Cleaning up {name}"):
        done = lake_table.clean_up(retention)
    if output is OutputFormat.JSON:
        shown.records("Clean-up", (), [{**facts, **done.to_json(), "done": True}])
    else:
        shown.remark(f"Done: {done.count:,} objects deleted.")
    tell_of_catalog(lake_table, shown)


def _object_lines(plan: CleanUpPlan) -> list[dict[str, object]]:
    counts = plan.to_json()
    return [{"what": text, "objects": counts[name]} for name, text in _WHAT.items()]
