"""Reads a file of tables. What is wrong in it is refused with its line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import yaml
from pydantic import ValidationError

from cdclake.errors import ConfigurationError, similar_names
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import ATTRIBUTES
from cdclake_cli.config.model import Config
from cdclake_cli.config.structure import File
from cdclake_cli.config.vocabulary import CONFIGURABLE, READERS
from cdclake_cli.several import parse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from cdclake.model.table.name import TableName
    from cdclake_cli.config.model import Settings

    Place = tuple[str | int, ...]

_DOLLAR = re.compile(r"\$(?:(\$)|\{(\w+)\})?")
_NULL = "tag:yaml.org,2002:null"
_MOST_LEVELS = 5
"""Of YAML that can be right: the file, tables, a table, a setting, a list. An anchor may contain itself."""


class _Mistake(NamedTuple):
    line: int
    text: str
    remedy: str
    near: str = ""
    """`Did you mean ...? `, which begins the remedy."""


def read_config(file: Path, environment: Mapping[str, str]) -> Config:
    """Read a file of tables.

    Args:
        environment: The values of `${NAME}`.

    Raises:
        ConfigurationError: The file is no YAML, or something in it is no table, setting or value; names each line.
    """
    try:
        root = yaml.compose(file.read_bytes(), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _no_yaml(file, error) from error
    nodes = _Nodes(environment)
    content = nodes.plain(root, ()) if root else {}
    config = Config()
    if not nodes.mistakes:
        try:
            found = File.model_validate(content).model_dump(exclude_unset=True)
            config = Config(found.get("defaults", {}), found.get("tables", {}))
        except ValidationError as error:
            nodes.mistakes += [_structure_mistake(nodes, one) for one in error.errors()]
        nodes.mistakes += [_Mistake(nodes.line(place), text, remedy) for place, text, remedy in _wrong(config)]
    if nodes.mistakes:
        raise _refusal(file, sorted(nodes.mistakes))
    return config


class _Nodes:
    """Makes plain data of YAML's nodes: each scalar is the text that is written, and no number or date.

    Args:
        environment: The values of `${NAME}`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._lines: dict[Place, int] = {}
        self.mistakes: list[_Mistake] = []

    def line(self, place: Place) -> int:
        """The line of a key, or of the next one around it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def plain(self, node: yaml.Node, place: Place) -> object:
        """A mapping, a list, a text, or None if there is none."""
        line = node.start_mark.line + 1
        self._lines.setdefault(place, line)
        if len(place) > _MOST_LEVELS:
            self.mistakes.append(
                _Mistake(line, "There are too many levels here", "Write schema.table: attribute: value")
            )
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(one, (*place, number)) for number, one in enumerate(node.value)]
        if node.tag == _NULL and node.value in ("", "~", Sentinel.NONE):
            return None
        return _DOLLAR.sub(lambda found: self._replacement(found, line), node.value)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value in node.value:
            line, key = key_node.start_mark.line + 1, str(key_node.value)
            if key in found:
                self.mistakes.append(_Mistake(line, f"{key} is there twice", "Remove one of them"))
            self._lines[(*place, key)] = line
            found[key] = self.plain(value, (*place, key))
        return found

    def _replacement(self, found: re.Match[str], line: int) -> str:
        dollar, name = found.groups()
        if name and name in self._environment:
            return self._environment[name]
        if name:
            self.mistakes.append(_Mistake(line, f"The environment variable {name} is not set", "Set it"))
        elif not dollar:
            remedy = "Write $$ for a dollar sign, or ${NAME} for an environment variable"
            self.mistakes.append(_Mistake(line, "A $ stands alone", remedy))
        return "$"


def _no_yaml(file: Path, error: yaml.YAMLError) -> ConfigurationError:
    marked = isinstance(error, yaml.MarkedYAMLError)
    problem = (error.problem if marked else "") or str(error)
    line = error.problem_mark.line + 1 if marked and error.problem_mark else None
    remedy = "Correct the line. Quote a pattern that begins with *, such as '*.orders'"
    return ConfigurationError(f"The file is not YAML: {problem}", remedy=remedy, file=file, line=line)


def _structure_mistake(nodes: _Nodes, error: ErrorDetails) -> _Mistake:
    place = error["loc"]
    name, line = str(place[-1]) if place else "The file", nodes.line(place)
    if error["type"] != "extra_forbidden":
        text = error["msg"].removeprefix("Value error, ") if place else "there are no names in it"
        return _Mistake(
            line, f"{name}: {text}", "Write tables:, below it schema.table:, and below that attribute: value"
        )
    if len(place) > 1 and name in ATTRIBUTES:
        remedy = "Leave it out: it is no setting that a table keeps. cdclake tables set may reset it"
        return _Mistake(line, f"{name} cannot be set in a file", remedy)
    known = CONFIGURABLE if len(place) > 1 else tuple(File.model_fields)
    return _Mistake(line, f"'{name}' is not known here", f"Write one of {', '.join(known)}", similar_names(name, known))


def _wrong(config: Config) -> Iterator[tuple[Place, str, str]]:
    """Names that are none, and values that an attribute cannot have."""
    yield from _wrong_values(("defaults",), config.defaults, config.defaults)
    names: set[TableName] = set()
    for key, settings in config.tables.items():
        place = ("tables", key)
        try:
            name = parse_pattern(key)
        except ConfigurationError as error:
            yield place, error.message, error.remedy
            continue
        if name in names:
            yield place, f"{key} is there twice", "Remove one of them"
        names.add(name)
        yield from _wrong_values(place, settings, {**config.defaults, **settings})


def _wrong_values(place: Place, settings: Settings, item: Settings) -> Iterator[tuple[Place, str, str]]:
    for attribute in settings:
        try:
            READERS[attribute](item)
        except ConfigurationError as error:
            yield (*place, attribute), error.message, error.remedy


def _refusal(file: Path, mistakes: list[_Mistake]) -> ConfigurationError:
    first = mistakes[0]
    if len(mistakes) == 1:
        return ConfigurationError(first.text, remedy=first.near + first.remedy, file=file, line=first.line)
    listed = "; ".join(f"line {one.line}: {one.text}. {one.near}".rstrip(". ") for one in mistakes)
    message = f"{file} has {len(mistakes)} mistakes: {listed}"
    return ConfigurationError(message, remedy=f"Line {first.line}: {first.remedy}")
