"""Reports that rows do not fit, with their place: memory is exhausted, or a column exceeds the 2 GB of an array."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from cdclake.errors import TooLargeError, without_values
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_REMEDY = (
    "Nothing was applied. Give the Spark jobs larger workers, or let one change take less: set"
    f" {Attribute.MAX_FILES_PER_RUN} lower, or have DMS write smaller files"
)
_OVERFLOWS = ("overflow", "capacity")


def does_not_fit(error: BaseException) -> bool:
    """Whether an error says that rows need more memory than there is, or than an Arrow array holds."""
    if isinstance(error, (MemoryError, pa.ArrowCapacityError)):
        return True
    text = str(error)
    return isinstance(error, pa.ArrowInvalid) and "array" in text and any(word in text for word in _OVERFLOWS)


@contextmanager
def memory_errors_reported(file: str | None = None, row_groups: Sequence[int] | None = None) -> Iterator[None]:
    """Raise `TooLargeError` in place of Arrow's and Python's errors.

    Args:
        file: The file whose rows the block handles, if they are of one.
        row_groups: Numbers of the row groups that it handles; None for all, or if there are none.

    Raises:
        TooLargeError: The rows do not fit.
    """
    try:
        yield
    except (MemoryError, pa.ArrowException) as error:
        if not does_not_fit(error):
            raise
        raise too_large(error, file, row_groups) from error


def too_large(error: BaseException, file: str | None = None, row_groups: Sequence[int] | None = None) -> TooLargeError:
    """The error for one of Arrow or Python, see `memory_errors_reported`."""
    reason = without_values(error) or "out of memory"
    numbers = [str(number) for number in sorted({row_groups[0], row_groups[-1]})] if row_groups else []
    where = {"file": file, "row_group": " to ".join(numbers) or None}
    return TooLargeError(f"Rows need more memory than there is: {reason}", remedy=_REMEDY, **where)
