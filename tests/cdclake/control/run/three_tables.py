"""Three tables of one schema, each with a full load that has arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.table.attributes import Attribute
from tests.cdclake.control.world import RAW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cdclake.control.world import World

LOAD, CHANGE = "LOAD00000001.parquet", "20240305-100001000.parquet"
A, B, C = PATHS = tuple(f"{RAW}/dms/shop/{name}/" for name in "abc")


def add_tables(world: World) -> None:
    for path in PATHS:
        world.add_table(LOAD, path=path)


def item(world: World, path: str) -> Mapping[str, str]:
    return world.state(path).item


def ends(world: World) -> dict[str, str | None]:
    """How the last run of each table ended, by the table's letter."""
    return {path[-2]: item(world, path).get(Attribute.LAST_RUN_STATE) for path in PATHS}
