"""Makes out what lake table the Parquet files in a folder are, so that it can be taken over as they lie there.

Nothing is changed here; `control.maintenance.RegisteredTable.adopt` commits what this finds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.commit.adopt import require_no_table
from cdclake.commit.table_files import visible_files
from cdclake.errors import ConfigurationError, LakeFilesError
from cdclake.lake.operations.adopt.foreign_file import MEND, ForeignFile, common_schema, look
from cdclake.lake.operations.adopt.foreign_rows import ForeignRows
from cdclake.lake.raw import reader
from cdclake.lake.storage.partitions import partition_column, partition_text
from cdclake.lake.storage.shape import TableShape
from cdclake.model.due_files import begin_after, pending_changes
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.schema import Column, Schema, partition_folder
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake.model.table import TableState
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.rawfiles import RawFile
    from cdclake.ports import ObjectReader

CONCURRENT_INSPECTIONS = 16


@dataclass(frozen=True)
class Places:
    """Where a registered table's files lie.

    Attributes:
        state: The table's item.
        log: The lake table's change log, which has no table yet.
        lake_fs: The lake bucket; paths are keys.
        raw: Listing of the raw bucket.
        raw_fs: The raw bucket; paths are keys.
    """

    state: TableState
    log: ChangeLog
    lake_fs: FileSystem
    raw: ObjectReader
    raw_fs: FileSystem


@dataclass(frozen=True)
class Adoption:
    """What an adoption would do.

    Attributes:
        table: The lake table that the files make.
        change_files: Number of change files that the next run would apply to it.
        warnings: What a person should know before, a sentence or two each.
    """

    table: Snapshot
    change_files: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Good for JSON."""
        table = self.table
        return {
            "files": len(table.files),
            "rows": table.rows,
            "bytes": sum(file.bytes for file in table.files),
            "partitions": len({file.partition for file in table.files}),
            "primary_key": list(table.primary_key),
            "partition_key": list(table.partition_key),
            "watermark": table.watermark,
            "full_load_utc": table.full_load_utc,
            "change_files_due": self.change_files,
            "warnings": list(self.warnings),
            "columns": [{"name": column.name, "type": column.type} for column in table.schema],
            "data_files": [
                {"path": file.path, "rows": file.rows, "bytes": file.bytes, "partition": list(file.partition)}
                for file in table.files
            ],
        }


def plan_adoption(places: Places, say: Callable[[str], None] = lambda _: None) -> Adoption:
    """Make out what table the files in the lake folder are. Reads their footers, and of the rows the keys and `Op`.

    The watermark and the date of the full load are the item's, so that the next run goes on where the jobs that wrote
    the files ended.

    Args:
        places: Where everything is.
        say: Told what is being looked at.

    Raises:
        ConfigurationError: There is a lake table already, there are no files, or a setting does not fit them.
        LakeFilesError: The files cannot be a lake table; names a file and says what to do.
    """
    state, log = places.state, places.log
    settings, prefix = state.settings, log.layout.table_prefix
    require_no_table(log, log.snapshot(log.head()))
    listed = visible_files(log)
    if not listed:
        message = f"There are no files to adopt in the lake folder of {state.name}"
        remedy = "Check the lake bucket and prefix; a table without files is made by its first run"
        raise ConfigurationError(message, remedy=remedy, folder=prefix)
    say(f"Looking at {len(listed)} files")
    with ThreadPoolExecutor(CONCURRENT_INSPECTIONS) as pool:
        found = list(pool.map(lambda entry: look(places.lake_fs, prefix, entry, settings.partition_key), listed))
    stored = common_schema(found)
    full_load, changes = list_raw_files(places.raw, state.raw_prefix, settings.cdc_path)
    newest = max((*full_load, *changes), key=lambda file: (file.modified_utc, file.order), default=None)
    folders = _partition_columns(places, newest)
    shape = TableShape(Schema((*stored, *folders)), settings.primary_key, settings.partition_key)
    _require_keys(shape, found)
    files = [DataFile(file.path, file.rows, file.bytes, _partition(file, folders)) for file in found]
    say(f"Checking the keys of {sum(file.rows for file in files)} rows")
    routes = ForeignRows(places.lake_fs, prefix, files, shape).check()
    full_load_utc, warnings = _last_full_load(state, full_load)
    table = Snapshot(
        schema=shape.schema,
        primary_key=shape.primary_key,
        partition_key=shape.partition_key,
        order_column=settings.order_column,
        full_load_utc=full_load_utc,
        files=tuple(replace(file, key_min=low, key_max=high) for file, (low, high) in zip(files, routes, strict=True)),
    )
    table = begin_after(table, state.checked_watermark)
    due = pending_changes(table, changes, settings.late_window_hours).due
    return Adoption(table, len(due), (*warnings, *_warnings(table, len(due))))


