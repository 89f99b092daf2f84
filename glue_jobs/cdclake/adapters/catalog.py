"""Reads and writes the Glue Data Catalog, which Athena, Spark and others use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from cdclake.adapters.aws import Remedies, error_code, translated_errors
from cdclake.adapters.presto_view import as_view, read_query
from cdclake.errors import RetryableError
from cdclake.model.catalog import CatalogPartition, CatalogTable, Statistics
from cdclake.model.names import Argument
from cdclake.model.schema import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from mypy_boto3_glue import GlueClient

    from cdclake.model.catalog import PartitionValues

MAX_WRITTEN_PER_REQUEST = 100
MAX_DROPPED_PER_REQUEST = 25
PAGE_SIZE = 1000
"""https://docs.aws.amazon.com/glue/latest/webapi/API_BatchCreatePartition.html, API_BatchUpdatePartition.html,
API_BatchDeletePartition.html, API_GetPartitions.html"""

_PARQUET = {
    "InputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
"""Hive's names of the Parquet format: https://docs.aws.amazon.com/athena/latest/ug/parquet-serde.html"""
_EXTERNAL = {"EXTERNAL": "TRUE", "classification": "parquet"}
_EXTERNAL_TABLE = "EXTERNAL_TABLE"
_ROWS, _FILES, _BYTES = "numRows", "numFiles", "totalSize"
"""Hive's parameters for statistics, which Trino (and so Athena), Spark and Redshift Spectrum use for planning."""
_ICEBERG = {"EXTERNAL": "TRUE", "table_type": "ICEBERG"}
_METADATA, _PREVIOUS_METADATA = "metadata_location", "previous_metadata_location"
"""https://docs.aws.amazon.com/glue/latest/dg/populate-otf.html, and Iceberg's `BaseMetastoreTableOperations`."""
_HAS_VIEW, _HAS_ICEBERG, _HAS_HISTORY = "cdclake.live_view", "cdclake.iceberg_table", "cdclake.history_table"
_SOURCE, _CHANGE, _LEFT_OUT = "cdclake.table", "cdclake.change", "cdclake.left_out_columns"
_STALE_PREFIXES = ("recordCount", "objectCount", "averageRecordSize", "sizeKey", "spark.sql.")
"""Prefixes of the parameters in which crawlers and Spark store columns and sizes, which the next change makes wrong."""
_PRESERVED = frozenset({"Description", "Owner", "Retention", "LastAccessTime", "LastAnalyzedTime"})
"""Fields that users may have set. UpdateTable would reset them if it did not receive them."""

_MISSING = "EntityNotFoundException"
_CHANGED_MEANWHILE = "ConcurrentModificationException"
_UPDATE_TRIES = 4


