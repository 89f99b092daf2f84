"""Reads YAML as texts, and remembers the line of each, so that what is wrong is refused with its line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import category

import yaml

from cdclake.errors import ConfigurationError
from cdclake.model.names import Sentinel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Place = tuple[str | int, ...]

_DOLLAR = re.compile(r"\$(?:(\$)|\{(\w+)\})?")
_YAML = "tag:yaml.org,2002:"
_NULL = f"{_YAML}null"
_KINDS = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
_TAGS = frozenset(f"{_YAML}{kind}" for kind in _KINDS)
"""What YAML makes of a node by its form. Other tags are those of other programs, such as CloudFormation's `!Ref`."""
_NO_YAML = (yaml.YAMLError, ValueError, OverflowError, RecursionError)
"""Errors of the parser: also of a number that is no character, of one with thousands of digits, and of many levels."""
_MOST_LEVELS = 5
"""Of YAML that can be right: the file, tables, a table, a setting, a list. An anchor may contain itself."""


class Mistake(NamedTuple):
    """What is wrong, and what to do."""

    line: int
    text: str
    remedy: str
    near: str = ""
    """`Did you mean ...? `, which begins the remedy."""


def read_nodes(file: Path, environment: Mapping[str, str], *, form: str, hint: str) -> tuple[object, Nodes]:
    """The content of a file, and its lines; an empty mapping if there is none.

    Args:
        environment: The values of `${NAME}`.
        form: What a file looks like that is right.
        hint: What to look for if it is no YAML.

    Raises:
        ConfigurationError: The file is no YAML.
    """
    try:
        root = yaml.compose(file.read_bytes(), Loader=yaml.SafeLoader)
    except _NO_YAML as error:
        raise _no_yaml(file, error, hint) from error
    nodes = Nodes(environment, form)
    return (nodes.plain(root, ()) if root else {}), nodes


class Nodes:
    """Makes plain data of YAML's nodes: each scalar is the text that is written, and no number or date.

    Args:
        environment: The values of `${NAME}`.
        form: What a file looks like that is right.
    """

    def __init__(self, environment: Mapping[str, str], form: str) -> None:
        self._environment = environment
        self._form = form
        self._lines: dict[Place, int] = {}
        self.mistakes: list[Mistake] = []

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
            self.mistakes.append(Mistake(line, "There are too many levels here", f"Write {self._form}"))
            return None
        self._check_tag(node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(one, (*place, number)) for number, one in enumerate(node.value)]
        if node.tag == _NULL and node.value in ("", "~", Sentinel.NONE):
            return None
        text = _DOLLAR.sub(lambda found: self._replacement(found, line), node.value)
        if any(category(character) == "Cs" for character in text):
            self.mistakes.append(Mistake(line, "There is half of a character", r"Write \U and 8 digits, or itself"))
        return text

    def _check_tag(self, node: yaml.Node) -> None:
        if node.tag not in _TAGS:
            tag = node.tag.replace(_YAML, "!!")
            text, remedy = f"The tag {tag} has no meaning here", "Remove it; a text that begins with ! needs quotes"
            self.mistakes.append(Mistake(node.start_mark.line + 1, text, remedy))

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value in node.value:
            line, key = key_node.start_mark.line + 1, str(key_node.value)
            self._check_tag(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.append(Mistake(line, "A name is a text, and this is none", "Quote what begins with ["))
                continue
            if key in found:
                self.mistakes.append(Mistake(line, f"{key} is there twice", "Remove one of them"))
            self._lines[(*place, key)] = line
            found[key] = self.plain(value, (*place, key))
        return found

    def _replacement(self, found: re.Match[str], line: int) -> str:
        dollar, name = found.groups()
        if name and name in self._environment:
            return self._environment[name]
        if name:
            self.mistakes.append(Mistake(line, f"The environment variable {name} is not set", "Set it"))
        elif not dollar:
            remedy = "Write $$ for a dollar sign, or ${NAME} for an environment variable"
            self.mistakes.append(Mistake(line, "A $ stands alone", remedy))
        return "$"


def _no_yaml(file: Path, error: Exception, hint: str) -> ConfigurationError:
    marked = error if isinstance(error, yaml.MarkedYAMLError) else None
    problem = (marked.problem if marked else "") or str(error)
    if isinstance(error, RecursionError):
        problem = "there are too many levels"
    line = marked.problem_mark.line + 1 if marked and marked.problem_mark else None
    remedy = f"Correct the line. {hint}"
    return ConfigurationError(f"The file is not YAML: {problem}", remedy=remedy, file=file, line=line)


def refusal(file: Path, found: Sequence[Mistake]) -> ConfigurationError:
    """The error that names each mistake with its line."""
    mistakes = sorted(found)
    first = mistakes[0]
    if len(mistakes) == 1:
        return ConfigurationError(first.text, remedy=first.near + first.remedy, file=file, line=first.line)
    listed = "; ".join(f"line {one.line}: {one.text}. {one.near}".rstrip(". ") for one in mistakes)
    message = f"{file} has {len(mistakes)} mistakes: {listed}"
    return ConfigurationError(message, remedy=f"Line {first.line}: {first.remedy}")
