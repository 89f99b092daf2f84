"""Writes the manifests of an Iceberg table: Avro files that list its data files with their statistics.

A change rewrites only manifests of which it replaces files, and those that are not full yet. If it adds a column, it
rewrites all: each entry counts the nulls of every column. Manifests list files by partition and key, so that a change
of neighboring rows touches few. pyiceberg encodes them; entries that stay are copied.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.manifest import (
    DataFile as IcebergDataFile,
)
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from cdclake.commit.iceberg.metadata import (
    FORMAT_VERSION,
    partition_columns,
    partition_spec,
    same_fields,
    table_schema,
)
from cdclake.concurrency import in_parallel
from cdclake.errors import IntegrityError
from cdclake.lake.limits import DEFAULT_LIMITS, EngineLimits
from cdclake.lake.storage.encoded_entries import (
    REMEDY,
    AddedColumns,
    CopyingManifestWriter,
    EncodedDataFile,
    EncodedEntry,
    read_entries,
)
from cdclake.lake.storage.file_statistics import FileStatistics
from cdclake.lake.storage.object_io import MemoryOutput, StoreIO
from cdclake.lake.storage.partitions import partition_column, partition_sort_key
from cdclake.lake.storage.reader import open_parquet
from cdclake.model.iceberg.table import IcebergFiles, Manifest
from cdclake.model.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.lake.storage.shape import TableShape
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import DataFile
    from cdclake.ports import ObjectStore

_CODEC: Final = "deflate"


@dataclass(frozen=True)
class ManifestWriting:
    """Writes the manifests of one change.

    Attributes:
        store: The lake bucket.
        fs: The same, for reading footers of data files.
        layout: Keys of the table's objects.
        run_id: The run that makes the change.
        sources: Keys at which new data files are now, by their paths.
        in_folder: Whether the data files are the ones in the table's folder.
        limits: Those of the run.
    """

    store: ObjectStore
    fs: FileSystem
    layout: LakeLayout
    run_id: str
    sources: Mapping[str, str]
    in_folder: bool
    limits: EngineLimits = DEFAULT_LIMITS

    def snapshot_with_manifests(
        self, before: Snapshot, after: Snapshot, last: Collection[str] = frozenset()
    ) -> Snapshot:
        """The table after a change, with its Iceberg table. Its files get the order of the manifests.

        Args:
            before: The table before the change.
            after: The table after it; all its files have field ids and the partition columns.
            last: Paths of files to list after the others, in manifests of their own. In both tables, they are last.

        Raises:
            IntegrityError: A manifest of the change before does not list the files that it should.
            LakeFilesError: A new data file cannot be read.
        """
        lake_url = self.store.url("")
        previous = before.iceberg if before.iceberg and before.iceberg.lake_url == lake_url else None
        change = after.change
        schema_id = _same_or(change, before, previous.schema_id if previous else None, after, table_schema)
        spec_id = _same_or(change, before, previous.spec_id if previous else None, after, partition_spec)
        added_columns = _field_ids(after) - _field_ids(before) if previous else frozenset()
        encoder = _Encoder(self, after, schema_id, spec_id, added_columns)
        live = {file.path: file for file in after.files}
        # Other partition columns may have the same spec, which leaves out those of some types.
        if previous and previous.spec_id == spec_id and before.partition_key == after.partition_key:
            listed = encoder.listed(previous.manifest_list)
            slices = list(_slices(previous.manifests, before.files))
        else:
            listed, slices = {}, []
        unchanged = [(one, files) for one, files in slices if all(file.path in live for file in files)]
        enough = self.limits.manifest_files // 2
        full = [(one, files) for one, files in unchanged if len(files) >= enough and not added_columns]
        kept_keys = {one.key for one, _ in full}
        rewritten = [(listed[self.store.url(one.key)], files) for one, files in slices if one.key not in kept_keys]
        found = in_parallel(lambda one: encoder.entries(*one), rewritten, self.store.calls_at_once)
        entries = list(chain.from_iterable(found))
        known = {file.path for _, files in slices for file in files}
        added = encoder.new_entries([file for file in after.files if file.path not in known])
        pooled: list[tuple[DataFile, ManifestEntry]] = [*added]
        deleted: list[ManifestEntry] = []
        for file, entry in entries:
            if file.path in live:
                pooled.append((file, entry))
            else:
                deleted.append(entry)
        pooled.sort(key=lambda one: _order(one[0]))
        manifests: list[tuple[Manifest, ManifestFile]] = []
        ordered: list[str] = []
        count = 0
        for is_last in (False, True):
            kept = [(one, files) for one, files in full if (files[0].path in last) == is_last]
            new = [one for one in pooled if (one[0].path in last) == is_last]
            written = encoder.write(new, count)
            count += len(written)
            manifests += [*((one, listed[self.store.url(one.key)]) for one, _ in kept), *written]
            ordered += [*(file.path for _, files in kept for file in files), *(file.path for file, _ in new)]
        if deleted and before.policy == after.policy:  # else their bounds are values that nobody may read any more
            manifests.append(encoder.write_deleted(deleted, count + 1))
        iceberg = IcebergFiles(
            manifest_list=encoder.write_list([one for _, one in manifests], before.change if previous else None),
            manifests=tuple(one for one, _ in manifests),
            schema_id=schema_id,
            spec_id=spec_id,
            in_folder=self.in_folder,
            lake_url=lake_url,
        )
        return replace(after, files=tuple(live[path] for path in ordered), iceberg=iceberg)


@dataclass(frozen=True)
class ManifestErasure:
    """Writes manifests of retained changes again, without what they tell about files with erased rows.

    All that it writes belongs to the change of the erasure, as only its snapshot and later ones offer it to readers.

    Attributes:
        writing: Writes the manifests. Its `sources` are the keys of the new files.
        change: Number of the erasure's change.
        files: New data file by the path of the old one. None: no row is left. A file that no longer exists keeps its
            path.
        shapes: Shapes of the new files by the paths of the old ones.
    """

    writing: ManifestWriting
    change: int
    files: Mapping[str, DataFile | None]
    shapes: Mapping[str, TableShape]

    def rewrite(self, snapshots: Iterable[Snapshot]) -> dict[str, IcebergFiles]:
        """Write the manifests again that list such files or removed files, one new for each old, and their lists.

        Args:
            snapshots: The table after each retained change, newest first.

        Returns:
            By the key of the old manifest list, the new manifests. They list the files in the order of the old ones. If
            another program deleted some of an earlier change, or the lake was moved since, the others are given up: the
            new list does not exist. The manifests of the newest change list the files where they are now.

        Raises:
            As `ManifestWriting.snapshot_with_manifests`.
        """
        writing = self.writing
        present = {entry.key for entry in writing.store.list(writing.layout.iceberg_metadata_folder)}
        entries: dict[str, ManifestEntry] = {}
        written: dict[str, tuple[Manifest, ManifestFile] | None] = {}
        lake_url = writing.store.url("")
        result: dict[str, IcebergFiles] = {}
        for snapshot in snapshots:
            old = snapshot.iceberg
            if not old or old.manifest_list in result:
                continue
            is_newest, is_moved = snapshot.change == self.change - 1, old.lake_url != lake_url
            if not (self._is_affected(snapshot, old) or (is_newest and is_moved)):
                continue
            if not is_newest and (is_moved or not present.issuperset(old.keys)):
                lost = f"{writing.layout.manifest_prefix(self.change, writing.run_id)}-lost.avro"
                result[old.manifest_list] = replace(old, manifest_list=lost, manifests=())
                continue
            entries |= self._new_entries(snapshot.files, entries.keys())
            encoder = _Encoder(writing, replace(snapshot, change=self.change), old.schema_id, old.spec_id)
            if is_moved:
                manifests = self._anew(encoder, snapshot, entries)
                written |= {one.key: (one, manifest) for one, manifest in manifests}
            else:
                manifests = list(self._manifests(encoder, snapshot, old, entries, written))
            suffix = f"-{len(result) + 1:05d}"
            result[old.manifest_list] = replace(
                old,
                manifest_list=encoder.write_list([manifest for _, manifest in manifests], None, suffix),
                manifests=tuple(one for one, _ in manifests),
                lake_url=lake_url,
            )
        return result

    def _anew(
        self, encoder: _Encoder, snapshot: Snapshot, entries: Mapping[str, ManifestEntry]
    ) -> list[tuple[Manifest, ManifestFile]]:
        """Manifests of all files of a snapshot."""
        others = encoder.new_entries([file for file in snapshot.files if file.path not in self.files])
        known = {**entries, **{file.path: entry for file, entry in others}}
        files = [file for file in snapshot.files if self.files.get(file.path, file)]
        return encoder.write([(file, known[file.path]) for file in files], 0)

    def _manifests(
        self,
        encoder: _Encoder,
        snapshot: Snapshot,
        old: IcebergFiles,
        entries: Mapping[str, ManifestEntry],
        written: dict[str, tuple[Manifest, ManifestFile] | None],
    ) -> Iterator[tuple[Manifest, ManifestFile]]:
        """The new manifests of one list. Manifests of another list with the same old ones are in `written` already."""
        listed = encoder.listed(old.manifest_list)
        for one, files in _slices(old.manifests, snapshot.files):
            manifest = listed[self.writing.store.url(one.key)]
            if not any(file.path in self.files for file in files):
                yield one, manifest
                continue
            if one.key not in written:
                pairs = encoder.entries(manifest, files)
                remaining = [new for file, entry in pairs if (new := self._entry(file, entry, entries))]
                written[one.key] = encoder.write_existing(remaining, len(written) + 1) if remaining else None
            new_manifest = written[one.key]
            if new_manifest:
                yield new_manifest

    def _is_affected(self, snapshot: Snapshot, iceberg: IcebergFiles) -> bool:
        lists_removed = any(not manifest.files for manifest in iceberg.manifests)
        return lists_removed or any(file.path in self.files for file in snapshot.files)

    def _new_entries(self, files: Iterable[DataFile], known: Collection[str]) -> dict[str, ManifestEntry]:
        """Entries of the new files, by the paths of the old ones. Each has the columns of its own shape."""
        by_shape: dict[TableShape, dict[str, DataFile]] = {}
        for path in (file.path for file in files if file.path in self.shapes and file.path not in known):
            if new := self.files[path]:
                by_shape.setdefault(self.shapes[path], {})[path] = new
        entries: dict[str, ManifestEntry] = {}
        for shape, new_files in by_shape.items():
            columns = Snapshot(self.change, shape.schema, partition_key=shape.partition_key, field_ids=shape.field_ids)
            described = _Encoder(self.writing, columns, self.change, self.change).new_entries([*new_files.values()])
            entries.update(zip(new_files, (entry for _, entry in described), strict=True))
        return entries

    def _entry(self, file: DataFile, old: ManifestEntry, entries: Mapping[str, ManifestEntry]) -> ManifestEntry | None:
        if file.path not in self.files:
            return old
        if self.files[file.path] is None:
            return None
        if file.path in entries:
            data_file = entries[file.path].data_file
        else:  # it no longer exists
            data_file = IcebergDataFile.from_args(
                content=DataFileContent.DATA,
                file_path=self.writing.store.url(self.writing.layout.data_key(file.path)),
                file_format=FileFormat.PARQUET,
                partition=old.data_file.partition,
                record_count=old.data_file.record_count,
                file_size_in_bytes=file.bytes,
            )
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.EXISTING,
            snapshot_id=old.snapshot_id,
            sequence_number=old.sequence_number,
            file_sequence_number=old.file_sequence_number,
            data_file=data_file,
        )


def removed_files_may_match(
    store: ObjectStore, snapshot: Snapshot, manifest: Manifest, keys: Iterable[Mapping[str, Any]]
) -> bool:
    """Whether a removed file that a manifest lists may contain rows of a key, according to its statistics.

    Args:
        snapshot: The table after a change whose manifest list has the manifest.
        keys: Values by column.
    """
    iceberg = snapshot.iceberg
    assert iceberg is not None
    if iceberg.lake_url != store.url(""):
        return True
    io, schema = StoreIO(store), Schema.model_validate(table_schema(snapshot, iceberg.schema_id))
    try:
        listed = {one.manifest_path: one for one in read_manifest_list(io.new_input(iceberg.manifest_list))}
        removed = listed[store.url(manifest.key)].fetch_manifest_entry(io, discard_deleted=False)
        conditions = ([EqualTo(term=Reference(name), value=key[name]) for name in key] for key in keys)
        evaluators = [[_InclusiveMetricsEvaluator(schema, one) for one in condition] for condition in conditions]
        return any(all(one.eval(entry.data_file) for one in key) for key in evaluators for entry in removed)
    except (TypeError, ValueError, struct.error):  # the table had no such column then, or one of another type
        return True
    except IntegrityError:  # another program deleted the manifest or the list; the other one may be left
        return True


def _same_or(change: int, before: Snapshot, known: int | None, after: Snapshot, describe: Any) -> int:  # noqa: ANN401
    """The id of a schema or spec: the id of the change before if it is the same, else this change's number."""
    if known is not None and same_fields(describe(before, known), describe(after, known)):
        return known
    return change


