"""What every state store agrees on: when a lease is over, and which attributes are whose."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError, UnknownTableError
from cdclake.model.names import Attribute
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

OUTCOME_PREFIX = "Last"
"""Attributes that tell how far the runs came begin with this."""
KEPT_BY_STORE = frozenset(
    {
        Attribute.PATH,
        Attribute.LEASE_HOLDER,
        Attribute.LEASE_EXPIRES_UTC,
        Attribute.FENCING_TOKEN,
        Attribute.WORK_REQUESTED_UTC,
    }
)
"""Attributes that only the store itself writes."""
_NAME = re.compile(r"\w+", re.ASCII)


def expiry_text(now: datetime, seconds: int) -> str:
    """When something that lasts `seconds` from `now` is over, rounded up: never a moment too early."""
    end = now + timedelta(seconds=seconds)
    return iso_utc(end + timedelta(seconds=1) if end.microsecond else end)


def check_outcome(attributes: Collection[str]) -> None:
    """Refuse to write as a run's outcome what a person sets or the store keeps.

    Raises:
        ValueError: Names the attributes; or there are none.
    """
    if not attributes:
        raise ValueError("a run's outcome has no attributes")
    foreign = sorted(name for name in attributes if not name.startswith(OUTCOME_PREFIX))
    if foreign:
        message = f"not attributes of a run's outcome: {', '.join(foreign)}"
        raise ValueError(message)


def check_settings(attributes: Collection[str]) -> None:
    """Refuse to let a person write what the store keeps.

    Raises:
        ConfigurationError: Names the attributes; or there are none.
    """
    if not attributes:
        raise ConfigurationError("There is nothing to set", remedy="Give at least one attribute and its value")
    odd = sorted(name for name in attributes if not _NAME.fullmatch(name))
    if odd:
        message = f"{', '.join(map(repr, odd))} cannot be an attribute's name"
        raise ConfigurationError(message, remedy="Use letters, digits and underscores")
    kept = sorted(KEPT_BY_STORE.intersection(attributes))
    if kept:
        message = f"{', '.join(kept)} cannot be set"
        raise ConfigurationError(message, remedy="The jobs keep these attributes themselves; leave them out")


def unknown_table(path: str) -> UnknownTableError:
    """The error for a path that is not registered."""
    return UnknownTableError(
        "The table is not registered in the state table",
        remedy="Look at the spelling; the Controller registers a table once its raw folder exists",
        path=path,
    )
