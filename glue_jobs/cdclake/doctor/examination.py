"""All that was seen of a table, for the checks to judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdclake.model.rawfiles import RawKind, missing_loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from cdclake.doctor.csv_guess import CsvGuess
    from cdclake.doctor.listing import Listing
    from cdclake.doctor.look import FileFacts
    from cdclake.doctor.tally import Tally
    from cdclake.model.table import TableName, TableSettings, TableState


@dataclass(frozen=True)
class Examination:
    """What was seen of a table.

    Attributes:
        state: Its item; of a table that is not registered, one as it would be.
        settings: What a person set about it.
        listing: Its raw folder.
        files: What the files of the sample tell: LOAD files, then change files in the order they are applied.
        rows: What their rows tell.
        csv: How CSV files seem to be written; None if there are none.
        versioned: Whether the raw bucket keeps versions; None if that is not known.
        now: When it was looked at.
        unread_transactions: Key of a transaction file beside a table that has no change files and no CdcPath; or empty.
        task: Settings of the DMS task by section; None if they are not known.
    """

    state: TableState
    settings: TableSettings
    listing: Listing
    files: Sequence[FileFacts]
    rows: Tally
    csv: CsvGuess | None
    versioned: bool | None
    now: datetime
    unread_transactions: str = ""
    task: Mapping[str, Any] | None = None

    @property
    def name(self) -> TableName:
        """The table's name."""
        return self.state.name

    @property
    def loads(self) -> list[FileFacts]:
        """LOAD files of the sample that have columns."""
        return [facts for facts in self.files if facts.file.kind is RawKind.FULL_LOAD and facts.columns]

    @property
    def changes(self) -> list[FileFacts]:
        """Change files of the sample that have columns."""
        return [facts for facts in self.files if facts.file.kind is RawKind.CHANGE and facts.columns]

    @property
    def everything_was_read(self) -> bool:
        """Whether the table was seen as a whole: every row of a full load without gaps, and of all changes."""
        listed = len(self.listing.loads) + self.listing.change_count
        all_files = listed == len(self.files) and bool(self.listing.loads)
        all_rows = self.rows.keys_complete and all(facts.whole for facts in self.files) and not self.rows.bad
        return all_files and all_rows and not self.missing_loads

    @property
    def missing_loads(self) -> list[str]:
        """LOAD files that are missing in between."""
        return missing_loads(self.listing.loads)


def schemas_root(raw_prefix: str) -> str:
    """Key prefix of the schemas' folders, from that of a table's; empty, or with a trailing slash."""
    return "".join(f"{part}/" for part in raw_prefix.split("/")[:-3])