class GlueCatalog:
    """A `Catalog` on the Glue Data Catalog.

    Args:
        client: Glue client, see `cdclake.adapters.aws.client`.
    """

    def __init__(self, client: GlueClient, database: str) -> None:
        self._client: Any = client  # its typed dictionaries cannot be merged from parts
        self.database = database
        self._read: dict[str, dict[str, Any]] = {}

    def table(self, name: str) -> CatalogTable | None:
        """A table; None if it does not exist."""
        table = self._get(name)
        if table and "VersionId" in table:
            self._read[name] = table
        return _read_table(table) if table else None

    def partitions(self, name: str) -> Iterator[CatalogPartition]:
        """All partitions of an existing table, through all pages, in any order."""
        with self._errors(name):
            pages = self._client.get_paginator("get_partitions").paginate(
                DatabaseName=self.database, TableName=name, PaginationConfig={"PageSize": PAGE_SIZE}
            )
            for page in pages:
                yield from map(_read_partition, page["Partitions"])

    def create_table(self, name: str, table: CatalogTable) -> None:
        """Create a table that does not exist."""
        with self._errors(name):
            self._client.create_table(DatabaseName=self.database, TableInput=self._input(name, table, {}))

    def update_table(self, name: str, table: CatalogTable) -> None:
        """Update an existing table. What users added to it, such as column comments, stays.

        An Iceberg table that shows a later change stays as it is. Skips Glue's archive of table versions, which would
        grow with every change. Updates only the version that it read, so that it never reverts what a user or a later
        run changes meanwhile: that is the last one that `table` returned, if there is one. https://docs.aws.amazon.com/glue/latest/webapi/API_UpdateTable.html
        """
        for tries_left in reversed(range(_UPDATE_TRIES)):
            before = self._read.pop(name, None) or self._get(name) or {}
            if _read_table(before).is_ahead_of(table):
                return
            version = {"VersionId": before["VersionId"]} if "VersionId" in before else {}
            table_input = self._input(name, table, before)
            with self._errors(name):
                try:
                    self._client.update_table(
                        DatabaseName=self.database, TableInput=table_input, SkipArchive=True, **version
                    )
                except ClientError as error:
                    if error_code(error) != _CHANGED_MEANWHILE or not tries_left:
                        raise
                else:
                    return

    def drop_table(self, name: str) -> None:
        """Drop a table and its partitions; an absent table is no error. Data is not touched."""
        with self._errors(name):
            try:
                self._client.delete_table(DatabaseName=self.database, Name=name)
            except ClientError as error:
                if error_code(error) != _MISSING:
                    raise

    def create_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Create any number of partitions that do not exist."""
        for batch in _batches(partitions, MAX_WRITTEN_PER_REQUEST):
            inputs = [_partition_input(partition) for partition in batch]
            self._call("batch_create_partition", name, PartitionInputList=inputs)

    def update_partitions(self, name: str, partitions: Sequence[CatalogPartition]) -> None:
        """Update any number of existing partitions."""
        for batch in _batches(partitions, MAX_WRITTEN_PER_REQUEST):
            entries = [
                {"PartitionValueList": list(partition.values), "PartitionInput": _partition_input(partition)}
                for partition in batch
            ]
            self._call("batch_update_partition", name, Entries=entries)

    def drop_partitions(self, name: str, partitions: Sequence[PartitionValues]) -> None:
        """Drop any number of partitions; an absent partition is no error. Data is not touched."""
        for batch in _batches(partitions, MAX_DROPPED_PER_REQUEST):
            values = [{"Values": list(one)} for one in batch]
            self._call("batch_delete_partition", name, PartitionsToDelete=values, ignored=_MISSING)

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
                self._client.get_database(Name=self.database)  # raises if the database is missing
                return None
        return table

    def _call(self, operation: str, name: str, ignored: str = "", **arguments: object) -> None:
        """Call an operation on many partitions, whose response lists errors per partition.

        Args:
            ignored: Error code to ignore.

        Raises:
            RetryableError: It failed for some partitions.
        """
        with self._errors(name, quotes_values=True):
            response = getattr(self._client, operation)(DatabaseName=self.database, TableName=name, **arguments)
        errors = [one for one in response.get("Errors", []) if one["ErrorDetail"]["ErrorCode"] != ignored]
        if errors:
            codes = ", ".join(sorted({one["ErrorDetail"]["ErrorCode"] for one in errors}))
            message = f"Glue answered {codes} to {operation} of {len(errors)} partitions"  # its text may quote values
            raise RetryableError(message, remedy="The next run tries again", catalog_table=f"{self.database}.{name}")

    def _errors(self, name: str, *, quotes_values: bool = False) -> AbstractContextManager[None]:
        remedies = Remedies(
            missing=f"Create the database {self.database} in the Glue Data Catalog, or name another one or none in the "
            f"job argument {Argument.CATALOG_DATABASE}",
            denied="Grant the caller glue:GetDatabase, GetTable, GetPartitions, CreateTable, UpdateTable, DeleteTable, "
            "BatchCreatePartition, BatchUpdatePartition and BatchDeletePartition on the catalog, the database "
            f"{self.database} and its tables, also in Lake Formation if you use it",
        )
        return translated_errors(remedies, quotes_values=quotes_values, catalog_table=f"{self.database}.{name}")


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _table_input(name: str, table: CatalogTable, before: Mapping[str, Any]) -> dict[str, Any]:
    """`TableInput` of a table.

    Args:
        before: The table as it is now, whose additions by users are preserved; empty for a new table.
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
        if not key.startswith((*_STALE_PREFIXES, "cdclake.")) and key not in (*_ICEBERG, *_EXTERNAL, _PREVIOUS_METADATA)
    }
    former = parameters.pop(_METADATA, "")
    if table.metadata_location:
        parameters.update(_ICEBERG, **{_METADATA: table.metadata_location})
        if former:
            parameters[_PREVIOUS_METADATA] = former
    else:
        parameters.update(_EXTERNAL)
    parameters.update(_statistics_parameters(table.statistics), **{_SOURCE: table.source})
    if table.change is not None:
        parameters[_CHANGE] = str(table.change)
    if table.left_out:
        parameters[_LEFT_OUT] = json.dumps(table.left_out)
    if table.has_view:
        parameters[_HAS_VIEW] = "true"
    if table.has_iceberg:
        parameters[_HAS_ICEBERG] = "true"
    if table.has_history:
        parameters[_HAS_HISTORY] = "true"
    return {
        **{key: value for key, value in before.items() if key in _PRESERVED},
        "Name": name,
        "TableType": _EXTERNAL_TABLE,
        "StorageDescriptor": _storage(table.location, _columns(table.columns, comments), parquet=table.parquet),
        "PartitionKeys": _columns(table.partition_columns, comments),
        "Parameters": parameters,
    }


