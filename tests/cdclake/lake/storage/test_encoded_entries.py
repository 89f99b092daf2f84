"""Copied entries of manifests are those that pyiceberg decoded and encoded before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from cdclake.errors import IntegrityError
from cdclake.lake.storage.encoded_entries import AddedColumns, CopyingManifestWriter, EncodedDataFile, read_entries

if TYPE_CHECKING:
    from pathlib import Path

ADDED, EXISTING, DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "city", StringType()), NestedField(3, "n", IntegerType())
)
FIELDS = [PartitionField(source, 1000 + source, IdentityTransform(), name) for source, name in ((2, "city"), (3, "n"))]
IO = PyArrowFileIO()


def data_file(number: int, partition: tuple[Any, ...]) -> DataFile:
    counts = {1: number, 2: 300 * number, 3: 1 << 40}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://lake/Äpfel/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=10 + number,
        file_size_in_bytes=1 << (8 * number),
        column_sizes=counts,
        value_counts=counts,
        null_value_counts={1: 0, 2: number, 3: 0},
        nan_value_counts={},
        lower_bounds={1: number.to_bytes(8, "little"), 2: "Ä".encode()} if number else None,
        upper_bounds={1: b"\xff" * 8, 2: b""},
        split_offsets=[4, 1 << 33],
    )
    file.spec_id = 5
    return file


def entries(values: list[tuple[Any, ...]]) -> list[ManifestEntry]:
    """Entries of each status, the first ones of change 7, and the others of earlier changes."""
    statuses = [ADDED, EXISTING, DELETED]
    return [
        ManifestEntry(
            statuses[number % 3], 7 if number % 3 == 0 else 1 + number, 1 + number, 1 + number, data_file(number, value)
        )
        for number, value in enumerate(values)
    ]


def write(writer: ManifestWriterV2, entries: list[ManifestEntry]) -> ManifestFile:
    with writer:
        for entry in entries:
            step = {ADDED: writer.add, EXISTING: writer.existing, DELETED: writer.delete}[entry.status]
            step(entry)
    manifest = writer.to_manifest_file()
    manifest.sequence_number = 7
    return manifest


def decoded(manifest: ManifestFile) -> list[tuple[list[Any], list[Any]]]:
    """What pyiceberg reads, by position: entries, and their data files."""
    found = manifest.fetch_manifest_entry(IO, discard_deleted=False)
    return [
        (
            [entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number],
            [dict(one) if hasattr(one, "items") else one for one in entry.data_file._data],
        )
        for entry in found
    ]


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ([], [(), (), (), ()]),
        (FIELDS[:1], [("Kiel",), (None,), ("",), ("Ulm",)]),
        (FIELDS, [("Kiel", -1), (None, None), ("Ulm", 1 << 30), ("x" * 300, 0)]),
    ],
)
@pytest.mark.parametrize("codec", ["deflate", "null"])
def test_copied_entries_are_those_that_were_read(
    fields: list[PartitionField], values: list[tuple[Any, ...]], codec: Any, tmp_path: Path
) -> None:
    spec = PartitionSpec(*fields, spec_id=5)
    first, second = (IO.new_output(str(tmp_path / name)) for name in ("first.avro", "second.avro"))
    original = write(ManifestWriterV2(spec, SCHEMA, first, 7, codec), entries(values))
    found = list(read_entries((tmp_path / "first.avro").read_bytes()))
    assert [one.file_path for one in found] == [entry.data_file.file_path for entry in entries(values)]
    again = [
        ManifestEntry(
            one.status,
            one.snapshot_id,
            one.sequence_number,
            one.file_sequence_number,
            EncodedDataFile(one.data_file, entry.data_file.partition, entry.data_file.record_count),
        )
        for one, entry in zip(found, entries(values), strict=True)
    ]
    copy = write(CopyingManifestWriter(spec, SCHEMA, second, 7, codec), again)
    assert decoded(copy) == decoded(original)
    assert [one[0][:2] for one in decoded(copy)] == [[ADDED, 7], [EXISTING, 2], [DELETED, 7], [ADDED, 7]]
    paths = (original.manifest_path, copy.manifest_path)
    assert [one for one in copy._data if one not in paths] == [one for one in original._data if one not in paths]


@pytest.mark.parametrize("counts", [None, {}, {1: 3}, {1: 0, 2: 300, 3: 1 << 40}])
@pytest.mark.parametrize(("fields", "value"), [([], ()), (FIELDS, ("Kiel", 1 << 30)), (FIELDS, (None, None))])
def test_added_columns_are_null_in_copied_entries(
    fields: list[PartitionField], value: tuple[Any, ...], counts: dict[int, int] | None, tmp_path: Path
) -> None:
    spec = PartitionSpec(*fields, spec_id=5)
    old, expected = data_file(2, value), data_file(2, value)
    for position, field in enumerate(DATA_FILE_TYPE[2].fields):
        if field.name in ("value_counts", "null_value_counts"):
            old._data[position] = counts
            expected._data[position] = {**(counts or {}), 7: 12, 300: 12}
    outputs = [IO.new_output(str(tmp_path / name)) for name in ("old.avro", "new.avro", "expected.avro")]
    write(ManifestWriterV2(spec, SCHEMA, outputs[0], 7, "deflate"), [ManifestEntry(ADDED, 7, None, None, old)])
    (found,) = read_entries((tmp_path / "old.avro").read_bytes())
    columns = AddedColumns(spec.partition_type(SCHEMA), {300, 7})
    described = columns.add_to(EncodedDataFile(found.data_file, Record(*value), old.record_count))
    entries = [ManifestEntry(EXISTING, 7, 7, 7, file) for file in (described, expected)]
    new, plain = (
        decoded(write(CopyingManifestWriter(spec, SCHEMA, output, 8, "deflate"), [entry]))
        for output, entry in zip(outputs[1:], entries, strict=True)
    )
    assert new == plain


def test_new_and_copied_entries_share_a_manifest(tmp_path: Path) -> None:
    spec = PartitionSpec(spec_id=5)
    old, *_ = entries([(), (), ()])
    original = write(ManifestWriterV2(spec, SCHEMA, IO.new_output(str(tmp_path / "old.avro")), 7, "deflate"), [old])
    (found,) = read_entries((tmp_path / "old.avro").read_bytes())
    copied = ManifestEntry(EXISTING, 7, 7, 7, EncodedDataFile(found.data_file, Record(), old.data_file.record_count))
    new = ManifestEntry(ADDED, 8, None, None, data_file(1, ()))
    mixed = CopyingManifestWriter(spec, SCHEMA, IO.new_output(str(tmp_path / "mixed.avro")), 8, "deflate")
    read = decoded(write(mixed, [copied, new]))
    assert read[0][1] == decoded(original)[0][1]
    assert [one[1][1] for one in read] == [old.data_file.file_path, new.data_file.file_path]


def test_a_block_of_several_entries_is_refused(tmp_path: Path) -> None:
    """Where one entry ends can only be found by decoding it."""
    spec = PartitionSpec(spec_id=5)
    output = write_manifest(2, spec, SCHEMA, IO.new_output(str(tmp_path / "m.avro")), 7, "deflate").new_writer()
    assert isinstance(output, AvroOutputFile)
    with output:
        output.write_block(entries([(), ()]))
    with pytest.raises(IntegrityError, match="several entries"):
        list(read_entries((tmp_path / "m.avro").read_bytes()))
