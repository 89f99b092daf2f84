"""All errors that cdclake raises on purpose, grouped by what the operator should do next.

* `ConfigurationError`: change a setting, then run again.
* `InputError`: a raw file or an operator's input is wrong; check what the error names. None of it was applied.
* `RetryableError`: nothing is wrong; the next run will succeed.
* `IntegrityError`: investigate before anything runs again. A blind retry could do harm.
* `AttentionError`: nothing failed, but operator action is needed.

Each error has a `remedy` (what to do) and `details` (where: table, file, row, column), so it can be shown as a log
line, as text and as JSON.
"""

from __future__ import annotations

import errno
import os
import re
import traceback
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from cdclake.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VALUES = re.compile(r"""'.*'|".*"|[-+]?\d[\w.,:+-]*""")


class CdclakeError(Exception):
    """Root of the tree.

    Args:
        message: What happened, in one sentence.
        remedy: What the operator should do.
        details: Where it happened: `table`, `file`, `row`, `column`, ... Values are printable, never row content.
    """

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details

    def __str__(self) -> str:
        where = ", ".join(f"{name} {value}" for name, value in self.details.items() if value is not None)
        text = f"{self.message} ({where})" if where else self.message
        return printable(f"{text}. {self.remedy}" if self.remedy else text, keep="\n")

    @property
    def code(self) -> str:
        """Stable name of the error's kind."""
        return type(self).__name__

    def __reduce__(self) -> tuple[object, ...]:
        """Keep remedy and details across processes: Spark workers pickle the errors they raise."""
        return _rebuild, (type(self), self.message, self.remedy, self.details)


def _rebuild(kind: type[CdclakeError], message: str, remedy: str, details: dict[str, object]) -> CdclakeError:
    return kind(message, remedy=remedy, **details)


class ConfigurationError(CdclakeError):
    """A setting is missing or wrong: change it and run again."""

    exit_code = 2


class UnknownTableError(ConfigurationError):
    """No table of that name is registered."""


class PastRetentionError(ConfigurationError):
    """The requested change is no longer retained: choose a later one."""


class AttentionError(CdclakeError):
    """Nothing failed, but operator action is needed."""

    exit_code = 6


class InputError(CdclakeError):
    """A raw file or an operator's input is invalid. None of it was applied."""

    exit_code = 3


class UnreadableFileError(InputError):
    """A raw file is truncated, empty, or not in the format that its name implies."""


class DeadlyFileError(InputError):
    """Two Spark runs in a row died at a table, the last while it had the run for itself. None of it was applied."""


class TooLargeError(InputError):
    """Rows need more memory than there is, or more than an Arrow array holds."""


class SchemaMismatchError(InputError):
    """A raw file's columns cannot be converted to the table's without loss."""


class SchemaDriftError(InputError):
    """A source's columns changed, and the table's `SchemaPolicy` is `freeze`. Nothing was applied."""


class BadRowError(InputError):
    """A row of a raw file breaks a rule: an unknown Op, a null key, a value that does not parse."""


class OrderingError(InputError):
    """Change rows have ordering values that do not compare, so it is unknown which is the last."""


class UnsentValueError(InputError):
    """A change arrived late with a value that a later change did not send, so applying it now would lose the value."""


class UnknownKeyError(InputError):
    """An update has a key that the table lacks, and may have changed it, and the table's `UnknownKeys` is `refuse`."""


class UnsettledKeyError(InputError):
    """An update moved a row to the key of another row, and the change files do not tell which of them remains."""


class RefusedChangeError(InputError):
    """A change that an operator requested is not possible as requested. Nothing was changed."""


class RetryableError(CdclakeError):
    """Nothing is wrong and nothing is lost: run again."""

    exit_code = 4


class CommitConflictError(RetryableError):
    """Another run committed this change number first. This run's work is discarded; the next run continues from it."""


class LeaseHeldError(RetryableError):
    """Another run is writing this table."""


class LeaseLostError(RetryableError):
    """This run's lease expired, and another run took over the table."""


