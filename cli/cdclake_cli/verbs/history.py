"""`cdclake history`: show all versions of rows."""

from __future__ import annotations

from cdclake.model.table.name import TableName
from cdclake_cli.known_table import require_known
from cdclake_cli.options import KeyOption, TableArgument, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, exact_text, output_for, progress
from cdclake_cli.several import one_table
from cdclake_cli.target import Target


@with_target
def history(table: TableArgument, *, key: KeyOption, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Show every version of a row of one table.

    Each version has its values, the time they were valid, and the change that made them. The table must keep its
    history: cdclake tables set SCHEMA.TABLE --history

    Example: cdclake history shop.orders --key 1042
    """
    from cdclake.hash_secret import hash_secret
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_history import find_versions
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it

    with aws_environment(target), progress(f"Reading the history of {table}"):
        location = TableLocation.at(target.lake_bucket, table, target.lake_prefix)
        with one_table(table):
            require_known(target, TableName.parse(table), location.log())
        versions = find_versions(location, key, hash_secret())
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.records("History", (), versions.rows)
        return
    columns = [OutputColumn(str(i), name) for i, name in enumerate(versions.columns)]
    records = [{str(i): exact_text(row[name]) for i, name in enumerate(versions.columns)} for row in versions.rows]
    out.records(f"History of {table}", columns, records)
    if not versions.rows:
        out.remark("This key has no versions.")
