"""Rows that Iceberg's delete files remove are not there; a table with those that pyiceberg cannot read is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from cdclake.errors import ConfigurationError
from cdclake_cli.shadow.formats.open import open_table
from tests.cdclake_cli.shadow.test_compare import COLUMNS, iceberg_table, row

if TYPE_CHECKING:
    from pathlib import Path

SNAPSHOT = 77
ROWS = 40


class DeleteManifestWriter(ManifestWriterV2):
    """pyiceberg reads manifests of delete files, and writes none."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def with_deletes(folder: Path, content: DataFileContent) -> str:
    """An Iceberg table with a delete file, as other engines write it. Returns its metadata file."""
    table: Any = iceberg_table(folder, pa.Table.from_pylist([row(number) for number in range(ROWS)], COLUMNS))
    if content is DataFileContent.POSITION_DELETES:
        first = next(iter(table.scan().plan_files())).file.file_path
        names = (("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545"))
        fields = [pa.field(name, kind, False, {"PARQUET:field_id": number}) for name, kind, number in names]
        rows = pa.table([[first, first], [3, 5]], schema=pa.schema(fields))
    else:
        rows = pa.table({"id": pa.array([3, 5], pa.int32())})
    pq.write_table(rows, folder / "deletes.parquet")
    deletes = DataFile.from_args(
        content=content,
        file_path=f"file://{folder}/deletes.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=2,
        file_size_in_bytes=(folder / "deletes.parquet").stat().st_size,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        spec_id=0,
    )
    io, before = table.io, table.current_snapshot()
    sequence, manifests = before.sequence_number + 1, f"file://{folder}/manifests.avro"
    output = io.new_output(f"file://{folder}/deletes.avro")
    with DeleteManifestWriter(table.spec(), table.schema(), output, SNAPSHOT, "null") as writer:
        status = ManifestEntryStatus.ADDED
        writer.add_entry(ManifestEntry.from_args(status=status, snapshot_id=SNAPSHOT, data_file=deletes))
    parent = before.snapshot_id
    with write_manifest_list(2, io.new_output(manifests), SNAPSHOT, parent, sequence, "null") as manifest_list:
        manifest_list.add_manifests([*before.manifests(io), writer.to_manifest_file()])
    facts: dict[str, Any] = {
        "snapshot_id": SNAPSHOT,
        "parent_snapshot_id": parent,
        "sequence_number": sequence,
        "timestamp_ms": before.timestamp_ms + 1,
        "manifest_list": manifests,
        "schema_id": 0,
    }
    snapshot = Snapshot(**facts, summary=before.summary)
    changes = {"snapshots": [*table.metadata.snapshots, snapshot], "refs": {}, "current_snapshot_id": SNAPSHOT}
    metadata = table.metadata.model_copy(update={**changes, "last_sequence_number": sequence})
    ToOutputFile.table_metadata(metadata, io.new_output(f"file://{folder}/new.metadata.json"))
    return f"{folder}/new.metadata.json"


def test_positional_deletes_are_applied(tmp_path: Path) -> None:
    table = open_table(with_deletes(tmp_path, DataFileContent.POSITION_DELETES))
    assert (table.version, table.rows) == (f"snapshot {SNAPSHOT}", None)
    assert sum(batch.num_rows for batch in table.batches(["id"])) == ROWS - 2


def test_equality_deletes_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="equality deletes"):
        open_table(with_deletes(tmp_path, DataFileContent.EQUALITY_DELETES))
