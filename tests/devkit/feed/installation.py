"""An installation with the one table of a feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders import LAKE, RAW, FolderInstallation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cdclake.model.table import TableState
    from cdclake.ports import ObjectStore


class Installation:
    """An installation with one table.

    Args:
        root: Empty folder, in which the buckets are created.
        path: The table's path: `raw/[<raw prefix>/]<schema>/<table>/`.
    """

    def __init__(self, root: Path, path: str) -> None:
        self._tables = FolderInstallation(root, "".join(f"{part}/" for part in path.split("/")[1:-3]))
        self.path, self.raw = path, root / RAW
        self.run_hourly = self._tables.run_controller

    @property
    def lake(self) -> ObjectStore:
        return self._tables.bucket(LAKE)

    def state(self) -> TableState:
        return self._tables.state(self.path)

    def activate(self, attributes: Mapping[str, str]) -> None:
        """Set attributes and turn the table on, as an operator does."""
        self._tables.activate(self.path, **attributes)
