"""The Glue Data Catalog, which Athena, Spark and others read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from cdclake.adapters.athena_view import as_view, read_query
from cdclake.adapters.aws import Remedies, client, error_code, translated_errors
from cdclake.errors import RetryableError
from cdclake.model.catalog import CatalogPartition, CatalogTable, Statistics
from cdclake.model.names import Argument
from cdclake.model.schema import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from mypy_boto3_glue import GlueClient

    from cdclake.model.catalog import PartitionValues

MOST_IN_A_REQUEST = 100
MOST_DROPPED_IN_A_REQUEST = 25
PAGE = 1000
"""https://docs.aws.amazon.com/glue/latest/webapi/API_BatchCreatePartition.html, API_BatchUpdatePartition.html,
API_BatchDeletePartition.html, API_GetPartitions.html"""

_PARQUET = {
    "InputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
"""Hive's names, by which Athena knows Parquet: https://docs.aws.amazon.com/athena/latest/ug/parquet-serde.html"""
_EXTERNAL = {"EXTERNAL": "TRUE", "classification": "parquet"}
_EXTERNAL_TABLE = "EXTERNAL_TABLE"
_ROWS, _FILES, _BYTES = "numRows", "numFiles", "totalSize"
"""Hive's parameters for statistics, which Trino (so Athena), Spark and Redshift Spectrum plan with."""
_HAS_VIEW = "cdclake.live_view"
_SOURCE, _CHANGE, _LEFT_OUT = "cdclake.table", "cdclake.change", "cdclake.left_out_columns"
_OF_OTHER_WRITERS = ("recordCount", "objectCount", "averageRecordSize", "sizeKey", "spark.sql.")
"""What crawlers and Spark say of columns and sizes in parameters that begin so: wrong from the next change on."""
_KEPT = frozenset({"Description", "Owner", "Retention", "LastAccessTime", "LastAnalyzedTime"})
"""What people may have set, and UpdateTable takes; what it is not given is lost."""

_MISSING = "EntityNotFoundException"


def catalog_of(database: str) -> GlueCatalog | None:
    """The database of this account and region; None if no database is named."""
    return GlueCatalog(client("glue"), database) if database else None


