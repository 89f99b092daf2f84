"""Prepares and runs the engine for a change of any kind: checks keys, and gathers columns, locations and history."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from cdclake.commit.ancestry import ancestry
from cdclake.concurrency import in_parallel, in_turn
from cdclake.errors import (
    ConfigurationError,
    IntegrityError,
    OrderingError,
    SchemaDriftError,
    UnknownKeyError,
    UnsentValueError,
)
from cdclake.lake.merge.read_changes import Locations
from cdclake.lake.operations.engine import compute_change
from cdclake.lake.operations.history import (
    base_schema,
    has_type_change,
    history_after,
    last_full_load_utc,
    plan_history,
)
from cdclake.lake.operations.request import Request
from cdclake.lake.operations.untyped_columns import with_types
from cdclake.lake.raw.csv_header import columns_for_error, require_shared_columns
from cdclake.lake.raw.reader import fetch_raw_file, inspect_raw_file, read_raw
from cdclake.lake.raw.suppression import Suppression
from cdclake.lake.storage.key_ranges import without_key_ranges
from cdclake.lake.storage.keys import secret_id
from cdclake.lake.storage.partitions import convert_partition
from cdclake.lake.storage.shape import TableShape
from cdclake.model.change.record import ChangeKind
from cdclake.model.drift import drift_text
from cdclake.model.position import GREATEST_SEQUENCE, sequence_begin
from cdclake.model.raw.files import RawKind, file_order
from cdclake.model.schema import BEFORE_PREFIX
from cdclake.model.snapshot import RELOAD, LakeKeys, set_command
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.column_policy import ColumnPolicy
from cdclake.model.table.settings import SchemaPolicy, UnknownKeyPolicy
from cdclake.model.type_widening import merge_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.lake.operations.request import Result
    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.raw.reader import Inspection
    from cdclake.lake.raw.rows import Slice
    from cdclake.lake.spark.backend import Backend
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.drift import ColumnDrift
    from cdclake.model.raw.files import RawFile
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import DataFile, Snapshot


def inspect_raw_files(run: TableRun, files: Sequence[RawFile], *, fetches: bool = False) -> list[Inspection]:
    """Inspect raw files; the result is in their order. Threads make the requests.

    Args:
        fetches: Whether to fetch the files whole, see `fetch_raw_file`. Then the threads do nothing else, because each
            call of Arrow waits until other threads let go of Python's lock.
    """
    fs, settings, limits = run.raw_fs.open(), run.settings, run.limits
    if run.note_file:
        return _inspect_alone(run, fs, files, run.note_file)
    at_once = run.raw.calls_at_once
    if not fetches:
        return in_parallel(lambda file: inspect_raw_file(fs, file, settings, limits=limits), files, at_once)
    all_fetched = in_turn(partial(fetch_raw_file, run.raw, fs), files, at_once)
    return [
        inspect_raw_file(fs, file, settings, fetched, limits) for file, fetched in zip(files, all_fetched, strict=True)
    ]


def _inspect_alone(
    run: TableRun, fs: FileSystem, files: Sequence[RawFile], note_file: Callable[[str], None]
) -> list[Inspection]:
    """Inspect raw files one after the other, and read their rows, up to a limit. Each is named before."""
    inspections, left_bytes = [], run.limits.read_alone_bytes
    for file in files:
        note_file(file.relative)
        inspections.append(inspect_raw_file(fs, file, run.settings, limits=run.limits))
        left_bytes -= file.size_bytes
        for part in inspections[-1].parts if left_bytes >= 0 else ():
            for _ in read_raw(fs, part, run.settings, run.layout.name, run.limits):
                pass
    note_file("")
    return inspections


def merged_schema(schema: Schema, files: Sequence[RawFile], inspections: Sequence[Inspection]) -> Schema:
    """Merge the columns of raw files into a schema; see `merge_schemas`."""
    for file, inspection in zip(files, inspections, strict=True):
        schema = merge_schemas(schema, inspection.schema, file.relative)
    return schema


@dataclass(frozen=True)
class ChangeFiles:
    """Change files, and `LOAD` files of which some rows were quarantined, to apply as one change.

    Attributes:
        inspections: Of each file.
        known: Columns that the table must have even without the files.
        shape: Columns and keys of the table after the change.
        ordering: `Snapshot.ordering` after the change.
    """

    files: Sequence[RawFile]
    inspections: Sequence[Inspection]
    known: Schema
    shape: TableShape
    ordering: str

    @property
    def missing_columns(self) -> tuple[str, ...]:
        """The table's columns that some change file lacks."""
        return missing_columns(self.shape.schema, self.inspections)