def _field_ids(table: Snapshot) -> frozenset[int]:
    return frozenset(field["id"] for field in table_schema(table, table.change)["fields"])


def _slices(
    manifests: Sequence[Manifest], files: Sequence[DataFile]
) -> Iterator[tuple[Manifest, tuple[DataFile, ...]]]:
    """Each manifest that lists files, with these."""
    remaining = iter(files)
    for manifest in manifests:
        if manifest.files:
            yield manifest, tuple(islice(remaining, manifest.files))


def _order(file: DataFile) -> tuple[object, ...]:
    """Files of a partition together, by key as far as it is known."""
    known = file.key_min is not None
    return partition_sort_key(file.partition), known, str(type(file.key_min)), file.key_min if known else file.path


class _Encoder:
    """Encodes and decodes manifests of one table.

    Args:
        added_columns: Field ids of columns that known entries lack.
    """

    def __init__(
        self,
        writing: ManifestWriting,
        after: Snapshot,
        schema_id: int,
        spec_id: int,
        added_columns: Collection[int] = (),
    ) -> None:
        self._writing, self._after = writing, after
        self.io = StoreIO(writing.store)
        self._schema = Schema.model_validate(table_schema(after, schema_id))
        self._spec = PartitionSpec.model_validate(partition_spec(after, spec_id))
        self._statistics = FileStatistics(after, self._schema)
        partition_type = self._spec.partition_type(self._schema)
        self._added_columns = AddedColumns(partition_type, added_columns) if added_columns else None
        self._partition_columns = partition_columns(after)
        self._partition = cache(self._partition_record)
        """Of partition values. Converting the text of an integer takes 0.05 ms."""

    def listed(self, manifest_list: str) -> dict[str, ManifestFile]:
        """The manifests of a list, by URL."""
        return {one.manifest_path: one for one in read_manifest_list(self.io.new_input(manifest_list))}

    def entries(self, manifest: ManifestFile, files: Sequence[DataFile]) -> list[tuple[DataFile, ManifestEntry]]:
        """The live files of a manifest, with their entries, whose data files stay encoded.

        Raises:
            IntegrityError: It lists other files.
        """
        layout, url = self._writing.layout, self._writing.store.url
        by_url = {url(layout.data_key(file.path)): file for file in files}
        with self.io.new_input(manifest.manifest_path).open() as source:
            found = [one for one in read_entries(source.read()) if one.status != ManifestEntryStatus.DELETED]
        if {one.file_path for one in found} != by_url.keys():
            message = f"A manifest of {layout.name} does not list the files of its snapshot"
            raise IntegrityError(message, remedy=f"Nothing was changed. {REMEDY}", file=manifest.manifest_path)
        return [(by_url[one.file_path], self._known_entry(one, manifest, by_url[one.file_path])) for one in found]

    def _known_entry(self, found: EncodedEntry, manifest: ManifestFile, file: DataFile) -> ManifestEntry:
        """An entry, with what it inherits: https://iceberg.apache.org/spec/#sequence-number-inheritance."""
        data_file = EncodedDataFile(found.data_file, self._partition(file.partition), file.rows)
        numbers = (found.sequence_number, found.file_sequence_number)
        return ManifestEntry(
            found.status,
            found.snapshot_id,
            *(manifest.sequence_number if number is None else number for number in numbers),
            self._added_columns.add_to(data_file) if self._added_columns else data_file,
        )

    def new_entries(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ManifestEntry]]:
        """Entries of new files, with statistics from their footers."""
        return list(zip(files, in_parallel(self._new_entry, files, self._writing.store.calls_at_once), strict=True))

    def _new_entry(self, file: DataFile) -> ManifestEntry:
        layout = self._writing.layout
        key = layout.data_key(file.path)
        with open_parquet(self._writing.fs, self._writing.sources.get(file.path, key)) as parquet:
            statistics = self._statistics.of(parquet.metadata)
        described = IcebergDataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._writing.store.url(key),
            file_format=FileFormat.PARQUET,
            partition=self._partition(file.partition),
            file_size_in_bytes=file.bytes,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics,
        )
        described.spec_id = self._spec.spec_id
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=self._after.change, data_file=described
        )

    def _partition_record(self, partition: tuple[str | None, ...]) -> Record:
        texts = dict(zip(self._after.partition_key, partition, strict=True))
        columns = self._partition_columns
        return Record(*(partition_column(texts[one.name], one.type, 1)[0].as_py() for one in columns))

    def write(
        self, entries: Sequence[tuple[DataFile, ManifestEntry]], before: int
    ) -> list[tuple[Manifest, ManifestFile]]:
        """Write manifests of about equally many entries.

        Args:
            before: Number of manifests that the change has written before.
        """
        count = -(-len(entries) // self._writing.limits.manifest_files)

        def write(number: int) -> tuple[Manifest, ManifestFile]:
            start, end = (len(entries) * one // count for one in (number, number + 1))
            key = self._key(f"-m{before + number + 1:05d}")
            return Manifest(key, end - start), self._write(key, (entry for _, entry in entries[start:end]))

        return in_parallel(write, range(count), self._writing.store.calls_at_once)

    def write_existing(self, entries: Sequence[ManifestEntry], number: int) -> tuple[Manifest, ManifestFile]:
        """Write a manifest of files that readers had before."""
        key = self._key(f"-m{number:05d}")
        return Manifest(key, len(entries)), self._write(key, entries)

    def write_deleted(self, entries: Iterable[ManifestEntry], number: int) -> tuple[Manifest, ManifestFile]:
        """Write a manifest of the files that the change removes, for readers of changes. The next change drops it."""
        key = self._key(f"-m{number:05d}")
        return Manifest(key, 0), self._write(key, entries, deleted=True)

    def _write(self, key: str, entries: Iterable[ManifestEntry], *, deleted: bool = False) -> ManifestFile:
        output = MemoryOutput(self._writing.store.url(key))
        with CopyingManifestWriter(self._spec, self._schema, output, self._after.change, _CODEC) as writer:
            for entry in entries:
                if deleted:
                    writer.delete(entry)
                elif entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == self._after.change:
                    writer.add(entry)
                else:
                    writer.existing(entry)
        self._writing.store.put(key, output.content)
        return writer.to_manifest_file()

    def write_list(self, manifests: list[ManifestFile], parent: int | None, suffix: str = "") -> str:
        """Write a manifest list; returns its key."""
        key, change = self._key(f"-snapshot{suffix}"), self._after.change
        output = MemoryOutput(self._writing.store.url(key))
        with write_manifest_list(FORMAT_VERSION, output, change, parent, change, _CODEC) as writer:
            writer.add_manifests(manifests)
        self._writing.store.put(key, output.content)
        return key

    def _key(self, suffix: str) -> str:
        return f"{self._writing.layout.manifest_prefix(self._after.change, self._writing.run_id)}{suffix}.avro"
