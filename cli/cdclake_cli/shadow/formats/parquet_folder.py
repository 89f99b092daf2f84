"""Reads folders of Parquet files, with or without Hive's partition folders."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from cdclake.adapters.filesystem import open_input, storage_errors
from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.errors import ConfigurationError
from cdclake.lake.storage.reader import parquet_file
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake_cli.shadow.columns import FOLDER, plain_type
from cdclake_cli.shadow.formats.place import reading
from cdclake_cli.shadow.formats.table import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.adapters.filesystem import ParquetFile
    from cdclake_cli.shadow.formats.place import Place

FORMAT = "Parquet"
_HIDDEN = ("_", ".")
_FOLDER_MARK = "_$folder$"


class ParquetFolder:
    """A folder, or one file. `OtherTable` describes the attributes and methods."""

    format = FORMAT
    version = ""

    def __init__(self, place: Place, version: str) -> None:
        self._place = place
        if version:
            message = "Parquet files have no versions"
            raise ConfigurationError(message, remedy="Leave --version out", location=place.text)
        with reading(FORMAT, place.text, OSError), storage_errors(place.files, place.path):
            self._files = sorted(_visible_files(place))
            if not self._files:
                message = "There are no Parquet files"
                raise ConfigurationError(message, remedy="Check the location", location=place.text)
            footers = in_parallel(self._footer, self._files, CALLS_AT_ONCE if place.is_s3 else 1)
        self._folders = {file: _folders(file.removeprefix(place.path)) for file in self._files}
        self.rows = sum(rows for rows, _ in footers)
        schemas = [schema for _, schema in footers]
        self._spelled = _spelled(schemas)
        self.schema = self._common_schema(schemas)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Columns of all rows; null where a file lacks the column."""
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for file in self._files:
            with self._opened(file) as parquet:
                own = {name: self._spelled[name] for name in parquet.schema_arrow.names}
                for batch in parquet.iter_batches(BATCH_ROWS, columns=[name for name in own if own[name] in columns]):
                    rows = pa.Table.from_batches([batch]).rename_columns([own[name] for name in batch.schema.names])
                    yield self._whole(rows, wanted, self._folders[file])

    @contextmanager
    def _opened(self, file: str) -> Iterator[ParquetFile]:
        with (
            reading(FORMAT, f"{self._place.text}: {file}", OSError, pa.ArrowInvalid),
            open_input(self._place.files, file) as source,
        ):
            yield parquet_file(source)

    def _footer(self, file: str) -> tuple[int, pa.Schema]:
        with self._opened(file) as parquet:
            return parquet.metadata.num_rows, parquet.schema_arrow.remove_metadata()

    def _common_schema(self, schemas: Sequence[pa.Schema]) -> pa.Schema:
        names = {tuple(folders) for folders in self._folders.values()}
        if len(names) > 1:
            message = f"The files have different partition folders: {' and '.join(map(str, sorted(names)[:2]))}"
            raise ConfigurationError(message, remedy="Name one table's folder", location=self._place.text)
        try:
            stored = pa.unify_schemas(_alike(schemas, self._spelled), promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            message = f"The files have different types of a column: {error}"
            raise ConfigurationError(
                message, remedy="Compare a table of one schema", location=self._place.text
            ) from error
        (folders,) = names
        fields = [pa.field(name, pa.string(), metadata={FOLDER: b""}) for name in folders]
        lowered = {name.lower() for name in folders}
        return pa.schema([*(field for field in stored if field.name.lower() not in lowered), *fields])

    def _whole(self, rows: pa.Table, wanted: pa.Schema, folders: dict[str, str | None]) -> pa.Table:
        columns = []
        for field in wanted:
            if field.name in folders:
                columns.append(pa.repeat(pa.scalar(folders[field.name], pa.string()), rows.num_rows))
            elif field.name in rows.column_names:
                columns.append(rows[field.name].cast(field.type))
            else:
                columns.append(pa.nulls(rows.num_rows, field.type))
        return pa.table(columns, schema=wanted)


def _visible_files(place: Place) -> Iterator[str]:
    found = place.files.get_file_info(place.path)
    if found.type == fs.FileType.File:
        yield place.path
        return
    for info in place.files.get_file_info(fs.FileSelector(place.path, recursive=True, allow_not_found=True)):
        names = info.path.removeprefix(place.path).strip("/").split("/")
        hidden = any(name.startswith(_HIDDEN) and "=" not in name for name in names)
        if info.type == fs.FileType.File and not hidden and not names[-1].endswith(_FOLDER_MARK):
            yield info.path


def _spelled(schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """The table's name of each column of a file.

    Columns whose names differ only in case are one, as Spark and Athena read them, unless one file has several.
    """
    apart = {name for schema in schemas for name, n in Counter(map(str.lower, schema.names)).items() if n > 1}
    first: dict[str, str] = {}
    for schema in schemas:
        for name in schema.names:
            first.setdefault(name.lower(), name)
    names = {name for schema in schemas for name in schema.names}
    return {name: name if name.lower() in apart else first[name.lower()] for name in names}


def _alike(schemas: Sequence[pa.Schema], spelled: dict[str, str]) -> list[pa.Schema]:
    """The files' columns with the table's names; types that are only forms of one type become that type."""
    types: dict[str, set[pa.DataType]] = {}
    for schema in schemas:
        for field in schema:
            types.setdefault(spelled[field.name], set()).add(field.type)
    return [
        pa.schema(
            [
                pa.field(spelled[field.name], _plain(field.type) if len(types[spelled[field.name]]) > 1 else field.type)
                for field in schema
            ]
        )
        for schema in schemas
    ]


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without the form in which a program holds its values, and without the zone in which it shows times."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else plain_type(kind)


def _folders(path: str) -> dict[str, str | None]:
    """The values of a file's partition folders, as text."""
    values: dict[str, str | None] = {}
    for folder in path.strip("/").split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals:
            values[unquote(name)] = None if value == HIVE_NULL_PARTITION else unquote(value)
    return values
