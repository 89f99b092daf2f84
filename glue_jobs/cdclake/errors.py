"""Every error cdclake raises on purpose, grouped by what the reader should do next.

* `ConfigurationError`: change a setting, then run again.
* `InputError`: a raw file, or what a person gave, is at fault; look at what is named. Nothing of it was applied.
* `RetryableError`: nothing is wrong; the next run will do it.
* `IntegrityError`: stop and look first. Retrying blindly could do harm.
* `AttentionError`: nothing failed just now, but something waits for a person.

Each carries `remedy` (what to do) and `details` (where: table, file, row, column), so that a log line, a table and JSON
can all be made of it.
"""

from __future__ import annotations


class CdclakeError(Exception):
    """Root of the tree.

    Args:
        message: What happened, in one sentence.
        remedy: What the reader should do.
        details: Where it happened: `table`, `file`, `row`, `column`, ... Values are printable, never row contents.
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
        return f"{text}. {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[object, ...]:
        """Keep remedy and details across processes (Spark workers pickle what they raise)."""
        return _rebuild, (type(self), self.message, self.remedy, self.details)


def _rebuild(kind: type[CdclakeError], message: str, remedy: str, details: dict[str, object]) -> CdclakeError:
    return kind(message, remedy=remedy, **details)


class ConfigurationError(CdclakeError):
    """A setting is missing or wrong: change it and run again."""

    exit_code = 2


class UnknownTableError(ConfigurationError):
    """No table of that name is registered."""


class PastRetentionError(ConfigurationError):
    """What was asked for is older than what is kept: name a later change."""


class AttentionError(CdclakeError):
    """Nothing went wrong just now, but something is as it should not stay: a person must do something."""

    exit_code = 6


class InputError(CdclakeError):
    """A raw file, or what a person gave, cannot be taken as it is. Nothing of it was applied."""

    exit_code = 3


class UnreadableFileError(InputError):
    """A raw file is truncated, empty or not of the format its name says."""


class SchemaMismatchError(InputError):
    """A raw file's columns cannot be brought into the table's without losing something."""


class BadRowError(InputError):
    """A row of a raw file breaks a rule: an unknown Op, a null key, a value that does not parse."""


class RefusedChangeError(InputError):
    """What a person asked of a lake table cannot be done as it was asked for. Nothing was changed."""


class RetryableError(CdclakeError):
    """Nothing is lost and nothing is wrong: run again."""

    exit_code = 4


class CommitConflictError(RetryableError):
    """Another run committed this change number first. This run's work is discarded; the next run starts from theirs."""


class LeaseHeldError(RetryableError):
    """Another run is writing this table."""


class LeaseLostError(RetryableError):
    """Another run took the table over while this one still held it for its own."""


class JobRunError(RetryableError):
    """A Glue job could not be started, or did not end well."""


class NoRoomError(JobRunError):
    """Glue takes no further run now. None was started."""


class IntegrityError(CdclakeError):
    """What is stored is not what it should be. Look before anything runs again."""

    exit_code = 5


class RawFilesLostError(IntegrityError):
    """Change files vanished before they were applied. The table is frozen: what comes after them is not applied."""


class LakeFilesError(IntegrityError):
    """The files of a lake table are not those that cdclake left there."""


class BooksError(IntegrityError):
    """A change's row counts do not add up, so it was not committed."""


class CommitStateUnknownError(IntegrityError):
    """The commit was sent and its answer lost: read the change log before anything else."""
