"""Column types of drawn tables: their SQL, and SQL literals of their values, extremes included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    Literals = st.SearchStrategy[str]
    Quote = Callable[[str], str]

ODD_TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "a ",
        " a",
        "é",
        "e\u0301",
        "ß",
        "İ",
        "ﬀ",
        "😀",
        "שלום",
        "\u0661",
        "\u200b",
        "\u202e!",
        "\ufeff",
    ),
    *("'", '"', '""', "\\", "\\n", "\\N", "a\nb", "a\r\nb", "\r", "\n", "\t", ",", ";", "|", "^", "a,b;c|d"),
    *("NULL", "null", "None", "nil", "NaN", "true", "0", "-1", "1e5", "2024-02-30", "%", "_", "a=b/c", "../x", "{}"),
    *("\x01", "\x1f", "\x7f", "\u0085", "\u2028", "I", "U", "D", "__HIVE_DEFAULT_PARTITION__"),
)
PLAIN_TEXTS = ("a", "b", "cd", "X1", "yes", "zz9", "ünï", "42")
"""Texts that no collation takes for equal."""


@dataclass(frozen=True)
class ColumnType:
    """A type of a drawn column.

    Attributes:
        sql: As in CREATE TABLE.
        literals: SQL literals of its values, without NULL.
        wider: Types that ALTER TABLE may widen it to.
        is_number: Whether numbers can be added to its values.
        has_default: Whether a column may have a default of it.
        is_nulled: Whether statements set it to null.
    """

    sql: str
    literals: Literals
    wider: tuple[ColumnType, ...] = ()
    is_number: bool = False
    has_default: bool = True
    is_nulled: bool = True


@dataclass(frozen=True)
class Texts:
    """What texts a history may contain.

    Attributes:
        quote: Writes a text as an SQL literal.
        forbidden: Parts of texts that the raw files cannot tell apart.
        unusable: Whole texts that they cannot tell apart.
    """

    quote: Quote
    forbidden: tuple[str, ...] = ()
    unusable: frozenset[str] = field(default_factory=frozenset)

    def allows(self, text: str) -> bool:
        return text not in self.unusable and not any(part in text for part in self.forbidden)

    def literals(self, max_length: int) -> Literals:
        odd = [text for text in ODD_TEXTS if len(text) <= max_length and self.allows(text)]
        alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
        drawn = st.text(alphabet, max_size=min(max_length, 8)).filter(self.allows)
        return (st.sampled_from(odd) | st.sampled_from(odd) | drawn).map(self.quote)

    def among(self, texts: Sequence[str]) -> Literals:
        return st.sampled_from([text for text in texts if self.allows(text)]).map(self.quote)


def integers(low: int, high: int) -> Literals:
    """Extremes, small numbers, and any others."""
    small = [number for number in (-1, 0, 1, 2, 3) if low <= number <= high]
    return (st.sampled_from([*small, low, high]) | st.integers(low, high)).map(str)


def decimals(precision: int, scale: int) -> Literals:
    """Decimals of any size that fits, the largest and the smallest included."""
    largest = 10**precision - 1

    def text(unscaled: int) -> str:
        sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"

    odd = st.sampled_from([0, 1, -1, 10**scale, 11 * 10**scale // 10, largest, -largest])
    return (odd | st.integers(-largest, largest)).map(text)
