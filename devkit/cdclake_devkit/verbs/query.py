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

    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog

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

    services = connect(target)
    states = services.state.all(target.installation.state_prefix)
    answer = ask(sql, endpoint, [services.log(state.name) for state in states])
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


def ask(sql: str, endpoint: str, logs: Iterable[ChangeLog]) -> Answer:
    """Query lake tables.

    Args:
        endpoint: URL of the local AWS.
        logs: The change logs of the tables that the query may name. What was never loaded is left out.

    Raises:
        ConfigurationError: DuckDB refuses the query.
    """
    import duckdb  # slow to import, and --help does not need it
    from pyarrow.fs import S3FileSystem, SubTreeFileSystem

    s3 = S3FileSystem(access_key=_ANY, secret_key=_ANY, endpoint_override=endpoint)
    known = []
    with closing(duckdb.connect()) as session:
        for number, log in enumerate(logs):
            rows = lake_rows(SubTreeFileSystem(log.layout.bucket, s3), log)
            if rows is not None:
                name = log.layout.name
                schema, table = (part.replace('"', '""') for part in (name.schema, name.table))
                session.register(f"_{number}", rows)
                session.execute(f'create schema if not exists "{schema}"')
                # Of names that differ only in case, which DuckDB does not tell apart, the query has the first.
                session.execute(f'create view if not exists "{schema}"."{table}" as from _{number}')
                known.append(str(name))
        try:
            answer = session.sql(sql)
            if answer is None:  # a statement without rows
                return Answer("", [])
            return Answer(str(answer), [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()])
        except duckdb.Error as error:
            remedy = f"The tables are {', '.join(known)}" if known else "Load a table first: cdclake run"
            message = f"DuckDB refuses the query: {str(error).splitlines()[0]}"
            raise ConfigurationError(message, remedy=remedy) from error


def lake_rows(files: FileSystem, log: ChangeLog) -> ds.Dataset | pa.Table | None:
    """The Parquet files in a table's folder or Iceberg table, with its columns and types; None if it was never loaded.

    From the files alone, the partition zip=04103 would be the number 4103, and the first one would tell the columns.

    Args:
        files: The lake bucket.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from pyarrow.fs import FileSelector

    from cdclake.lake.storage.types import arrow_schema
    from cdclake.model.layout import ICEBERG

    change = log.head()
    if not change:
        return None
    snapshot, folder = log.snapshot(change), log.layout.table_prefix.rstrip("/")
    paths = [log.layout.data_key(file.path) for file in snapshot.files if file.path.startswith(ICEBERG)]
    if not paths:
        found = files.get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
        paths = [one.path for one in found if one.path.endswith(".parquet") and "/_" not in one.path[len(folder) :]]
    columns = arrow_schema(snapshot.schema)
    if not paths:
        return columns.empty_table()
    for name in snapshot.partition_key:
        kind = columns.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_date(kind)):  # Arrow does not read all others from text
            columns = columns.set(columns.get_field_index(name), pa.field(name, pa.string()))
    partitions = pa.schema([columns.field(name) for name in snapshot.partition_key])
    added = [field for field in pq.read_schema(paths[0], filesystem=files) if field.name not in columns.names]
    return ds.dataset(
        paths,
        schema=pa.schema([*columns, *added]),
        filesystem=files,
        partitioning=ds.partitioning(partitions, flavor="hive"),
        partition_base_dir=folder,
    )
