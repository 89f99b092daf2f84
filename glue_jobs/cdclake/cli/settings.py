"""Settings of tables, as options and files name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.adapters.state_rules import KEPT_BY_STORE
from cdclake.cli.json_file import json_object
from cdclake.errors import ConfigurationError
from cdclake.model.names import Attribute

if TYPE_CHECKING:
    from pathlib import Path

_OF_THE_JOBS = KEPT_BY_STORE | {
    Attribute.BUCKET,
    Attribute.PREFIX,
    Attribute.FOLDER,
    Attribute.LAST_RUN_STATE,
    Attribute.LAST_RUN_ID,
    Attribute.LAST_RUN_UTC,
    Attribute.LAST_LISTED_UTC,
    Attribute.LAST_PENDING,
    Attribute.LAST_LOOK_FROM,
    Attribute.LAST_PAGE_END,
    Attribute.LAST_ERROR,
    Attribute.LAST_CHANGE_ID,
    Attribute.LAST_CATALOG_TABLE,
    Attribute.LAST_CATALOG_ERROR,
}
SETTABLE = tuple(value for name, value in vars(Attribute).items() if name.isupper() and value not in _OF_THE_JOBS)
"""Attributes that a person sets, or sets back to have something done again."""


def parse_settings(settings: list[str]) -> dict[str, str]:
    """Read `Attribute=Value` texts.

    Raises:
        ConfigurationError: There is no `=`, or no such setting.
    """
    attributes = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in SETTABLE:
            message = f"'{setting}' does not set anything"
            raise ConfigurationError(message, remedy=f"Write ATTRIBUTE=VALUE with one of {', '.join(SETTABLE)}")
        attributes[name] = value
    return attributes


def settings_of(file: Path | None) -> dict[str, str]:
    """Settings in a JSON file, `{"PrimaryKey": "id"}`.

    Raises:
        ConfigurationError: It does not hold settings and nothing else, each a text.
    """
    settings = json_object(file) if file else {}
    for name, value in settings.items():
        if not isinstance(value, str):
            message = f"{name} in {file} is not a text"
            raise ConfigurationError(message, remedy='Write every value in quotes, as in {"History": "true"}')
    return parse_settings([f"{name}={value}" for name, value in settings.items()])
