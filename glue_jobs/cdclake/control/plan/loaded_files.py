"""Knows from which LOAD files a table was loaded. Pure.

The lake's snapshot has their identities. The table's item has hashes of them, so that the planner recognizes a file
without reading the lake: by its content, whatever its time.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.model.raw.files import RawFile
    from cdclake.model.snapshot import Snapshot

MAX_FILES = 10_000
"""The item has no room for more. Then only times distinguish new LOAD files from loaded ones."""
_NAME_BYTES, _IDENTITY_BYTES = 6, 4
"""Of 10,000 names, two have the same hash once in a million tables; a file with other content has the same hash once in
4 billion."""


class LoadedFiles(NamedTuple):
    """The LOAD files of a table's last full load.

    Attributes:
        hashes: Hash of the identity by hash of the relative key.
    """

    hashes: Mapping[bytes, bytes]

    @classmethod
    def of_files(cls, files: Iterable[RawFile]) -> LoadedFiles:
        """These files. Those without an identity are left out."""
        return cls._of({file.relative: file.identity for file in files if file.identity})

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> LoadedFiles:
        """The files of a lake table's last full load; none if the snapshot does not know their identities."""
        return cls._of({name: identity for name, identity in snapshot.ledger.loads.items() if identity})

    @classmethod
    def _of(cls, identities: Mapping[str, str]) -> LoadedFiles:
        return cls({_hash(name, _NAME_BYTES): _hash(known, _IDENTITY_BYTES) for name, known in identities.items()})

    @classmethod
    def parse(cls, text: str) -> LoadedFiles:
        """Inverse of `str`; no files for any other text."""
        try:
            data = b64decode(text, validate=True)
        except ValueError:
            return cls({})
        size = _NAME_BYTES + _IDENTITY_BYTES
        entries = (data[begin : begin + size] for begin in range(0, len(data) // size * size, size))
        return cls({entry[:_NAME_BYTES]: entry[_NAME_BYTES:] for entry in entries})

    def __str__(self) -> str:
        """The text that the item holds; empty for no files or too many."""
        if len(self.hashes) > MAX_FILES:
            return ""
        return b64encode(b"".join(name + identity for name, identity in sorted(self.hashes.items()))).decode()

    def __bool__(self) -> bool:
        """Whether any file is known."""
        return bool(self.hashes)

    def has(self, file: RawFile) -> bool:
        """Whether a file was loaded as it is now."""
        return self.hashes.get(_hash(file.relative, _NAME_BYTES)) == _hash(file.identity, _IDENTITY_BYTES)

    def had(self, file: RawFile) -> bool:
        """Whether a file of this name was loaded, with other content."""
        return _hash(file.relative, _NAME_BYTES) in self.hashes and not self.has(file)


def _hash(text: str, size: int) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()
