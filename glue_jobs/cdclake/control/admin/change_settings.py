"""Changes settings of a table, and checks them before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.names import Sentinel
from cdclake.model.snapshot import LakeKeys, check_declared_types
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState
    from cdclake.ports import StateStore

_OFF = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE}


def change_settings(states: StateStore, before: TableState, attributes: Mapping[str, str]) -> TableState:
    """Change settings of a registered table. Returns its new state; see `checked_settings`.

    Raises:
        ConfigurationError: The new settings are invalid; nothing was changed.
        UnknownTableError: The table is no longer in the state table.
    """
    after = checked_settings(before, attributes)
    if Attribute.ACTIVE_FLAG in attributes and Attribute.LAST_OFF_BY_ROLLBACK in before.item:
        attributes = {**attributes, Attribute.LAST_OFF_BY_ROLLBACK: ""}  # turned on, or left off on purpose
    states.set_attributes(before.path, attributes)
    return after.with_attributes(**attributes)


def checked_settings(before: TableState, attributes: Mapping[str, str], lake: Snapshot | None = None) -> TableState:
    """The state of a table with changed settings.

    Args:
        lake: The lake table, to refuse other keys than it was created with, and types that it cannot have, unless the
            same call resets the date of the full load; None: they are not checked.

    Raises:
        ConfigurationError: The new settings are invalid.
    """
    after = before.with_attributes(**attributes)
    if attributes != _OFF:  # a table with invalid settings can be turned off
        _refuse_invalid(after, attributes)
    keys, reloads = LakeKeys.of(lake) if lake else None, starts_reload(attributes)
    if keys and not reloads:
        keys.check(after.settings, after.name)
    if lake:
        check_declared_types(lake, after.settings, after.name, reloads=reloads)
    return after


def starts_reload(attributes: Mapping[str, str]) -> bool:
    """Whether changed settings let the table be loaded again."""
    return attributes.get(Attribute.LAST_FULL_LOAD_DATE) == Sentinel.NEVER_LOADED


def _refuse_invalid(state: TableState, changed: Mapping[str, str]) -> None:
    """Read the settings with the code of the jobs, to refuse here what the jobs would refuse."""
    settings = TableSettings.from_item(state.item)
    settings.check_history(state.name)
    for attribute, names in settings.named_columns.items():
        expressions = [name for name in names if "(" in name]
        if expressions and attribute in changed and attribute != Attribute.SCHEMA:
            message = f"{attribute} names {expressions[0]!r}, which is an expression and not a column"
            remedy = "Name a column of the raw files; a DMS mapping rule (add-column) can compute one from others"
            raise ConfigurationError(message, remedy=remedy, table=state.path)
    state.last_full_load_utc  # noqa: B018 - checked when read
    state.checked_watermark  # noqa: B018 - checked when read
    if Attribute.ACCEPT_LOST_CHANGES in changed:
        _refuse_needless_acceptance(state)
    flag = changed.get(Attribute.ACTIVE_FLAG, Sentinel.INACTIVE)
    if flag.strip().lower() not in (Sentinel.ACTIVE, Sentinel.INACTIVE):  # the jobs read any other value as off
        message = f"{Attribute.ACTIVE_FLAG} is '{flag}'"
        raise ConfigurationError(
            message, remedy=f"Set it to {Sentinel.ACTIVE} or {Sentinel.INACTIVE}", table=state.path
        )


def _refuse_needless_acceptance(state: TableState) -> None:
    """Refuse to accept a loss that no run has refused: it would be accepted before anybody knows of it."""
    accepted, error = state.settings.accept_lost_changes, state.item.get(Attribute.LAST_ERROR, "")
    if accepted and f"{Attribute.ACCEPT_LOST_CHANGES}={accepted}'" not in error:
        message = f"The table's last run refused no reload that {Attribute.ACCEPT_LOST_CHANGES}={accepted} would allow"
        remedy = f"Run the table first (cdclake run {state.name.typed}). If changes are lost, the error has the command"
        raise ConfigurationError(message, remedy=remedy, table=state.path)
