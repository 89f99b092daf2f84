"""An empty table to erase rows from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cdclake.lake.operations.erase.erasable_table import COLUMNS, ErasableTable, disable_compression

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ErasableTable:
    """A table without rows in a folder, in whose files values can be searched for."""
    disable_compression(monkeypatch)
    return ErasableTable(tmp_path, COLUMNS)


@pytest.fixture
def table(in_folder: ErasableTable) -> ErasableTable:
    """The same, unless a module has another table."""
    return in_folder
