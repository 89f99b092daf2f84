"""Reads a file of tables. What is wrong in it is refused with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from cdclake.errors import ConfigurationError, similar_names
from cdclake.model.table.attributes import ATTRIBUTES
from cdclake_cli.config.model import Config
from cdclake_cli.config.nodes import Mistake, read_nodes, refusal
from cdclake_cli.config.structure import File
from cdclake_cli.config.vocabulary import CONFIGURABLE, READERS
from cdclake_cli.patterns import parse_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from cdclake.model.table.name import TableName
    from cdclake_cli.config.model import Settings
    from cdclake_cli.config.nodes import Nodes, Place

_FORM = "schema.table: attribute: value"
_QUOTE = "Quote a pattern that begins with *, such as '*.orders'"


def read_config(file: Path, environment: Mapping[str, str]) -> Config:
    """Read a file of tables.

    Args:
        environment: The values of `${NAME}`.

    Raises:
        ConfigurationError: The file is no YAML, or something in it is no table, setting or value; names each line.
    """
    content, nodes = read_nodes(file, environment, form=_FORM, hint=_QUOTE)
    config = Config()
    if not nodes.mistakes:
        try:
            found = File.model_validate(content).model_dump(exclude_unset=True)
            config = Config(found.get("defaults", {}), found.get("tables", {}))
        except ValidationError as error:
            nodes.mistakes += [_structure_mistake(nodes, one) for one in error.errors()]
        nodes.mistakes += [Mistake(nodes.line(place), text, remedy) for place, text, remedy in _wrong(config)]
    if nodes.mistakes:
        raise refusal(file, nodes.mistakes)
    return config


def _structure_mistake(nodes: Nodes, error: ErrorDetails) -> Mistake:
    place = error["loc"]
    name, line = str(place[-1]) if place else "The file", nodes.line(place)
    if error["type"] != "extra_forbidden":
        text = error["msg"].removeprefix("Value error, ") if place else "there are no names in it"
        return Mistake(
            line, f"{name}: {text}", "Write tables:, below it schema.table:, and below that attribute: value"
        )
    if len(place) > 1 and name in ATTRIBUTES:
        remedy = "Leave it out: it is no setting that a table keeps. cdclake tables set may reset it"
        return Mistake(line, f"{name} cannot be set in a file", remedy)
    known = CONFIGURABLE if len(place) > 1 else tuple(File.model_fields)
    return Mistake(line, f"'{name}' is not known here", f"Write one of {', '.join(known)}", similar_names(name, known))


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
