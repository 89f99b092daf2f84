"""Checks a table of the walkthrough's jobs: its item, its files, its rows, and its next change."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdclake.commit.table_files import visible_files
from cdclake.errors import CdclakeError, ConfigurationError, LakeFilesError
from cdclake.lake.operations.adopt.adopt import AdoptionSource, plan_adoption
from cdclake.raw_listing import list_raw_files
from cdclake_cli.shadow.differences import DIFFERENT, ONLY_HERE, ONLY_THERE
from cdclake_cli.walkthrough.beside import LakeBeside, RawBucket
from cdclake_cli.walkthrough.findings import Code, Finding, TableCheck
from cdclake_cli.walkthrough.folder import inspect_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog
    from cdclake.model.table.state import TableState
    from cdclake.ports import Clock
    from cdclake_cli.shadow.compare import TableComparison
    from cdclake_cli.walkthrough.folder import Folder

_LOST = (
    "Look for these keys in the raw files. Then correct the rows with the program that wrote them; or empty the folder,"
    " set LastFullLoadDate to 1900-01-01 00:00:00, and let cdclake load the table from its raw files"
)
_MOST_KEYS = 3

_NOT_ADOPTABLE = (Code.REPEATED_KEYS, Code.NOT_ADOPTABLE)
"""What is wrong with files that would hold the table's rows."""


@dataclass(frozen=True)
class WalkthroughTable:
    """A table that the walkthrough's jobs keep.

    Attributes:
        state: Its item.
        log: The change log of the lake table that its files would become.
        lake_fs: The lake bucket; paths are keys.
    """

    state: TableState
    log: ChangeLog
    lake_fs: FileSystem
    raw: RawBucket
    clock: Clock

    def check(self, *, rebuilds: bool = True, describe: Callable[[str], None] = lambda _: None) -> TableCheck:
        """Check the table. Changes nothing.

        Args:
            rebuilds: Whether to build the table from its raw files beside the lake, on this machine, to compare rows.
            describe: Takes what is done next.

        Raises:
            CdclakeError: A bucket cannot be read.
        """
        name = str(self.state.name)
        if self.log.head():
            return TableCheck(name, notes=("It is a lake table already",))
        listed = visible_files(self.log)
        if not listed:
            return TableCheck(name, notes=("It has no files in the lake: the first run loads it",))
        describe(f"Inspecting {len(listed):,} files of {name}")
        settings = self.state.settings
        folder = inspect_folder(self.log, self.lake_fs, listed, settings.primary_key, settings.partition_key)
        checked = TableCheck(name, folder.files, folder.rows, (*folder.findings, *self._watermark()))
        if not settings.primary_key:
            note = "No PrimaryKey is set: updates and deletes were and will be ignored, and no keys were checked"
            checked = replace(checked, notes=(note,))
        if rebuilds and not _stops_comparison(checked):
            checked = self._with_rows(checked, folder, describe)
        return checked if checked.findings else self._with_adoption(checked)

    def _watermark(self) -> list[Finding]:
        try:
            _ = self.state.checked_watermark
        except ConfigurationError as error:
            return [Finding(Code.WATERMARK, error.message, error.remedy)]
        return []

    def _with_rows(self, checked: TableCheck, folder: Folder, describe: Callable[[str], None]) -> TableCheck:
        """Compare rows with what the raw files say, and apply the next change beside the old lake."""
        prefix, watermark = self.log.layout.table_prefix, self.state.checked_watermark
        with tempfile.TemporaryDirectory(prefix="cdclake-beside-") as temporary:
            expected, actual = (self._beside(Path(temporary, one)) for one in ("expected", "actual"))
            describe(f"Building {self.state.name} from its raw files, beside the lake")
            missing = self._missing_raw_files(watermark)
            if missing:
                return _with_note(checked, f"Rows were not compared with the raw files: {missing}")
            try:
                expected.load(watermark)
            except CdclakeError as error:
                return _with_note(checked, f"Rows were not compared with the raw files: {error.message}")
            actual.copy(self.lake_fs, prefix, folder.sound)
            describe(f"Comparing the rows of {self.state.name}")
            try:
                compared = expected.compare(actual)
            except ConfigurationError as error:
                return _with_note(checked, f"Rows were not compared with the raw files: {error.message}")
            checked = replace(checked, rows_compared=True)
            wrong = _row_findings(compared)
            if any(one.code in _NOT_ADOPTABLE for one in checked.findings):
                return _with_findings(checked, *wrong)
            describe(f"Applying the next change of {self.state.name} beside the lake")
            return self._with_next_change(checked, wrong, folder, expected, self._beside(Path(temporary, "next")))

    def _with_next_change(
        self, checked: TableCheck, wrong: list[Finding], folder: Folder, expected: LakeBeside, adopted: LakeBeside
    ) -> TableCheck:
        """Adopt the files beside the old lake, and apply what is due to them and to the table from the raw files.

        Args:
            wrong: How the rows differ before. A run that died before it moved the watermark leaves rows that differ
                until its change files are applied again, and not longer.
        """
        try:
            adopted.adopt(self.lake_fs, self.log.layout.table_prefix, folder.sound)
        except (ConfigurationError, LakeFilesError) as error:
            return _with_findings(checked, *wrong, Finding(Code.NOT_ADOPTABLE, error.message, error.remedy))
        try:
            files = adopted.apply()
            expected.apply()
        except CdclakeError as error:
            checked = _with_findings(checked, *wrong)
            return _with_note(checked, f"The next change was not applied beside the lake: {error.message}")
        if not files:
            checked = _with_findings(checked, *wrong)
            return _with_note(checked, "No change file is due, so no change was applied beside the lake")
        checked = replace(checked, next_change=files)
        after = expected.compare(adopted)
        if wrong and not after.differing_rows:
            rows = sum(one.rows for one in wrong)
            ahead = f"{rows:,} rows are ahead of the watermark, because a run died before it moved it"
            return _with_note(checked, f"{ahead}. The next run applies their changes again")
        if after.differing_rows and not wrong:
            differing = f"{after.differing_rows:,} rows differ after the next change"
            text = f"{differing} from those of a table built from the raw files: {_such_as(after)}"
            wrong = [Finding(Code.NEXT_CHANGE_DIFFERS, text, _LOST, rows=after.differing_rows)]
        return _with_findings(checked, *wrong)

    def _with_adoption(self, checked: TableCheck) -> TableCheck:
        """Plan the adoption of the files where they are, which checks what is left to check."""
        source = AdoptionSource(self.state, self.log, self.lake_fs, self.raw.store, self.raw.spec.open())
        try:
            adoption = plan_adoption(source)
        except (ConfigurationError, LakeFilesError) as error:
            return replace(checked, findings=(Finding(Code.NOT_ADOPTABLE, error.message, error.remedy),))
        return replace(checked, notes=(*checked.notes, *adoption.warnings), adoption=adoption)

    def _missing_raw_files(self, watermark: str) -> str:
        """Why the raw files do not tell the table's rows; empty if they may."""
        raw = list_raw_files(self.raw.store, self.state.raw_prefix, self.state.settings)
        if not raw.full_load:
            return "the LOAD files are gone"
        if watermark and all(file.relative != watermark for file in raw.changes):
            return f"the last change file that was applied is gone ({watermark})"
        return ""

    def _beside(self, folder: Path) -> LakeBeside:
        folder.mkdir()
        return LakeBeside(folder, self.state, self.raw, self.clock)