def _partition_input(partition: CatalogPartition) -> dict[str, Any]:
    return {
        "Values": list(partition.values),
        "StorageDescriptor": _storage(partition.location, _columns(partition.columns, {})),
        "Parameters": _statistics_parameters(partition.statistics),
    }


def _storage(location: str, columns: list[dict[str, str]], *, parquet: bool = True) -> dict[str, Any]:
    if not parquet:
        return {"Columns": columns, "Location": location}
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


def _read_table(table: Mapping[str, Any]) -> CatalogTable:
    storage, parameters = table.get("StorageDescriptor", {}), table.get("Parameters", {})
    change = parameters.get(_CHANGE, "")
    external = all(parameters.get(key) == value for key, value in _EXTERNAL.items())
    return CatalogTable(
        location=storage.get("Location", ""),
        columns=_read_columns(storage.get("Columns", [])),
        partition_columns=_read_columns(table.get("PartitionKeys", [])),
        statistics=_read_statistics(parameters),
        source=parameters.get(_SOURCE, ""),
        change=int(change) if change.isdecimal() else None,
        left_out=_read_names(parameters.get(_LEFT_OUT, "[]")),
        parquet=_is_parquet(storage) and external and table.get("TableType") == _EXTERNAL_TABLE,
        has_view=parameters.get(_HAS_VIEW) == "true",
        has_iceberg=parameters.get(_HAS_ICEBERG) == "true",
        has_history=parameters.get(_HAS_HISTORY) == "true",
        query=read_query(table),
        metadata_location=parameters.get(_METADATA, ""),
    )


def _read_partition(partition: Mapping[str, Any]) -> CatalogPartition:
    storage = partition.get("StorageDescriptor", {})
    return CatalogPartition(
        values=tuple(partition["Values"]),
        location=storage.get("Location", ""),
        columns=_read_columns(storage.get("Columns", [])),
        statistics=_read_statistics(partition.get("Parameters", {})),
        parquet=_is_parquet(storage),
    )


def _read_names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None  # overwritten by others: the comparison finds a difference and writes it again
    return tuple(names) if isinstance(names, list) else ()


def _read_columns(columns: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(column["Name"], column.get("Type", "")) for column in columns)


def _read_statistics(parameters: Mapping[str, str]) -> Statistics | None:
    values = [parameters.get(key, "") for key in (_ROWS, _FILES, _BYTES)]
    return Statistics(*map(int, values)) if all(value.isdecimal() for value in values) else None


def _is_parquet(storage: Mapping[str, Any]) -> bool:
    formats = all(storage.get(key) == value for key, value in _PARQUET.items())
    return formats and bool(storage.get("SerdeInfo", {}).get("SerializationLibrary") == _SERDE)
