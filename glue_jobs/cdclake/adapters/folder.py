"""A plain folder as an object store: the lake on a local disk.

Every object appears complete, by a rename or a link within the folder, even if the process crashes. A power failure may
still lose objects, because nothing is flushed to the disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
import uuid
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache, partial
from pathlib import Path
from stat import S_ISLNK
from typing import TYPE_CHECKING, BinaryIO, Callable, TypeVar

from cdclake.adapters.unversioned import UnversionedStore
from cdclake.errors import ConfigurationError, IntegrityError, disk_full, file_not_retained
from cdclake.model.layout import s3_key_fault
from cdclake.model.raw.files import ListedObject, one_level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.ports import Clock

_T = TypeVar("_T")

TEMPORARY_FOLDER = ".cdclake-temporary"
"""Objects are written here first; no key may begin with it."""
_LOCK = "lock"
MAX_ETAGS = 100_000
"""Number of files whose ETags a process remembers."""
_CHUNK_BYTES = 1024**2
_TICK_NS = 2 * 10**9
_TRIES = 20
MAX_NAME_BYTES = 255
"""Of the usual file systems of Linux, macOS and Windows."""
TEMPORARY_LIFETIME = timedelta(days=1)
"""An older temporary file is a leftover of a killed process."""


class FolderStore(UnversionedStore):
    """An `ObjectStore` on a folder, without versions.

    Keys are paths below the folder; no key, and no symbolic link below the folder, leads out of it.

    Args:
        clock: Returns the time, to distinguish leftovers of killed processes from files being written.

    Raises:
        ConfigurationError: The folder does not exist.
    """

    calls_at_once = 1

    def __init__(self, root: Path, clock: Clock = lambda: datetime.now(timezone.utc)) -> None:
        self.root = root.resolve()
        self._check_root()
        self._remove_leftovers(clock() - TEMPORARY_LIFETIME)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, by the bytes of keys, as on S3."""
        return iter(sorted(self._entries(prefix, start_after)))

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order.

        Skips folders without any object, as on S3.
        """
        return one_level(prefix, (entry.key for entry in self._entries(prefix)))

    def url(self, key: str) -> str:
        """The URL by which readers find an object."""
        return f"file://{self.root}/{key}"

    def key_fault(self, key: str) -> str:
        """Why the folder can hold no object of that key; empty if it can. Such an object counts as absent.

        File systems limit each name; a whole key has S3's limit.
        """
        longest = max(len(os.fsencode(name)) for name in key.split("/"))
        if longest > MAX_NAME_BYTES:
            return f"a name of {longest} bytes, of at most {MAX_NAME_BYTES} in a file system"
        return s3_key_fault(key)

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        if self.key_fault(key):
            return None
        path = self._path(key)
        with self._usable(key):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one."""
        self._place(key, lambda temporary: temporary.write_bytes(data), Path.replace, len(data))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object if none exists, and return whether this call wrote it.

        Linking fails if the name is taken, so one of several callers succeeds.
        """
        return self._place(key, lambda temporary: temporary.write_bytes(data), _link_if_absent, len(data))

    def put_if_unchanged(self, key: str, data: bytes, old: bytes) -> bool:
        """Replace an object whose content is still `old`, and return whether it has the new content.

        A lock on a file of the folder keeps other callers out.
        """

        def replace(temporary: Path, path: Path) -> bool:
            with (temporary.parent / _LOCK).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                now = self.get(key)
                if now == old:
                    temporary.replace(path)
            return now in (old, data)

        return self._place(key, lambda temporary: temporary.write_bytes(data), replace, len(data))

    def copy(self, source: str, target: str, size_bytes: int | None = None) -> None:  # noqa: ARG002 - the disk knows it
        """Copy an object of any size within the folder. The target appears complete or not at all.

        Links the file where the file system can, because its source is to be deleted.
        """
        origin, path = self._path(source), self._path(target)
        with self._usable(target):
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # there is a file to replace, none to copy, or no way to link
                os.link(origin, path)
                return

        def link(temporary: Path) -> None:
            if not _link(origin, temporary):
                raise IntegrityError("An object to copy is missing", folder=self.root, file=source)

        self._place(target, link, Path.replace)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; an absent object is no error."""
        for key in keys:
            path = self._path(key)
            with self._usable(key):
                if path.is_file():
                    path.unlink(missing_ok=True)

    def remove(self, prefix: str, is_protected: Callable[[str], bool]) -> None:
        """Permanently delete objects. Also removes empty folders, of which thousands would slow down every listing."""
        self.delete([entry.key for entry in self.list(prefix) if not is_protected(entry.key)])
        folder = prefix.rpartition("/")[0]
        if not _is_plain(folder):
            return
        for name, _, _ in os.walk(self._path(folder), topdown=False):
            path = Path(name)
            key = f"{path.relative_to(self.root).as_posix()}/"
            if key.startswith(prefix) and key != prefix and not is_protected(key):
                with suppress(OSError):  # it is not empty
                    path.rmdir()

    def retire(self, key: str, retired_key: str) -> None:
        """Retire a data file by renaming it; no error if it is retired already."""
        if self.key_fault(key):
            return
        path, retired = self._path(key), self._path(retired_key)
        if not path.is_file():
            return
        with self._usable(key):
            retired.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another caller just retired it
                path.replace(retired)

    def restore(self, key: str, retired_key: str) -> None:
        """Make a retired data file live again by renaming it back; no error if it is live already."""
        path, retired = self._path(key), self._path(retired_key)
        with self._usable(key):
            if not path.is_file() and retired.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # another caller just restored it
                    retired.replace(path)
            if not path.is_file():
                raise file_not_retained(key, folder=self.root)

    def is_retained(self, key: str, retired_key: str) -> bool:
        """Whether a data file is live, or retired so that `restore` would succeed."""
        return not self.key_fault(key) and any(path.is_file() for path in self._candidates(key, retired_key))

    def copy_retained(self, key: str, retired_key: str, target: str) -> None:
        """Copy a live or retired data file of any size. The target appears complete or not at all."""
        with self._usable(target):
            content = _open_first(self._candidates(key, retired_key))
        if content is None:
            raise file_not_retained(key, folder=self.root)
        with content:
            self._place(target, partial(_write, content), Path.replace, os.fstat(content.fileno()).st_size)

    def discard(self, key: str, retired_key: str) -> None:
        """Permanently delete a retired data file. A live one is left alone; an absent one is no error."""
        if not self.key_fault(key) and not self._path(key).is_file():
            self.delete([retired_key])

    def remove_leftovers(self) -> None:
        """Permanently delete what killed processes left of objects that they were writing.

        A process that is writing a file meanwhile writes it again.
        """
        for path in (self.root / TEMPORARY_FOLDER).glob("*"):
            if path.name != _LOCK:  # which another process may hold
                path.unlink(missing_ok=True)

    def _candidates(self, key: str, retired_key: str) -> Sequence[Path]:
        """Where a data file may be. The order finds it even if another caller retires or restores it meanwhile."""
        path, retired = self._path(key), self._path(retired_key)
        return (path, retired, path)

    def _entries(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, in any order."""
        self._check_root()
        folder = prefix.rpartition("/")[0]
        if folder:
            if not _is_plain(folder) or self.key_fault(folder):
                return  # no key has such a prefix
            self._path(folder)  # refuses links that lead out
        with self._usable(prefix):
            yield from self._walk(folder, lambda key: key.startswith(prefix) and key > start_after)

    def _walk(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[ListedObject]:
        try:
            with os.scandir(self.root / folder) as entries:
                children = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in children:
            key = f"{folder}/{entry.name}" if folder else entry.name
            if key == TEMPORARY_FOLDER:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(key, is_wanted)
            elif is_wanted(key) and entry.is_file(follow_symlinks=False):  # asks the disk about these alone
                try:
                    stat = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # deleted since the folder was read
                    continue
                modified_utc = datetime.fromtimestamp(stat.st_mtime, timezone.utc)
                etag = partial(_etag, self.root / key, stat.st_ctime_ns)
                yield ListedObject(key, stat.st_size, modified_utc, etag)

    def _place(
        self,
        key: str,
        write: Callable[[Path], object],
        move: Callable[[Path, Path], _T],
        needed_bytes: int | None = None,
    ) -> _T:
        """Write a temporary file, move it to the path of `key`, and return what moving it returns.

        Another process may take the file for a leftover, or remove the empty folder of the key. Then it begins anew.
        """
        path, tries_left = self._path(key), _TRIES
        with self._usable(key, needed_bytes):
            while True:
                temporary = self.root / TEMPORARY_FOLDER / uuid.uuid4().hex
                tries_left -= 1
                temporary.parent.mkdir(exist_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    write(temporary)
                    return move(temporary, path)
                except FileNotFoundError:
                    if not tries_left:
                        raise
                finally:
                    temporary.unlink(missing_ok=True)

    def _remove_leftovers(self, before: datetime) -> None:
        temporary = self.root / TEMPORARY_FOLDER
        with suppress(PermissionError, FileNotFoundError):  # the process may be read-only, or another one faster
            for path in temporary.iterdir():
                if path.stat().st_mtime < before.timestamp():
                    path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        """The path of an object.

        Raises:
            ConfigurationError: The key leads out of the folder, or contains empty or special names.
        """
        self._check_root()
        if not _is_plain(key) or not self._stays_inside(key):
            raise ConfigurationError(
                "A key does not name a file below the folder",
                remedy="Separate names by single slashes, without '.', '..' and links that lead out of the folder",
                folder=self.root,
                file=repr(key),
            )
        return self.root / key

    def _stays_inside(self, key: str) -> bool:
        """Whether no link leads out of the folder. There are few, and to resolve a path takes much longer."""
        path = str(self.root)
        for name in key.split("/"):
            path = f"{path}/{name}"
            try:
                is_link = S_ISLNK(os.lstat(path).st_mode)
            except OSError:  # there is nothing, or it cannot be reached
                return True
            if is_link:
                return (self.root / key).resolve().is_relative_to(self.root)
        return True

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise ConfigurationError("The folder does not exist", remedy=f"Create {self.root}, or correct its name")

    @contextmanager
    def _usable(self, key: str, needed_bytes: int | None = None) -> Iterator[None]:
        try:
            yield
        except (PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            message = f"The operating system denied access to a file: {error.strerror}"
            raise ConfigurationError(
                message,
                remedy="Let this user read and write the folder, and give no file the name of a folder",
                folder=self.root,
                file=key,
            ) from error
        except OSError as error:
            full = disk_full(error, self.root, key, needed_bytes)
            if full is None:
                raise
            raise full from error


def _etag(path: Path, changed_ns: int) -> str:
    """MD5 of a file, as in S3; empty if the file is gone. A process reads a file once until it changes.

    A file that changes twice within a tick of the system's clock has the same time, so a new file is read each time.
    """
    if time.time_ns() - changed_ns < _TICK_NS:
        return _md5(path)
    return _known_md5(path, changed_ns)


@lru_cache(maxsize=MAX_ETAGS)
def _known_md5(path: Path, _changed_ns: int) -> str:
    return _md5(path)


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with path.open("rb") as content:
            while chunk := content.read(_CHUNK_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()


def _is_plain(key: str) -> bool:
    parts = key.split("/")
    return "\0" not in key and parts[0] != TEMPORARY_FOLDER and not any(part in {"", ".", ".."} for part in parts)


def _open_first(paths: Sequence[Path]) -> BinaryIO | None:
    for path in paths:
        with suppress(FileNotFoundError):  # it may disappear after the check
            if path.is_file():
                return path.open("rb")
    return None


def _link(source: Path, path: Path) -> bool:
    """Make a file appear at another path, too; returns whether there is one."""
    try:
        os.link(source, path)
    except FileNotFoundError:
        return source.exists()
    except OSError:  # the file system has no links, or this user may not link
        content = _open_first([source])
        if content is None:
            return False
        with content:
            _write(content, path)
    return True


def _link_if_absent(source: Path, path: Path) -> bool:
    try:
        os.link(source, path)
    except FileExistsError:
        if path.is_dir():
            raise
        return False
    return True


def _write(content: BinaryIO, path: Path) -> None:
    content.seek(0)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
