"""`cdclake repair` and `cdclake clean-up`: put a lake table's files right, and delete for good what is old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.cli.confirm import ask, open_table, tell_of_catalog, warn_if_at_work
from cdclake.cli.options import DryRunOption, TableArgument, YesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target

if TYPE_CHECKING:
    from cdclake.commit.table_files import Differences
    from cdclake.model.layout import LakeLayout

_FILE_COLUMNS = (Column("file", "File"), Column("found", "Found"), Column("remedy", "Remedy"))


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


def _url(layout: LakeLayout, key: str) -> str:
    return f"s3://{layout.bucket}/{key}"
