"""Reads JSON that this or an earlier version of cdclake stored, and refuses that of newer versions."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from cdclake.errors import ConfigurationError

FORMAT = 1
"""Number of the format. It grows when an earlier version would misread what this one writes."""


def read_stored(data: bytes, kind: type, what: str) -> dict[str, Any]:
    """Parse the JSON of a dataclass.

    Args:
        kind: The dataclass. The JSON may lack fields, which older versions did not have.
        what: Its name in the error.

    Returns:
        Values by field, without the number of the format.

    Raises:
        ConfigurationError: The format is unknown, or a field is. Ignoring it could make a table wrong.
    """
    read: dict[str, Any] = json.loads(data)
    unknown = read.keys() - {one.name for one in fields(kind)} - {"format"}
    if read.pop("format") != FORMAT or unknown:
        message = f"A newer version of cdclake wrote a {what}"
        raise ConfigurationError(message, remedy="Deploy that version, or a later one. Nothing was changed")
    return read
