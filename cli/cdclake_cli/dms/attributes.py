"""Derives a table's attributes from the DMS settings that wrote its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import SchemaMismatchError
from cdclake.lake.storage.types import from_arrow
from cdclake.model.names import Sentinel
from cdclake.model.schema import Column, Schema
from cdclake.model.table.attributes import Attribute
from cdclake_cli.dms.settings import DmsSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from cdclake.model.table.state import Item

_CSV = (
    ("csv_delimiter", Attribute.CSV_DELIMITER),
    ("csv_row_delimiter", Attribute.CSV_ROW_DELIMITER),
    ("csv_null_value", Attribute.CSV_NULL_VALUE),
)


def attributes_for(
    settings: DmsSettings,
    columns: pa.Schema,
    primary_key: Sequence[str],
    partition_key: Sequence[str] = (),
    added: Iterable[str] = (),
) -> Item:
    """Attributes for a table's item; an attribute that is left out keeps its default.

    Args:
        columns: The source's columns, in order. With `AddColumnName`, the columns that every file has.
        primary_key: Key columns; empty for none.
        partition_key: Partition columns of the lake table.
        added: Names of columns that mapping rules append to the source's, in order.

    Raises:
        SchemaMismatchError: The lake does not support a column's type.
    """
    item = {
        Attribute.PRIMARY_KEY: ",".join(primary_key) or Sentinel.NONE,
        Attribute.PARTITION_KEY: ",".join(partition_key) or Sentinel.NONE,
    }
    if settings.preserve_transactions:
        item[Attribute.CDC_PATH] = settings.cdc_path.strip("/")
    if not settings.csv_changes:
        return item
    standard = DmsSettings()
    for field, attribute in _CSV:
        value = getattr(settings, field)
        if value != getattr(standard, field):
            item[attribute] = escaped(value)
    if not settings.rfc4180:
        item[Attribute.RFC4180] = "false"
    if settings.unsent_text is not None:
        item[Attribute.CSV_NO_SUP_VALUE] = settings.unsent_text
    item[Attribute.ADD_COLUMN_NAME] = str(settings.add_column_name).lower()
    item[Attribute.SCHEMA] = _schema(settings, columns, [] if settings.add_column_name else list(added))
    return item


def _schema(settings: DmsSettings, columns: pa.Schema, added: list[str]) -> str:
    """Columns of a CSV file in order, without `Op`. CSV has no types, and names only with `AddColumnName`."""
    stamp = settings.timestamp_column_name
    parts = [(stamp, "string")] if stamp else []
    parts += [(field.name, _csv_type(field)) for field in columns] + [(name, "string") for name in added]
    return Schema(tuple(Column(name, kind) for name, kind in parts)).declaration


def _csv_type(field: pa.Field) -> str:
    kind = from_arrow(field.type)
    if kind is None:
        message = f"Column {field.name} has the type {field.type}, which the lake does not support"
        raise SchemaMismatchError(message, remedy="Leave the column out, or convert it to text", column=field.name)
    return "string" if kind == "binary" else kind  # bytes are hexadecimal digits in CSV


def escaped(text: str) -> str:
    """A text with escape sequences for tabs and line breaks, as in DMS settings."""
    return text.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")
