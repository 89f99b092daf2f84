"""`cdclake rollback`: undoes changes of a lake table."""

from __future__ import annotations

from typing import Annotated

import typer

from cdclake.cli.confirm import open_table
from cdclake.cli.options import DryRunOption, ReasonOption, TableArgument, YesOption, with_target
from cdclake.cli.output import OutputFormat, OutputOption, progress
from cdclake.cli.target import Target
from cdclake.cli.undo import carry_out_plan


@with_target
def rollback(
    table: TableArgument,
    *,
    to: Annotated[
        int | None,
        typer.Option(min=0, metavar="CHANGE", help="Go back to this change; 0: to before any. Else: undo the last."),
    ] = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Undo the last change of a table, or go back to an earlier change, and turn the table off.

    The same files come back, byte for byte.

    The watermark goes back too, and a run would apply the same files again: so the table stays off until turned on.

    Example: cdclake rollback shop.orders --to 3
    """
    lake_table = open_table(target, table)
    with progress(f"Looking for what to undo of {lake_table.state.name}"):
        plan = lake_table.plan_rollback(to)
    carry_out_plan(
        target, lake_table, plan, lambda table: table.rollback(to, reason, plan), output, yes=yes, dry_run=dry_run
    )
