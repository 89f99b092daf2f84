"""Writes the statements that compute checksums in a source's server. Pure.

The checksum of a row is the number that the first 60 bits of an MD5 are: of the UTF-8 of all values' canonical texts.
Text stands after its length in characters and a colon, and null is a hyphen. Values of other types, in which no comma
is, are followed by one, and so is the hyphen. The checksum of a bucket is the sum over its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdclake.lake.storage.types import from_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from cdclake_cli.sources.tables import SourceColumn, SourceTable

CHECKSUM_DIGITS = 15
"""Hexadecimal digits of the MD5 that make the checksum of a row: as many as fit a signed integer of 64 bits."""
BUCKET_DIGITS = 8
"""Hexadecimal digits of the key's MD5 that choose the bucket."""


@dataclass(frozen=True)
class ChecksumSql:
    """The SQL of a server.

    Attributes:
        text: SQL of the canonical text of a column's values, null for values that are null in the lake; None if the
            server has no exact one. Takes a column of the server's own kind, and its name in SQL.
        quoted: A name in SQL.
        sized: SQL of a text with its length, or of the hyphen, given that of the text.
        ended: SQL of a text with its comma, or of the hyphen with one.
        joined: SQL of such texts one after the other.
        md5: SQL of the MD5 of such a text, as hexadecimal digits.
        number: SQL of the number that the first digits of an MD5 are.
        float_texts: The server's canonical texts of floating-point values.
    """

    text: Callable[[Any, str], str | None]
    quoted: Callable[[str], str]
    sized: Callable[[str], str]
    ended: Callable[[str], str]
    joined: Callable[[Sequence[str]], str]
    md5: Callable[[str], str]
    number: Callable[[str, int], str]
    float_texts: Callable[[pa.Array], pa.Array]

    def column_without_text(self, table: SourceTable) -> str:
        """A column of the table that has no canonical text; empty if all have one."""
        named = ((column, self.quoted(column.name)) for column in table.columns)
        return next((column.name for column, name in named if self.text(column, name) is None), "")

    def digest(self, table: SourceTable, names: Sequence[str]) -> str:
        """SQL of the MD5 of some columns, all of which have canonical texts."""
        columns = {column.name: column for column in table.columns}
        return self.md5(self.joined([self._separated(columns[name]) for name in names]))

    def _separated(self, column: SourceColumn) -> str:
        text = str(self.text(column, self.quoted(column.name)))
        return self.sized(text) if from_arrow(column.field.type) == "string" else self.ended(text)

    def checksums(self, table: SourceTable, names: Sequence[str], *, bucket: str = "", where: str = "") -> str:
        """Statement with the number of each bucket, its rows, and their checksum.

        Args:
            bucket: SQL of the number; empty for one bucket with the number 0, also if it has no rows.
            where: SQL condition; empty for all rows.
        """
        checksum = self.number(self.digest(table, names), CHECKSUM_DIGITS)
        condition, grouped = f" where {where}" if where else "", " group by 1" if bucket else ""
        return f"select {bucket or 0}, count(*), coalesce(sum({checksum}), 0) from {table.relation}{condition}{grouped}"

    def hash_bucket(self, table: SourceTable, names: Sequence[str], buckets: int) -> str:
        """SQL of a row's bucket, by the hash of its key."""
        return f"mod({self.number(self.digest(table, names), BUCKET_DIGITS)}, {buckets})"

    def boundary(self, table: SourceTable, column: str, after: int | None, rows: int) -> str:
        """Statement with the value of an indexed column so many rows after the first of a range, if there is one."""
        name = self.quoted(column)
        condition = "" if after is None else f" where {name} >= {after}"
        return f"select {name} from {table.relation}{condition} order by {name} limit 1 offset {rows}"

    def next_value(self, table: SourceTable, column: str, after: int) -> str:
        """Statement with the least greater value of an indexed column, or null."""
        name = self.quoted(column)
        return f"select min({name}) from {table.relation} where {name} > {after}"

    def within(self, column: str, first: int | None, end: int | None) -> str:
        """SQL condition of a range, whose end is excluded; None is without a bound."""
        name = self.quoted(column)
        bounds = ((">=", first), ("<", end))
        return " and ".join(f"{name} {operator} {bound}" for operator, bound in bounds if bound is not None)
