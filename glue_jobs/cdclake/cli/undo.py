"""`cdclake rollback` and `cdclake reapply`: undo changes of a lake table, and do them again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Callable

from cdclake.cli.change_columns import LIST_COLUMNS
from cdclake.cli.confirm import ask, person, tell_of_catalog
from cdclake.cli.output import Column, OutputFormat, output_for, progress
from cdclake.commit.describe import as_after, change_line, undo_facts, undone_records
from cdclake.commit.timeline import next_to_reapply
from cdclake.model.change import ChangeKind

if TYPE_CHECKING:
    from cdclake.cli.output import Output
    from cdclake.cli.target import Target
    from cdclake.commit.undo import UndoPlan
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.change import ChangeRecord

_MOST_LISTED = 30
_COLUMNS = (Column("what", ""), Column("now", "Now"), Column("then", "Then"))


def carry_out_plan(
    target: Target,
    lake_table: RegisteredTable,
    plan: UndoPlan,
    carry_out: Callable[[RegisteredTable], ChangeRecord],
    output: OutputFormat,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Show a plan, and carry it out if that is wanted."""
    name, shown = lake_table.state.name, output_for(output)
    facts = {"table": str(name), "done": False, **plan.to_json()}
    if output is OutputFormat.TABLE:
        _show_plan(lake_table, plan, shown)
    if dry_run:
        if output is OutputFormat.JSON:
            shown.records("Plan", (), [facts])
        shown.remark("This is a dry run: nothing was done.")
        return
    ask(f"Have {name} {as_after(plan.as_of)}?", yes=yes, output=output)
    with progress(f"Making {name} {as_after(plan.as_of)}"):
        record = carry_out(replace(lake_table, made_by=person(target)))
    if output is OutputFormat.JSON:
        shown.records("Done", (), [{**facts, "done": True, "change": record.change, "run_id": record.run_id}])
    else:
        _tell_what_next(lake_table, record, shown)
    tell_of_catalog(lake_table, shown)


def _show_plan(lake_table: RegisteredTable, plan: UndoPlan, shown: Output) -> None:
    name = lake_table.state.name
    listed = undone_records(lake_table.log, plan, _MOST_LISTED)
    if listed:
        what = "to apply again" if plan.kind is ChangeKind.REAPPLY else "to undo"
        shown.records(f"Changes of {name} {what}", LIST_COLUMNS[:-1], [change_line(record) for record in listed])
        if len(listed) < len(plan.undone):
            shown.remark(f"and {len(plan.undone) - len(listed)} before these")
    facts = [fact._asdict() for fact in undo_facts(plan, active=lake_table.state.active)]
    shown.records(f"{plan.kind.value.capitalize()} of {name}: {as_after(plan.as_of)}", _COLUMNS, facts)
    back, away = (
        f"{len(files):,} ({sum(file.bytes for file in files):,} bytes)" for files in (plan.restored, plan.retired)
    )
    shown.remark(f"Data files that come back: {back}. Data files that go out of sight: {away}.")


def _tell_what_next(lake_table: RegisteredTable, record: ChangeRecord, shown: Output) -> None:
    name = lake_table.state.name
    rows = record.books.rows_after
    shown.remark(f"Done, as change {record.change}: {name} is {as_after(record.content_change)}, with {rows:,} rows.")
    again = next_to_reapply(lake_table.log, record.change)
    turned_off = record.kind is ChangeKind.ROLLBACK or not lake_table.state.active
    if turned_off:
        shown.remark("The table is turned off. Look at it first.")
    if again is not None:
        shown.remark(f"To apply change {again} again: cdclake reapply {name.typed}")
    if turned_off:
        shown.remark(
            f"To let the next run apply what is new to the table as it is now: cdclake tables activate {name.typed}"
        )
