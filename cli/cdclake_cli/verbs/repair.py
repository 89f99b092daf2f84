"""`cdclake repair`: restore lake tables' folders after another program changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake_cli.confirm import open_table, warn_if_running, warn_of_catalog_error
from cdclake_cli.options import DryRunOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import Step, change_each, matching_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.commit.table_files import Differences
    from cdclake.model.layout import LakeLayout
    from cdclake.model.table.name import TableName

_COLUMNS = (OutputColumn("file", "File"), OutputColumn("finding", "Finding"), OutputColumn("repair", "Repair"))


@with_target
def repair(
    tables: TablesArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Repair tables' folders after another program added or removed files.

    Restores missing data files, if they are still retained.

    Moves foreign files to a table's control folder, where readers do not see them, and retires files of earlier
    changes that a paused run restored too late.

    Example: cdclake repair shop.orders --dry-run
    """
    change_each(
        matching_names(target, tables),
        lambda name: _prepare(target, name, output, dry_run=dry_run),
        output,
        yes=yes,
        dry_run=dry_run,
    )


def _prepare(target: Target, name: TableName, output: OutputFormat, *, dry_run: bool) -> Step | None:
    """Show what to repair of one table; None if there is nothing."""
    lake_table, out = open_table(target, name), output_for(output)
    layout = lake_table.log.layout
    with progress(f"Comparing the files of {name} with its change log"):
        found = lake_table.differences()
    result = {"table": str(name), "done": False, **found.to_json(), "foreign_to": _url(layout, layout.foreign_key(""))}
    warn_if_running(lake_table, out)
    if output is OutputFormat.TABLE and found:
        out.records(f"Files in {_url(layout, layout.table_prefix)}", _COLUMNS, _records(lake_table.log, found))
    if not found:
        out.json_record(result)
        out.remark(f"The files of {name} are correct.")
        return None

    def put_right() -> None:
        with progress(f"Repairing {name}"):
            lake_table.repair(found)
        if output is OutputFormat.JSON:
            out.json_record({**result, "done": True})
        else:
            restored = len(found.vanished) + len(found.hidden)
            counts = f"{restored:,}, retired: {len(found.stale):,}, moved: {len(found.foreign):,}"
            out.remark(f"Done. Files of {name} restored: {counts}.")
        warn_of_catalog_error(lake_table, out)

    if found.overwritten and not dry_run:
        put_right()  # refuses: nobody need be asked
    return Step(f"Repair {name}", put_right, result)


def _records(log: ChangeLog, found: Differences) -> list[dict[str, object]]:
    layout, missing = log.layout, (*found.vanished, *found.hidden)
    lost = {layout.data_path_of(one.key) for one in log.store.not_retained(layout.file_keys(missing))}
    rows = [
        *((path, "missing", "none: no longer retained" if path in lost else "restore") for path in missing),
        *((path, "of an earlier change", "retire again") for path in found.stale),
        *((path, "foreign", f"move to {_url(layout, layout.foreign_key(path))}") for path in found.foreign),
        *((path, "overwritten", "none: restore its earlier version yourself") for path in found.overwritten),
    ]
    return [{"file": path, "finding": finding, "repair": action} for path, finding, action in rows]


def _url(layout: LakeLayout, key: str) -> str:
    return f"s3://{layout.bucket}/{key}"
