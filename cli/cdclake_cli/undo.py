"""Shared by `cdclake rollback` and `cdclake reapply`: show the plan, and carry it out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Callable

from cdclake.commit.describe import action_text, change_fields, state_text, undo_facts
from cdclake.commit.undo import next_to_reapply
from cdclake.model.change.record import ChangeKind
from cdclake_cli.confirm import author, warn_of_catalog_error
from cdclake_cli.printing.change_columns import LIST_COLUMNS
from cdclake_cli.printing.output import OutputColumn, OutputFormat, output_for, progress
from cdclake_cli.several import Step

if TYPE_CHECKING:
    from cdclake.commit.undo import UndoPlan
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.change.record import ChangeRecord
    from cdclake_cli.printing.output import Output
    from cdclake_cli.target import Target

_MOST_LISTED = 30
_COLUMNS = (OutputColumn("what", ""), OutputColumn("now", "Now"), OutputColumn("then", "Then"))


def undo_step(
    target: Target,
    lake_table: RegisteredTable,
    plan: UndoPlan,
    commit: Callable[[RegisteredTable], ChangeRecord],
    output: OutputFormat,
) -> Step:
    """Show a plan; the step carries it out."""
    name, out = lake_table.state.name, output_for(output)
    action = action_text(name, plan)
    result = {"table": str(name), "done": False, **plan.to_json()}
    if output is OutputFormat.TABLE:
        _show_plan(lake_table, plan, out)

    def carry_out() -> None:
        with progress(action):
            record = commit(replace(lake_table, made_by=author(target)))
        if output is OutputFormat.JSON:
            out.json_record({**result, "done": True, "change": record.change, "run_id": record.run_id})
        else:
            _show_next_steps(lake_table, record, out)
        warn_of_catalog_error(lake_table, out)

    return Step(action, carry_out, result)


def _show_plan(lake_table: RegisteredTable, plan: UndoPlan, out: Output) -> None:
    name = lake_table.state.name
    listed = lake_table.log.records_of(plan.undone[-_MOST_LISTED:])
    if listed:
        purpose = "reapply" if plan.kind is ChangeKind.REAPPLY else "undo"
        out.records(f"Changes of {name} to {purpose}", LIST_COLUMNS[:-2], [change_fields(record) for record in listed])
        if len(listed) < len(plan.undone):
            out.remark(f"and {len(plan.undone) - len(listed)} earlier changes")
    facts = [fact._asdict() for fact in undo_facts(plan, active=lake_table.state.active)]
    out.records(action_text(lake_table.state.name, plan), _COLUMNS, facts)
    restored, retired = (
        f"{len(files):,} ({sum(file.bytes for file in files):,} bytes)" for files in (plan.restored, plan.retired)
    )
    out.remark(f"Data files to restore: {restored}. Data files to retire: {retired}.")


def _show_next_steps(lake_table: RegisteredTable, record: ChangeRecord, out: Output) -> None:
    name, rows = lake_table.state.name, record.books.rows_after
    out.remark(f"Done, as change {record.change}: {name} is {state_text(record.content_change)}; rows: {rows:,}.")
    next_change = next_to_reapply(lake_table.log, record.change)
    turned_off = record.kind is ChangeKind.ROLLBACK or not lake_table.state.active
    if turned_off:
        out.remark("The table is turned off. Check it first.")
    if next_change is not None:
        out.remark(f"To reapply change {next_change}: cdclake reapply {name.typed}")
    if turned_off:
        out.remark(f"To let runs apply due files to the table as it is now: cdclake tables activate {name.typed}")
        out.remark(f"To leave it off, so that it needs no action: cdclake tables pause {name.typed}")