class GlueCatalog:
    """A `Catalog` on the Glue Data Catalog.

    Args:
        client: Glue client, see `cdclake.adapters.aws.client`.
        database: Name of the database.
    """

    def __init__(self, client: GlueClient, database: str) -> None:
        self._client: Any = client  # its types of requests cannot be put together from parts
        self.database = database

    def table(self, name: str) -> CatalogTable | None:
        """See `Catalog.table`."""
        found = self._get(name)
        return _read_table(found) if found else None

    def partitions(self, name: str) -> Iterator[CatalogPartition]:
        """See `Catalog.partitions`."""
        with self._errors(name):
            pages = self._client.get_paginator("get_partitions").paginate(
                DatabaseName=self.database, TableName=name, PaginationConfig={"PageSize": PAGE}
            )
            for page in pages:
                yield from map(_read_partition, page["Partitions"])

    def create_table(self, name: str, table: CatalogTable) -> None:
        """See `Catalog.create_table`."""
        with self._errors(name):
            self._client.create_table(DatabaseName=self.database, TableInput=self._input(name, table, {}))

    def update_table(self, name: str, table: CatalogTable) -> None:
        """See `Catalog.update_table`. Glue keeps no version of the table as it was: there would be one a change."""
        before = self._get(name) or {}
        with self._errors(name):
            self._client.update_table(
                DatabaseName=self.database, TableInput=self._input(name, table, before), SkipArchive=True
            )

    def drop_table(self, name: str) -> None:
        """See `Catalog.drop_table`."""
        with self._errors(name):
            try:
                self._client.delete_table(DatabaseName=self.database, Name=name)
            except ClientError as error:
                if error_code(error) != _MISSING:
                    raise

    def create_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """See `Catalog.create_partitions`."""
        for some in _cut(partitions, MOST_IN_A_REQUEST):
            inputs = [_partition_input(partition) for partition in some]
            self._call("batch_create_partition", name, PartitionInputList=inputs)

    def update_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """See `Catalog.update_partitions`."""
        for some in _cut(partitions, MOST_IN_A_REQUEST):
            entries = [
                {"PartitionValueList": list(partition.values), "PartitionInput": _partition_input(partition)}
                for partition in some
            ]
            self._call("batch_update_partition", name, Entries=entries)

    def drop_partitions(self, name: str, partitions: Sequence[PartitionValues]) -> None:
        """See `Catalog.drop_partitions`."""
        for some in _cut(partitions, MOST_DROPPED_IN_A_REQUEST):
            values = [{"Values": list(one)} for one in some]
            self._call("batch_delete_partition", name, PartitionsToDelete=values, but=_MISSING)

    def _input(self, name: str, table: CatalogTable, before: Mapping[str, Any]) -> dict[str, Any]:
        common = _table_input(name, table, before)
        if not table.query:
            return common
        columns = common["StorageDescriptor"]["Columns"]
        others = {key: value for key, value in common["Parameters"].items() if key not in _EXTERNAL}
        return {**common, **as_view(self.database, table.query, columns, others)}

    def _get(self, name: str) -> dict[str, Any] | None:
        with self._errors(name):
            try:
                table: dict[str, Any] = self._client.get_table(DatabaseName=self.database, Name=name)["Table"]
            except ClientError as error:
                if error_code(error) != _MISSING:
                    raise
                self._client.get_database(Name=self.database)  # says if it is the database that is missing
                return None
        return table

    def _call(self, operation: str, name: str, but: str = "", **arguments: object) -> None:
        """Do something to many partitions; it answers for each by itself.

        Args:
            but: Code of an error to pass over.

        Raises:
            RetryableError: It was not done to all of them.
        """
        with self._errors(name):
            answer = getattr(self._client, operation)(DatabaseName=self.database, TableName=name, **arguments)
        errors = [one for one in answer.get("Errors", []) if one["ErrorDetail"]["ErrorCode"] != but]
        if errors:
            first = errors[0]
            values = first.get("PartitionValues") or first.get("PartitionValueList")
            detail = first["ErrorDetail"]
            message = f"Glue answered {detail['ErrorCode']} to {operation} of {len(errors)} partitions"
            remedy = "The next run compares again"
            raise RetryableError(message, remedy=remedy, first=values, reason=detail.get("ErrorMessage"))

    def _errors(self, name: str) -> AbstractContextManager[None]:
        remedies = Remedies(
            missing=f"Create the database {self.database} in the Glue Data Catalog, or name another one in the job's "
            f"argument {Argument.CATALOG_DATABASE}, or none",
            denied="Grant the caller glue:GetDatabase, GetTable, GetPartitions, CreateTable, UpdateTable, DeleteTable, "
            "BatchCreatePartition, BatchUpdatePartition and BatchDeletePartition on the catalog, the database "
            f"{self.database} and its tables; where Lake Formation rules, there as well",
        )
        return translated_errors(remedies, catalog_table=f"{self.database}.{name}")


