"""Prints results: tables for people, or one JSON object per line for programs.

Results go to stdout and progress to stderr; with JSON, remarks go to stderr too. Colors and bars are for terminals.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from cdclake.model.times import display_stored, display_utc, duration_text
from cdclake.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Record = Mapping[str, Any]

_PIPED_WIDTH = 240
_UNLIMITED_WIDTH = 100_000
_LINES = "\n\t"
"""Kept in text that is laid out in lines."""


class OutputFormat(str, Enum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="Print tables, or one JSON object per line.")
]


@dataclass(frozen=True)
class OutputColumn:
    """A column of a printed table.

    Attributes:
        key: Key of the value in a record.
        header: Heading of the column.
        number: Whether to align right and group digits.
        time: Whether to format the value as a time; see `display_stored`.
        duration: Whether it is a number of seconds to show as `3 min 5 s`.
        folds: Whether a long word may be broken, so that the table stays one.
    """

    key: str
    header: str
    number: bool = False
    time: bool = False
    duration: bool = False
    folds: bool = False

    def text(self, record: Record) -> str:
        """The text of a record's cell."""
        value = record.get(self.key)
        if value is None:
            return ""
        if self.time:
            return display_stored(value)
        if self.duration:
            return duration_text(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:,.1f}"
        return f"{value:,}" if self.number and isinstance(value, int) else str(value)


def exact_text(value: Any) -> str:  # noqa: ANN401 - any value of a lake table
    """The text of a lake table's value, without the rounding and grouping of `OutputColumn`."""
    return value if isinstance(value, str) else json.dumps(value)


class Output(Protocol):
    """Prints the results of a command."""

    def records(self, title: str, columns: Sequence[OutputColumn], records: Sequence[Record]) -> None:
        """Print records. A table shows the given columns; JSON contains everything."""
        ...

    def json_record(self, record: Record) -> None:
        """Print a record in JSON only."""
        ...

    def remark(self, text: str) -> None:
        """Print text that is not part of the result."""
        ...

    def verbatim(self, text: str) -> None:
        """Print text for the user to copy."""
        ...


class TextOutput:
    """Prints tables. If a table is too wide, prints a short paragraph for each record instead.

    Args:
        console: Where to print; stdout by default.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=_PIPED_WIDTH)

    def records(self, title: str, columns: Sequence[OutputColumn], records: Sequence[Record]) -> None:
        """Print the given columns of records, in a table or in paragraphs."""
        heading = Text(printable(title), style="table.title")
        table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        rows = [[printable(column.text(record)) for column in columns] for record in records]
        for i, column in enumerate(columns):
            one_word = not column.folds and not any(" " in row[i] for row in rows)  # others can wrap between words
            table.add_column(
                Text(printable(column.header, _LINES)),
                justify="right" if column.number else "left",
                overflow="fold",
                no_wrap=one_word,
            )
        for row in rows:
            table.add_row(*map(Text, row))
        unbroken = self._console.measure(table, options=self._console.options.update(width=_UNLIMITED_WIDTH)).minimum
        if unbroken <= self._console.width or any(column.folds for column in columns):
            self._console.print(table)
        else:  # the table would break numbers and names
            self._paragraphs(title, columns, records)

    def _paragraphs(self, title: str, columns: Sequence[OutputColumn], records: Sequence[Record]) -> None:
        self._console.print(printable(title), style="italic", markup=False)
        for record in records:
            cells = [(column.header.replace("\n", " "), column.text(record)) for column in columns]
            text = ", ".join(f"{header} {cell}".strip() for header, cell in cells if cell)
            self._console.print(Padding(Text(printable(text)), (1, 0, 0, 2)))
        self._console.print()

    def json_record(self, record: Record) -> None:
        """Print nothing, because the record is for JSON only."""

    def remark(self, text: str) -> None:
        """Print text that is not part of the result."""
        self._console.print(printable(text), markup=False)

    def verbatim(self, text: str) -> None:
        """Print text for the user to copy, without wrapping lines."""
        self._console.print(printable(text, _LINES), markup=False, soft_wrap=True)


class JsonOutput:
    """Prints one JSON object per line."""

    def records(self, title: str, columns: Sequence[OutputColumn], records: Sequence[Record]) -> None:  # noqa: ARG002
        """Print all values of records, whatever the columns."""
        for record in records:
            self.json_record(record)

    def json_record(self, record: Record) -> None:
        """Print all values of a record. A number that JSON lacks is its text: `nan`, `inf` or `-inf`."""
        line = json.dumps(_finite(record), ensure_ascii=False, default=str, allow_nan=False)
        typer.echo(line if line.isprintable() else "".join(map(_in_json, line)))

    def remark(self, text: str) -> None:
        """Print to stderr text that is not part of the result."""
        typer.echo(printable(text), err=True)

    def verbatim(self, text: str) -> None:
        """Print to stderr text for the user to copy."""
        typer.echo(printable(text, _LINES), err=True)


def _finite(value: object) -> object:
    """A value with texts in place of numbers that JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value if not isinstance(value, float) or isfinite(value) else str(value)


def _in_json(char: str) -> str:
    """A character of a JSON text, escaped as JSON does if a terminal would obey it or not show it."""
    return char if printable(char) == char else json.dumps(char)[1:-1]


def output_for(kind: OutputFormat) -> Output:
    """The output of a format."""
    return JsonOutput() if kind is OutputFormat.JSON else TextOutput()


class PrintableFormatter(logging.Formatter):
    """Formats log records for a terminal: messages contain names from outside."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record, without what a terminal would obey or not show."""
        return printable(super().format(record), _LINES)


class ProgressBar:
    """Shows the current stage of the work, and the progress if the number of stages is known."""

    def __init__(self, bar: Progress, text: str) -> None:
        self._bar = bar
        self._task = bar.add_task(printable(text), total=None)
        self._started = 0
        self.text = text

    def expect(self, stages: int) -> None:
        """Set the number of stages."""
        self._bar.update(self._task, total=stages)

    def stage(self, text: str) -> None:
        """Start a stage; the stages before it are done."""
        self.describe(text)
        self._bar.update(self._task, completed=self._started)
        self._started += 1

    def count(self, text: str, done: int, count: int) -> None:
        """Show the progress within a stage that has a known number of steps."""
        self.describe(f"{text}: {done:,} of {count:,}")
        self._bar.update(self._task, completed=done, total=count)

    def describe(self, text: str) -> None:
        """Change the text of the current stage."""
        self.text = text
        self._bar.update(self._task, description=printable(text))

    def note(self, text: str) -> None:
        """Print a line that stays, with the time, such as the end of a part of the work."""
        line = f"{display_utc(datetime.now(timezone.utc))} {text}"
        self._bar.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress(text: str, every_seconds: float = 60.0) -> Iterator[ProgressBar]:
    """Show progress on stderr: a bar on a terminal, otherwise a line of text now and then, so that logs show life.

    Args:
        text: What the work begins with.
        every_seconds: Time between two lines.
    """
    console = Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = ProgressBar(bar, text)
        if console.is_terminal:
            yield shown
            return
        with _noting(shown, every_seconds):
            yield shown


@contextmanager
def _noting(bar: ProgressBar, every_seconds: float) -> Iterator[None]:
    """Print what the work is at, again and again, until the `with` block ends."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(every_seconds):
            bar.note(bar.text)

    noting = threading.Thread(target=work, name="progress", daemon=True)
    noting.start()
    try:
        yield
    finally:
        done.set()
        noting.join()
