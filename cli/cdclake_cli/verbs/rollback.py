"""`cdclake rollback`: undo changes of a lake table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdclake_cli.confirm import open_table
from cdclake_cli.options import DryRunOption, ReasonOption, TableArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputFormat, OutputOption, progress
from cdclake_cli.target import Target
from cdclake_cli.undo import carry_out

if TYPE_CHECKING:
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.change.record import ChangeRecord


@with_target
def rollback(
    table: TableArgument,
    *,
    to: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="CHANGE",
            help="Change to roll back to; 0 means before the first change. Default: undo the last.",
        ),
    ] = None,
    leave_off: Annotated[
        bool, typer.Option("--leave-off", help="The table is meant to stay off: it needs no action in cdclake status.")
    ] = False,
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Undo the last change of a table, or roll back to an earlier one.

    Restores the same data files, byte for byte, and turns the table off.

    The watermark moves back too, so the next run would apply the same raw files again. The table stays off until you
    activate it, and needs action in cdclake status until then, unless you leave it off on purpose.

    Example: cdclake rollback shop.orders --to 3
    """
    lake_table = open_table(target, table)
    with progress(f"Planning the rollback of {lake_table.state.name}"):
        plan = lake_table.plan_rollback(to)

    def commit(table: RegisteredTable) -> ChangeRecord:
        return table.rollback(to, reason, plan, leave_off=leave_off)

    carry_out(target, lake_table, plan, commit, output, yes=yes, dry_run=dry_run)
