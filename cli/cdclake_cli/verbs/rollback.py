"""`cdclake rollback`: undo changes of lake tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdclake_cli.confirm import open_table
from cdclake_cli.options import DryRunOption, ReasonOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputFormat, OutputOption, progress
from cdclake_cli.several import Step, change_each, matching_names, refuse_several
from cdclake_cli.target import Target
from cdclake_cli.undo import undo_step

if TYPE_CHECKING:
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.table.name import TableName


@with_target
def rollback(
    tables: TablesArgument,
    *,
    to: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="CHANGE",
            help="Change of one table to roll back to; 0 means before the first. Default: undo the last.",
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
    """Undo the last change of tables, or roll back one to an earlier change.

    Restores the same data files, byte for byte, and turns the table off.

    The watermark moves back too, so the next run would apply the same raw files again. The table stays off until you
    activate it, and needs action in cdclake status until then, unless you leave it off on purpose.

    Example: cdclake rollback shop.orders --to 3
    """
    names = matching_names(target, tables)
    refuse_several(names, to=to)

    def prepare(name: TableName) -> Step:
        lake_table = open_table(target, name)
        with progress(f"Planning the rollback of {name}"):
            plan = lake_table.plan_rollback(to)

        def commit(table: RegisteredTable) -> ChangeRecord:
            return table.rollback(to, reason, plan, leave_off=leave_off)

        return undo_step(target, lake_table, plan, commit, output)

    change_each(names, prepare, output, yes=yes, dry_run=dry_run)
