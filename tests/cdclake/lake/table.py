"""The raw folder of a source table and its lake table, on disk, for tests of the engine.

`tests.builders` makes the runs; here are the source's rows and the reader's view, which need Arrow.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.ledger import recorded
from cdclake.commit.log import ChangeLog
from cdclake.hash_secret import with_hash_secret
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.operations.direct.apply import DirectChange, change_directly
from cdclake.lake.operations.load import load_incremental, load_initial, replace_table
from cdclake.lake.raw.ordering import order_values
from cdclake.lake.raw.reader import inspect_raw_file, read
from cdclake.lake.raw.rows import ReadBatch
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.lake.storage.shape import TableShape
from cdclake.lake.storage.types import TIMESTAMP
from cdclake.model.layout import LakeLayout
from cdclake.model.partition_folder import HIVE_NULL_PARTITION
from cdclake.model.position import ARRIVED, position
from cdclake.model.raw.files import ListedObject, parse_raw_file
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.oracle import ChangeRow, LakeRow
from tests.builders import table_run
from tests.dying_store import Death, DyingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cdclake.lake.operations.direct.apply import DirectResult
    from cdclake.lake.operations.direct.input_tables import InputRows
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.spark.backend import Backend
    from cdclake.model.raw.files import RawFile
    from cdclake.ports import ObjectStore

RAW_PREFIX = "shop/orders/"
NAME = TableName("shop", "orders")


def stored_ordering(value: Any, kind: pa.DataType) -> str:
    """The ordering value as the engine stores it."""
    text: str = order_values(pa.array([value], kind))[0].as_py()
    return text


def ordering_by_value(value: Any, _kind: pa.DataType) -> str:
    """An ordering text of the tests' own, the same for every type: for numbers below 10^9, times and texts."""
    if value is None:
        return " "
    if isinstance(value, (int, float, Decimal)):
        return f"{int((Decimal(value) + 10**9) * 10**12):040d}"
    return f"{value.encode().hex()}!" if isinstance(value, str) else f"{value:%Y%m%d%H%M%S%f}"


