"""Entries of manifests that are copied as they are encoded.

An entry says which data file it is and whether the change added it, and then describes the file: its statistics, nearly
all its bytes. pyiceberg takes 0.03 ms to decode and 0.2 ms to encode these for 30 columns. They change only when the
table gets columns that the file lacks, so they are copied.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.avro.writer import StructWriter, Writer
from pyiceberg.manifest import ManifestEntryStatus, ManifestWriterV2, data_file_with_partition

from cdclake.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.typedef import Record
    from pyiceberg.types import StructType

REMEDY = "Set Readers to folder, run, and set it back: all manifests are written again"
_HEADER_READER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


class EncodedEntry(NamedTuple):
    """An entry whose data file is not decoded. Null numbers are inherited from the manifest list.

    Attributes:
        status: Whether the manifest's change added the file or removed it.
        snapshot_id: The change that did.
        sequence_number: The change that added the file.
        file_sequence_number: The same, in tables whose files are only cdclake's.
        file_path: URL of the file.
        data_file: The encoded description of the file.
    """

    status: ManifestEntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    file_path: str
    data_file: bytes


@dataclass(frozen=True)
class EncodedDataFile:
    """An encoded description of a data file, with what pyiceberg's writer of manifests needs to know of it.

    Attributes:
        encoded: The description.
        partition: As in `pyiceberg.manifest.DataFile`.
        record_count: As there.
    """

    encoded: bytes
    partition: Record
    record_count: int


def read_entries(manifest: bytes) -> Iterator[EncodedEntry]:
    """The entries of a manifest of format version 2, in order.

    Their layouts are in https://iceberg.apache.org/spec/#manifests and
    https://avro.apache.org/docs/1.12.0/specification/#object-container-files.

    Raises:
        IntegrityError: A block has several entries. `CopyingManifestWriter` writes each to a block of its own.
    """
    decoder = new_decoder(manifest)
    codec = _HEADER_READER.read(decoder).compression_codec()
    while decoder.tell() < len(manifest):
        if decoder.read_int() != 1:
            message = "A block of a manifest has several entries"
            raise IntegrityError(message, remedy=f"Nothing was changed. {REMEDY}")
        block = decoder.read_bytes()
        yield _entry(codec.decompress(block) if codec else block)
        decoder.skip(SYNC_SIZE)


def _entry(encoded: bytes) -> EncodedEntry:
    decoder = new_decoder(encoded)
    status = ManifestEntryStatus(decoder.read_int())
    snapshot_id, sequence_number, file_sequence_number = (_optional_int(decoder) for _ in range(3))
    start = decoder.tell()
    decoder.skip_int()  # whether the file has data or deletes
    file_path = decoder.read_utf8()
    return EncodedEntry(status, snapshot_id, sequence_number, file_sequence_number, file_path, encoded[start:])


def _optional_int(decoder: BinaryDecoder) -> int | None:
    return decoder.read_int() if decoder.read_int() else None


class AddedColumns:
    """Columns that data files lack. Their entries count a null of these in each row: otherwise readers may skip them.

    Args:
        partition_type: Of the files' partitions.
        field_ids: Of the columns; at least one.
    """

    def __init__(self, partition_type: StructType, field_ids: Collection[int]) -> None:
        reader = construct_reader(data_file_with_partition(partition_type, 2))
        assert isinstance(reader, StructReader)
        names = [field.name for field in reader.struct.fields]
        self._before = [one for _, one in reader.field_readers[: names.index("value_counts")]]
        self._field_ids = sorted(field_ids)

    def add_to(self, file: EncodedDataFile) -> EncodedDataFile:
        """The description of a file with counts of the columns.

        Raises:
            IntegrityError: The counts of others have several blocks. pyiceberg writes them as one.
        """
        decoder = new_decoder(file.encoded)
        for reader in self._before:
            reader.skip(decoder)
        output = io.BytesIO()
        encoder = BinaryEncoder(output)
        encoder.write(file.encoded[: decoder.tell()])
        for _ in ("value_counts", "null_value_counts"):
            known = decoder.read_int() and decoder.read_int()
            start = decoder.tell()
            for _ in range(2 * known):
                decoder.skip_int()
            items = file.encoded[start : decoder.tell()]
            if known < 0 or (known and decoder.read_int()):
                raise IntegrityError(
                    "Counts in a manifest have several blocks", remedy=f"Nothing was changed. {REMEDY}"
                )
            encoder.write_int(1)  # they are not null
            encoder.write_int(known + len(self._field_ids))
            encoder.write(items)
            for field_id in self._field_ids:
                encoder.write_int(field_id)
                encoder.write_int(file.record_count)
            encoder.write_int(0)  # their end
        encoder.write(file.encoded[decoder.tell() :])
        return replace(file, encoded=output.getvalue())


class CopyingManifestWriter(ManifestWriterV2):
    """Writes manifests like pyiceberg, and copies each `EncodedDataFile`."""

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """Pyiceberg's writer of entries, but for data files, which it copies."""
        output = super().new_writer()
        assert isinstance(output.writer, StructWriter)
        *others, (position, data_file) = output.writer.field_writers
        output.writer = StructWriter((*others, (position, _DataFileWriter(data_file))))
        return output


@dataclass(frozen=True)
class _DataFileWriter(Writer):
    plain: Writer

    def write(self, encoder: BinaryEncoder, val: Any) -> None:  # noqa: ANN401 - pyiceberg's
        if isinstance(val, EncodedDataFile):
            encoder.write(val.encoded)
        else:
            self.plain.write(encoder, val)
