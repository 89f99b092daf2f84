"""Reads the settings of a deployment from a file of its own, so that no tracked file has to change."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cdclake.errors import ConfigurationError, similar_names
from cdclake_cli.config.nodes import Mistake, read_nodes, refusal
from cdclake_infra.library import ROOT
from cdclake_infra.settings import CONTEXT_PREFIX, InvalidSettingError, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS_FILE = ROOT / "cdclake-deploy.yml"
"""Beside cdk.json; git ignores it."""
NAMES_A_FILE = f"{CONTEXT_PREFIX}settings"
"""The context key that names another file."""
_FORM = "setting: value"
_QUOTE = "Quote a text with a colon and a space, or one that begins with a special character"


class _Value(NamedTuple):
    value: object
    line: int


def with_settings_file(context: Mapping[str, object], file: Path | None) -> dict[str, object]:
    """Add the settings in a file to the context. What the context has already wins.

    Args:
        context: The whole context, which may name a file.
        file: What is read, if it is there, while the context names no file; None: nothing.

    Raises:
        ConfigurationError: The file is missing or no YAML, or a setting is unknown or invalid; names the lines.
    """
    own = {key: value for key, value in context.items() if key != NAMES_A_FILE}
    path = Path(str(context[NAMES_A_FILE])) if NAMES_A_FILE in context else file
    found: dict[str, _Value] = {}
    if path is not None and (NAMES_A_FILE in context or os.path.lexists(path)):
        if not path.is_file():
            remedy = f"Name a file of settings with {NAMES_A_FILE}, from the folder of cdk.json"
            raise ConfigurationError("The file of settings is not there", remedy=remedy, file=path)
        found = _read(path)
    merged = {**{key: one.value for key, one in found.items()}, **own}
    try:
        Settings.from_context(merged)
    except InvalidSettingError as error:
        place = {"file": path, "line": found[error.key].line} if error.key in found.keys() - own.keys() else {}
        raise ConfigurationError(error.message, remedy=error.remedy, **place) from error
    return merged


def _read(file: Path) -> dict[str, _Value]:
    content, nodes = read_nodes(file, os.environ, form=_FORM, hint=_QUOTE)
    known = [field.name for field in fields(Settings)]
    if not isinstance(content, dict):
        raise refusal(file, [*nodes.mistakes, Mistake(1, "There are no settings in it", f"Write {_FORM}")])
    for name in content:
        if name not in known:
            bare = name.removeprefix(CONTEXT_PREFIX)
            near = f"Did you mean {bare}? " if bare in known else similar_names(bare, known)
            remedy = "docs/deploy.md lists the settings"
            nodes.mistakes.append(Mistake(nodes.line((name,)), f"There is no setting {name}", remedy, near))
    if nodes.mistakes:
        raise refusal(file, nodes.mistakes)
    return {
        f"{CONTEXT_PREFIX}{name}": _Value(value, nodes.line((name,)))
        for name, value in content.items()
        if value is not None
    }