def inspect_changes(run: TableRun, before: Snapshot, files: Sequence[RawFile]) -> ChangeFiles:
    """Inspect the raw files of a change, and derive the table's columns, keys and order after it.

    Raises:
        ConfigurationError: The table's keys are not among its columns, or differ from the lake table's.
        OrderingError: The files order their rows by another kind of value than the table.
    """
    size_bytes = sum(file.size_bytes for file in files)
    is_small = size_bytes <= run.limits.small_change_bytes  # then the driver reads the rows, too
    inspections = with_types(run, before, files, inspect_raw_files(run, files, fetches=is_small))
    known = base_schema(run, before, reloads=False)
    require_shared_columns(known, files, inspections)
    if not before.exists:
        require_known_columns(run, inspections)
    require_same_keys(run, before)
    shape = table_shape(run, merged_schema(known, files, inspections), before, inspections)
    return ChangeFiles(files, inspections, known, shape, require_one_ordering(before, files, inspections))


def missing_columns(schema: Schema, inspections: Sequence[Inspection]) -> tuple[str, ...]:
    """The table's columns that some change file lacks."""
    return tuple(
        column.name
        for column in schema
        if any(one.ordering and one.schema.find(column.name) is None for one in inspections)
    )


def parts_to_read(change: ChangeFiles) -> list[Slice]:
    """The slices of change files, with the columns that the table had only after each file was written.

    The files' order tells, unless a column of the source orders the changes: its values may order them otherwise.

    Args:
        change: The files, in the order of `RawFile.order`.
    """
    later = {column.name.lower() for one in change.inspections for column in one.schema}
    later -= {column.name.lower() for column in change.known}
    parts: list[Slice] = []
    for one in change.inspections:
        later -= {column.name.lower() for column in one.schema}
        columns = frozenset() if one.ordering.startswith("column ") else frozenset(later)
        parts += [replace(part, later_columns=columns) for part in one.parts]
    return parts


def table_shape(
    run: TableRun,
    schema: Schema,
    before: Snapshot,
    inspections: Sequence[Inspection] = (),
    loaded: Sequence[Inspection] = (),
) -> TableShape:
    """Shape of a table with these columns and the keys in its settings.

    Args:
        before: The table before the change; one that does not exist for a full load.
        inspections: The change files to apply.
        loaded: The full-load files.

    Raises:
        ConfigurationError: A key column is not among them, or one of `NullMeansUnsent`.
    """
    for name in (*run.settings.primary_key, *run.settings.partition_key):
        if schema.find(name) is None:
            message = f"{run.layout.name} has no column {name}"
            remedy = f"Correct PrimaryKey or PartitionKey; {columns_for_error(schema, [*inspections, *loaded])}"
            raise ConfigurationError(message, remedy=remedy)
    for name in run.settings.null_means_unsent:
        if schema.find(name) is None:
            message = f"{Attribute.NULL_MEANS_UNSENT} names {name}, which is not a column of the table"
            remedy = f"Correct {Attribute.NULL_MEANS_UNSENT}; {columns_for_error(schema, [*inspections, *loaded])}"
            raise ConfigurationError(message, remedy=remedy, table=run.layout.name)
    marked = run.settings.csv.no_sup_value is not None or bool(run.settings.null_means_unsent and inspections)
    partial = marked or (run.settings.keep_missing_columns and bool(missing_columns(schema, inspections)))
    return TableShape(
        schema,
        schema.spelled(run.settings.primary_key),
        schema.spelled(run.settings.partition_key),
        partial,
        soft_delete=run.settings.soft_delete,
        order_type=before.order_type or _type_of(run.settings.order_column, before.schema, schema),
        added=_added_columns(before, schema, inspections) if run.settings.keep_missing_columns else {},
        partitions_inside=run.settings.readers.open_iceberg,
        limits=run.limits,
    )


def _added_columns(before: Snapshot, schema: Schema, inspections: Sequence[Inspection]) -> Mapping[str, str]:
    """`Snapshot.added` after a change that makes these the table's columns."""
    if not before.exists:
        return {}
    added = dict(before.added)
    for column in schema:
        if before.schema.find(column.name) is None:
            files = (part.file.order for one in inspections if one.schema.find(column.name) for part in one.parts)
            added[column.name] = max(file_order(before.watermark), next(files, ""))
    return added


def _type_of(name: str, *schemas: Schema) -> str:
    """Type of a column in the first schema that has it; empty if none has."""
    return next((column.type for schema in schemas if (column := schema.find(name))), "")