class JobRunError(RetryableError):
    """A Glue job could not be started, or failed."""


class NoRoomError(JobRunError):
    """Glue accepts no further run at the moment. No run was started."""


class NeedsSparkError(RetryableError):
    """A change is larger than this process takes on. Nothing was committed; a Spark run loads it."""


class DiskFullError(RetryableError):
    """A disk has no room. Nothing is lost: free space, then run again."""


class IntegrityError(CdclakeError):
    """Stored data is not as it should be. Investigate before anything runs again."""

    exit_code = 5


class RawFilesLostError(IntegrityError):
    """Change files vanished before they were applied, or before they could be applied again after a full load.

    Later change files are not applied.
    """


class LakeFilesError(IntegrityError):
    """The files in a lake table's folder are not those that cdclake left there."""


class BooksError(IntegrityError):
    """A change's row counts do not add up, so it was not committed."""


class CommitStateUnknownError(IntegrityError):
    """The commit was sent, but its response was lost: read the change log before anything else."""


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_TEMPORARY_FOLDER = "No usable temporary directory"
"""So Python's `tempfile` says if none can be written to."""
_TEMPORARY_FOLDER, SPARK_FOLDERS = "TMPDIR", "SPARK_LOCAL_DIRS"
"""Environment variables. Spark sets the latter for its Python workers, too."""
_SMALL_BYTES = 1_000_000


def disk_full(
    error: BaseException, folder: object = None, file: object = None, needed_bytes: int | None = None
) -> DiskFullError | None:
    """The error to raise for a system's error that a disk is full; None for any other error.

    Args:
        folder, file, needed_bytes: As for `disk_full_error`.
    """
    if not isinstance(error, OSError):
        return None
    if error.errno in _NO_ROOM:
        named = Path(error.filename).absolute() if isinstance(error.filename, str) else None
        return disk_full_error(os.strerror(error.errno), folder, file or named, needed_bytes)
    no_temporary_folder = _NO_TEMPORARY_FOLDER in str(error.strerror)
    return disk_full_error("no temporary folder can be written to") if no_temporary_folder else None


def disk_full_error(
    reason: str, folder: object = None, file: object = None, needed_bytes: int | None = None
) -> DiskFullError:
    """The error of a full disk, with its free space.

    Args:
        folder: The folder that was written to; None if that is not known: then it is one of those in which a process
            writes what it does not keep.
        file: The file that was written.
        needed_bytes: Its size, if known.
    """
    if folder is None and file is not None and Path(str(file)).is_absolute():
        folder = Path(str(file)).parent
    rooms = {one: _room(Path(one)) for one in ([str(folder)] if folder else _folders_of_this_process())}
    full = [one for one, (_, has_room) in rooms.items() if not has_room] or list(rooms)
    where = ", ".join(f"{one} ({rooms[one][0]})" for one in full)
    needed = "" if needed_bytes is None else f" at least {needed_bytes / 1e6:,.1f} MB of"
    among = "" if folder else "one of these: "
    remedy = f"Free{needed} space or raise the quota on the disk of {among}{where}; then run again"
    if not folder:
        remedy += f". {_TEMPORARY_FOLDER} names another temporary folder, and {SPARK_FOLDERS} other folders of Spark"
    known = {"folder": ", ".join(full), "file": file and str(file)}
    return DiskFullError(f"A disk is full: {reason}", remedy=remedy, **known)


@contextmanager
def naming_full_disk(folder: object, needed_bytes: int | None = None) -> Iterator[None]:
    """Let the block's error that a disk is full name the folder that it writes to.

    Raises:
        DiskFullError: The disk is full.
    """
    try:
        yield
    except OSError as error:
        full = disk_full(error, folder, needed_bytes=needed_bytes)
        if full is None:
            raise
        raise full from error


