"""The Iceberg table in a lake, as pyiceberg reads it from the lake's objects."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import read_manifest_list
from pyiceberg.table.metadata import TableMetadataUtil

from tests.crash.runner import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from cdclake.model.layout import LakeLayout


@dataclass(frozen=True)
class IcebergTable:
    """What readers of an Iceberg table find.

    Attributes:
        change: Number in the version hint.
        current: Id of the current snapshot.
        snapshots: The data files of each snapshot, by its id: rows and bytes by their paths in snapshots of cdclake.
        keys: Keys of all that the snapshots need: metadata, manifest lists, manifests and data files.
    """

    change: int
    current: int
    snapshots: Mapping[int, Mapping[str, tuple[int, int]]]
    keys: frozenset[str]

    @property
    def files(self) -> Mapping[str, tuple[int, int]]:
        """The data files of the current snapshot."""
        return self.snapshots[self.current]


def iceberg_table(objects: Mapping[str, bytes], layout: LakeLayout) -> IcebergTable | None:
    """Open the Iceberg table that the version hint names, with all its snapshots; None if it names none.

    Args:
        objects: All objects of the lake by key.
        layout: That of the table, or of its history.
    """
    change = int(objects.get(layout.version_hint_key, b"0"))
    if layout.iceberg_metadata_key(change) not in objects:
        return None
    keys = {layout.iceberg_metadata_key(change)}
    files = _Files(objects)
    metadata = TableMetadataUtil.parse_raw(files.content(layout.iceberg_metadata_key(change)).decode())
    snapshots: dict[int, dict[str, tuple[int, int]]] = {}
    for snapshot in metadata.snapshots:
        found = snapshots[snapshot.snapshot_id] = {}
        for key, file in _needs(snapshot, files):
            keys.add(key)
            if file:
                assert LAYOUT.data_path_of(key) not in found, f"snapshot {snapshot.snapshot_id} lists {key} twice"
                found[LAYOUT.data_path_of(key)] = file
    assert metadata.current_snapshot_id is not None
    return IcebergTable(change, metadata.current_snapshot_id, snapshots, frozenset(keys))


def _needs(snapshot: Snapshot, files: _Files) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """The keys that a snapshot needs, with rows and bytes of data files."""
    yield _key(snapshot.manifest_list), None
    for manifest in _manifests(snapshot.manifest_list, files.content(_key(snapshot.manifest_list))):
        key = _key(manifest.manifest_path)
        yield key, None
        for file in _data_files(manifest, files.content(key)):
            yield _key(file.file_path), (file.record_count, file.file_size_in_bytes)


# pyiceberg takes a millisecond for each file, and tests look at the same ones hundreds of times.
@lru_cache(maxsize=4096)
def _manifests(location: str, content: bytes) -> list[ManifestFile]:
    return list(read_manifest_list(_Input(location, content)))


@lru_cache(maxsize=4096)
def _data_files(manifest: ManifestFile, content: bytes) -> list[DataFile]:
    return [one.data_file for one in manifest.fetch_manifest_entry(_Files({_key(manifest.manifest_path): content}))]


def _key(location: str) -> str:
    """Key of an object of an Iceberg table, or of the folder of the table or its history, by its URL or path."""
    prefixes = [prefix for one in (LAYOUT, LAYOUT.history) for prefix in (one.iceberg_prefix, one.table_prefix)]
    return next(location[location.index("/" + one) + 1 :] for one in prefixes if "/" + one in location)


class _Files(FileIO):
    """pyiceberg's access to the objects, which it only reads."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        super().__init__()
        self._objects = objects

    def content(self, key: str) -> bytes:
        assert key in self._objects, f"readers of the Iceberg table do not find {key}"
        return self._objects[key]

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self.content(_key(location)))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> NoReturn:
        raise NotImplementedError(location)


class _Input(InputFile):
    """One object."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return io.BytesIO(self._content)
