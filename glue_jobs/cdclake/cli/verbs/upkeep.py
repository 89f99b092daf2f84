"""`cdclake repair` and `cdclake clean-up`: put a lake table's files right, and delete for good what is old."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.confirm import DryRunOption, YesOption, ask, open_table, tell_of_catalog, warn_if_at_work
from cdclake.cli.options import Target, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.verbs.tables import TableArgument  # noqa: TC001 - Typer reads the annotations
from cdclake.model.table import MOST_RETENTION_DAYS

if TYPE_CHECKING:
    from cdclake.commit.clean_up import CleanUpPlan
    from cdclake.commit.table_files import Differences
    from cdclake.model.layout import LakeLayout

_FILE_COLUMNS = (Column("file", "File"), Column("found", "Found"), Column("remedy", "Remedy"))
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
def repair(
    table: TableArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Put a table's folder right after somebody else added or removed files.

    Data files that vanished are brought back, if they are still kept.

    Files that are not the table's are moved to its control folder, where readers do not see them.

    Example: cdclake repair shop.orders --dry-run
    """
    lake_table = open_table(target, table)
    name, layout, shown = lake_table.state.name, lake_table.log.layout, output_for(output)
    with progress(f"Comparing the files of {name} with its change log"):
        found = lake_table.differences()
    facts = {"table": str(name), "done": False, **found.to_json(), "foreign_to": _url(layout, layout.foreign_key(""))}
    warn_if_at_work(lake_table, shown)
    if output is OutputFormat.TABLE and found:
        shown.records(f"In {_url(layout, layout.table_prefix)}", _FILE_COLUMNS, _file_lines(layout, found))
    if dry_run or not found:
        if output is OutputFormat.JSON:
            shown.records("Repair", (), [facts])
        shown.remark("This is a dry run: nothing was done." if found else f"The files of {name} are as they should be.")
        return
    if not found.replaced:
        ask(f"Repair {name}?", yes=yes, output=output)
    with progress(f"Repairing {name}"):
        lake_table.repair(found)
    if output is OutputFormat.JSON:
        shown.records("Repair", (), [{**facts, "done": True}])
    else:
        shown.remark(f"Done: {len(found.vanished):,} files brought back, {len(found.foreign):,} moved aside.")
    tell_of_catalog(lake_table, shown)


@with_target
def clean_up(
    table: TableArgument,
    *,
    retention_days: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_RETENTION_DAYS, help="Days to keep; else the table's RetentionDays, 30 if unset."),
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


def _file_lines(layout: LakeLayout, found: Differences) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = [
        {"file": path, "found": "vanished", "remedy": "is brought back"} for path in found.vanished
    ]
    lines += [
        {"file": path, "found": "not the table's", "remedy": f"is moved to {_url(layout, layout.foreign_key(path))}"}
        for path in found.foreign
    ]
    lines += [
        {"file": path, "found": "overwritten", "remedy": "none here: bring its earlier version back"}
        for path in found.replaced
    ]
    return lines


def _object_lines(plan: CleanUpPlan) -> list[dict[str, object]]:
    counts = plan.to_json()
    return [{"what": text, "objects": counts[name]} for name, text in _WHAT.items()]


def _url(layout: LakeLayout, key: str) -> str:
    return f"s3://{layout.bucket}/{key}"
