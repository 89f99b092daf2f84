"""`cdclake reapply`: redo what a rollback undid."""

from __future__ import annotations

from cdclake_cli.confirm import open_table
from cdclake_cli.options import DryRunOption, ReasonOption, TableArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputFormat, OutputOption, progress
from cdclake_cli.target import Target
from cdclake_cli.undo import carry_out


@with_target
def reapply(
    table: TableArgument,
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
    lake_table = open_table(target, table)
    with progress(f"Planning the reapply of {lake_table.state.name}"):
        plan = lake_table.plan_reapply()
    carry_out(target, lake_table, plan, lambda one: one.reapply(reason, plan), output, yes=yes, dry_run=dry_run)
