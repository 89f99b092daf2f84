"""`cdclake export`: copy the files of lake tables as of a change or time."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake_cli.known_table import require_known
from cdclake_cli.options import TablesArgument, change_or_time, with_target
from cdclake_cli.patterns import is_pattern
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import for_each, matching_names, refuse_several
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("change", "Change"),
    OutputColumn("committed_utc", "Committed", time=True),
    OutputColumn("files", "Files", number=True),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("bytes", "Bytes", number=True),
    OutputColumn("to", "To"),
)


@with_target
def export(
    tables: TablesArgument,
    *,
    to: Annotated[str, typer.Option(metavar="PATH", help="New or empty folder, or s3://bucket/folder.")],
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="CHANGE|TIME", help="Change number, or time such as 2024-03-05T10:00:00Z. Default: the newest."
        ),
    ] = None,
    with_deleted: Annotated[bool, typer.Option("--with-deleted", help="Include soft-deleted rows.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Copy the Parquet files of tables as they were after a change or at a time.

    Copies files byte for byte, with their partition folders, and leaves out soft-deleted rows. Does not change the
    lake. If several tables or a pattern are named, each table gets the folder PATH/schema/table.

    Example: cdclake export shop.orders --as-of 3 --to orders-as-of-3
    """
    from cdclake.lake.operations.export import export_table
    from cdclake.lake.read.as_of import TableLocation
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it

    change, at = change_or_time(as_of)
    names = matching_names(target, tables)
    refuse_several(names, as_of=None if change is None else as_of)
    below = len(tables) > 1 or len(names) > 1 or is_pattern(tables[0])

    def export_one(name: TableName) -> dict[str, object]:
        with aws_environment(target), progress(f"Reading the change log of {name}") as bar:
            require_known(target, name, TableLocation.at(target.lake_bucket, str(name), target.lake_prefix).log())
            exported = export_table(
                target.lake_bucket,
                str(name),
                f"{to.rstrip('/')}/{name.schema}/{name.table}" if below else to,
                target.lake_prefix,
                change=change,
                at=at,
                with_deleted=with_deleted,
                progress=lambda done, count: bar.count(f"Copying files of {name}", done, count),
            )
        return asdict(exported)

    for_each(names, export_one, lambda exported: output_for(output).records("Exported", _COLUMNS, exported))
