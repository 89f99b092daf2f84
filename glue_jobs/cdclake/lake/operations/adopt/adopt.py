"""Plans the adoption of the Parquet files in a table's folder as a lake table.

This changes nothing; `cdclake.control.admin.table_admin.RegisteredTable.adopt` commits the planned table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.commit.adopt import require_no_table
from cdclake.commit.table_files import visible_files
from cdclake.concurrency import in_parallel
from cdclake.errors import ConfigurationError, LakeFilesError
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.operations.adopt.foreign_file import FIX_FILE, ForeignFile, common_schema, inspect_file
from cdclake.lake.operations.adopt.foreign_rows import ForeignRows
from cdclake.lake.raw import reader
from cdclake.lake.storage.partitions import partition_column, partition_text
from cdclake.lake.storage.shape import TableShape
from cdclake.model.due_files import begin_after, mark_seen, pending_changes
from cdclake.model.names import Sentinel
from cdclake.model.partition_folder import partition_folder
from cdclake.model.raw.ledger import Recorded
from cdclake.model.schema import UNTYPED, Column, Schema
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from cdclake.raw_listing import list_raw_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog
    from cdclake.lake.storage.partitions import Partition
    from cdclake.model.raw.files import RawFile
    from cdclake.ports import ObjectReader


@dataclass(frozen=True)
class AdoptionSource:
    """A registered table to adopt, and access to its files.

    Attributes:
        state: The table's item.
        log: The lake table's change log, which has no table yet.
        lake_fs: The lake bucket; paths are keys.
        raw: The raw bucket, for listings.
        raw_fs: The raw bucket, for reading files; paths are keys.
        limits: How many keys to compare at once.
    """

    state: TableState
    log: ChangeLog
    lake_fs: FileSystem
    raw: ObjectReader
    raw_fs: FileSystem
    limits: EngineLimits = DEFAULT_LIMITS


@dataclass(frozen=True)
class Adoption:
    """A planned adoption.

    Attributes:
        table: The lake table that the files become.
        change_files: Number of change files that the next run will apply to it.
        warnings: What the operator should know before confirming, a sentence or two each.
    """

    table: Snapshot
    change_files: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The adoption as JSON types."""
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


def plan_adoption(source: AdoptionSource, on_progress: Callable[[str], None] = lambda _: None) -> Adoption:
    """Derive the lake table from the files in the lake folder. Reads their footers, keys and `Op`.

    The watermark and the date of the full load come from the item, so the next run continues where the jobs that wrote
    the files stopped.

    Args:
        on_progress: Called with a description of each step.

    Raises:
        ConfigurationError: A lake table exists already, there are no files, or a setting does not fit them.
        LakeFilesError: The files cannot be a lake table. Contains a file and a remedy.
    """
    state, log = source.state, source.log
    settings, prefix = state.settings, log.layout.table_prefix
    require_no_table(log, log.snapshot(log.head()))
    if settings.column_policy.rules:
        message = f"{state.name} has a {Attribute.COLUMN_POLICY}, and the files in the lake folder were written without"
        remedy = "Empty the lake folder and load the table, or adopt it first, then set the policy with a reload"
        raise ConfigurationError(message, remedy=remedy, table=state.name)
    listed = visible_files(log)
    if not listed:
        message = f"There are no files to adopt in the lake folder of {state.name}"
        remedy = "Check the lake bucket and prefix; the first run creates a table that has no files yet"
        raise ConfigurationError(message, remedy=remedy, folder=prefix)
    on_progress(f"Inspecting files: {len(listed):,}")
    inspect = partial(inspect_file, source.lake_fs, prefix, partition_key=settings.partition_key)
    foreign = in_parallel(inspect, listed, log.store.calls_at_once)
    stored = common_schema(foreign)
    raw = list_raw_files(source.raw, state.raw_prefix, settings)
    newest = max((*raw.full_load, *raw.changes), key=lambda file: (file.modified_utc, file.order), default=None)
    folders = _partition_columns(source, newest)
    keys = settings.primary_key, settings.partition_key
    shape = TableShape(Schema((*stored, *folders)), *keys, limits=source.limits)
    _require_keys(shape, foreign)
    files = [DataFile(file.path, file.rows, file.bytes, _partition(file, folders)) for file in foreign]
    on_progress(f"Checking the keys of {sum(file.rows for file in files)} rows")
    bounds = ForeignRows(source.lake_fs, prefix, files, shape).check()
    full_load_utc, warnings = _last_full_load(state, raw.full_load)
    table = Snapshot(
        schema=shape.schema,
        primary_key=shape.primary_key,
        partition_key=shape.partition_key,
        order_column=settings.order_column,
        full_load_utc=full_load_utc,
        files=tuple(replace(file, key_min=low, key_max=high) for file, (low, high) in zip(files, bounds, strict=True)),
    )
    table = mark_seen(begin_after(table, state.checked_watermark), raw.all_changes)
    due = pending_changes(table, raw.changes, settings.late_window_hours, Recorded()).due
    return Adoption(table, len(due), (*warnings, *_warnings(table, len(due))))


