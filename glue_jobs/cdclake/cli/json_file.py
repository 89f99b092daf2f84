"""Files that a person gives to a command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def json_object(file: Path) -> dict[str, object]:
    """The names and values in a JSON file.

    Raises:
        ConfigurationError: It is not a JSON object.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        message = f"{file} is not JSON: {error}"
        raise ConfigurationError(message, remedy="Correct the file") from error
    if not isinstance(found, dict):
        message = f"{file} holds no JSON object"
        raise ConfigurationError(message, remedy='Write it as {"name": "value"}')
    return found
