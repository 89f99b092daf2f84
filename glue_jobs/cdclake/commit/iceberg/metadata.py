"""The metadata of an Iceberg table, which a reader opens first: columns, partitions, and the snapshots it may read.

One snapshot per change, whose id and sequence number are the number of the change. Ids of schemas and partition specs
are numbers of changes too, so none is ever used twice. The format is version 2 of https://iceberg.apache.org/spec/.
"""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from cdclake.errors import IntegrityError
from cdclake.model.change.record import ChangeKind
from cdclake.model.iceberg.field_ids import iceberg_type, is_promoted
from cdclake.model.layout import is_in_history
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.schema import INTEGER_TYPES, OP_COLUMN, Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.iceberg.table import IcebergFiles
    from cdclake.model.retained import Retained
    from cdclake.model.snapshot import Snapshot

Json = dict[str, Any]

FORMAT_VERSION: Final = 2
MAX_SNAPSHOTS = 1000
"""Readers can go back so many changes. Each costs 500 bytes of the metadata, which every reader opens and every change
writes again."""
PARTITION_FIELD_BASE = 1000
"""Ids of partition fields begin with it: https://iceberg.apache.org/spec/#partition-specs."""
_PARTITION_TYPES = frozenset({*INTEGER_TYPES, "string", "boolean"})
"""DuckDB 1.4.4 finds no rows where a partition column of another type is less or greater than a value. Such a column is
none of the spec; its bounds in each file tell readers as much."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Of a partition column in the spec. DuckDB cannot open manifests with other names, which Avro does not allow."""
_MAIN = "main"
_PROPERTIES = {
    # Others must neither delete data files, which rollbacks need, nor write.
    "gc.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "false",
    "cdclake.managed": "true",
}
_IN_FOLDER = "cdclake.in_folder"
"""Property of a table whose data files are in the folder of other readers, where replaced ones disappear at once."""


def table_schema(snapshot: Snapshot, schema_id: int) -> Json:
    """The columns in the data files of a table, `Op` and the position included, or of a history."""
    is_history = snapshot.schema.find(POSITION) is not None
    own = () if is_history else (Column(OP_COLUMN, "string"), Column(POSITION, "string"))
    columns = (*snapshot.schema, *own)
    fields = [
        {
            "id": snapshot.field_ids.of(column.name),
            "name": column.name,
            "required": False,
            "type": iceberg_type(column.type),
        }
        for column in columns
    ]
    return {"type": "struct", "schema-id": schema_id, "fields": fields}


def partition_spec(snapshot: Snapshot, spec_id: int) -> Json:
    """The partition columns of a table, each by its value."""
    fields = []
    for column in partition_columns(snapshot):
        source = snapshot.field_ids.of(column.name)
        field_id = PARTITION_FIELD_BASE + source
        fields.append({"source-id": source, "field-id": field_id, "name": column.name, "transform": "identity"})
    return {"spec-id": spec_id, "fields": fields}


def partition_columns(snapshot: Snapshot) -> list[Column]:
    """The partition columns that are in the partition spec."""
    found = (snapshot.schema.find(name) for name in snapshot.partition_key)
    return [one for one in found if one and one.type in _PARTITION_TYPES and _PLAIN_NAME.fullmatch(one.name)]


def same_fields(one: Json, other: Json) -> bool:
    """Whether two schemas or partition specs differ at most in their ids."""
    return bool(one["fields"] == other["fields"])


def table_metadata(
    snapshot: Snapshot,
    record: ChangeRecord,
    location: str,
    manifest_list_url: str,
    previous: Mapping[str, Any] | None,
) -> Json:
    """The metadata after a change.

    It offers the snapshots of earlier changes too, unless their data files, or this change's data files, are in the
    folder of other readers, or the change erased rows: then their files are about to be deleted.

    Args:
        snapshot: The table or history after the change, with its `iceberg`.
        record: The change, of this table.
        location: URL of the folder of the Iceberg table, without a trailing slash.
        manifest_list_url: URL of the snapshot's manifest list.
        previous: The metadata after the change before; None if the table was no Iceberg table then.
    """
    files = _files(snapshot)
    created_ms = round(datetime.fromisoformat(record.created_utc).timestamp() * 1000)
    before = previous or {}
    # Readers refuse times that decrease: https://iceberg.apache.org/spec/#table-metadata-fields
    # Of snapshots with equal times, DuckDB 1.4.4 takes the first.
    created_ms = max(created_ms, before.get("last-updated-ms", -1) + 1)
    current = before.get("current-snapshot-id")
    added: Json = {
        "snapshot-id": record.change,
        **({"parent-snapshot-id": current} if current else {}),
        "sequence-number": record.change,
        "timestamp-ms": created_ms,
        "manifest-list": manifest_list_url,
        "summary": _summary(snapshot, record),
        "schema-id": files.schema_id,
    }
    schemas = _with(before.get("schemas", ()), "schema-id", table_schema(snapshot, files.schema_id))
    in_folder = files.in_folder or _IN_FOLDER in before.get("properties", ())
    is_newest_only = in_folder or record.kind is ChangeKind.ERASURE
    specs = _with(before.get("partition-specs", ()), "spec-id", partition_spec(snapshot, files.spec_id))
    earlier = () if is_newest_only else _with_known_columns(before.get("snapshots", ()), schemas, specs)
    if is_newest_only:
        added.pop("parent-snapshot-id", None)
    snapshots = [*earlier, added][-MAX_SNAPSHOTS:]
    used = {one["schema-id"] for one in snapshots}
    return _with_log(
        {
            "format-version": FORMAT_VERSION,
            "table-uuid": before.get("table-uuid")
            or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{location}#{record.change}")),
            "location": location,
            "last-sequence-number": record.change,
            "last-updated-ms": created_ms,
            "last-column-id": max(before.get("last-column-id", 0), snapshot.field_ids.last),
            "schemas": [one for one in schemas if one["schema-id"] in used],
            "current-schema-id": files.schema_id,
            "partition-specs": [spec for spec in specs if _has_columns_of(schemas[-1], spec)],
            "default-spec-id": files.spec_id,
            "last-partition-id": max(
                [
                    before.get("last-partition-id", PARTITION_FIELD_BASE - 1),
                    *(field["field-id"] for spec in specs for field in spec["fields"]),
                ]
            ),
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {**_PROPERTIES, **({_IN_FOLDER: "true"} if files.in_folder else {})},
            "current-snapshot-id": record.change,
            "refs": {_MAIN: {"snapshot-id": record.change, "type": "branch"}},
            "snapshots": snapshots,
            "metadata-log": [],
        }
    )


