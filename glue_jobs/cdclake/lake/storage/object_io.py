"""Gives pyiceberg access to manifests in the lake. They are small: each is read whole, and written in memory."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO, InputFile, OutputFile

from cdclake.errors import IntegrityError
from cdclake.lake.storage.encoded_entries import REMEDY

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore


class StoreIO(FileIO):
    """pyiceberg's access to objects of the lake, by their keys or URLs."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__({})
        self._store = store

    def new_input(self, location: str) -> InputFile:
        """The object at a URL of the store."""
        return _StoreInput(self._store, location)

    def new_output(self, location: str) -> OutputFile:
        """Not supported."""
        raise NotImplementedError  # pyiceberg's interface has it; see `MemoryOutput`

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Not supported."""
        raise NotImplementedError  # pyiceberg's interface has it; nothing here deletes


class _StoreInput(InputFile):
    def __init__(self, store: ObjectStore, location: str) -> None:
        super().__init__(location)
        self._store, self._key = store, location.removeprefix(store.url(""))
        self._content: bytes | None = None

    def _read(self) -> bytes:
        """The content, read once. Before Python 3.12, `cached_property` would read all objects one after the other."""
        if self._content is None:
            self._content = self._store.get(self._key)
        if self._content is None:
            raise IntegrityError("A manifest of an Iceberg table is missing", remedy=REMEDY, file=self._key)
        return self._content

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        return self._store.get(self._key) is not None

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002 - always seekable
        return io.BytesIO(self._read())


class MemoryOutput(OutputFile):
    """An object that pyiceberg writes to memory.

    It does not write to the store itself: pyiceberg closes a stream also after an error, and freeing memory closes it.

    Attributes:
        content: What was written, once its stream is closed.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.content = b""

    def __len__(self) -> int:
        return len(self.content)

    def exists(self) -> bool:
        """Whether it is written: never, before `create`."""
        return False

    def create(self, overwrite: bool = False) -> io.BytesIO:  # noqa: ARG002 - names are never used twice
        """A stream whose bytes are the content once it is closed."""
        return _Buffer(self)

    def to_input_file(self) -> InputFile:
        """Not supported."""
        raise NotImplementedError  # pyiceberg's interface has it; nothing here reads what it writes


class _Buffer(io.BytesIO):
    def __init__(self, output: MemoryOutput) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        if not self.closed:
            self._output.content = self.getvalue()
        super().close()
