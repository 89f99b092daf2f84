"""Changes settings of a table, and checks them before they are stored."""

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
    """Change settings of a registered table. Returns its new state.

    Raises:
        ConfigurationError: The new settings are invalid; nothing was changed.
        UnknownTableError: The table is no longer in the state table.
    """
    after = before.with_attributes(**attributes)
    if attributes != _OFF:  # a table with invalid settings can be turned off
        _refuse_invalid(after, attributes)
    states.set_attributes(before.path, attributes)
    return after


def set_active(states: StateStore, before: TableState, *, active: bool) -> TableState:
    """Turn a table on or off; see `change_settings`."""
    flag = Sentinel.ACTIVE if active else Sentinel.INACTIVE
    return change_settings(states, before, {Attribute.ACTIVE_FLAG: flag})


def _refuse_invalid(state: TableState, changed: Mapping[str, str]) -> None:
    """Read the settings with the code of the jobs, to refuse here what the jobs would refuse."""
    TableSettings.from_item(state.item)
    state.last_full_load_utc  # noqa: B018 - checked when read
    state.checked_watermark  # noqa: B018 - checked when read
    flag = changed.get(Attribute.ACTIVE_FLAG, Sentinel.INACTIVE)
    if flag.strip().lower() not in (Sentinel.ACTIVE, Sentinel.INACTIVE):  # the jobs read any other value as off
        message = f"{Attribute.ACTIVE_FLAG} is '{flag}'"
        raise ConfigurationError(
            message, remedy=f"Set it to {Sentinel.ACTIVE} or {Sentinel.INACTIVE}", table=state.path
        )
