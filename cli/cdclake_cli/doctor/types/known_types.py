"""Types that a table's Parquet files or its lake table give to columns of its CSV files. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.lake.storage.types import is_convertible, to_arrow
from cdclake.model.schema import UNTYPED
from cdclake.model.type_widening import wider_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.model.schema import Schema

_PARQUET, _LAKE = "Parquet files", "the lake table"


class KnownType(NamedTuple):
    """The type of a column.

    Attributes:
        type: A lake type.
        source: What has it, in words.
    """

    type: str
    source: str


def known_types(files: Iterable[Mapping[str, str]], lake: Schema | None, *, has_load: bool) -> dict[str, KnownType]:
    """Types of columns by lowercase name.

    A column of the lake that is text may be so because nothing declared its type: it counts only without a full load to
    load the table again from.

    Args:
        files: Types of each file's columns by name; of CSV files, none. Full loads come first.
        lake: Columns of the lake table; None if it is unknown or not loaded.
        has_load: Whether there is a full load.
    """
    known: dict[str, KnownType] = {}
    for types in files:
        for name, kind in types.items():
            before = known.get(name.lower(), KnownType(kind, _PARQUET))
            known[name.lower()] = before._replace(type=wider_type(before.type, kind) or before.type)
    for column in lake or ():
        in_files = known.get(column.name.lower())
        if in_files:
            wider = wider_type(in_files.type, column.type) or in_files.type
            known[column.name.lower()] = in_files._replace(type=wider)
        elif column.type != "string" or not has_load:
            known[column.name.lower()] = KnownType(column.type, _LAKE)
    return {name: one for name, one in known.items() if one.type != UNTYPED}


def candidates(known: KnownType | None, likely: str) -> list[str]:
    """Types to try for a column, the best first. The last one has a value for each text.

    Args:
        likely: The type that its values look like.
    """
    if known is None:
        return list(dict.fromkeys([likely, "string"]))
    wider = wider_type(known.type, likely)
    also = [kind for kind in (wider, likely) if kind and is_convertible(to_arrow(known.type), kind)]
    return [known.type] if known.type == "string" else list(dict.fromkeys([known.type, *also, "string"]))
