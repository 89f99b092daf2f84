"""A plain folder as an object store: the lake on a laptop's disk.

Every object appears whole, by a rename or a link within the folder. That holds when a process dies at any moment;
nothing is forced to the disk, so it does not hold when the power goes.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, BinaryIO, Callable

from cdclake.adapters.kept import not_kept
from cdclake.errors import ConfigurationError, IntegrityError
from cdclake.model.rawfiles import ListedObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cdclake.ports import Clock

TEMPORARY_FOLDER = ".cdclake-temporary"
"""Where objects are written before they appear; no key may begin with it."""
TEMPORARY_KEPT = timedelta(days=1)
"""What nobody has written to for so long there was left by a process that was killed."""


class FolderStore:
    """An `ObjectStore` on a folder that keeps no versions.

    Keys are paths below the folder; no key and no symbolic link leads out of it.

    Args:
        root: The folder.
        clock: The time, to tell what a process that was killed has left from what another is writing.

    Raises:
        ConfigurationError: There is no such folder.
    """

    def __init__(self, root: Path, clock: Clock = lambda: datetime.now(timezone.utc)) -> None:
        self.root = root.resolve()
        self._check_root()
        self._remove_left_over(clock() - TEMPORARY_KEPT)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """See `ObjectReader.list`; sorted like S3's, by the bytes of the whole key."""
        found = [entry for entry in self._entries(prefix) if entry.key > start_after]
        return iter(sorted(found))

    def list_folders(self, prefix: str) -> Iterator[str]:
        """See `ObjectReader.list_folders`; a folder without any object below it is not there, as on S3."""
        rests = (entry.key[len(prefix) :] for entry in self._entries(prefix))
        return iter(sorted({f"{prefix}{rest.split('/', 1)[0]}/" for rest in rests if "/" in rest}))

    def get(self, key: str) -> bytes | None:
        """See `ObjectStore.get`."""
        path = self._path(key)
        with self._usable(key):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def put(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put`."""
        with self._temporary(key, lambda temporary: temporary.write_bytes(data)) as (temporary, path):
            temporary.replace(path)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `ObjectStore.put_if_absent`: linking fails if the name is taken, and of several callers one succeeds."""
        with self._temporary(key, lambda temporary: temporary.write_bytes(data)) as (temporary, path):
            try:
                os.link(temporary, path)
            except FileExistsError:
                if path.is_dir():
                    raise
                return False
            return True

    def copy(self, source: str, target: str) -> None:
        """See `ObjectStore.copy`."""
        if not self._copy_first([self._path(source)], target):
            raise IntegrityError("An object to copy is not there", folder=self.root, file=source)

    def delete(self, keys: Sequence[str]) -> None:
        """See `ObjectStore.delete`."""
        for key in keys:
            path = self._path(key)
            with self._usable(key):
                if path.is_file():
                    path.unlink(missing_ok=True)

    def retire(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.retire`: the file is renamed."""
        path, kept = self._path(key), self._path(keep_as)
        if not path.is_file():
            return
        with self._usable(key):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # somebody else just did it
                path.replace(kept)

    def restore(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.restore`: the file gets its name back."""
        path, kept = self._path(key), self._path(keep_as)
        with self._usable(key):
            if not path.is_file() and kept.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # somebody else just did it
                    kept.replace(path)
            if not path.is_file():
                raise not_kept(key, folder=self.root)
            kept.unlink(missing_ok=True)

    def is_kept(self, key: str, keep_as: str) -> bool:
        """See `ObjectStore.is_kept`."""
        return any(path.is_file() for path in self._places(key, keep_as))

    def copy_kept(self, key: str, keep_as: str, target: str) -> None:
        """See `ObjectStore.copy_kept`."""
        if not self._copy_first(self._places(key, keep_as), target):
            raise not_kept(key, folder=self.root)

    def discard(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.discard`."""
        if not self._path(key).is_file():
            self.delete([keep_as])

    def purge(self, prefix: str, spare: Callable[[str], bool]) -> int:  # noqa: ARG002 - there are no versions
        """See `ObjectStore.purge`."""
        return 0

    def _places(self, key: str, keep_as: str) -> Sequence[Path]:
        """Where a data file may be, in the order to look, which finds it also while somebody retires or restores it."""
        path, kept = self._path(key), self._path(keep_as)
        return (path, kept, path)

    def _copy_first(self, sources: Sequence[Path], target: str) -> bool:
        """Copy the first of these files that is there; False if none is."""
        with self._usable(target):
            content = _open_first(sources)
        if content is None:
            return False
        with content, self._temporary(target, lambda temporary: _write(content, temporary)) as (temporary, path):
            temporary.replace(path)
        return True

    def _entries(self, prefix: str) -> Iterator[ListedObject]:
        """Every object whose key begins with `prefix`, in no order."""
        self._check_root()
        folder = prefix.rpartition("/")[0]
        if folder and not _is_plain(folder):
            return  # no key has such a beginning
        with self._usable(prefix):
            yield from (entry for entry in self._walk(folder) if entry.key.startswith(prefix))

    def _walk(self, folder: str) -> Iterator[ListedObject]:
        try:
            with os.scandir(self.root / folder) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in found:
            key = f"{folder}/{entry.name}" if folder else entry.name
            if key == TEMPORARY_FOLDER:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(key)
            elif entry.is_file(follow_symlinks=False):
                try:
                    stat = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # deleted since the folder was read
                    continue
                yield ListedObject(key, stat.st_size, datetime.fromtimestamp(stat.st_mtime, timezone.utc))

    @contextmanager
    def _temporary(self, key: str, write: Callable[[Path], object]) -> Iterator[tuple[Path, Path]]:
        """A finished file, and the path of `key` where it belongs; it is removed if it has not been moved there."""
        path = self._path(key)
        temporary = self.root / TEMPORARY_FOLDER / uuid.uuid4().hex
        with self._usable(key):
            temporary.parent.mkdir(exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                write(temporary)
                yield temporary, path
            finally:
                temporary.unlink(missing_ok=True)

    def _remove_left_over(self, before: datetime) -> None:
        temporary = self.root / TEMPORARY_FOLDER
        # Who may only read here leaves it to others; and another may be quicker.
        with suppress(PermissionError, FileNotFoundError):
            for path in temporary.iterdir():
                if path.stat().st_mtime < before.timestamp():
                    path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        """Where an object lies.

        Raises:
            ConfigurationError: The key leads out of the folder, or is no path of plain names.
        """
        self._check_root()
        path = self.root / key
        if not _is_plain(key) or not path.resolve().is_relative_to(self.root):
            raise ConfigurationError(
                "A key does not name a file below the folder",
                remedy="Use names separated by single slashes, without '.', '..' and links that lead elsewhere",
                folder=self.root,
                file=repr(key),
            )
        return path

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise ConfigurationError("There is no such folder", remedy=f"Create {self.root}, or correct its name")

    @contextmanager
    def _usable(self, key: str) -> Iterator[None]:
        try:
            yield
        except (PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            message = f"The system refuses: {error.strerror}"
            raise ConfigurationError(
                message,
                remedy="Let this user read and write the folder, and give no file the name of a folder",
                folder=self.root,
                file=key,
            ) from error


def _is_plain(key: str) -> bool:
    parts = key.split("/")
    return "\0" not in key and parts[0] != TEMPORARY_FOLDER and not any(part in {"", ".", ".."} for part in parts)


def _open_first(paths: Sequence[Path]) -> BinaryIO | None:
    for path in paths:
        with suppress(FileNotFoundError):  # it may go away between the look and the opening
            if path.is_file():
                return path.open("rb")
    return None


def _write(content: BinaryIO, path: Path) -> None:
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