def require_accepted(run: TableRun, changes: Sequence[ColumnDrift]) -> None:
    """Refuse column changes at the source if the table's policy is to freeze, except those an operator accepted.

    Raises:
        SchemaDriftError: There are others.
    """
    if run.settings.schema_policy is not SchemaPolicy.FREEZE:
        return
    refused = [one for one in changes if str(one) not in run.settings.accepted_drift]
    if refused:
        name = run.layout.name
        message = f"Columns changed at the source, and {Attribute.SCHEMA_POLICY} is {SchemaPolicy.FREEZE.value}"
        remedy = (
            "Nothing was applied. If the new columns are right, accept them with"
            f" cdclake tables acknowledge {name.typed}; the next run applies the file. Otherwise correct the source"
        )
        raise SchemaDriftError(message, remedy=remedy, table=name, file=refused[0].file, columns=drift_text(changes))


def require_rows_kept_keys(run: TableRun, before: Snapshot, change: ChangeFiles) -> None:
    """Refuse late files with a column that the table had not yet when a later update of a key was applied.

    Such an update takes along the values that its row had, see `parts_to_read`.

    Raises:
        UnsentValueError: Names the first such file and its column.
    """
    added = change.shape.added
    for file, inspection in zip(change.files, change.inspections, strict=True):
        late = [name for name, order in added.items() if inspection.schema.find(name) and file.order <= order]
        if not late or inspection.ordering.startswith("column "):
            continue
        end = max(added[name] for name in late)
        since_load = takewhile(lambda one: one.kind is not ChangeKind.FULL_LOAD, ancestry(run.log, before.change))
        if any(_moves_rows(record, file.order, end) for record in since_load):
            message = f"A late file has column {late[0]}, but the table lacked it when later updates changed keys"
            remedy = (
                f"Nothing was applied. If the source dropped or renamed the column, set {Attribute.MISSING_COLUMNS} to"
                " null. Otherwise leave the file out and correct its rows by hand, or reload the table"
            )
            raise UnsentValueError(message, remedy=remedy, file=file.relative, column=late[0])


def _moves_rows(record: ChangeRecord, after: str, end: str) -> bool:
    """Whether a change may contain updates of keys from files between these orders."""
    return bool(record.books.derived) and any(after < file_order(name) <= end for name in record.raw_names)


def require_known_keys(run: TableRun, before: Snapshot, change: ChangeFiles, result: Result) -> int:
    """Count updates of keys that the table lacks, if their files do not tell the key before, as the policy says.

    Returns:
        `ChangeRecord.unknown_keys`.

    Raises:
        UnknownKeyError: There are some, and the policy is to refuse them; names the first file with one.
    """
    policy = run.settings.unknown_keys
    if policy is None:
        policy = UnknownKeyPolicy.WARN if before.ledger.loads else UnknownKeyPolicy.INSERT
    found = result.resolution.unknown
    if policy is UnknownKeyPolicy.INSERT or not found.by_file:
        return 0
    if policy is UnknownKeyPolicy.WARN:
        return found.count
    order = min(found.by_file)
    file = next(file.relative for file in change.files if file.order == order)
    columns = ", ".join(f"{BEFORE_PREFIX}{name}" for name in run.settings.primary_key)
    message = (
        f"An update has a key that the table lacks, and no {columns} with the key before it: an insert is missing, or"
        f" the update changed the key and the row with the old key must go ({Attribute.UNKNOWN_KEYS} is refuse)"
    )
    remedy = (
        "Nothing was applied. Have DMS send before images of the key (cdclake doctor has the mapping rule), and reload"
        f" the table. If the source never updates keys, set {Attribute.UNKNOWN_KEYS} to insert"
    )
    row = found.by_file[order].row + 1
    raise UnknownKeyError(message, remedy=remedy, table=run.layout.name, file=file, row=row)


def require_one_ordering(before: Snapshot, files: Sequence[RawFile], inspections: Sequence[Inspection]) -> str:
    """Refuse change files whose rows are ordered by another kind of value than the table's.

    Returns:
        `Snapshot.ordering` after the change.

    Raises:
        OrderingError: Names the first file that differs.
    """
    ordering = before.ordering
    for file, inspection in zip(files, inspections, strict=True):
        if inspection.ordering and ordering and inspection.ordering != ordering:
            message = (
                f"The changes so far are ordered by {ordering}, but this file by {inspection.ordering}, and these do"
                " not compare: a file is named after the time it was written, which is later than its changes"
            )
            remedy = (
                "Nothing was applied. Reload the table with a full load taken after the switch, or undo the switch at"
                " the DMS task and have it write the file again"
            )
            raise OrderingError(message, remedy=remedy, file=file.relative, row=1)
        ordering = inspection.ordering or ordering
    return ordering