def _partition_columns(places: Places, newest: RawFile | None) -> tuple[Column, ...]:
    """The partition columns; their types, which folder names do not tell, are as declared, else as in a raw file."""
    settings = places.state.settings
    known = settings.schema or Schema()
    if newest and any(known.find(name) is None for name in settings.partition_key):
        known = Schema((*known, *reader.inspect(places.raw_fs, newest, settings).schema))
    columns = []
    for name in settings.partition_key:
        column = known.find(name)
        if column is None:
            message = f"The type of the partition column {name} is not known: the newest raw file does not tell it"
            remedy = f"Name the columns and their types in the {Attribute.SCHEMA} attribute, {name} among them"
            raise ConfigurationError(message, remedy=remedy, table=places.state.name)
        columns.append(Column(name, column.type))
    return tuple(columns)


def _require_keys(shape: TableShape, found: Sequence[ForeignFile]) -> None:
    folders = {name.lower() for name in shape.partition_key}
    for name in shape.primary_key:
        if shape.schema.find(name) is None:
            message = f"The files in the lake folder have no key column {name}"
            remedy = f"Correct {Attribute.PRIMARY_KEY}; the columns are {', '.join(shape.schema.names)}"
            raise ConfigurationError(message, remedy=remedy)
        lacking = next((file for file in found if file.schema.find(name) is None), None)
        if name.lower() not in folders and lacking:
            message = f"A file in the lake folder lacks the key column {name}"
            raise LakeFilesError(message, remedy=f"Correct {Attribute.PRIMARY_KEY}. {MEND}", file=lacking.path)


def _partition(file: ForeignFile, columns: Sequence[Column]) -> Partition:
    """A file's partition values, each in the one text that cdclake has for it."""
    values: list[str | None] = []
    for column, text in zip(columns, file.partition, strict=True):
        try:
            values.append(partition_text(partition_column(text, column.type, 1))[0].as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = f"The folder of a file in the lake does not tell a {column.type} for {column.name}"
            remedy = f"Correct the type in the {Attribute.SCHEMA} attribute, or mend the folder"
            raise LakeFilesError(message, remedy=remedy, file=file.path) from error
    return tuple(values)


def _last_full_load(state: TableState, full_load: Sequence[RawFile]) -> tuple[str, list[str]]:
    """The date of the full load that the files hold, and what a person should know about it.

    The walkthrough's jobs load all LOAD files and note when the first of them was written. cdclake notes the newest:
    by the first it would take the others for a new full load.
    """
    known = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
    newer = [file for file in full_load if _second(file) > known]
    if known == Sentinel.NEVER_LOADED:
        replaced = f"The next run will replace the table by a full load from {len(newer)} LOAD files"
        remedy = f"set {Attribute.LAST_FULL_LOAD_DATE} if these are in the table already"
        return "", [f"{replaced}: {remedy}."] if newer else []
    if not newer:
        return known, []
    first = min((file for file in full_load if "/" not in file.relative), key=lambda file: file.relative, default=None)
    if first is not None and _second(first) == known:
        newest = max(_second(file) for file in newer)
        note = f"{Attribute.LAST_FULL_LOAD_DATE} {known} is that of the first LOAD file alone, and becomes {newest}"
        return newest, [f"{note}: {len(newer)} more LOAD files are taken to have been loaded with it."]
    written = f"{len(newer)} LOAD files were written since the last full load ({known})"
    return known, [f"The next run will load the table anew: {written}."]


def _second(file: RawFile) -> str:
    return file.modified_utc.strftime(TableState.DATE_FORMAT)


def _warnings(table: Snapshot, due: int) -> list[str]:
    warnings = []
    if not table.primary_key:
        warnings.append(
            f"No {Attribute.PRIMARY_KEY} is set: updates and deletes will be ignored, and rows that are there twice "
            "were not looked for. A key can be set later only by loading the table anew."
        )
    if not table.watermark and due:
        warnings.append(
            f"{Attribute.LAST_INCREMENTAL_FILE} names no file: the next run will apply all {due} change files."
        )
    key = table.partition_key
    odd = sum(not file.path.startswith(partition_folder(key, file.partition)) for file in table.files)
    if odd:
        warnings.append(
            f"{odd} files lie in partition folders that cdclake would name otherwise. Readers take both for the same; "
            "new files will lie beside them."
        )
    return warnings
