"""Reads table settings from options and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.adapters.state_rules import WRITTEN_BY_STORE
from cdclake.errors import ConfigurationError, similar_names
from cdclake.model.names import Attribute
from cdclake_cli.json_file import json_object

if TYPE_CHECKING:
    from pathlib import Path

_SET_BY_JOBS = WRITTEN_BY_STORE | {
    Attribute.BUCKET,
    Attribute.PREFIX,
    Attribute.FOLDER,
    Attribute.LAST_RUN_STATE,
    Attribute.LAST_RUN_ID,
    Attribute.LAST_RUN_UTC,
    Attribute.LAST_LISTED_UTC,
    Attribute.LAST_PENDING,
    Attribute.LAST_RETIRED_SINCE_UTC,
    Attribute.LAST_KEYS,
    Attribute.LAST_DEATHS,
    Attribute.LAST_FINDINGS,
    Attribute.LAST_DRIFT,
    Attribute.ACCEPTED_DRIFT,
    Attribute.ACKNOWLEDGED_CHANGE,
    Attribute.LAST_FULL_LOAD_FILES,
    Attribute.LAST_LEFT_OUT,
    Attribute.LAST_RECORDED,
    Attribute.LAST_KNOWN_FILES,
    Attribute.LAST_LOOK_FROM,
    Attribute.LAST_PAGE_END,
    Attribute.LAST_ERROR,
    Attribute.LAST_ERROR_CODE,
    Attribute.LAST_CHANGE_ID,
    Attribute.LAST_OFF_BY_ROLLBACK,
    Attribute.LAST_CATALOG_TABLE,
    Attribute.LAST_CATALOG_ERROR,
}
SETTABLE = tuple(value for name, value in vars(Attribute).items() if name.isupper() and value not in _SET_BY_JOBS)
"""Attributes that an operator may set; resetting one of the jobs' own makes them repeat work."""


def parse_settings(settings: list[str]) -> dict[str, str]:
    """Parse `ATTRIBUTE=VALUE` texts.

    Raises:
        ConfigurationError: A text has no `=`, or an attribute that cannot be set.
    """
    attributes = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in SETTABLE:
            message = f"'{setting}' is not a setting"
            similar = similar_names(name, SETTABLE) if equals else ""
            raise ConfigurationError(
                message, remedy=f"{similar}Write ATTRIBUTE=VALUE with one of {', '.join(SETTABLE)}"
            )
        attributes[name] = value
    return attributes


def read_settings(file: Path | None) -> dict[str, str]:
    """Read the settings in a JSON file, such as `{"PrimaryKey": "id"}`; no file, no settings.

    Raises:
        ConfigurationError: The file is not an object of settings, each a string.
    """
    settings = json_object(file) if file else {}
    for name, value in settings.items():
        if not isinstance(value, str):
            message = f"{name} in {file} is not a string"
            raise ConfigurationError(message, remedy='Put every value in quotes, as in {"History": "true"}')
    return parse_settings([f"{name}={value}" for name, value in settings.items()])
