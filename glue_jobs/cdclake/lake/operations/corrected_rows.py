"""Checks that the rows in a raw file, at the numbers of quarantined rows, are these rows, as they were or corrected.

A number is all that leads from a quarantined row to the file. The rows of an edited file may be in another order, and
those of a CSV file have other numbers if it is split into rows otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Union

from cdclake.errors import InputError
from cdclake.lake.raw.normalize import row_texts
from cdclake.lake.raw.reader import read_raw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.lake.raw.rows import Slice
    from cdclake.model.table.settings import CsvDialect

Content = Union[dict[str, Union[str, None]], str]
"""Values as text by column, or the raw line of a row that does not split into the columns."""


def require_corrected(
    run: TableRun, parts: Sequence[Slice], bad_rows: Mapping[int, Mapping[str, Any]], read_by: int | None
) -> None:
    """Refuse a raw file unless each quarantined row in it is as it was, or evidently corrected.

    Args:
        parts: All slices of the file.
        bad_rows: The quarantined rows by number, see `cdclake.commit.quarantine.parse_bad_rows`.
        read_by: Number of the change that read the file and split it into rows otherwise; None if it was edited since.

    Raises:
        InputError: Names the first row that is neither.
    """
    found = _contents(run, parts, frozenset(bad_rows))
    for number, bad_row in sorted(bad_rows.items()):
        if number not in found or not _is_corrected(bad_row, found[number], run.settings.csv):
            since, remedy = _edited() if read_by is None else _split_otherwise(run, read_by)
            message = f"A row of a raw file that {since} is not evidently the quarantined row corrected"
            file = parts[0].file.relative
            raise InputError(message, remedy=remedy, table=run.layout.name, file=file, row=number + 1)


def _edited() -> tuple[str, str]:
    return "changed since", (
        "Nothing was changed. Put the old file back and correct only the bad cells in it, or leave the file out and"
        " insert the rows by hand"
    )


def _split_otherwise(run: TableRun, read_by: int) -> tuple[str, str]:
    name = run.layout.name.typed
    return "is split into rows otherwise since", (
        f"Nothing was changed. Now {run.settings.csv.row_rules}. Undo the change that read the file, so that the next"
        f" run reads all of it again: cdclake rollback {name} --to {read_by - 1}, cdclake tables activate {name}"
    )


def _contents(run: TableRun, parts: Sequence[Slice], numbers: frozenset[int]) -> dict[int, Content]:
    """The rows with these numbers."""
    fs, contents = run.raw_fs.open(), dict[int, Content]()
    for part in parts:
        for raw in read_raw(fs, part, run.settings, run.layout.name, run.limits):
            rows = raw.select(numbers)
            contents.update(zip(rows.numbers.tolist(), row_texts(rows.columns, part.file), strict=True))
            contents.update((bad.row, bad.content) for bad in rows.bad_rows if bad.row is not None)
    return contents


def _is_corrected(bad_row: Mapping[str, Any], now: Content, dialect: CsvDialect) -> bool:
    was: Content = bad_row["content"]
    if was == now:
        return True
    if isinstance(was, str):
        return not isinstance(now, str) and _unquoted(was) == _unquoted(_line(now, dialect))
    bad = {name.lower() for name in bad_row["columns"]}
    return (
        not isinstance(now, str)
        and was.keys() == now.keys()
        and all(_is_same(was[name], now[name]) for name in was if name.lower() not in bad)
    )


def _is_same(was: str | None, now: str | None) -> bool:
    return was == now or (was is not None and now is not None and _unquoted(was) == _unquoted(now))


def _line(values: Mapping[str, str | None], dialect: CsvDialect) -> str:
    return dialect.delimiter.join(dialect.null_value if value is None else value for value in values.values())


def _unquoted(line: str) -> str:
    """A line without quotes, which mark the delimiters that are part of a value, and without space."""
    return re.sub(r'["\s]', "", line)
