"""`cdclake export`: copy the files of a lake table as of a change or time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cdclake_cli.known_table import require_known
from cdclake_cli.options import TableArgument, change_or_time, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.target import Target

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
    table: TableArgument,
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
    """Copy the Parquet files of a table as it was after a change or at a time.

    Copies files byte for byte, with their partition folders, and leaves out soft-deleted rows. Does not change the
    lake.

    Example: cdclake export shop.orders --as-of 3 --to orders-as-of-3
    """
    from cdclake.lake.operations.export import export_table
    from cdclake.lake.read.as_of import TableLocation
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it

    change, at = change_or_time(as_of)
    with aws_environment(target), progress(f"Reading the change log of {table}") as bar:
        require_known(target, table, TableLocation.at(target.lake_bucket, table, target.lake_prefix).log())
        exported = export_table(
            target.lake_bucket,
            table,
            to,
            target.lake_prefix,
            change=change,
            at=at,
            with_deleted=with_deleted,
            progress=lambda done, count: bar.count(f"Copying files of {table}", done, count),
        )
    output_for(output).records("Exported", _COLUMNS, [asdict(exported)])
