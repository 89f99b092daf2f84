"""What the doctor knows about a table: the input of every check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.model.raw.files import RawKind, missing_loads
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from cdclake.adapters.dms import DmsTask
    from cdclake.model.table.name import TableName
    from cdclake.model.table.settings import TableSettings
    from cdclake.model.table.state import TableState
    from cdclake_cli.doctor.csv.dialect import CsvGuess
    from cdclake_cli.doctor.listing import Listing
    from cdclake_cli.doctor.row_statistics import RowStatistics
    from cdclake_cli.doctor.sampling import FileFacts


@dataclass(frozen=True)
class Evidence:
    """What the doctor knows about a table.

    Attributes:
        state: The table's item. For an unregistered table: the item that registration would create.
        settings: The table's settings.
        listing: The table's raw folder.
        files: Facts about the sampled files: LOAD files, then change files in the order they are applied.
        statistics: Statistics of the rows in the sampled files.
        csv: The likely CSV dialect; None if there are no CSV files.
        versioned: Whether the raw bucket keeps versions; None if unknown.
        now: The time of the check.
        unread_transactions: Key of a transaction file beside a table without change files and CdcPath; else empty.
        task: The DMS task; None if unknown.
    """

    state: TableState
    settings: TableSettings
    listing: Listing
    files: Sequence[FileFacts]
    statistics: RowStatistics
    csv: CsvGuess | None
    versioned: bool | None
    now: datetime
    unread_transactions: str = ""
    task: DmsTask | None = None

    @property
    def null_declared(self) -> bool:
        """Whether the settings declare the text for null of CSV files."""
        return is_null_declared(self.state)

    @property
    def name(self) -> TableName:
        """The table's name."""
        return self.state.name

    @property
    def loads(self) -> list[FileFacts]:
        """Sampled LOAD files that have columns."""
        return [facts for facts in self.files if facts.file.kind is RawKind.FULL_LOAD and facts.columns]

    @property
    def changes(self) -> list[FileFacts]:
        """Sampled change files that have columns."""
        return [facts for facts in self.files if facts.file.kind is RawKind.CHANGE and facts.columns]

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds every row of a full load without gaps and of all change files."""
        listed = len(self.listing.loads) + self.listing.change_count
        all_files = listed == len(self.files) and bool(self.listing.loads)
        all_rows = (
            self.statistics.keys_complete
            and all(facts.all_rows_read for facts in self.files)
            and not self.statistics.bad_rows
        )
        return all_files and all_rows and not self.missing_loads

    @property
    def missing_loads(self) -> list[str]:
        """LOAD files that are missing before a later one."""
        return missing_loads(self.listing.loads, self.settings.ignore_files)


def is_null_declared(state: TableState) -> bool:
    """Whether a table's settings declare the text for null of CSV files."""
    return Attribute.CSV_NULL_VALUE in state.item


def schemas_root(raw_prefix: str) -> str:
    """The key prefix above the schema folders, from a table's prefix; empty, or with a trailing slash."""
    return "".join(f"{part}/" for part in raw_prefix.split("/")[:-3])
