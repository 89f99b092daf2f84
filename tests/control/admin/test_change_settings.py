"""Attributes that name columns are known wherever they are checked."""

from __future__ import annotations

from cdclake.control.admin.change_settings import COLUMN_ATTRIBUTES
from cdclake.model.table.settings import TableSettings


def test_every_attribute_that_names_columns_is_compared_with_the_raw_files() -> None:
    item = {**dict.fromkeys(COLUMN_ATTRIBUTES, "note"), "PrimaryKey": "id", "Schema": "id int"}
    assert TableSettings.from_item(item).named_columns.keys() == COLUMN_ATTRIBUTES
