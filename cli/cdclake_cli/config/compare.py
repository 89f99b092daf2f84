"""Compares a file of tables with the tables as they are, and tells what each difference means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.control.admin.change_settings import checked_settings, starts_reload
from cdclake.errors import ConfigurationError
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import COLUMN_ATTRIBUTES
from cdclake_cli.config.vocabulary import READERS, default_text, same_value
from cdclake_cli.patterns import name_of, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState
    from cdclake_cli.config.model import Config, Settings


_RELOAD = {Attribute.LAST_FULL_LOAD_DATE: Sentinel.NEVER_LOADED}
_REWRITES: Mapping[str, Callable[[Any, Any], bool]] = {
    Attribute.HISTORY: lambda _, now: bool(now),
    Attribute.DELETE_MODE: lambda was, now: bool(was and not now),
    Attribute.READERS: lambda was, now: was is not now,
}
"""From which value to which the next change reads or writes all rows or files of a table."""


class Effect(Enum):
    """What happens when a setting is changed."""

    NOTHING = "none: it was so"
    SWITCHES_ON = "runs work on the table"
    SWITCHES_OFF = "runs skip the table"
    FIRST_LOAD = "from the first load on"
    NEXT_RUN = "from the next run on"
    REWRITE = "the next change works through the whole table"
    RELOAD = "the next run loads the table again"


class Difference(NamedTuple):
    """A setting that a table should have.

    Attributes:
        before: Its value as it is; None if it is not set.
        after: Its value then.
    """

    setting: str
    before: str | None
    after: str
    effect: Effect

    @property
    def record(self) -> dict[str, str | None]:
        """It as JSON."""
        return {**self._asdict(), "effect": self.effect.value}

    @property
    def line(self) -> dict[str, str | None]:
        """It for people, who see the default in place of no value."""
        default = default_text(self.setting)
        return {**self.record, "before": self.before or default, "after": self.after or default}


@dataclass(frozen=True)
class TableChange:
    """A table that is not as the file says.

    Attributes:
        before: Its state; the state of a newly registered table if it is new.
        settings: What is to be set.
        differences: The same, with its meaning; none before `checked`.
        reloads: Whether the table must be loaded again, and `settings` let it; not known before `checked`.
    """

    before: TableState
    settings: Settings
    is_new: bool = False
    differences: tuple[Difference, ...] = ()
    reloads: bool = False

    @property
    def name(self) -> TableName:
        """The table's name."""
        return self.before.name

    @property
    def names_columns(self) -> bool:
        """Whether it changes what the lake table or the raw files must agree with."""
        return bool(COLUMN_ATTRIBUTES & self.settings.keys())

    @property
    def after(self) -> TableState:
        """The table's state with the settings."""
        return self.before.with_attributes(**self.settings)

    def checked(self, lake: Snapshot | None) -> TableChange:
        """The change with the meaning of its differences, and with what lets a table be loaded again that must be.

        Args:
            lake: The lake table, if the change names columns.

        Raises:
            ConfigurationError: The settings are invalid.
        """
        reloads = lake is not None and lake.exists and _needs_reload(self.before, self.settings, lake)
        settings = {**self.settings, **_RELOAD} if reloads else self.settings
        checked_settings(self.before, settings, lake)
        return replace(
            self, settings=settings, differences=differences(self.before, self.settings, lake), reloads=reloads
        )


@dataclass(frozen=True)
class Comparison:
    """A file beside the tables.

    Attributes:
        changes: The tables that are not as the file says, by name.
        equal: Number of tables that are.
        unmatched: Registered tables that no name or pattern of the file matches.
        unregistered: Tables that the file names and that are not registered.
        unused: Patterns of the file that match no table.
        rolled_back: Tables that the file turns on, and a rollback turned off.
    """

    changes: tuple[TableChange, ...]
    equal: int
    unmatched: tuple[TableName, ...]
    unregistered: tuple[TableName, ...]
    unused: tuple[str, ...]
    rolled_back: tuple[TableName, ...]


def compare(
    config: Config, states: Iterable[TableState], new_state: Callable[[TableName], TableState] | None = None
) -> Comparison:
    """Compare a file with the registered tables. What the file does not set of a table may be anything.

    Args:
        new_state: The state of a newly registered table; None: tables that are not registered stay so.

    Raises:
        ConfigurationError: A name of the file stands for tables in two ways.
    """
    registered = {state.name: state for state in states}
    missing = tuple(name for name in config.named if name not in registered)
    new = {name: new_state(name) for name in missing} if new_state else {}
    tables = {**registered, **new}
    chosen = config.chosen(tables)
    settings_of = config.settings(chosen)
    changes, unmatched, rolled_back = [], [], []
    for name, state in sorted(tables.items()):
        wanted = settings_of.get(name)
        if wanted is None:
            unmatched.append(name)
            continue
        if state.off_by_rollback and _turns_on(wanted):
            rolled_back.append(name)
            del wanted[Attribute.ACTIVE_FLAG]
        after = {**state.item, **wanted}
        settings = {one: text for one, text in wanted.items() if not same_value(one, state.item, after)}
        if settings or name in new:
            changes.append(TableChange(state, settings, is_new=name in new))
    return Comparison(
        tuple(changes),
        len(registered) + len(new) - len(changes) - len(unmatched),
        tuple(unmatched),
        () if new_state else missing,
        tuple(key for key, names in chosen.items() if not names and not name_of(parse_pattern(key))),
        tuple(rolled_back),
    )


def _turns_on(wanted: Settings) -> bool:
    return bool(_value(Attribute.ACTIVE_FLAG, wanted))


def differences(before: TableState, settings: Settings, lake: Snapshot | None = None) -> tuple[Difference, ...]:
    """What becomes of each attribute of a table that is set.

    Args:
        lake: The lake table; None: it is not known whether a reload is needed.
    """
    return tuple(
        Difference(name, before.item.get(name), after, _effect(before, settings, name, lake))
        for name, after in settings.items()
    )


def _effect(before: TableState, settings: Settings, name: str, lake: Snapshot | None) -> Effect:
    text = settings[name]
    setting = {name: text}
    if text == before.item.get(name):
        return Effect.NOTHING
    if name == Attribute.ACTIVE_FLAG:
        return Effect.SWITCHES_ON if _turns_on(setting) else Effect.SWITCHES_OFF
    if starts_reload(settings):
        return Effect.RELOAD
    if not (lake.exists if lake else before.last_change):
        return Effect.FIRST_LOAD
    if lake and name in COLUMN_ATTRIBUTES and _needs_reload(before, setting, lake):
        return Effect.RELOAD
    rewrites = name in _REWRITES and _REWRITES[name](_value(name, before.item), _value(name, setting))
    return Effect.REWRITE if rewrites else Effect.NEXT_RUN


def _needs_reload(before: TableState, settings: Settings, lake: Snapshot) -> bool:
    """Whether a lake table takes settings only if it is loaded again."""
    return not _takes(before, settings, lake) and _takes(before, {**settings, **_RELOAD}, lake)


def _takes(before: TableState, settings: Settings, lake: Snapshot) -> bool:
    try:
        checked_settings(before, settings, lake)
    except ConfigurationError:
        return False
    return True


def _value(name: str, item: Settings) -> Any:  # noqa: ANN401 - of any attribute
    """The value of an attribute; None if it is invalid."""
    try:
        return READERS[name](item)
    except ConfigurationError:
        return None
