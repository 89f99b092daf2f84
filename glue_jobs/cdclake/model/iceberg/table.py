"""A table's data files as an Apache Iceberg table: which manifests list them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from cdclake.model.stored_json import from_fields

if TYPE_CHECKING:
    from collections.abc import Mapping


class Readers(str, Enum):
    """What the readers of a table open: its folder of plain Parquet, an Iceberg table, or both over the same files."""

    FOLDER = "folder"
    ICEBERG = "iceberg"
    BOTH = "both"

    @property
    def list_folder(self) -> bool:
        """Whether data files are where readers of plain Parquet list them."""
        return self is not Readers.ICEBERG

    @property
    def open_iceberg(self) -> bool:
        """Whether manifests list the data files."""
        return self is not Readers.FOLDER


@dataclass(frozen=True)
class Manifest:
    """A manifest: an Avro file that lists data files with their statistics.

    Attributes:
        key: Key in the lake bucket.
        files: Number of live data files that it lists; 0 if it lists those that the change removed.
    """

    key: str
    files: int


@dataclass(frozen=True)
class IcebergFiles:
    """What an Iceberg table after a change consists of, besides its data files.

    Attributes:
        manifest_list: Key, in the lake bucket, of the Avro file that lists the manifests.
        manifests: The manifests in the list. In this order, they list the files in the order of the snapshot.
        schema_id: Number of the change that made the columns what they are.
        spec_id: Number of the change that made the partition columns what they are.
        in_folder: Whether the data files are in the table's folder, see `Readers.BOTH`.
        lake_url: URL of the lake, with a trailing slash, that the URLs in list and manifests begin with. After the lake
            was moved or copied, they name files of the old one.
    """

    manifest_list: str
    manifests: tuple[Manifest, ...]
    schema_id: int
    spec_id: int
    in_folder: bool
    lake_url: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> IcebergFiles:
        """Inverse of `dataclasses.asdict`."""
        files = from_fields(cls, data)
        return replace(files, manifests=tuple(from_fields(Manifest, one) for one in data["manifests"]))

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the manifest list and of the manifests."""
        return (self.manifest_list, *(manifest.key for manifest in self.manifests))