@dataclass
class Table:
    """Writes raw files, runs the jobs, and reads the lake table.

    Attributes:
        root: Empty folder.
        columns: The source's columns.
        item: Settings as the state table holds them (`PrimaryKey`, ...).
        spark: Backend that runs the engine.
        death: Where runs die from now on; None if they do not.
        now: The current time, which does not advance.
        ordering: Text that sorts like the values of the ordering column, given a value and its type.
        limits: Those of its runs.
    """

    root: Path
    columns: pa.Schema
    item: dict[str, str] = field(default_factory=dict)
    spark: Backend = field(default_factory=InProcessBackend)
    death: Death | None = None
    now: datetime = datetime(2024, 3, 5, tzinfo=timezone.utc)
    ordering: Callable[[Any, pa.DataType], str] = field(default=stored_ordering)
    limits: EngineLimits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        self.raw, self.lake = self.root / "raw", self.root / "lake"
        (self.raw / RAW_PREFIX).mkdir(parents=True)
        self.lake.mkdir(parents=True)
        self.loads: list[dict[str, Any]] = []
        self.changes: list[ChangeRow] = []
        self.runs = 0

    @property
    def layout(self) -> LakeLayout:
        return LakeLayout("lake", "", NAME)

    @property
    def log(self) -> ChangeLog:
        return ChangeLog(open_store(self.lake.as_uri()), self.layout)

    @property
    def folder(self) -> Path:
        """The table's folder in the lake."""
        return self.lake / self.layout.table_prefix

    def raw_path(self, relative: str) -> Path:
        return self.raw / RAW_PREFIX / relative

    def put(self, relative: str, content: bytes | pa.Table, **options: Any) -> None:
        """Write a raw file: its bytes, or its rows as Parquet with options of `pq.write_table`."""
        path = self.raw_path(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(content, path, **options)

    def put_rows(self, relative: str, rows: Sequence[dict[str, Any]], **types: pa.DataType) -> None:
        """Write rows as Parquet. The first tells the columns: text, if they are not the table's and have no type."""
        columns = {field.name: field.type for field in self.columns}
        known = {**columns, **{f"BI_{name}": kind for name, kind in columns.items()}, **types}
        schema = pa.schema([(name, known.get(name, pa.string())) for name in rows[0]])
        self.put(relative, pa.Table.from_pylist(list(rows), schema))

    def set_modified(self, relative: str, modified: datetime) -> None:
        """Set the time at which a raw file was written."""
        os.utime(self.raw_path(relative), (modified.timestamp(), modified.timestamp()))

    def write_load(self, rows: list[dict[str, Any]], number: int = 1) -> None:
        """Write a full-load file as DMS does."""
        self.put(f"LOAD{number:08X}.parquet", pa.Table.from_pylist(rows, self.columns))
        self.loads += rows

    def write_changes(
        self, relative: str, rows: Sequence[tuple[Any, ...]], types: dict[str, pa.DataType] | None = None
    ) -> None:
        """Write a change file as DMS does: `Op`, the source's columns, and perhaps before images (`BI_*`) of the key.

        Args:
            rows: Operation, row, and perhaps the old key.
            types: Types of columns that differ in this file from the table; None if the file lacks the column.
        """
        complete = [(op, row, old[0] if old else None) for op, row, *old in rows]
        key = self.item.get("PrimaryKey", "null").split(",")
        kinds = {**{field.name: field.type for field in self.columns}, **(types or {})}
        schema = pa.schema([("Op", pa.string()), *((name, kind) for name, kind in kinds.items() if kind is not None)])
        if any(old for _, _, old in complete):
            for name in key:
                schema = schema.append(pa.field(f"BI_{name}", kinds[name]))
        images = [{f"BI_{name}": value for name, value in (old or {}).items()} for _, _, old in complete]
        dicts = [{"Op": op, **row, **image} for (op, row, _), image in zip(complete, images, strict=True)]
        self.put(relative, pa.Table.from_pylist(dicts, schema))
        for i, (op, row, old) in enumerate(complete):
            old_key = tuple(old[name] for name in key) if old and op == "U" else None
            sent = {name: value if kinds[name] is not None else None for name, value in row.items()}
            moves = old_key is not None and old_key != tuple(row[name] for name in key)
            mark = ARRIVED if moves else ""
            self.changes.append(ChangeRow(self._position(relative, i, row) + mark, op, sent, old_key))

    def write_partial_changes(self, relative: str, rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Write a CSV change file without header. A column that a row lacks is marked as not sent."""
        nulls, unsent = "NULL", self.item["CsvNoSupValue"]
        with self.raw_path(relative).open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for op, row in rows:
                texts = [nulls if row[name] is None else row[name] for name in self.columns.names if name in row]
                values = iter(texts)
                writer.writerow([op, *(next(values) if name in row else unsent for name in self.columns.names)])
        self.changes += [ChangeRow(self._position(relative, i, row), op, row) for i, (op, row) in enumerate(rows)]

    def _position(self, relative: str, row_number: int, row: dict[str, Any]) -> str:
        column = self.item.get("OrderColumn")
        if column is None:
            return position(relative, row_number)
        return position(relative, row_number, self.ordering(row[column], self.columns.field(column).type))

    def run(self) -> TableRun:
        self.runs += 1
        run = table_run(
            self.raw,
            self.lake,
            RAW_PREFIX,
            self.layout,
            self.item,
            run_id=f"run-{self.runs}",
            fencing_token=self.runs,
            clock=lambda: self.now,
            limits=self.limits,
        )
        if self.death:
            dying = cast("ObjectStore", DyingStore(run.log.store, self.death))
            run = replace(run, log=ChangeLog(dying, self.layout))
        return run

    def load_initial(self) -> dict[str, Any]:
        return load_initial(self.run(), self.spark)

    def load_again(self) -> dict[str, Any]:
        """Load the full load that may be in the lake already, as after the table's date was reset."""
        run = self.run()
        before, raw = run.current(reloads=True), list_raw_files(run.raw, run.raw_prefix, run.settings)
        seen = recorded(run.log, before.ledger, raw.all_changes)
        return replace_table(run, self.spark, before, raw, seen)

    def load_incremental(self, last: str = "", new: str = "") -> dict[str, Any]:
        return load_incremental(self.run(), self.spark, last, new)

    def load(self, rows: list[dict[str, Any]], modified: datetime | None = None) -> dict[str, Any]:
        """Write a full load of one file and load it."""
        self.write_load(rows)
        if modified:
            self.set_modified("LOAD00000001.parquet", modified)
        return self.load_initial()

    def reload(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Write a full load that is newer than the one before, and load it."""
        return self.load(rows, datetime.now(timezone.utc) + timedelta(minutes=1))

    def load_file(self, relative: str, content: bytes | pa.Table) -> dict[str, Any]:
        """Write a file of a full load and load it."""
        self.put(relative, content)
        return self.load_initial()

    def apply_file(
        self,
        relative: str,
        content: bytes | pa.Table | Sequence[tuple[Any, ...]],
        types: dict[str, pa.DataType] | None = None,
    ) -> dict[str, Any]:
        """Write a change file and apply it; changes in a CSV file may be partial. See `write_changes`."""
        if not isinstance(content, (list, tuple)):
            self.put(relative, content)
        elif relative.endswith(".csv"):
            self.write_partial_changes(relative, content)
        else:
            self.write_changes(relative, content, types)
        return self.load_incremental()

    def apply_rows(self, relative: str, rows: Sequence[dict[str, Any]], **types: pa.DataType) -> dict[str, Any]:
        """Write a change file and apply it; see `put_rows`."""
        self.put_rows(relative, rows, **types)
        return self.load_incremental()

    def direct(self, op: str, rows: InputRows) -> DirectResult:
        """Insert, update or delete rows directly."""
        return change_directly(self.run(), self.spark, DirectChange(op, lambda _: rows))

    def raw_file(self, relative: str, cdc_path: str = "") -> RawFile:
        """A raw file as in a listing; a transaction file is in the folder `cdc_path`."""
        key = f"{cdc_path}/{relative}" if cdc_path else RAW_PREFIX + relative
        size_bytes = (self.raw / key).stat().st_size if (self.raw / key).exists() else 0
        file = parse_raw_file(ListedObject(key, size_bytes, datetime(2024, 3, 5, tzinfo=timezone.utc)), RAW_PREFIX)
        assert file is not None
        return file

    def read(self, relative: str, cdc_path: str = "") -> ReadBatch:
        """Read one raw file for a lake table that has exactly its columns."""
        settings = with_hash_secret(TableSettings.from_item(self.item))
        fs = lake_filesystem(self.raw.as_uri()).open()
        inspection = inspect_raw_file(fs, self.raw_file(relative, cdc_path), settings, limits=self.limits)
        keys = settings.primary_key, settings.partition_key
        shape = TableShape(inspection.schema, *keys, limits=self.limits)
        batches = [batch for part in inspection.parts for batch in read(fs, part, shape, settings, NAME)]
        return ReadBatch(
            rows=pa.concat_tables([batch.rows for batch in batches]),
            bad_rows=tuple(bad for batch in batches for bad in batch.bad_rows),
            derived=sum(batch.derived for batch in batches),
        )

    def read_file(self, relative: str, content: bytes | pa.Table, **options: Any) -> ReadBatch:
        """Write a raw file and read it; see `put`."""
        self.put(relative, content, **options)
        return self.read(relative)

    def files(self) -> list[str]:
        """Relative paths of all files that a reader of the table's folder sees."""
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.is_file() and not path.name.startswith(("_", ".")) and not path.name.endswith("_$folder$")
        )

    def live(self, *names: str) -> dict[Any, Any]:
        """By `id` of each row that is not soft-deleted, the value of a column, or those of several."""
        rows = [one.row for one in self.rows() if one.op != "D"]
        found = {row["id"]: tuple(row[name] for name in names) for row in rows}
        assert len(found) == len(rows)
        return found if len(names) > 1 else {key: values[0] for key, values in found.items()}

    def rows(self) -> list[LakeRow]:
        """Rows of the table as a reader sees them, in the order of folder and file.

        Rows of an adopted file without operation and position count as loaded, and of files that count as such.
        """
        snapshot = self.log.snapshot(self.log.head())
        loaded = {file.path for file in snapshot.files if file.counts_as_loaded}
        read = (
            (path, pq.read_table(self.folder / path, partitioning=None, coerce_int96_timestamp_unit="us"))
            for path in self.files()
        )
        rows = ((path, row) for path, data in read for row in rows_of(path, in_utc(data), self.columns))
        return [replace(row, op="I", position="") if path in loaded else row for path, row in rows]


def rows_of(path: str, data: pa.Table, columns: pa.Schema) -> Iterator[LakeRow]:
    """Rows of one data file, including the partition values in its path."""
    parts = [piece.split("=", 1) for piece in path.split("/")[:-1]]
    texts = {unquote(name): None if text == HIVE_NULL_PARTITION else unquote(text) for name, text in parts}
    for row in data.to_pylist():
        op, row_position = row.pop("Op", "I"), row.pop("_cdc_position", "")
        for name, text in texts.items():
            row[name] = partition_value(text, columns.field(name).type)
        yield LakeRow({name: row.get(name) for name in columns.names}, op, row_position)


def row_numbers(batch: ReadBatch) -> list[int]:
    """The rows' numbers in their file, taken from their positions."""
    return [int(text.rpartition("|")[2]) for text in batch.rows["_cdc_position"].to_pylist()]


def partition_value(text: str | None, kind: pa.DataType) -> Any:
    """A partition value; its column may have become wider than its type at the source at first."""
    if text is not None and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return Decimal(text)
    return pa.scalar(text, pa.string()).cast(kind).as_py()


def without_ordering(rows: list[LakeRow]) -> list[LakeRow]:
    """The same rows; their positions name only file and row."""
    return [replace(row, position="|".join(row.position.rsplit("|", 2)[1:])) for row in rows]


def in_utc(data: pa.Table) -> pa.Table:
    """Rows with every timestamp in UTC; Spark's older form (INT96) has no zone."""
    zoned = [field.with_type(TIMESTAMP) if pa.types.is_timestamp(field.type) else field for field in data.schema]
    return data.cast(pa.schema(zoned))


def by_key(rows: list[LakeRow], key: tuple[str, ...]) -> list[LakeRow]:
    """Sort rows as the oracle does."""
    return sorted(rows, key=lambda one: tuple(one.row[name] for name in key))
