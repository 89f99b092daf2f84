"""`cdclake local query`: ask the lake with SQL, as any reader of plain Parquet."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cdclake.errors import ConfigurationError
from cdclake_cli.options import with_target
from cdclake_cli.printing.output import OutputFormat, OutputOption, output_for
from cdclake_cli.target import Target
from cdclake_devkit.verbs.embedded import require_local

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.layout import LakeLayout

_ANY = "any"
"""The local AWS accepts any key."""


@with_target
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Tables are named as in `cdclake tables`.")],
    *,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Query tables of the local lake with DuckDB, which reads the Parquet files in their folders.

    Example: cdclake local query "select count(*) from shop.product"
    """
    endpoint = require_local(target)
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    states = connect(target).state.all(target.installation.state_prefix)
    answer = ask(sql, endpoint, [target.installation.layout(state.name) for state in states])
    if output is OutputFormat.JSON:
        output_for(output).records(sql, (), answer.records)
    else:
        output_for(output).verbatim(answer.text)


class Answer(NamedTuple):
    """The result of a query.

    Attributes:
        text: As DuckDB prints it.
        records: Its rows, by the names of the columns.
    """

    text: str
    records: list[dict[str, Any]]


def ask(sql: str, endpoint: str, tables: Iterable[LakeLayout]) -> Answer:
    """Query lake tables.

    Args:
        endpoint: URL of the local AWS.
        tables: Those that the query may name. What has no Parquet files in its folder is left out.

    Raises:
        ConfigurationError: DuckDB refuses the query.
    """
    import duckdb  # slow to import, and --help does not need it
    import pyarrow.dataset as ds
    from pyarrow.fs import FileSelector, S3FileSystem

    s3 = S3FileSystem(access_key=_ANY, secret_key=_ANY, endpoint_override=endpoint)
    known = []
    with closing(duckdb.connect()) as session:
        for number, layout in enumerate(tables):
            folder = f"{layout.bucket}/{layout.table_prefix}"
            found = s3.get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
            files = [one.path for one in found if one.path.endswith(".parquet") and "/_" not in one.path]
            if files:
                rows = ds.dataset(files, filesystem=s3, partitioning="hive", partition_base_dir=folder)
                schema, table = (part.replace('"', '""') for part in (layout.name.schema, layout.name.table))
                session.register(f"_{number}", rows)
                session.execute(f'create schema if not exists "{schema}"')
                session.execute(f'create view "{schema}"."{table}" as from _{number}')
                known.append(str(layout.name))
        try:
            answer = session.sql(sql)
            if answer is None:  # a statement without rows
                return Answer("", [])
            return Answer(str(answer), [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()])
        except duckdb.Error as error:
            remedy = f"The tables are {', '.join(known)}" if known else "Load a table first: cdclake run"
            message = f"DuckDB refuses the query: {str(error).splitlines()[0]}"
            raise ConfigurationError(message, remedy=remedy) from error
