"""Reads table settings from options and files, and tells what each means."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError, similar_names
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake_cli.named_files import json_object

if TYPE_CHECKING:
    from pathlib import Path

SETTABLE = attributes_that(lambda declared: declared.settable)
SHOWN = attributes_that(lambda declared: declared.shown)
"""What else a table shows. The rest of its state is for the jobs themselves."""


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


@cache
def meanings() -> dict[str, str]:
    """The docstring of each attribute, by name, in the order of the code."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(Attribute))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for assignment, docstring in itertools.pairwise(body.body):
        if isinstance(assignment, ast.Assign) and isinstance(docstring, ast.Expr):
            text = ast.literal_eval(docstring.value)
            found[getattr(Attribute, ast.unparse(assignment.targets[0]))] = " ".join(text.split())
    return found
