"""Sums up bad rows: how many have which fault, and what kind of text most of them have. Stores no text. Pure.

So an error can propose the remedy that fits most of the rows, and no value of a row is in it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING

from cdclake.lake.raw.rows import BadRow, BadRowKind
from cdclake.model.raw.files import RawFormat
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NULL_TEXTS = frozenset(
    {"NULL", "\\N", "NA", "N/A", "#N/A", "NAN", "NONE", "NIL", "<NULL>", "(NULL)", "-", "--", "?", "MISSING", "UNKNOWN"}
)
"""Texts, in upper case, that writers use for null."""
OTHER_TIMES = r"^\s*\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T].*)?\s*$"
"""Dates in another order or with other separators than cdclake reads."""
OTHER_NUMBERS = r"^\s*[-+]?[$€£]?\d{1,3}(?:[., ']\d{3})*(?:[.,]\d+)?\s*[%€$]?\s*$"
"""Numbers with separators of thousands, a decimal comma, a currency or a percent sign."""
_TIME, _OTHER_NUMBER = re.compile(OTHER_TIMES), re.compile(OTHER_NUMBERS)
_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
_MAX_TEXTS = 64
"""So many different texts of a fault are counted."""
_MAX_REASONS = 1_000
"""So many different reasons are counted: rows may have any number of fields."""


class TextKind(Enum):
    """What a bad value looks like, in words for an error."""

    NULL = "like a text for null"
    NUMBER = "like a number that the type cannot hold"
    TIME = "like a time, perhaps in another format"
    OTHER_NUMBER = "like a number in another format"
    OTHER = ""


@dataclass(frozen=True)
class Fault:
    """Bad rows with one reason.

    Attributes:
        rows: Their number.
        column: The column with the bad value; empty if the row as a whole is bad.
        in_csv: Whether the first of them is in a CSV file.
        kinds: Number of rows by what the bad value looks like.
        texts: Number of rows by a hash of the bad value, of the most frequent ones.
    """

    rows: int
    kind: BadRowKind
    column: str = ""
    in_csv: bool = False
    kinds: Counter[TextKind] = field(default_factory=Counter)
    texts: Counter[bytes] = field(default_factory=Counter)

    def __add__(self, other: Fault) -> Fault:
        texts = Counter(dict((self.texts + other.texts).most_common(_MAX_TEXTS)))
        return Fault(self.rows + other.rows, self.kind, self.column, self.in_csv, self.kinds + other.kinds, texts)

    @property
    def looks(self) -> TextKind:
        """What most of the bad values look like."""
        kind, count = next(iter(self.kinds.most_common(1)), (TextKind.OTHER, 0))
        return kind if 2 * count > self.rows else TextKind.OTHER

    @property
    def description(self) -> str:
        """What the values have in common, in words: `3299 of them have the same value`."""
        if self.kind is not BadRowKind.VALUE:
            return ""
        same, looks = max(self.texts.values(), default=0), self.looks.value
        if same > 1 and 2 * same > self.rows:
            return f"{same} of them have the same value" + (f", which looks {looks}" if looks else "")
        if not looks:
            return ""
        return f"most values look {looks}" if self.rows > 1 else f"it looks {looks}"

    @property
    def has_common_cause(self) -> bool:
        """Whether most of the bad values look alike."""
        return self.kind is BadRowKind.VALUE and self.looks is not TextKind.OTHER

    def remedy(self, doctor: str) -> str:
        """What to do about most of the rows.

        Args:
            doctor: The command that shows the values.
        """
        if self.kind is BadRowKind.WIDTH:
            return f"Check {Attribute.CSV_DELIMITER} and {Attribute.RFC4180}, and the columns in {Attribute.SCHEMA}"
        if self.kind is not BadRowKind.VALUE:
            return ""
        shows = f"{doctor} shows the values"
        if self.looks is TextKind.NULL and self.in_csv:
            return f"If the value stands for null, set {Attribute.CSV_NULL_VALUE} to it: {shows} and the command"
        if self.looks is TextKind.NUMBER:
            return f"Declare a wider type of {self.column} in {Attribute.SCHEMA}: {shows}"
        if self.looks in (TextKind.TIME, TextKind.OTHER_NUMBER):
            return f"Convert {self.column} at the source, or declare it as string in {Attribute.SCHEMA}: {shows}"
        return f"Correct the file, or the type of {self.column} in {Attribute.SCHEMA}: {shows}"


def faults_of(bad_rows: Iterable[BadRow]) -> dict[str, Fault]:
    """Sum up bad rows by reason."""
    faults: dict[str, Fault] = {}
    for bad in bad_rows:
        fault = faults.get(bad.reason)
        if fault is None and len(faults) >= _MAX_REASONS:
            continue
        if fault is None:
            in_csv = any(bad.file.endswith(f".{one.value}") for one in RawFormat if one.is_text)
            fault = Fault(0, bad.kind, next(iter(bad.columns), ""), in_csv)
        text = bad_text(bad)
        if text is not None:
            fault.kinds[text_kind(text)] += 1
            digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
            if digest in fault.texts or len(fault.texts) < _MAX_TEXTS:
                fault.texts[digest] += 1
        faults[bad.reason] = replace(fault, rows=fault.rows + 1)
    return faults


def added(one: Mapping[str, Fault], other: Mapping[str, Fault]) -> dict[str, Fault]:
    """Two sums as one."""
    both = dict(one)
    for reason, fault in other.items():
        if reason in both or len(both) < _MAX_REASONS:
            both[reason] = both[reason] + fault if reason in both else fault
    return both


def bad_text(bad: BadRow) -> str | None:
    """The bad value of a row; None if the row as a whole is bad, or the value is null."""
    if bad.kind is not BadRowKind.VALUE or isinstance(bad.content, str) or not bad.columns:
        return None
    wanted = bad.columns[0].lower()
    return next((text for name, text in bad.content.items() if name.lower() == wanted), None)


def text_kind(text: str) -> TextKind:
    """What a text that is no value of its type looks like."""
    if text.strip().upper() in NULL_TEXTS:
        return TextKind.NULL
    if _NUMBER.fullmatch(text):
        return TextKind.NUMBER
    if _TIME.match(text):
        return TextKind.TIME
    return TextKind.OTHER_NUMBER if _OTHER_NUMBER.match(text) else TextKind.OTHER
