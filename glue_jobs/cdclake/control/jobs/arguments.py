"""Reads the arguments of the jobs by name.

Glue's Python shell has no `awsglue` on Python 3.9, so this module does not use it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.model.names import Argument
from cdclake.model.table.attributes import Attribute, attributes_that
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cdclake.model.table.state import Item

_DASHES = "--"
_FOR_NEW_TABLES = attributes_that(lambda declared: declared.for_new_tables)


def parse_arguments(
    argv: Sequence[str],
    required: Collection[str],
    optional: Mapping[str, str] | None = None,
    may_be_empty: Collection[str] = (),
) -> dict[str, str]:
    """Read `--name value` and `--name=value`. If a name occurs twice, the last value counts.

    Other names are ignored: Glue passes its own to the script, such as `--JOB_NAME`.

    Args:
        argv: The command line, with or without the script name.
        required: Names of required arguments.
        optional: Names of optional arguments, with their defaults.
        may_be_empty: Names whose value may be empty.

    Returns:
        A value for every name in `required` and `optional`.

    Raises:
        ConfigurationError: An argument is missing or empty; names it.
    """
    passed = _named_values(argv)
    values = {**(optional or {}), **{name: passed[name] for name in {*required, *(optional or {})} if name in passed}}
    for name in required:
        if name not in values:
            message = f"The argument --{name} is missing"
            raise ConfigurationError(message, remedy=f"Pass it as --{name} value", argument=name)
    for name in passed:
        if name in values and not values[name] and name not in may_be_empty:
            message = f"The argument --{name} is empty"
            raise ConfigurationError(message, remedy=f"Pass it as --{name} value", argument=name)
    return values


def _named_values(argv: Sequence[str]) -> dict[str, str]:
    values = {}
    for place, token in enumerate(argv):
        if not token.startswith(_DASHES):
            continue
        name, equals, value = token[len(_DASHES) :].partition("=")
        if not equals:
            following = argv[place + 1] if place + 1 < len(argv) else _DASHES
            value = "" if following.startswith(_DASHES) else following
        values[name] = value
    return values


def folder_prefix(text: str) -> str:
    """Normalize a key prefix: empty, or with a trailing slash and no leading slash."""
    stripped = text.strip().strip("/")
    return f"{stripped}/" if stripped else ""


def parse_item(text: str) -> Item:
    """Read the argument `item` of the AWS walkthrough: JSON, with DynamoDB's types (`{"path": {"S": "..."}}`) or plain.

    Raises:
        ConfigurationError: The text is neither, or has no `path`.
    """
    try:
        data = json.loads(text)
        item = {name: value["S"] if isinstance(value, dict) else value for name, value in data.items()}
    except (ValueError, AttributeError, KeyError) as error:
        raise _bad_item(text) from error
    if not item.get(Attribute.PATH) or not all(isinstance(value, str) for value in item.values()):
        raise _bad_item(text)
    return item


def parse_new_table(text: str) -> dict[str, str]:
    """Read the argument `new_table`: JSON of settings for newly registered tables; empty for none.

    Raises:
        ConfigurationError: It is not a JSON object of strings, or it has the name of another attribute.
    """
    try:
        settings = json.loads(text or "{}")
        invalid = [
            name for name, value in settings.items() if name not in _FOR_NEW_TABLES or not isinstance(value, str)
        ]
    except (ValueError, AttributeError):
        invalid = [text]
    if invalid:
        message = f"The argument --{Argument.NEW_TABLE} cannot set {', '.join(invalid)}"
        remedy = f"Pass a JSON object of strings, with names from {', '.join(_FOR_NEW_TABLES)}"
        raise ConfigurationError(message, remedy=remedy)
    TableSettings.from_item(settings)
    return dict(settings)


def to_argv(arguments: Mapping[str, str]) -> list[str]:
    """Format arguments for a command line, as `--name=value`, which also works for empty values."""
    return [f"{_DASHES}{name}={value}" for name, value in arguments.items()]


def paths_json(paths: Sequence[str]) -> str:
    """Format paths of tables as the argument `paths`."""
    return json.dumps(list(paths), ensure_ascii=False)


def parse_paths(text: str) -> list[str]:
    """Read the argument `paths`: a JSON list of paths of tables.

    Raises:
        ConfigurationError: The text is something else, or the list is empty.
    """
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not (isinstance(paths, list) and paths and all(isinstance(path, str) and path for path in paths)):
        message = f"The argument --{Argument.PATHS} is not a JSON list of paths: {text[:200]}"
        raise ConfigurationError(message, remedy='Pass ["<raw bucket>/<prefix><schema>/<table>/", ...]')
    return list(dict.fromkeys(paths))


def tables_text(names: Sequence[TableName]) -> str:
    """Format names of tables as the argument `tables`: separated by commas, or as JSON if a name needs that."""
    text = ",".join(map(str, names))
    return text if _table_texts(text) == [str(name) for name in names] else json.dumps([str(name) for name in names])


def parse_tables(text: str) -> list[TableName]:
    """Read the argument `tables`: names of tables, separated by commas, or a JSON list of them; may be empty.

    Raises:
        ConfigurationError: A text is not a table name.
    """
    return [TableName.parse(str(name)) for name in _table_texts(text)]


def _table_texts(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    return names if isinstance(names, list) else [name.strip() for name in text.split(",") if name.strip()]


def _bad_item(text: str) -> ConfigurationError:
    message = f"The argument --{Argument.ITEM} is not an item of the state table: {text[:200]}"
    return ConfigurationError(message, remedy='Pass JSON as {"path": {"S": "<raw bucket>/<prefix><schema>/<table>/"}}')
