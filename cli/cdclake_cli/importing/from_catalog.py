"""Settings that the catalog of the source proves, or suggests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.table.attributes import Attribute
from cdclake_cli.importing.proposal import ProposedSetting, TableProposal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake_cli.sources.catalog import CatalogTable

_NO_KEY = (
    "The source has no key for it: set PrimaryKey to columns that identify a row, or updates and deletes are ignored"
)


def from_catalog(table: CatalogTable) -> TableProposal:
    """What the catalog says about a table's key, and about the changes that its log has."""
    keys = tuple(_keys(table))
    checks = ProposedSetting(Attribute.UNIQUE_CHECKS, table.unique_checks, "how the source checks keys")
    return TableProposal(
        table.name,
        (*keys, *((checks,) if table.unique_checks else ()), *_unsent(table, keys)),
        (*filter(None, (table.comment,)), *table.notes, *(() if keys else (_NO_KEY,)), *_unsent_notes(table)),
    )


def _keys(table: CatalogTable) -> Iterator[ProposedSetting]:
    """The key, or candidates for it."""
    if table.key:
        yield _key(table.key, "primary key of the source")
        return
    usable = table.usable_indexes
    named = [index for index in usable if index.identifies]
    proven = named or (usable if len(usable) == 1 else ())
    for index in proven:
        reason = "by which the log identifies rows" if named else "which has no nulls"
        yield _key(index.columns, f"no primary key; unique index {index.name}, {reason}")
    for index in () if proven else table.unique:
        nullable = [one.name for one in table.columns if one.nullable and one.name in index.columns]
        doubt = f"{', '.join(nullable)} may be null" if nullable else "there are others"
        yield _key(index.columns, f"no primary key; unique index {index.name}").doubted(doubt)


def _key(columns: tuple[str, ...], evidence: str) -> ProposedSetting:
    return _columns_setting(Attribute.PRIMARY_KEY, columns, evidence)


def _columns_setting(attribute: str, columns: Sequence[str], evidence: str) -> ProposedSetting:
    names = ProposedSetting(attribute, ",".join(columns), evidence)
    unwritable = any("," in name for name in columns)
    doubt = "a name with a comma cannot be written: rename it with a DMS mapping rule"
    return names.doubted(doubt) if unwritable else names


def _unsent(table: CatalogTable, keys: Sequence[ProposedSetting]) -> Iterator[ProposedSetting]:
    """Columns that are never null at the source: their null in an update can only mean that the value was not sent."""
    in_keys = {name for key in keys for name in key.value.split(",")}
    names = [one.name for one in table.columns if one.may_be_unsent and not one.nullable and one.name not in in_keys]
    if names:
        evidence = "never null at the source, whose log lacks long values that an update does not change"
        yield _columns_setting(Attribute.NULL_MEANS_UNSENT, names, evidence)


def _unsent_notes(table: CatalogTable) -> Iterator[str]:
    names = [one.name for one in table.columns if one.may_be_unsent and one.nullable]
    if names:
        yield (
            f"Long values of {', '.join(names)} that an update does not change arrive as null, like real nulls:"
            " alter table ... replica identity full"
        )
