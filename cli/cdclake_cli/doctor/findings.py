"""What the doctor can find, how bad each finding is, and why it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """The lake table is or will be wrong, or its runs stop."""
    WARNING = "warning"
    """The lake table becomes wrong when something ordinary happens at the source."""
    NOTE = "note"
    """Nothing goes wrong; it costs more than necessary, or is good to know."""


class Code(str, Enum):
    """Stable names of findings."""

    UNREADABLE_FILE = "unreadable-file"
    NO_SUCH_TIME = "no-such-time"
    UNFINISHED_FILE = "unfinished-file"
    BAD_ROWS = "bad-rows"
    SCHEMA_MISMATCH = "schema-mismatch"
    SCHEMA_MISSING = "schema-missing"
    HEADER_UNCLEAR = "header-unclear"
    UNTYPED = "untyped"
    CSV_DIALECT = "csv-dialect"
    LOAD_GAP = "load-gap"
    LOAD_ARRIVING = "load-arriving"
    NO_FULL_LOAD = "no-full-load"
    FILES_VANISHED = "files-vanished"
    TRUNCATE_RISK = "truncate-risk"
    DMS_SETTING_LOSES_CHANGES = "dms-setting-loses-changes"
    DMS_SETTING_UNSAFE = "dms-setting-unsafe"
    DMS_SETTING_DIFFERS = "dms-setting-differs"
    MISSING_CHANGES = "missing-changes"
    TRANSACTIONS_UNREAD = "transactions-unread"
    OTHER_FILES = "other-files"
    MANY_SMALL_FILES = "many-small-files"
    VERSIONED_BUCKET = "versioned-bucket"
    NO_OP = "no-op"
    NO_PRIMARY_KEY = "no-primary-key"
    KEY_NOT_THERE = "key-not-there"
    KEY_NOT_UNIQUE = "key-not-unique"
    NO_ORDER = "no-order"
    ORDER_NOT_THERE = "order-not-there"
    ORDER_FALLS = "order-falls"
    NAMES_GO_BACKWARDS = "names-go-backwards"
    LOCAL_TIME_NAMES = "local-time-names"
    TWO_WRITERS = "two-writers"
    DELIVERED_TWICE = "delivered-twice"
    DELIVERED_TWICE_IN_HISTORY = "delivered-twice-in-history"
    DELIVERED_TWICE_NO_ORDER = "delivered-twice-no-order"
    KEY_CHANGE_LOST = "key-change-lost"
    NO_BEFORE_IMAGE = "no-before-image"
    NO_UNIQUE_CHECKS = "no-unique-checks"
    MISSING_COLUMNS = "missing-columns"
    UNSENT_VALUES = "unsent-values"
    UNSENT_NOT_THERE = "unsent-not-there"
    KEY_ONLY_DELETES = "key-only-deletes"
    CUT_TEXT = "cut-text"
    UNBOUNDED_NUMERIC = "unbounded-numeric"
    TYPES_CLASH = "types-clash"
    COLUMNS_CHANGE = "columns-change"
    PARTITION_NOT_THERE = "partition-not-there"
    TOO_MANY_PARTITIONS = "too-many-partitions"


class Kind(NamedTuple):
    """A kind of finding.

    Attributes:
        severity: How bad it is.
        title: The fault.
        why: The consequence.
    """

    severity: Severity
    title: str
    why: str


_ERROR, _WARNING, _NOTE = Severity

KINDS = {
    Code.UNREADABLE_FILE: Kind(
        _ERROR,
        "a file is empty, truncated, or not in the format that its name implies",
        "a run stops at the file and applies nothing after it",
    ),
    Code.NO_SUCH_TIME: Kind(
        _ERROR,
        "the name of a change file contains an impossible time, such as minute 65, or one after the file was written",
        "a run stops before it applies anything, because the file's place in the order is unknown",
    ),
    Code.UNFINISHED_FILE: Kind(
        _ERROR,
        "the last row of a CSV file does not end with the row delimiter",
        "DMS ends every row with it, so the file is truncated: rows are missing, and the last one may be incomplete",
    ),
    Code.BAD_ROWS: Kind(
        _ERROR,
        "some rows do not fit the table",
        "if a change has more bad rows than MaxQuarantinedRows, nothing is applied; otherwise they are quarantined",
    ),
    Code.SCHEMA_MISMATCH: Kind(
        _ERROR,
        "a file's columns differ from Schema, or have a type that the lake does not support",
        "a run stops at the file",
    ),
    Code.SCHEMA_MISSING: Kind(
        _ERROR,
        "CSV files have no header line, and Schema is not set",
        "the first row of each file would be read as column names",
    ),
    Code.HEADER_UNCLEAR: Kind(
        _WARNING,
        "the first line of CSV files may be a header or a row, and neither AddColumnName nor Schema says which",
        "a run reads it as column names: if it is a row, that row is lost, and its values become names",
    ),
    Code.UNTYPED: Kind(
        _WARNING,
        "columns of CSV files are text, because Schema does not declare their types",
        "numbers and times sort as text, and a damaged value is stored like any other: in the key, it is a new row",
    ),
    Code.CSV_DIALECT: Kind(
        _ERROR, "the CSV files do not match the table's CSV settings", "rows are split into the wrong fields"
    ),
    Code.LOAD_GAP: Kind(
        _ERROR,
        "a LOAD file is missing, but a later one exists",
        "the full load waits for the missing file, and changes wait for the full load",
    ),
    Code.LOAD_ARRIVING: Kind(
        _NOTE, "the full load is still arriving", "it is applied when no LOAD file has arrived for FullLoadQuietMinutes"
    ),
    Code.NO_FULL_LOAD: Kind(
        _WARNING,
        "there are change files but no LOAD file",
        "the lake table will contain only rows that change, not the rows that existed before",
    ),
    Code.FILES_VANISHED: Kind(
        _ERROR,
        "change files disappeared before they were applied",
        "their changes are lost and the table is frozen; the source table was truncated, dropped or reloaded",
    ),
    Code.TRUNCATE_RISK: Kind(
        _WARNING,
        "the DMS task removes raw files when the source table is truncated or dropped",
        "changes that are not applied yet are lost and the table is frozen; rows already in the lake table stay",
    ),
    Code.DMS_SETTING_LOSES_CHANGES: Kind(
        _ERROR,
        "a setting of DMS keeps changes out of the raw files",
        "the lake table misses them and differs from its source",
    ),
    Code.DMS_SETTING_UNSAFE: Kind(
        _WARNING,
        "a setting of DMS lets values or changes get lost",
        "often without an error; the lake table differs from its source from then on",
    ),
    Code.DMS_SETTING_DIFFERS: Kind(
        _NOTE,
        "a setting of DMS is not the recommended one",
        "no values are lost; the files cost more, tell less, or protect less",
    ),
    Code.MISSING_CHANGES: Kind(
        _WARNING,
        "updates of keys that were never loaded or inserted, although BI_ columns record key changes",
        "a file with the inserts is missing, or the full load skipped rows; other changes may be missing too",
    ),
    Code.TRANSACTIONS_UNREAD: Kind(
        _WARNING,
        "transaction files exist next to the table, but it has no change files and CdcPath is not set",
        "if they contain the table's changes, the lake table stays as it was loaded",
    ),
    Code.OTHER_FILES: Kind(
        _NOTE,
        "the raw folder contains data files that DMS did not write",
        "no run reads them; the table is incomplete",
    ),
    Code.MANY_SMALL_FILES: Kind(
        _NOTE,
        "there are many small change files",
        "each file costs requests and time to open, however little it contains",
    ),
    Code.VERSIONED_BUCKET: Kind(
        _NOTE,
        "the raw bucket keeps versions",
        "DMS advises against it: files that DMS deletes or overwrites stay, cost storage and slow down listings",
    ),
    Code.NO_OP: Kind(
        _ERROR,
        "change files have no Op column",
        "every row is applied as an insert or update; deletes are not sent, so deleted rows stay in the lake table",
    ),
    Code.NO_PRIMARY_KEY: Kind(
        _ERROR,
        "there are updates or deletes, and PrimaryKey is not set",
        "without a key, updates and deletes are ignored",
    ),
    Code.KEY_NOT_THERE: Kind(
        _ERROR, "a PrimaryKey column is missing from some or all files", "a run stops at such a file"
    ),
    Code.KEY_NOT_UNIQUE: Kind(
        _ERROR, "several rows of the full load have the same PrimaryKey", "the lake table keeps only one row per key"
    ),
    Code.NO_ORDER: Kind(
        _WARNING,
        "changes have neither AR_H_CHANGE_SEQ nor OrderColumn",
        "only file names order the changes: a second task, a clock set back or rows sent again restore old values",
    ),
    Code.ORDER_NOT_THERE: Kind(_ERROR, "a change file lacks the OrderColumn", "a run stops at the file"),
    Code.ORDER_FALLS: Kind(
        _WARNING,
        "the ordering column decreases from one row of a file to the next",
        "of two changes to a key the greater value wins, even if the other change is newer",
    ),
    Code.NAMES_GO_BACKWARDS: Kind(
        _ERROR,
        "change file names jump back, as clocks do when daylight saving time ends",
        "changes of the repeated hour are applied in the wrong order",
    ),
    Code.LOCAL_TIME_NAMES: Kind(
        _WARNING,
        "change file names contain local time instead of UTC",
        "when daylight saving time ends, names jump back and an hour of changes is applied in the wrong order",
    ),
    Code.TWO_WRITERS: Kind(
        _WARNING,
        "change sequences of several files interleave",
        "two tasks write the table: each counts separately, so their sequences cannot be compared",
    ),
    Code.DELIVERED_TWICE: Kind(
        _NOTE, "the same rows arrived in two files", "a task was resumed; positions make the repeated rows harmless"
    ),
    Code.DELIVERED_TWICE_IN_HISTORY: Kind(
        _WARNING,
        "the same rows arrived in two files, and the table has a History but no AR_H_CHANGE_SEQ",
        "a task was resumed; the table is right, but the history has each repeated version twice",
    ),
    Code.DELIVERED_TWICE_NO_ORDER: Kind(
        _WARNING,
        "the same rows arrived in two files, and nothing shows which are older",
        "old values overwrite newer ones; a table without a key gets duplicate rows",
    ),
    Code.KEY_CHANGE_LOST: Kind(
        _ERROR,
        "updates of keys that were never loaded or inserted, and no BI_ column of the key",
        "the updates changed the key: the row with the old key stays in the lake table",
    ),
    Code.NO_BEFORE_IMAGE: Kind(
        _WARNING,
        "updates lack the BI_ column of a key column",
        "if an update changes the key, the old key is unknown and its row stays in the lake table",
    ),
    Code.NO_UNIQUE_CHECKS: Kind(
        _WARNING,
        "updates change the key, and UniqueChecks is not set",
        "two rows may have one key for a moment: a run stops if the files leave open which of them stays",
    ),
    Code.MISSING_COLUMNS: Kind(
        _WARNING,
        "updates lack columns that earlier files have, and MissingColumns is not set",
        "the lake table keeps its values: right if the source sends only what changed, wrong if it dropped the columns",
    ),
    Code.UNSENT_VALUES: Kind(
        _WARNING,
        "updates have nulls in columns that are never null in inserts and the full load",
        "values that the source does not log arrive as nulls and overwrite the values in the lake table",
    ),
    Code.UNSENT_NOT_THERE: Kind(
        _ERROR, "NullMeansUnsent names a column that no file has", "a run stops and applies nothing"
    ),
    Code.KEY_ONLY_DELETES: Kind(
        _NOTE,
        "deletes contain only the key",
        "that is enough to apply them, but the source does not log whole rows, so updates may lack values too",
    ),
    Code.CUT_TEXT: Kind(
        _WARNING,
        "many long values have the same length, a whole number of kilobytes",
        "limited LOB mode truncates values at that length",
    ),
    Code.UNBOUNDED_NUMERIC: Kind(
        _WARNING,
        "a column has the type decimal(28,6)",
        "DMS sends PostgreSQL's NUMERIC without precision as this type: digits after the sixth decimal place are cut",
    ),
    Code.TYPES_CLASH: Kind(
        _ERROR, "a column changes between files to an incompatible type", "a run stops at the change"
    ),
    Code.COLUMNS_CHANGE: Kind(
        _NOTE,
        "columns are added, dropped or widened between files",
        "the lake table follows; a wider type rewrites every data file",
    ),
    Code.PARTITION_NOT_THERE: Kind(_ERROR, "no file has a PartitionKey column", "a run stops at such a file"),
    Code.TOO_MANY_PARTITIONS: Kind(
        _WARNING,
        "PartitionKey creates many partitions with few rows each",
        "each partition is a folder with its own file: loads and queries slow down, and a change rewrites many files",
    ),
}


@dataclass(frozen=True)
class Finding:
    """A fault in a table's raw files or settings.

    Attributes:
        code: The fault.
        seen: The evidence: counts, names, settings and row numbers, never values of rows, except texts for null.
        fix: What to do, in a sentence.
        paste: A setting, mapping rule or command to paste; empty if there is none.
        file: The first file with the fault, relative to the raw folder; empty if the fault is not in a file.
        row: Number of the row in the file, from 0; None if the fault is not in a row.
        column: The column; empty if the fault is not in a column.
        details: More evidence, one short text each.
        values: The most frequent bad values, for the operator's eyes alone: not in `to_json`.
    """

    code: Code
    seen: str
    fix: str
    paste: str = ""
    file: str = ""
    row: int | None = None
    column: str = ""
    details: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Severity, title and consequence."""
        return KINDS[self.code]

    def to_json(self) -> dict[str, object]:
        """The finding as JSON."""
        return {
            "code": self.code.value,
            "severity": self.kind.severity.value,
            "seen": self.seen,
            "why": self.kind.why,
            "mend": self.fix,
            "paste": self.paste,
            "file": self.file,
            "row": self.row,
            "column": self.column,
            "details": list(self.details),
        }


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Findings by severity, then in the order of the codes."""
    severities, codes = list(Severity), list(Code)
    return sorted(findings, key=lambda finding: (severities.index(finding.kind.severity), codes.index(finding.code)))


def counted(count: int, noun: str) -> str:
    """A number with its noun, as `1 row` or `2,000 rows`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def agreeing(count: int, singular: str, plural: str) -> str:
    """The verb that fits a number: `1 of 2 files has`, `2 of 2 files have`."""
    return singular if count == 1 else plural


def some_have(count: int, total: int, noun: str) -> str:
    """The start of a sentence: `1 of 2 files has`."""
    return f"{count:,} of {counted(total, noun)} {agreeing(count, 'has', 'have')}"