def _partition_columns(source: AdoptionSource, newest: RawFile | None) -> tuple[Column, ...]:
    """The partition columns. Their types, which folder names lack, come from the settings or the newest raw file."""
    settings = source.state.settings
    schema = settings.schema or Schema()
    if newest and any(schema.find(name) is None for name in settings.partition_key):
        schema = Schema((*schema, *reader.inspect_raw_file(source.raw_fs, newest, settings).schema))
    columns = []
    for name in settings.partition_key:
        column = schema.find(name)
        if column is None or column.type == UNTYPED:
            message = f"The type of the partition column {name} is unknown, because the newest raw file lacks it"
            remedy = f"Declare all columns with their types in the {Attribute.SCHEMA} attribute, including {name}"
            raise ConfigurationError(message, remedy=remedy, table=source.state.name)
        columns.append(Column(name, column.type))
    return tuple(columns)


def _require_keys(shape: TableShape, files: Sequence[ForeignFile]) -> None:
    folders = {name.lower() for name in shape.partition_key}
    for name in shape.primary_key:
        if shape.schema.find(name) is None:
            message = f"The files in the lake folder have no key column {name}"
            remedy = f"Correct {Attribute.PRIMARY_KEY}; the columns are {', '.join(shape.schema.names)}"
            raise ConfigurationError(message, remedy=remedy)
        lacking = next((file for file in files if file.schema.find(name) is None), None)
        if name.lower() not in folders and lacking:
            message = f"A file in the lake folder lacks the key column {name}"
            raise LakeFilesError(message, remedy=f"Correct {Attribute.PRIMARY_KEY}. {FIX_FILE}", file=lacking.path)


def _partition(file: ForeignFile, columns: Sequence[Column]) -> Partition:
    """A file's partition values, each as the text that cdclake uses for it."""
    values: list[str | None] = []
    for column, text in zip(columns, file.partition, strict=True):
        try:
            values.append(partition_text(partition_column(text, column.type, 1))[0].as_py())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = f"The folder of a file in the lake has no valid {column.type} for {column.name}"
            remedy = f"Correct the type in the {Attribute.SCHEMA} attribute, or rename the folder"
            raise LakeFilesError(message, remedy=remedy, file=file.path) from error
    return tuple(values)


def _last_full_load(state: TableState, full_load: Sequence[RawFile]) -> tuple[str, list[str]]:
    """The date of the full load that the files contain, and warnings about it.

    The walkthrough's jobs load all LOAD files and record the time of the first one. cdclake records the time of the
    newest one, because it would take the other files for a new full load otherwise.
    """
    known = state.last_full_load_utc.strftime(TableState.DATE_FORMAT)
    newer = [file for file in full_load if _second(file) > known]
    if known == Sentinel.NEVER_LOADED:
        replaced = f"The next run will replace the table with a full load from {len(newer)} LOAD files"
        remedy = f"If the table contains these already, set {Attribute.LAST_FULL_LOAD_DATE}"
        return "", [f"{replaced}. {remedy}."] if newer else []
    if not newer:
        return known, []
    first = min((file for file in full_load if "/" not in file.relative), key=lambda file: file.relative, default=None)
    if first is not None and _second(first) == known:
        newest = max(_second(file) for file in newer)
        note = f"{Attribute.LAST_FULL_LOAD_DATE} changes from {known}, the time of the first LOAD file, to {newest}"
        return newest, [f"{note}, because {len(newer)} more LOAD files were probably loaded with it."]
    written = f"{len(newer)} LOAD files are newer than the last full load ({known})"
    return known, [f"The next run will reload the table: {written}."]


def _second(file: RawFile) -> str:
    return file.modified_utc.strftime(TableState.DATE_FORMAT)


def _warnings(table: Snapshot, due: int) -> list[str]:
    warnings = []
    if not table.primary_key:
        warnings.append(
            f"No {Attribute.PRIMARY_KEY} is set: updates and deletes will be ignored, and the files were not checked "
            "for duplicate rows. To set a key later, you must reload the table."
        )
    if not table.watermark and due:
        warnings.append(
            f"{Attribute.LAST_INCREMENTAL_FILE} is not set: the next run will apply all {due} change files."
        )
    key = table.partition_key
    odd = sum(not file.path.startswith(partition_folder(key, file.partition)) for file in table.files)
    if odd:
        warnings.append(
            f"{odd} files are in partition folders that cdclake names differently. Readers treat both names the same; "
            "new files go to the other folders."
        )
    return warnings
