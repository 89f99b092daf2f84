"""Applies the table mappings of a DMS task to tables of a source's catalog: which are sent, and how they are named.

From the DMS user guide ("Specifying table selection and transformations rules using JSON"). Rules name tables and
columns as in the source, with `%` for any text, `_` for any character and `[ab]` for one of them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cdclake_cli.sources.catalog import CatalogColumn, CatalogTable

    Rule = Mapping[str, Any]

_EXCLUDE = "exclude"
_INCLUDE = ("include", "explicit")
_RENAMING: dict[str, Callable[[str, Rule], str]] = {
    "rename": lambda _, rule: str(rule["value"]),
    "convert-lowercase": lambda name, _: name.lower(),
    "convert-uppercase": lambda name, _: name.upper(),
    "add-prefix": lambda name, rule: f"{rule['value']}{name}",
    "add-suffix": lambda name, rule: f"{name}{rule['value']}",
    "remove-prefix": lambda name, rule: name.removeprefix(str(rule["value"])),
    "remove-suffix": lambda name, rule: name.removesuffix(str(rule["value"])),
    "replace-prefix": lambda name, rule: _replaced(name, rule, at_end=False),
    "replace-suffix": lambda name, rule: _replaced(name, rule, at_end=True),
}


def read_rules(mappings: object) -> tuple[Rule, ...]:
    """The rules of table mappings.

    Raises:
        ConfigurationError: They are not table mappings.
    """
    rules = mappings.get("rules") if isinstance(mappings, dict) else None
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and "rule-type" in rule for rule in rules):
        remedy = "Take TableMappings of aws dms describe-replication-tasks: an object with a list of rules"
        raise ConfigurationError("These are not table mappings of DMS", remedy=remedy)
    return tuple(rules)


def sent_tables(tables: Iterable[CatalogTable], rules: Sequence[Rule]) -> list[CatalogTable]:
    """The tables that a task sends, as they arrive, by name. Without rules, all of them as they are.

    Raises:
        ConfigurationError: A rule lacks something.
    """
    try:
        sent = [_transformed(table, rules) for table in tables if not rules or _is_selected(table.name, rules)]
    except KeyError as error:
        message = f"A rule of the table mappings has no {error.args[0]}"
        raise ConfigurationError(message, remedy="Correct it, as the task could not run with it") from error
    return sorted(sent, key=lambda table: table.name)


def _is_selected(name: TableName, rules: Iterable[Rule]) -> bool:
    actions = {rule.get("rule-action") for rule in rules if rule["rule-type"] == "selection" and _is_about(rule, name)}
    return _EXCLUDE not in actions and not actions.isdisjoint(_INCLUDE)


def _is_about(rule: Rule, name: TableName) -> bool:
    locator = rule.get("object-locator") or {}
    return _matches(locator.get("schema-name", "%"), name.schema) and _matches(
        locator.get("table-name", "%"), name.table
    )


def _matches(pattern: str, name: str) -> bool:
    parts = re.findall(r"\[[^\]]+\]|.", pattern, re.DOTALL)
    regex = "".join({"%": ".*", "_": "."}.get(part, part if len(part) > 1 else re.escape(part)) for part in parts)
    return re.fullmatch(regex, name, re.DOTALL) is not None


def _transformed(table: CatalogTable, rules: Iterable[Rule]) -> CatalogTable:
    own = [rule for rule in rules if rule["rule-type"] == "transformation" and _is_about(rule, table.name)]
    names = {column.name: column.name for column in table.columns}
    included = [_columns(rule, names) for rule in own if rule.get("rule-action") == "include-column"]
    sent = _without(table, set(names).difference(*included), names) if included else table
    for rule in own:
        target, action = rule.get("rule-target"), rule.get("rule-action")
        renamed = _RENAMING.get(str(action))
        if target == "schema" and renamed:
            sent = replace(sent, name=TableName(renamed(sent.name.schema, rule), sent.name.table))
        elif target == "table" and renamed:
            sent = replace(sent, name=TableName(sent.name.schema, renamed(sent.name.table, rule)))
        elif target == "table" and action == "define-primary-key":
            definition = rule["primary-key-def"]
            sent = replace(sent, key=tuple(definition["columns"]))
        elif target == "column":
            sent = _with_columns(sent, rule, names)
    return sent


def _with_columns(table: CatalogTable, rule: Rule, names: dict[str, str]) -> CatalogTable:
    """The table after a rule about columns.

    Args:
        names: The present name of each column that is sent, by its name at the source; this changes it.
    """
    action, concerned = str(rule.get("rule-action")), _columns(rule, names)
    if action == "include-column":
        return table
    if action == "remove-column":
        return _without(table, concerned, names)
    if action == "add-column":
        return replace(table, added=(*table.added, str(rule["value"])))
    if action == "add-before-image-columns":
        return replace(table, added=(*table.added, *_before_images(table, rule)))
    if action == "change-data-type":
        changed = {names[name] for name in concerned}
        kind = (rule.get("data-type") or {}).get("type", "another type")
        return replace(
            table,
            columns=tuple(
                replace(one, declared=f"{kind} by a mapping rule", type=None) if one.name in changed else one
                for one in table.columns
            ),
        )
    renamed = _RENAMING.get(action)
    if renamed is None:
        return replace(table, notes=(*table.notes, f"A mapping rule {action} changes columns; cdclake import skips it"))
    new = {names[name]: renamed(names[name], rule) for name in concerned}
    names.update({name: new.get(current, current) for name, current in names.items()})
    return _renamed(table, new)


def _columns(rule: Rule, names: Iterable[str]) -> list[str]:
    """The columns that a rule is about, by their names at the source."""
    pattern = (rule.get("object-locator") or {}).get("column-name", "%")
    return [name for name in names if _matches(pattern, name)]


def _without(table: CatalogTable, columns: Iterable[str], names: dict[str, str]) -> CatalogTable:
    """The table without some columns, by their names at the source, and without the keys that have them."""
    gone = {names.pop(name) for name in columns}
    return replace(
        table,
        columns=tuple(column for column in table.columns if column.name not in gone),
        key=() if gone.intersection(table.key) else table.key,
        unique=tuple(index for index in table.unique if gone.isdisjoint(index.columns)),
    )


def _renamed(table: CatalogTable, new: Mapping[str, str]) -> CatalogTable:
    def spelled(columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(new.get(name, name) for name in columns)

    def column(one: CatalogColumn) -> CatalogColumn:
        return replace(one, name=new.get(one.name, one.name))

    return replace(
        table,
        columns=tuple(map(column, table.columns)),
        key=spelled(table.key),
        unique=tuple(replace(index, columns=spelled(index.columns)) for index in table.unique),
    )


def _before_images(table: CatalogTable, rule: Rule) -> Iterator[str]:
    """Names of the columns, in the table's order; of `non-lob`, all: the catalog does not tell which are LOBs."""
    definition = rule["before-image-def"]
    only_key = definition.get("column-filter") == "pk-only"
    for name in (column.name for column in table.columns if not only_key or column.name in table.key):
        yield f"{definition.get('column-prefix', '')}{name}{definition.get('column-suffix', '')}"


def _replaced(name: str, rule: Rule, *, at_end: bool) -> str:
    old, new = str(rule["old-value"]), str(rule["value"])
    if at_end:
        return f"{name.removesuffix(old)}{new}" if name.endswith(old) else name
    return f"{new}{name.removeprefix(old)}" if name.startswith(old) else name
