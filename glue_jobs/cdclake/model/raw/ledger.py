"""The ledger of a table: which raw files it contains, whatever became of them since.

It is part of the snapshot, so each change commits it, and a rollback takes it back. The newest change files are in the
snapshot itself. Older ones are in segments: objects that never change, each with the files of a range of times. The
snapshot knows the digest of each, so nobody needs to read a segment whose files are all listed as they were.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from cdclake.model.raw.files import file_order
from cdclake.model.stored_json import FORMAT, check_fields, from_fields, parse_stored, reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from cdclake.model.raw.files import RawFile

_HASH_BYTES = 8


class Entry(NamedTuple):
    """A change file that a table contains.

    Attributes:
        identity: `RawFile.identity` when it was applied or covered; empty if that is unknown, as of a file that an
            erasure has rewritten.
        change: Number of the change that applied it, or whose full load covers it. Of a file from before the table, the
            number of the change before the table's first.
    """

    identity: str
    change: int


ReadSegments = Callable[["Sequence[Segment]"], "Sequence[Mapping[str, Entry]]"]
"""Returns the entries of each of some segments."""


class Recorded(NamedTuple):
    """Change files of a listing that a ledger contains, by relative key.

    Attributes:
        names: All of them.
        overwritten: Those whose content has changed since they were applied or covered.
        unidentified: Those of which that is unknown.
    """

    names: AbstractSet[str] = frozenset()
    overwritten: AbstractSet[str] = frozenset()
    unidentified: AbstractSet[str] = frozenset()


@dataclass(frozen=True)
class Segment:
    """The change files of a range of times, in an object of their own.

    Attributes:
        key: Key of the object, see `segment_bytes`.
        first: Smallest `file_order` of its files.
        last: Greatest. The ranges of a ledger's segments do not overlap.
        files: Number of its files.
        digest: Hash of their names and identities, in order.
    """

    key: str
    first: str
    last: str
    files: int
    digest: str

    @classmethod
    def of(cls, key: str, entries: Mapping[str, Entry]) -> Segment:
        """The segment of some entries; at least one."""
        names = sorted(entries, key=file_order)
        digest = _digest((name, entries[name].identity) for name in names)
        return cls(key, file_order(names[0]), file_order(names[-1]), len(names), digest)

    def has_exactly(self, files: Sequence[RawFile]) -> bool:
        """Whether its files are these, as they were. False if only reading them could tell, as in a folder."""
        if len(files) != self.files or any(callable(file.etag) for file in files):
            return False
        in_order = sorted(files, key=lambda file: file.order)
        return _digest((file.relative, file.identity) for file in in_order) == self.digest


@dataclass(frozen=True)
class Ledger:
    """The raw files that a table contains.

    Attributes:
        loads: The files of the last full load, by name: `RawFile.identity` by relative key, empty if unknown.
        loaded_by: Number of the change that loaded them; 0 if none did.
        recent: The newest change files, and those whose entry in a segment is outdated, by relative key.
        segments: The other change files, in order.
        covers_floor: Whether it has all change files up to `Snapshot.floor` that were there at the full load, or at the
            adoption. Otherwise all files up to there count as contained, as before the table's first change.
    """

    loads: Mapping[str, str] = field(default_factory=dict, hash=False)
    loaded_by: int = 0
    recent: Mapping[str, Entry] = field(default_factory=dict, hash=False)
    segments: tuple[Segment, ...] = ()
    covers_floor: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ledger:
        """Inverse of `vars`."""
        check_fields(data, cls)
        segments = tuple(from_fields(Segment, one) for one in data["segments"])
        return cls(data["loads"], data["loaded_by"], _entries(data["recent"]), segments, data["covers_floor"])

    def with_entries(self, entries: Mapping[str, Entry]) -> Ledger:
        """The same and these entries, which replace those of the same files."""
        return replace(self, recent={**self.recent, **entries})

    def with_files(self, files: Iterable[RawFile], change: int) -> Ledger:
        """The same and these change files as they are now.

        Args:
            change: See `Entry.change`.
        """
        return self.with_entries({file.relative: Entry(file.identity, change) for file in files})

    def with_loads(self, files: Iterable[RawFile]) -> Ledger:
        """The same, but those of its LOAD files as they are now that are among these."""
        now = {file.relative: file.identity for file in files if file.relative in self.loads}
        return replace(self, loads={**self.loads, **now})

    def recorded(self, files: Sequence[RawFile], read: ReadSegments) -> Recorded:
        """Which of some change files it contains.

        A folder has no ETags, and computing one reads the file. There, only the sizes of files in segments are
        compared.

        Args:
            files: All listed change files, or some of them.
            read: Called once, with the segments that do not have exactly the files of their range.
        """
        names, overwritten, unidentified = set[str](), set[str](), set[str]()

        def record(file: RawFile, identity: str, *, is_same: bool) -> None:
            names.add(file.relative)
            if not (identity and is_same):
                (overwritten if identity else unidentified).add(file.relative)

        listed: dict[Segment, list[RawFile]] = {}
        for file, segment in zip(files, self._segments_of(file.order for file in files)):
            entry = self.recent.get(file.relative)
            if entry is not None:
                record(file, entry.identity, is_same=entry.identity == file.identity)
            elif segment:
                listed.setdefault(segment, []).append(file)
        differing = [segment for segment, found in listed.items() if not segment.has_exactly(found)]
        entries = dict(zip(differing, read(differing)))
        for segment, found in listed.items():
            if segment not in entries:
                names.update(file.relative for file in found)
                continue
            for file in found:
                entry = entries[segment].get(file.relative)
                if entry is not None:
                    record(file, entry.identity, is_same=_is_same(file, entry.identity))
        return Recorded(names, overwritten, unidentified)

    def entries(self, names: Collection[str], read: ReadSegments) -> dict[str, Entry]:
        """The entries of those of some change files that it contains.

        Args:
            names: Relative keys.
            read: Called once, with the segments in whose ranges files are.
        """
        in_segments = self._segments_of(file_order(name) for name in names if name not in self.recent)
        found, wanted = dict[str, Entry](), frozenset(names)
        for entries in read(list(dict.fromkeys(filter(None, in_segments)))):
            found.update((name, entries[name]) for name in entries.keys() & wanted)
        return {**found, **{name: self.recent[name] for name in names if name in self.recent}}

    def all_entries(self, read: ReadSegments) -> dict[str, Entry]:
        """All its change files."""
        in_segments: dict[str, Entry] = {}
        for entries in read(self.segments):
            in_segments.update(entries)
        return {**in_segments, **self.recent}

    def to_seal(self, files: int) -> tuple[Ledger, list[tuple[Segment | None, Mapping[str, Entry]]]]:
        """What to move from the snapshot into segments.

        Args:
            files: About how many files a segment has. So many stay, and nothing moves until there are twice as many.

        Returns:
            The ledger with only the files that stay, and the others: by the segment that must get them, in order, at
            last those for new ones.
        """
        if len(self.recent) <= 2 * files:
            return self, []
        by_order = sorted(self.recent, key=file_order)
        stay = {name: self.recent[name] for name in by_order[-files:]}
        end = self.segments[-1].last if self.segments else ""
        firsts = [segment.first for segment in self.segments]
        moved: dict[Segment | None, dict[str, Entry]] = {}
        for name in by_order[:-files]:
            order = file_order(name)
            segment = self.segments[max(bisect_right(firsts, order) - 1, 0)] if order <= end else None
            moved.setdefault(segment, {})[name] = self.recent[name]
        return replace(self, recent=stay), list(moved.items())

    def _segments_of(self, orders: Iterable[str]) -> Iterator[Segment | None]:
        """For each order of a file, the segment in whose range it is."""
        firsts = [segment.first for segment in self.segments]
        for order in orders:
            index = bisect_right(firsts, order) - 1
            yield self.segments[index] if index >= 0 and order <= self.segments[index].last else None


def pieces(entries: Mapping[str, Entry], files: int) -> list[dict[str, Entry]]:
    """Entries in their order, in pieces of about so many files."""
    by_order = sorted(entries, key=file_order)
    count = max(len(by_order) // files, 1)
    bounds = [number * len(by_order) // count for number in range(count + 1)]
    return [{name: entries[name] for name in by_order[begin:end]} for begin, end in zip(bounds, bounds[1:])]


def segment_bytes(entries: Mapping[str, Entry]) -> bytes:
    """Gzipped JSON of a segment."""
    return gzip.compress(json.dumps({"entries": entries, "format": FORMAT}, separators=(",", ":")).encode(), mtime=0)


def read_segment(data: bytes, key: str) -> dict[str, Entry]:
    """Inverse of `segment_bytes`.

    Args:
        key: Key of the segment, for errors.

    Raises:
        ConfigurationError: A newer version of cdclake wrote it.
        IntegrityError: It is damaged.
    """
    with reading("segment of the ledger of a table", key):
        return _entries(parse_stored(gzip.decompress(data), _StoredSegment)["entries"])


@dataclass(frozen=True)
class _StoredSegment:
    entries: dict[str, Any]


def _entries(data: Mapping[str, Any]) -> dict[str, Entry]:
    return {name: Entry(*values) for name, values in data.items()}


def _is_same(file: RawFile, identity: str) -> bool:
    if callable(file.etag):
        return identity.startswith(f"{file.size_bytes}-")
    return file.identity == identity


def _digest(files: Iterable[tuple[str, str]]) -> str:
    lines = "\n".join(f"{name}\0{identity}" for name, identity in files)
    return blake2b(lines.encode(), digest_size=_HASH_BYTES).hexdigest()
