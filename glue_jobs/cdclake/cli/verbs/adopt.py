"""`cdclake adopt`: files that lie in a table's folder already become the lake table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.cli.confirm import ask, open_table
from cdclake.cli.options import DryRunOption, TableArgument, YesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.cli.output import Output
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.lake.operations.adopt.adopt import Adoption
    from cdclake.model.change import ChangeRecord

_MOST_FILES = 20
_FACTS = (Column("fact", ""), Column("value", "Found"))
_COLUMNS = (Column("name", "Column"), Column("type", "Type"), Column("role", "Role"))
_FILES = (Column("path", "File"), Column("rows", "Rows", number=True), Column("bytes", "Bytes", number=True))


@with_target
def adopt(
    table: TableArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Take over the Parquet files that lie in a table's folder, as they are, in place of loading the table anew.

    They may be those of the walkthrough's jobs, or of any program. The next run goes on from the item's watermark.

    First see to it that no other job writes there any more. Adoption cannot be undone.

    Example: cdclake adopt shop.orders --dry-run
    """
    lake_table = open_table(target, table)
    name, shown = lake_table.state.name, output_for(output)
    with progress(f"Looking at the files of {name}") as bar:
        found = _plan(target, lake_table, bar.say)
    facts = {"table": str(name), "done": False, **found.to_json()}
    if output is OutputFormat.TABLE:
        _show(lake_table, found, shown)
    if dry_run:
        if output is OutputFormat.JSON:
            shown.records("Adoption", (), [facts])
        shown.remark("This is a dry run: nothing was done.")
        return
    ask(f"Make these files the lake table {name}?", yes=yes, output=output)
    with progress(f"Adopting {name}"):
        record = lake_table.adopt(found.table)
    if output is OutputFormat.JSON:
        shown.records("Adoption", (), [{**facts, "done": True, "change": record.change, "run_id": record.run_id}])
    else:
        _tell_what_next(lake_table, record, shown)


def _plan(target: Target, lake_table: RegisteredTable, say: Callable[[str], None]) -> Adoption:
    from cdclake.adapters.filesystem import lake_filesystem  # Arrow takes a while, and --help needs none
    from cdclake.cli.aws.environment import aws_environment
    from cdclake.cli.aws.services import connect
    from cdclake.lake.operations.adopt.adopt import Places, plan_adoption

    with aws_environment(target):
        places = Places(
            state=lake_table.state,
            log=lake_table.log,
            lake_fs=lake_filesystem(target.lake_bucket).open(),
            raw=connect(target).raw,
            raw_fs=lake_filesystem(target.raw_bucket).open(),
        )
        return plan_adoption(places, say)


def _show(lake_table: RegisteredTable, found: Adoption, shown: Output) -> None:
    table, facts = found.table, found.to_json()
    files = sorted(table.files, key=lambda file: file.path)
    keys, folders = ({name.lower() for name in names} for names in (table.primary_key, table.partition_key))
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "role": ", ".join(
                role for role, names in (("key", keys), ("partition", folders)) if column.name.lower() in names
            ),
        }
        for column in table.schema
    ]
    shown.records(
        f"Files of {lake_table.state.name}",
        _FILES,
        [{"path": file.path, "rows": file.rows, "bytes": file.bytes} for file in files[:_MOST_FILES]],
    )
    if len(files) > _MOST_FILES:
        shown.remark(f"and {len(files) - _MOST_FILES:,} files more, which --output json lists")
    shown.records("Columns", _COLUMNS, columns)
    lines = [
        ("Files", f"{facts['files']:,}"),
        ("Rows", f"{facts['rows']:,}"),
        ("Bytes", f"{facts['bytes']:,}"),
        ("Partitions", f"{facts['partitions']:,}" if table.partition_key else "not partitioned"),
        ("Key", ", ".join(table.primary_key) or "none"),
        ("Last change file", table.watermark or "none"),
        ("Full load (UTC)", table.full_load_utc or "none"),
        ("Change files due", f"{found.change_files:,}"),
    ]
    shown.records("The lake table", _FACTS, [{"fact": fact, "value": value} for fact, value in lines])
    for warning in found.warnings:
        shown.remark(f"Note: {warning}")


def _tell_what_next(lake_table: RegisteredTable, record: ChangeRecord, shown: Output) -> None:
    name, rows = lake_table.state.name, record.books.rows_after
    shown.remark(f"Done, as change {record.change}: {name} is a lake table of {rows:,} rows.")
    if lake_table.state.active:
        shown.remark("The table is turned on: the next run goes on from here.")
    else:
        shown.remark(f"The table is turned off. To let the next run go on: cdclake tables activate {name.typed}")