def require_same_keys(run: TableRun, before: Snapshot) -> None:
    """Refuse to change a lake table that was created with other keys, ordering column, column policy or secret.

    Raises:
        ConfigurationError: Names the attribute that was changed.
    """
    keys = LakeKeys.of(before)
    if keys:
        keys.check(run.settings, run.layout.name)
        if run.settings.column_policy.secret_id != before.policy.secret_id:
            message = "The secret is another one than the lake table's columns are hashed with"
            remedy = (
                "Nothing was applied. Give the run the old secret, or load the table again with the new one:"
                f" {set_command(run.layout.name, RELOAD)}"
            )
            raise ConfigurationError(message, remedy=remedy, table=run.layout.name)


def require_known_columns(run: TableRun, inspections: Sequence[Inspection]) -> None:
    """Refuse to create a table with a rule for a column that no raw file has: another column may be meant.

    Raises:
        ConfigurationError: Names the column.
    """
    found = {name for one in inspections for name in one.with_rules}
    for rule in run.settings.column_policy.rules:
        if rule.column.lower() not in found:
            message = f"{Attribute.COLUMN_POLICY} has '{rule}', and no raw file has a column {rule.column}"
            remedy = f"Nothing was applied. Correct {Attribute.COLUMN_POLICY}"
            raise ConfigurationError(message, remedy=remedy, table=run.layout.name)


def require_recognizable_erasures(run: TableRun, before: Snapshot) -> None:
    """Refuse to load erased keys in another form, in which older rows of them would not be recognized.

    Raises:
        ConfigurationError: The rule of such a key column changes, or its secret.
    """
    was, policy = ColumnPolicy.parse(before.policy.text), run.settings.column_policy
    for name in {name for one in before.erased for name in one.columns}:
        rule = policy.find(name)
        if rule != was.find(name) or (rule and policy.secret_id != before.policy.secret_id):
            message = f"The form of key column {name} changes, and rows of erased keys would come back unrecognized"
            remedy = (
                f"Nothing was applied. Set {Attribute.COLUMN_POLICY} and the secret back until the erasures are older"
                f" than {Attribute.RETENTION_DAYS} and {Attribute.LATE_WINDOW_HOURS}"
            )
            raise ConfigurationError(message, remedy=remedy, table=run.layout.name)


def locations_of(run: TableRun, before: Snapshot) -> Locations:
    """Where a table's next change reads and writes."""
    layout, change = run.layout, before.change + 1
    prefix = layout.staging_prefix if run.settings.readers.list_folder else layout.iceberg_data_prefix
    return Locations(
        raw=run.raw_fs,
        lake=run.lake_fs,
        layout=layout,
        staging=prefix(change, run.run_id),
        tombstones=layout.tombstones_key(change, run.run_id),
        quarantine=layout.quarantine_prefix(change, run.run_id),
    )