def _with_known_columns(snapshots: Sequence[Json], schemas: Sequence[Json], specs: Sequence[Json]) -> list[Json]:
    """The snapshots after the last one with columns that cannot be read as the newest schema's columns of that name.

    Some readers look up a filter's columns in the newest schema, whichever snapshot they read (pyiceberg 0.12 does). In
    other snapshots, such a filter would find nothing, or fail. Iceberg's Java library reads the values of partition
    columns as their newest type, so these must have it.

    Snapshots before such a one could be read. But to readers that look for the snapshot of a time, they would be the
    newest of a time when another change was the table.

    Args:
        snapshots: In the order of their changes.
        schemas: Of the snapshots, and the newest one, which is the last.
        specs: Partition specs of the snapshots, and perhaps others.
    """
    newest = {one["name"].lower(): one for one in schemas[-1]["fields"]}
    partition_ids = {field["source-id"] for spec in specs for field in spec["fields"]}

    def is_known(field: Json) -> bool:
        new = newest.get(field["name"].lower())
        if field["id"] in partition_ids:
            return new is not None and (new["id"], new["type"]) == (field["id"], field["type"])
        return new is None or (new["id"] == field["id"] and is_promoted(field["type"], new["type"]))

    known = {one["schema-id"] for one in schemas if all(map(is_known, one["fields"]))}
    return [*takewhile(lambda one: one["schema-id"] in known, reversed(snapshots))][::-1]


def _has_columns_of(schema: Json, spec: Json) -> bool:
    """Whether the partition columns of a spec are columns of a schema.

    Iceberg's Java library opens no table with another spec. No snapshot needs it: see `_with_known_columns`.
    """
    return {field["source-id"] for field in spec["fields"]} <= {field["id"] for field in schema["fields"]}


def without_expired(metadata: Mapping[str, Any], retained: Retained) -> Json:
    """The metadata without the snapshots of changes that are not retained, whose data files are about to be deleted."""
    current = metadata["current-snapshot-id"]
    kept = [one for one in metadata["snapshots"] if one["snapshot-id"] in retained or one["snapshot-id"] == current]
    used = {one["schema-id"] for one in kept}
    schemas = [one for one in metadata["schemas"] if one["schema-id"] in used]
    return _with_log({**metadata, "snapshots": kept, "schemas": schemas})


def is_cleaned(metadata: Json, other: Json) -> bool:
    """Whether metadata is other metadata, or what `without_expired` leaves of it."""
    cleaned = ("snapshots", "schemas", "snapshot-log")
    same = {**other, **{name: metadata[name] for name in cleaned}} == metadata
    return same and all(one in other["snapshots"] for one in metadata["snapshots"])


def _with_log(metadata: Json) -> Json:
    """Add the log of snapshots, by which readers find the one of a time: the newest ones that follow each other.

    Before an expired snapshot, readers would find another one than that of the time:
    https://iceberg.apache.org/spec/#table-metadata-fields
    """
    log: list[Json] = []
    for one in reversed(metadata["snapshots"]):
        if log and one["snapshot-id"] != log[-1]["snapshot-id"] - 1:
            break
        log.append({"timestamp-ms": one["timestamp-ms"], "snapshot-id": one["snapshot-id"]})
    return {**metadata, "snapshot-log": log[::-1]}


def _with(known: Any, name: str, new: Json) -> list[Json]:  # noqa: ANN401 - JSON
    return [*(one for one in known if one[name] != new[name]), new]


def _files(snapshot: Snapshot) -> IcebergFiles:
    if snapshot.iceberg is None:
        message = f"Change {snapshot.change} lacks the manifests of its Iceberg table"
        raise IntegrityError(message, remedy="Report this. The change is committed; nothing is lost")
    return snapshot.iceberg


def _summary(snapshot: Snapshot, record: ChangeRecord) -> dict[str, str]:
    """What a change did, under the names of https://iceberg.apache.org/spec/#optional-snapshot-summary-fields."""
    added = _of_table((*(file.path for file in record.added), *record.restored))
    deleted = _of_table(record.retired)
    operation = "append" if added and not deleted else "delete" if deleted and not added else "overwrite"
    return {
        "operation": operation,
        "cdclake.kind": record.kind.value,
        "added-data-files": str(added),
        "deleted-data-files": str(deleted),
        "total-data-files": str(len(snapshot.files)),
        "total-records": str(sum(file.rows for file in snapshot.files)),
        "total-files-size": str(sum(file.bytes for file in snapshot.files)),
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def _of_table(paths: Iterable[str]) -> int:
    """Number of data files that are not of the history."""
    return sum(not is_in_history(path) for path in paths)
