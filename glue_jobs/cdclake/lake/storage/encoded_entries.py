"""Entries of manifests that are copied as they are encoded.

An entry says which data file it is and whether the change added it, and then describes the file: its statistics, nearly
all its bytes. pyiceberg takes 0.03 ms to decode and 0.2 ms to encode these for 30 columns. They never change, so
they are copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.avro.writer import StructWriter, Writer
from pyiceberg.manifest import ManifestEntryStatus, ManifestWriterV2

from cdclake.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.encoder import BinaryEncoder
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.typedef import Record

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


class CopyingManifestWriter(ManifestWriterV2):
    """Writes manifests like pyiceberg, and copies each `EncodedDataFile`."""

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """See `pyiceberg.manifest.ManifestWriter`."""
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
