"""Field ids of a table's columns: the numbers by which readers of Apache Iceberg tables find a column in a file.

Every data file contains them, so that files can become part of an Iceberg table without being written again. Plain
readers of Parquet find columns by name and ignore the ids. https://iceberg.apache.org/spec/#column-projection
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdclake.model.schema import decimal_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.model.schema import Column

_PROMOTED = {("int", "long"), ("float", "double")}
"""https://iceberg.apache.org/spec/#schema-evolution"""


@dataclass(frozen=True)
class FieldIds:
    """The field ids of a table's columns.

    Attributes:
        by_column: Id of each column, by its name in lower case. Ids begin with 1.
        last: The greatest id that was ever given to a column of the table.
    """

    by_column: Mapping[str, int] = field(default_factory=dict, hash=False)
    last: int = 0

    def __bool__(self) -> bool:
        return self.last > 0

    def of(self, column: str) -> int:
        """Id of a column, ignoring the case of its name.

        Raises:
            KeyError: It has none.
        """
        return self.by_column[column.lower()]

    def after(self, before: Iterable[Column], columns: Iterable[Column]) -> FieldIds:
        """The ids after a change of the columns.

        A column keeps its id, unless Iceberg does not read its old type as the new one. It gets a new id then; all
        data files are written again, as for every change of a type.

        Args:
            before: Columns in the files before.
            columns: Columns in the files after.
        """
        types = {column.name.lower(): column.type for column in before}
        ids, last = dict[str, int](), self.last
        for column in columns:
            name = column.name.lower()
            if name in self.by_column and is_promoted(
                iceberg_type(types.get(name, column.type)), iceberg_type(column.type)
            ):
                ids[name] = self.by_column[name]
            else:
                last += 1
                ids[name] = last
        return FieldIds(ids, last)


NO_FIELD_IDS = FieldIds()


def iceberg_type(kind: str) -> str:
    """The Iceberg type of a column type. Timestamps are UTC in every data file.

    https://iceberg.apache.org/spec/#primitive-types
    """
    decimal = decimal_parts(kind)
    if decimal:
        return f"decimal({decimal[0]}, {decimal[1]})"
    same = {"tinyint": "int", "smallint": "int", "bigint": "long", "timestamp": "timestamptz"}
    return same.get(kind, kind)


def is_promoted(was: str, now: str) -> bool:
    """Whether Iceberg reads values of one of its types as another, or both are the same."""
    old, new = decimal_parts(was.replace(" ", "")), decimal_parts(now.replace(" ", ""))
    if old and new:
        return old[1] == new[1] and old[0] <= new[0]
    return was == now or (was, now) in _PROMOTED
