"""Writes a file of tables, such that `read_config` reads the same."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import yaml

from cdclake.model.names import Sentinel
from cdclake.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake_cli.config.model import Config, Settings

_ANY_WIDTH = float("inf")


class Comments(NamedTuple):
    """What the file says of the settings below one name, as comments.

    Attributes:
        above: Lines above the name.
        reasons: Lines above an attribute, by attribute; also above one in `unsure`.
        unsure: Settings that somebody should check first: each is a comment itself.
    """

    above: Sequence[str] = ()
    reasons: Mapping[str, Sequence[str]] = MappingProxyType({})
    unsure: Settings = MappingProxyType({})


def config_text(config: Config, comments: Mapping[str, Comments] | None = None, head: Sequence[str] = ()) -> str:
    """The text of a file of tables.

    Args:
        comments: By the name or pattern that they belong to.
        head: Lines of comments that the file begins with.
    """
    lines = [f"# {printable(line)}".rstrip() for line in head]
    if config.defaults:
        lines += ["defaults:", *_settings(config.defaults, Comments(), "  ")]
    lines.append("tables:")
    for name, settings in config.tables.items():
        said = (comments or {}).get(name, Comments())
        lines += [f"  # {printable(line)}" for line in said.above]
        lines += [f"  {scalar(name)}:", *_settings(settings, said, "    ")]
    return "\n".join(lines) + "\n"


def _settings(settings: Settings, said: Comments, indent: str) -> Iterator[str]:
    for found, mark in ((settings, ""), (said.unsure, "# ")):
        for attribute, value in found.items():
            yield from (f"{indent}# {printable(line)}" for line in said.reasons.get(attribute, ()))
            yield f"{indent}{mark}{attribute}: {scalar(value.replace('$', '$$'))}"


def scalar(text: str) -> str:
    """A text as a YAML scalar; with quotes if YAML would read something else, such as a list or a date."""
    try:
        read_back = _text(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError):  # of a date that does not exist, a ValueError
        read_back = None
    if read_back == text == printable(text):
        return text
    return str(yaml.safe_dump(text, default_style='"', width=_ANY_WIDTH)).strip()


def _text(value: object) -> str | None:
    """How `read_config` reads a plain scalar that other programs read as this value; None if that depends."""
    if value is None or isinstance(value, bool):
        return {None: Sentinel.NONE, True: Sentinel.ACTIVE, False: Sentinel.INACTIVE}[value]
    return str(value) if isinstance(value, (int, str)) else None
