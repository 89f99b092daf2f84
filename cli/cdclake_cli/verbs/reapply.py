"""`cdclake reapply`: redo what a rollback undid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake_cli.confirm import open_table
from cdclake_cli.options import DryRunOption, ReasonOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputFormat, OutputOption, progress
from cdclake_cli.several import Step, change_each, matching_names
from cdclake_cli.target import Target
from cdclake_cli.undo import undo_step

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName


@with_target
def reapply(
    tables: TablesArgument,
    *,
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Redo what a rollback undid, one change at a time, without recomputing it.

    Possible until something else changes the table.

    Example: cdclake reapply shop.orders
    """

    def prepare(name: TableName) -> Step:
        lake_table = open_table(target, name)
        with progress(f"Planning the reapply of {name}"):
            plan = lake_table.plan_reapply()
        return undo_step(target, lake_table, plan, lambda one: one.reapply(reason, plan), output)

    change_each(matching_names(target, tables), prepare, output, yes=yes, dry_run=dry_run)