def compute(
    run: TableRun,
    backend: Backend,
    before: Snapshot,
    shape: TableShape,
    parts: Sequence[Slice],
    *,
    started: float,
    ordering: str = "",
    loaded_utc: datetime | None = None,
    released_utc: datetime | None = None,
    sets_history_time: bool = True,
    by_difference: bool = False,
) -> Result:
    """Compute a table's next change and stage its files.

    Args:
        shape: Columns and keys after it.
        parts: Slices of raw files to read.
        started: When the run began to look for its rows, by `time.perf_counter`.
        ordering: `Snapshot.ordering` after it.
        loaded_utc: For a full load, which replaces the table, the time since when its rows are valid; None for other
            changes.
        released_utc: Likewise for rows of the last full load that a release applies; None if there are none.
        sets_history_time: Whether the change's rows contain, in the table's `HistoryTimeColumn`, since when they are
            valid.
        by_difference: See `Request.by_difference`.

    Raises:
        InputError: A raw file cannot be read, or too many of its rows are bad.
        IntegrityError: The lake's files differ from the snapshot, or the secret of erased keys is missing.
        ConfigurationError: The settings require a history, but the table cannot have one.
    """
    seconds = {"list": round(time.perf_counter() - started, 3)}
    full_load, change = loaded_utc is not None, before.change + 1
    shape = shape.with_field_ids(before.field_ids, before.schema)
    files = () if full_load and not by_difference else _with_partitions(before, shape)
    if by_difference:
        files = tuple(replace(file, counts_as_loaded=True) for file in files)
    type_changes = has_type_change(before.schema, shape.schema)
    if type_changes:
        files = without_key_ranges(files)
    becomes_iceberg = run.settings.readers.open_iceberg and not before.iceberg
    stale = (
        i
        for i, (file, was) in enumerate(zip(files, before.files, strict=False))
        if type_changes
        or file.partition != was.partition
        or (file.deleted and not shape.soft_delete)
        or (becomes_iceberg and not _is_self_contained(was, shape))
    )
    locations = locations_of(run, before)
    history = plan_history(
        run,
        before,
        shape,
        locations,
        loaded_utc=loaded_utc,
        released_utc=released_utc,
        sets_history_time=sets_history_time,
    )
    suppression = _suppression(run, before, ordering)
    if suppression:
        released_load_utc = None if full_load else last_full_load_utc(before)
        parts = [_with_erasures(part, suppression, released_load_utc) for part in parts]
    request = Request(
        table=run.layout.name,
        parts=tuple(parts),
        files=files,
        tombstones=() if full_load else before.tombstones,
        oldest=_oldest_tombstone(run, before),
        forgotten="" if full_load else before.forgotten,
        overlap_end=_overlap_end(before),
        shape=shape,
        settings=run.settings,
        locations=locations,
        full_load=full_load,
        stale=frozenset(stale),
        settled_before=before.settled_before(run.clock(), run.limits.settled_days),
        loose_before=before.settled_before(run.clock(), run.limits.loose_days),
        history=history,
        suppression=suppression,
        by_difference=by_difference,
    )
    result = compute_change(backend, request)
    load = change if full_load else None
    after = history_after(before, shape, history, result.versions, load)
    return replace(result, history=after, seconds=seconds | result.seconds)


def _suppression(run: TableRun, before: Snapshot, ordering: str) -> Suppression | None:
    """Which rows to leave out, because their keys were erased; None if no erasure matters any more."""
    if not before.erased:
        return None
    key = run.layout.erasure_secret_key
    secret = run.log.store.get(key)
    if secret is None or any(one.secret_id != secret_id(secret) for one in before.erased):
        message = "The secret by which older rows of erased keys are recognized is missing or another one"
        remedy = "Nothing was applied. Restore the object, or delete it and erase all these keys again"
        raise IntegrityError(message, remedy=remedy, table=run.layout.name, file=key)
    # Values of another ordering do not compare.
    erased = (one if one.ordering == ordering else replace(one, last="") for one in before.erased)
    return Suppression(secret, tuple(erased))


def _with_erasures(part: Slice, suppression: Suppression, loaded_utc: datetime | None) -> Slice:
    """A slice that knows which erasures are later than its file.

    Args:
        loaded_utc: When the last full load was written, of which rows may be released; its files may be corrected.
    """
    file, written_utc = part.file, part.file.modified_utc
    if loaded_utc and file.kind is RawKind.FULL_LOAD:
        written_utc = min(written_utc, loaded_utc)
    return replace(part, erasures=suppression.later_than(file, written_utc))


def _is_self_contained(file: DataFile, shape: TableShape) -> bool:
    """Whether an Iceberg table may hold a data file: it has field ids, and all columns.

    Files of a folder without an Iceberg table lack the partition columns.
    """
    return file.has_field_ids and not shape.partition_key


def _overlap_end(before: Snapshot) -> str:
    """The full load contains no change with a greater sequence. A day is added, as these have times of any zone."""
    loaded_utc = last_full_load_utc(before)
    return sequence_begin(loaded_utc + timedelta(days=1)) if loaded_utc else GREATEST_SEQUENCE


def _oldest_tombstone(run: TableRun, before: Snapshot) -> str:
    """`file_order` of the change files before which deletes are forgotten; empty if none is.

    If a column orders the rows, a change file of any time may contain a row that is older than a delete. So may the
    quarantine of the full load.
    """
    return "" if run.settings.order_column or before.load_in_quarantine else before.horizon


def _with_partitions(before: Snapshot, shape: TableShape) -> tuple[DataFile, ...]:
    """The data files with the partitions in which their rows belong.

    These differ from the partitions that they are in if a partition column becomes wider, or if the files were adopted:
    other jobs may name a value differently.
    """
    was, now = ([_type_of(name, schema) for name in before.partition_key] for schema in (before.schema, shape.schema))
    partitions = {file.partition for file in before.files}
    converted = {partition: convert_partition(partition, was, now) for partition in partitions}
    if all(partition == to for partition, to in converted.items()):
        return before.files
    return tuple(
        file if file.partition == converted[file.partition] else replace(file, partition=converted[file.partition])
        for file in before.files
    )
