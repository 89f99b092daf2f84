"""Rules shared by all state stores: when a lease expires, and who may write which attributes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError, LeaseHeldError, UnknownTableError
from cdclake.model.table.attributes import Attribute, SetBy, attributes_that
from cdclake.model.table.state import TableState
from cdclake.model.times import iso_utc
from cdclake.ports import AcquiredLease

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

OUTCOME_PREFIX = "Last"
"""Prefix of the attributes that hold the outcome of runs."""
_WRITTEN_BY_STORE = frozenset(attributes_that(lambda declared: declared.set_by is SetBy.STORE))
_NAME = re.compile(r"\w+", re.ASCII)


def has_lease(item: Mapping[str, str], holder: str, token: int) -> bool:
    """Whether this holder acquired the lease with this token, and neither released nor lost it since."""
    held = item.get(Attribute.LEASE_HOLDER), item.get(Attribute.FENCING_TOKEN)
    return held == (holder, str(token))


def without_edited(
    attributes: Mapping[str, str], item: Mapping[str, str], unless_edited: Mapping[str, str]
) -> dict[str, str]:
    """Attributes to write into an item without those that were edited there, see `StateStore.record_run`."""

    def is_edited(name: str, text: str) -> bool:
        return name in unless_edited and item.get(name, text) not in (text, unless_edited[name])

    return {name: text for name, text in attributes.items() if not is_edited(name, text)}


def acquired_lease(
    before: TableState, holder: str, now: datetime, seconds: int, *, clears_request: bool
) -> AcquiredLease:
    """The lease that is acquired of a table in that state, see `StateStore.acquire_lease`."""
    previous, token = before.item.get(Attribute.LEASE_HOLDER, ""), before.fencing_token + 1
    held = {
        Attribute.LEASE_HOLDER: holder,
        Attribute.LEASE_EXPIRES_UTC: expiry_text(now, seconds),
        Attribute.FENCING_TOKEN: str(token),
    }
    item = {**before.item, **held}
    if clears_request:
        item.pop(Attribute.WORK_REQUESTED_UTC, None)
    return AcquiredLease(token, previous, before.lease_fault(now), TableState(item))


def lease_held(state: TableState) -> LeaseHeldError:
    """The error for a lease that another holder has."""
    return LeaseHeldError(
        "Another run is writing the table",
        path=state.path,
        holder=state.item.get(Attribute.LEASE_HOLDER),
        until=state.item.get(Attribute.LEASE_EXPIRES_UTC),
    )


def expiry_text(now: datetime, seconds: int) -> str:
    """The time `seconds` after `now`, rounded up, so that nothing expires early; `now`, if it expires at once."""
    end = now + timedelta(seconds=seconds)
    return iso_utc(end + timedelta(seconds=1) if seconds and end.microsecond else end)


def check_outcome(attributes: Collection[str]) -> None:
    """Refuse a run's outcome with attributes that only an operator or the store may write.

    Raises:
        ValueError: There are such attributes, or no attributes.
    """
    if not attributes:
        raise ValueError("a run's outcome has no attributes")
    foreign = sorted(name for name in attributes if not name.startswith(OUTCOME_PREFIX))
    if foreign:
        message = f"not attributes of a run's outcome: {', '.join(foreign)}"
        raise ValueError(message)


def check_settings(attributes: Collection[str]) -> None:
    """Refuse an operator's settings with attributes that only the store may write.

    Raises:
        ConfigurationError: There are such attributes, invalid names, or no attributes.
    """
    if not attributes:
        raise ConfigurationError("There is nothing to set", remedy="Pass at least one attribute and its value")
    invalid = sorted(name for name in attributes if not _NAME.fullmatch(name))
    if invalid:
        message = f"Not a valid attribute name: {', '.join(map(repr, invalid))}"
        raise ConfigurationError(message, remedy="Use letters, digits and underscores")
    protected = sorted(_WRITTEN_BY_STORE.intersection(attributes))
    if protected:
        message = f"{', '.join(protected)} cannot be set"
        raise ConfigurationError(message, remedy="Only the jobs write these attributes; leave them out")


def unknown_table(path: str) -> UnknownTableError:
    """The error for a path that is not registered."""
    return UnknownTableError(
        "The table is not registered in the state table",
        remedy="Check the spelling; the Controller registers a table once its raw folder exists",
        path=path,
    )
