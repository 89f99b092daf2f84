"""What a person sets about a table, checked before it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute, Sentinel
from cdclake.model.table import TableSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.table import TableState
    from cdclake.ports import StateStore


_OFF = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE}


def change_settings(states: StateStore, before: TableState, attributes: Mapping[str, str]) -> TableState:
    """Change settings of a registered table; returns its state as it is then.

    Raises:
        ConfigurationError: The jobs could not read the table's settings then; nothing was changed.
        UnknownTableError: The table is gone from the state table.
    """
    after = before.with_attributes(**attributes)
    if attributes != _OFF:  # whatever is wrong with its settings, a table can be kept from the jobs
        _refuse_unreadable(after, attributes)
    states.set_by_person(before.path, attributes)
    return after


def set_active(states: StateStore, before: TableState, *, active: bool) -> TableState:
    """Let the jobs work on a table, or keep them off it; see `change_settings`."""
    flag = Sentinel.ACTIVE if active else Sentinel.INACTIVE
    return change_settings(states, before, {Attribute.ACTIVE_FLAG: flag})


def _refuse_unreadable(state: TableState, given: Mapping[str, str]) -> None:
    """Let the jobs' own code read what they will read: whatever it refuses is refused here already."""
    TableSettings.from_item(state.item)
    state.last_full_load_utc  # noqa: B018 - read for its check
    state.checked_watermark  # noqa: B018 - read for its check
    flag = given.get(Attribute.ACTIVE_FLAG, Sentinel.INACTIVE)
    if flag.strip().lower() not in (Sentinel.ACTIVE, Sentinel.INACTIVE):  # the jobs take it for off, whatever was meant
        message = f"{Attribute.ACTIVE_FLAG} is '{flag}'"
        raise ConfigurationError(
            message, remedy=f"Set it to {Sentinel.ACTIVE} or {Sentinel.INACTIVE}", table=state.path
        )
