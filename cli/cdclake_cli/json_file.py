"""Reads JSON files that options name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def json_object(file: Path) -> dict[str, object]:
    """Read the JSON object in a file.

    Raises:
        ConfigurationError: The file contains something else.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        message = f"{file} is not JSON: {error}"
        raise ConfigurationError(message, remedy="Correct the file") from error
    if not isinstance(content, dict):
        message = f"{file} is not a JSON object"
        raise ConfigurationError(message, remedy='Write it as {"name": "value"}')
    return content
