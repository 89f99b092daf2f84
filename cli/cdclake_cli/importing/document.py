"""Writes proposals as a file of tables: what is sure takes effect, the rest and all evidence are comments. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cdclake.model.table.attributes import ATTRIBUTES, Attribute
from cdclake_cli.config.model import Config, key_of
from cdclake_cli.config.write import Comments, config_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.model.table.name import TableName
    from cdclake_cli.importing.proposal import TableProposal
    from cdclake_cli.importing.propose import Import

_HEAD = (
    "Proposed by cdclake import. Above each setting is where it comes from.",
    "Settings that are comments are for you to judge: correct them and remove the #, or delete them.",
    "Then: cdclake apply --register, and cdclake tables activate '*.*'",
)
_MOST_NAMES = 20


def document(found: Import, task: str = "") -> str:
    """The text of the file.

    Args:
        task: ARN of the DMS task; empty if unknown.
    """
    defaults = _defaults(found.tables)
    config = Config(defaults, {key_of(table.name): _own(table, defaults) for table in found.tables})
    return config_text(
        config, {key_of(table.name): _comments(table, defaults) for table in found.tables}, list(_head(found, task))
    )


def _head(found: Import, task: str) -> Iterator[str]:
    yield from _HEAD
    if task:
        waits = "So that full loads wait until DMS reports them complete, write below defaults"
        yield f"{waits} {Attribute.DMS_TASK}: {task}"
    if found.without_files:
        yield f"Left out, because they have no raw files: {_listed(found.without_files)}"
    if found.unread:
        yield f"Their raw files could not be read, so what is said of them is incomplete: {_listed(list(found.unread))}"
    for line in found.unlisted:
        yield f"A folder could not be listed, so its tables are missing: {line}"


def _listed(names: Sequence[TableName]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(map(str, names[:_MOST_NAMES])) + (f", and {more:,} more" if more > 0 else "")


def _defaults(tables: Sequence[TableProposal]) -> dict[str, str]:
    """The most common values of attributes that do not name columns, and that are sure of every table.

    So a default says nothing about a table that is not known of it.
    """
    values: dict[str, Counter[str]] = {}
    for table in tables:
        for attribute, value in table.attributes.items():
            if not ATTRIBUTES[attribute].names_columns:
                values.setdefault(attribute, Counter())[value] += 1
    common = {attribute: counts for attribute, counts in values.items() if counts.total() == len(tables) > 1}
    return {attribute: counts.most_common(1)[0][0] for attribute, counts in common.items()}


def _own(table: TableProposal, defaults: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in table.attributes.items() if defaults.get(name) != value}


def _comments(table: TableProposal, defaults: dict[str, str]) -> Comments:
    own = _own(table, defaults)
    reasons: dict[str, list[str]] = {}
    unsure: dict[str, str] = {}
    for one in table.settings:
        lines = reasons.setdefault(one.attribute, [])
        if one.sure:
            lines += [one.evidence] if one.attribute in own else []
        elif one.attribute in own:
            continue
        elif one.attribute in unsure:
            lines.append(f"or {one.value}: {one.evidence}")
        else:
            unsure[one.attribute] = one.value
            lines.append(one.evidence)
    return Comments(table.notes, reasons, unsure)