def _stops_comparison(checked: TableCheck) -> bool:
    """Whether the files or the item leave open what to compare."""
    return any(one.code in (Code.KEY_NOT_IN_LAKE, Code.WATERMARK, Code.NULL_KEYS) for one in checked.findings)


def _row_findings(compared: TableComparison) -> list[Finding]:
    counts = (
        (compared.only_here, "are missing in the lake"),
        (compared.only_there, "are in the lake, and should not be"),
        (compared.different, f"have other values than the raw files say ({', '.join(compared.columns)})"),
    )
    texts = [f"{rows:,} rows {what}" for rows, what in counts if rows]
    if not texts:
        return []
    rows = sum(count for count, _ in counts)
    return [Finding(Code.ROWS_DIFFER, f"{'; '.join(texts)}: {_such_as(compared)}", _LOST, rows=rows)]


def _such_as(compared: TableComparison) -> str:
    """The first rows that differ, by key."""
    keys = [one.key for one in compared.samples if one.kind in (ONLY_HERE, ONLY_THERE, DIFFERENT)]
    texts = [" ".join(f"{name} {value}" for name, value in key.items()) for key in keys[:_MOST_KEYS]]
    return f"such as {', '.join(texts)}"


def _with_findings(checked: TableCheck, *findings: Finding) -> TableCheck:
    return replace(checked, findings=(*checked.findings, *findings))


def _with_note(checked: TableCheck, note: str) -> TableCheck:
    return replace(checked, notes=(*checked.notes, note))