def _cut(all_of_them: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    return (all_of_them[start : start + most] for start in range(0, len(all_of_them), most))


def _table_input(name: str, table: CatalogTable, before: Mapping[str, Any]) -> dict[str, Any]:
    """`TableInput` of a table.

    Args:
        before: The table as it is now, of which what others wrote beside is kept; empty for a new one.
    """
    old = before.get("StorageDescriptor", {})
    comments = {
        column["Name"]: column["Comment"]
        for column in (*old.get("Columns", []), *before.get("PartitionKeys", []))
        if column.get("Comment")
    }
    parameters = {
        key: value
        for key, value in before.get("Parameters", {}).items()
        if not key.startswith((*_OF_OTHER_WRITERS, "cdclake."))
    }
    parameters.update(_EXTERNAL, **_statistics_parameters(table.statistics), **{_SOURCE: table.source})
    if table.change is not None:
        parameters[_CHANGE] = str(table.change)
    if table.left_out:
        parameters[_LEFT_OUT] = json.dumps(table.left_out)
    if table.has_view:
        parameters[_HAS_VIEW] = "true"
    return {
        **{key: value for key, value in before.items() if key in _KEPT},
        "Name": name,
        "TableType": _EXTERNAL_TABLE,
        "StorageDescriptor": _storage(table.location, _columns(table.columns, comments)),
        "PartitionKeys": _columns(table.partition_columns, comments),
        "Parameters": parameters,
    }


def _partition_input(partition: CatalogPartition) -> dict[str, Any]:
    return {
        "Values": list(partition.values),
        "StorageDescriptor": _storage(partition.location, _columns(partition.columns, {})),
        "Parameters": _statistics_parameters(partition.statistics),
    }


def _storage(location: str, columns: list[dict[str, str]]) -> dict[str, Any]:
    serde = {"SerializationLibrary": _SERDE, "Parameters": {"serialization.format": "1"}}
    return {"Columns": columns, "Location": location, **_PARQUET, "Compressed": False, "SerdeInfo": serde}


def _columns(columns: Iterable[Column], comments: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {
            "Name": column.name,
            "Type": column.type,
            **({"Comment": comments[column.name]} if column.name in comments else {}),
        }
        for column in columns
    ]


def _statistics_parameters(statistics: Statistics | None) -> dict[str, str]:
    if statistics is None:
        return {}
    return {_ROWS: str(statistics.rows), _FILES: str(statistics.files), _BYTES: str(statistics.bytes)}


def _read_table(found: Mapping[str, Any]) -> CatalogTable:
    storage, parameters = found.get("StorageDescriptor", {}), found.get("Parameters", {})
    change = parameters.get(_CHANGE, "")
    external = all(parameters.get(key) == value for key, value in _EXTERNAL.items())
    return CatalogTable(
        location=storage.get("Location", ""),
        columns=_read_columns(storage.get("Columns", [])),
        partition_columns=_read_columns(found.get("PartitionKeys", [])),
        statistics=_read_statistics(parameters),
        source=parameters.get(_SOURCE, ""),
        change=int(change) if change.isdecimal() else None,
        left_out=_read_names(parameters.get(_LEFT_OUT, "[]")),
        parquet=_is_parquet(storage) and external and found.get("TableType") == _EXTERNAL_TABLE,
        has_view=parameters.get(_HAS_VIEW) == "true",
        query=read_query(found),
    )


def _read_partition(found: Mapping[str, Any]) -> CatalogPartition:
    storage = found.get("StorageDescriptor", {})
    return CatalogPartition(
        values=tuple(found["Values"]),
        location=storage.get("Location", ""),
        columns=_read_columns(storage.get("Columns", [])),
        statistics=_read_statistics(found.get("Parameters", {})),
        parquet=_is_parquet(storage),
    )


def _read_names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None  # somebody wrote over it: so it differs from what is wanted, and is written anew
    return tuple(names) if isinstance(names, list) else ()


def _read_columns(columns: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(column["Name"], column.get("Type", "")) for column in columns)


def _read_statistics(parameters: Mapping[str, str]) -> Statistics | None:
    values = [parameters.get(key, "") for key in (_ROWS, _FILES, _BYTES)]
    return Statistics(*map(int, values)) if all(value.isdecimal() for value in values) else None


def _is_parquet(storage: Mapping[str, Any]) -> bool:
    formats = all(storage.get(key) == value for key, value in _PARQUET.items())
    return formats and bool(storage.get("SerdeInfo", {}).get("SerializationLibrary") == _SERDE)
