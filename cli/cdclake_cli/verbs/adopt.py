"""`cdclake adopt`: make the files in tables' folders lake tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.times import display_stored
from cdclake_cli.confirm import open_table
from cdclake_cli.options import DryRunOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import Step, change_each, matching_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.lake.operations.adopt.adopt import Adoption
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.table.name import TableName
    from cdclake_cli.printing.output import Output

_MOST_FILES = 20
_SUMMARY = (
    OutputColumn("table", "Table"),
    OutputColumn("files", "Files", number=True),
    OutputColumn("rows", "Rows", number=True),
)
_FACTS = (OutputColumn("fact", ""), OutputColumn("value", "Value"))
_COLUMNS = (OutputColumn("name", "Column"), OutputColumn("type", "Type"), OutputColumn("role", "Role"))
_FILES = (
    OutputColumn("path", "File"),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("bytes", "Bytes", number=True),
)


@with_target
def adopt(
    tables: TablesArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Make existing Parquet files lake tables, without rewriting them.

    The files are in the tables' folders. The walkthrough's jobs, or any other program, may have written them. The next
    run continues from the item's watermark.

    First make sure that no other job writes there. Adoption cannot be undone.

    Example: cdclake adopt shop.orders --dry-run
    """
    names, out = matching_names(target, tables), output_for(output)

    def summarize(adopted: list[Mapping[str, object]]) -> None:
        if len(names) > 1 and output is OutputFormat.TABLE:
            out.records("Adopted", _SUMMARY, adopted)

    change_each(names, lambda name: _prepare(target, name, output), output, yes=yes, dry_run=dry_run, show=summarize)


def _prepare(target: Target, name: TableName, output: OutputFormat) -> Step:
    """Show the files to adopt for one table."""
    lake_table, out = open_table(target, name), output_for(output)
    with progress(f"Reading the files of {name}") as bar:
        adoption = _plan(target, lake_table, bar.describe)
    result = {"table": str(name), "done": False, **adoption.to_json()}
    if output is OutputFormat.TABLE:
        _show(lake_table, adoption, out)

    def adopt_files() -> dict[str, object]:
        with progress(f"Adopting {name}"):
            record = lake_table.adopt(adoption.table)
        if output is OutputFormat.JSON:
            out.json_record({**result, "done": True, "change": record.change, "run_id": record.run_id})
        else:
            _show_next_steps(lake_table, record, out)
        return result

    return Step(f"Adopt these files as the lake table {name}", adopt_files, result)


def _plan(target: Target, lake_table: RegisteredTable, describe: Callable[[str], None]) -> Adoption:
    from cdclake.adapters.filesystem import lake_filesystem  # slow to import, and --help does not need it
    from cdclake.lake.operations.adopt.adopt import AdoptionSource, plan_adoption
    from cdclake_cli.aws.environment import aws_environment
    from cdclake_cli.aws.services import connect

    with aws_environment(target):
        source = AdoptionSource(
            state=lake_table.state,
            log=lake_table.log,
            lake_fs=lake_filesystem(target.lake_bucket).open(),
            raw=connect(target).raw,
            raw_fs=lake_filesystem(target.raw_bucket).open(),
        )
        return plan_adoption(source, describe)


def _show(lake_table: RegisteredTable, adoption: Adoption, out: Output) -> None:
    table, counts = adoption.table, adoption.to_json()
    files = sorted(table.files, key=lambda file: file.path)
    keys, partitions = ({name.lower() for name in names} for names in (table.primary_key, table.partition_key))
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "role": ", ".join(
                role for role, names in (("key", keys), ("partition", partitions)) if column.name.lower() in names
            ),
        }
        for column in table.schema
    ]
    out.records(
        f"Files of {lake_table.state.name}",
        _FILES,
        [{"path": file.path, "rows": file.rows, "bytes": file.bytes} for file in files[:_MOST_FILES]],
    )
    if len(files) > _MOST_FILES:
        out.remark(f"and {len(files) - _MOST_FILES:,} more files; --output json lists them")
    out.records("Columns", _COLUMNS, columns)
    facts = [
        ("Files", f"{counts['files']:,}"),
        ("Rows", f"{counts['rows']:,}"),
        ("Bytes", f"{counts['bytes']:,}"),
        ("Partitions", f"{counts['partitions']:,}" if table.partition_key else "not partitioned"),
        ("Key", ", ".join(table.primary_key) or "none"),
        ("Last change file", table.watermark or "none"),
        ("Full load", display_stored(table.full_load_utc) or "none"),
        ("Change files due", f"{adoption.change_files:,}"),
    ]
    out.records("The lake table", _FACTS, [{"fact": fact, "value": value} for fact, value in facts])
    for warning in adoption.warnings:
        out.remark(f"Note: {warning}")


def _show_next_steps(lake_table: RegisteredTable, record: ChangeRecord, out: Output) -> None:
    name, rows = lake_table.state.name, record.books.rows_after
    out.remark(f"Done, as change {record.change}: {name} is a lake table. Rows: {rows:,}.")
    if lake_table.state.active:
        out.remark("The table is turned on: the next run continues from here.")
    else:
        out.remark(f"The table is turned off. To turn it on: cdclake tables activate {name.typed}")
