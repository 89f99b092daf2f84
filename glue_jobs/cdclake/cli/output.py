"""What commands print: tables for people, or one JSON object a line for programs, behind one interface.

Answers go to stdout, progress and remarks to stderr. Colours and progress are for terminals only.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Record = Mapping[str, Any]

_PIPED_WIDTH = 240
_ANY_WIDTH = 100_000
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
"""What a terminal obeys in place of showing it, and how it is shown."""
_CONTROLS_IN_JSON = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""Those that JSON may hold as they are, and how it may write them as well."""


class OutputFormat(str, Enum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="Tables to read, or one JSON object a line.")
]


@dataclass(frozen=True)
class Column:
    """A column of a printed table.

    Attributes:
        key: Of the records.
        header: Above the column.
        number: Whether to align right and group digits.
    """

    key: str
    header: str
    number: bool = False

    def text(self, record: Record) -> str:
        """The cell of a record."""
        value = record.get(self.key)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:,.1f}"
        return f"{value:,}" if self.number and isinstance(value, int) else str(value)


def printable(text: str) -> str:
    """Text of which a terminal obeys nothing: names and values are whatever somebody wrote into the source."""
    return text.translate(_CONTROLS)


class Output(Protocol):
    """Where a command's answers go."""

    def records(self, title: str, columns: Sequence[Column], records: Sequence[Record]) -> None:
        """Print records. A table shows the columns named; JSON holds everything."""
        ...

    def remark(self, text: str) -> None:
        """Tell a person something beside the answer."""
        ...

    def verbatim(self, text: str) -> None:
        """Give a person something to copy."""
        ...


class TextOutput:
    """Readable tables; a short paragraph for each record where a table would be too wide.

    Args:
        console: Where to; stdout if not given.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=_PIPED_WIDTH)

    def records(self, title: str, columns: Sequence[Column], records: Sequence[Record]) -> None:
        """See `Output.records`."""
        heading = Text(printable(title), style="table.title")
        table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for column in columns:
            header = Text(printable(column.header))
            table.add_column(header, justify="right" if column.number else "left", overflow="fold")
        for record in records:
            table.add_row(*(Text(printable(column.text(record))) for column in columns))
        unbroken = self._console.measure(table, options=self._console.options.update(width=_ANY_WIDTH)).minimum
        if unbroken <= self._console.width:
            self._console.print(table)
        else:  # numbers and names would be broken
            self._paragraphs(title, columns, records)

    def _paragraphs(self, title: str, columns: Sequence[Column], records: Sequence[Record]) -> None:
        self._console.print(printable(title), style="italic", markup=False)
        for record in records:
            cells = [(column.header.replace("\n", " "), column.text(record)) for column in columns]
            text = ", ".join(f"{header} {cell}".strip() for header, cell in cells if cell)
            self._console.print(Padding(Text(printable(text)), (1, 0, 0, 2)))
        self._console.print()

    def remark(self, text: str) -> None:
        """See `Output.remark`."""
        self._console.print(printable(text), markup=False)

    def verbatim(self, text: str) -> None:
        """See `Output.verbatim`: a line stays one, however long."""
        self._console.print(printable(text), markup=False, soft_wrap=True)


class JsonOutput:
    """One JSON object a line."""

    def records(self, title: str, columns: Sequence[Column], records: Sequence[Record]) -> None:  # noqa: ARG002
        """See `Output.records`."""
        for record in records:
            line = json.dumps(record, ensure_ascii=False, default=str)
            typer.echo(line.translate(_CONTROLS_IN_JSON))

    def remark(self, text: str) -> None:
        """See `Output.remark`: kept off stdout."""
        typer.echo(printable(text), err=True)

    def verbatim(self, text: str) -> None:
        """See `Output.verbatim`: kept off stdout."""
        typer.echo(printable(text), err=True)


def output_for(kind: OutputFormat) -> Output:
    """The output of a format."""
    return JsonOutput() if kind is OutputFormat.JSON else TextOutput()


class ProgressBar:
    """Tells on a terminal what is going on, and how far it is if the number of stages is known."""

    def __init__(self, bar: Progress, text: str) -> None:
        self._bar = bar
        self._task = bar.add_task(printable(text), total=None)
        self._begun = 0

    def expect(self, stages: int) -> None:
        """Say how many stages there will be."""
        self._bar.update(self._task, total=stages)

    def stage(self, text: str) -> None:
        """Begin a stage; the ones before it are done."""
        self._bar.update(self._task, description=printable(text), completed=self._begun)
        self._begun += 1

    def show(self, text: str, done: int, count: int) -> None:
        """Show how far something is that takes so many steps."""
        self._bar.update(
            self._task, description=f"{printable(text)}: {done:,} of {count:,}", completed=done, total=count
        )

    def say(self, text: str) -> None:
        """Show something else of the same stage."""
        self._bar.update(self._task, description=printable(text))


@contextmanager
def progress(text: str) -> Iterator[ProgressBar]:
    """Show on a terminal (stderr) that work goes on. Shows nothing when piped."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield ProgressBar(bar, text)