def _folders_of_this_process() -> list[str]:
    """Where a process writes what it does not keep, and the files to which its output goes."""
    named = [os.environ.get(_TEMPORARY_FOLDER) or "/tmp", *os.environ.get(SPARK_FOLDERS, "").split(",")]
    outputs = [Path(f"/proc/self/fd/{number}").resolve() for number in (1, 2)]
    files = [path.parent for path in outputs if path.is_file()]
    return [one for one in dict.fromkeys([*named, *map(str, (Path.cwd(), *files))]) if one]


def _room(folder: Path) -> tuple[str, bool]:
    """Free space of the disk of a folder, as text, and whether a file has room there."""
    try:
        disk = os.statvfs(next(one for one in (folder, *folder.parents) if one.exists()))
    except (OSError, StopIteration):
        return "free space unknown", True
    if disk.f_files and not disk.f_favail:
        return "no free inodes: there are too many files", False
    free_bytes = disk.f_bavail * disk.f_frsize
    return f"{free_bytes / 1e6:,.1f} MB free", free_bytes >= _SMALL_BYTES


def text_to_store(error: BaseException) -> str:
    """The text of an error for logs and items: `<kind>: <what happened, and what to do>`.

    An unexpected error's own text may contain values of rows, as Arrow's does, so it is left out: the text says where
    the error occurred instead.
    """
    kind = type(error).__name__
    if _has_no_values(error):
        return f"{kind}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno}" if frames else ""
    return f"{kind}: an unexpected error{where}. Its text is not stored, because it may contain values of rows"


def traceback_to_store(error: BaseException | None) -> str:
    """The tracebacks of an error and its causes for logs, with texts as `text_to_store` has them."""
    if error is None:
        return ""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{traceback_to_store(cause)}\n\nThen:\n\n" if cause else ""
    return f"{before}{''.join(traceback.format_tb(error.__traceback__))}{text_to_store(error)}"


def without_values(error: BaseException) -> str:
    """The text of an error about a file's content, with `...` for numbers and quoted text, which may be values."""
    return _VALUES.sub("...", " ".join(str(error).split()))


def _has_no_values(error: BaseException) -> bool:
    """Whether the text of an error contains no values of rows.

    Spark's errors contain the texts of errors in tasks, which `cdclake.lake.spark.task_errors` makes free of values.
    """
    if isinstance(error, OSError):
        return error.errno is not None  # Arrow raises others
    if type(error).__module__.startswith(("py4j.", "botocore.")):
        return type(error).__name__ != "ParamValidationError"
    return isinstance(error, (CdclakeError, ImportError, SystemExit, KeyboardInterrupt))


def file_not_retained(key: str, **where: object) -> IntegrityError:
    """The error of an object store for a data file that is neither live nor retired."""
    return IntegrityError(
        "A data file is gone: it is neither in the table's folder nor among the retired files",
        remedy="Its retention time is over, or it was deleted. Choose a later change, or reload the table",
        **where,
        file=key,
    )


def error_of_kind(code: str) -> type[CdclakeError]:
    """The class with a code; `CdclakeError` if there is none, as for a code of a later version."""
    kind = globals().get(code)
    return kind if isinstance(kind, type) and issubclass(kind, CdclakeError) else CdclakeError


_GRAVEST_FIRST = (IntegrityError, ConfigurationError, InputError, CdclakeError, AttentionError, RetryableError)
"""What the next run cures by itself comes last. `CdclakeError` stands for defects, too."""


def gravest_kind(errors: Iterable[BaseException]) -> type[CdclakeError]:
    """The kind of an error that reports several: the gravest error's kind.

    Args:
        errors: At least one.
    """
    codes = {error.exit_code if isinstance(error, CdclakeError) else CdclakeError.exit_code for error in errors}
    return next(kind for kind in _GRAVEST_FIRST if kind.exit_code in codes)


def similar_names(name: str, known: Iterable[str]) -> str:
    """`Did you mean a or b? `, to begin a remedy with; empty if no known name is similar."""
    by_lower = {one.lower(): one for one in known}
    similar = [by_lower[one] for one in get_close_matches(name.lower(), by_lower, cutoff=0.75)]
    return f"Did you mean {' or '.join(similar)}? " if similar else ""
