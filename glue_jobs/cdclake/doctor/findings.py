"""What the doctor can find, how bad each of it is, and why it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """The lake table is or will be wrong, or its runs stop."""
    WARNING = "warning"
    """The lake table is wrong as soon as something ordinary happens at the source."""
    NOTE = "note"
    """Nothing goes wrong; it costs more than it must, or is good to know."""


class Code(str, Enum):
    """Stable names of findings."""

    UNREADABLE_FILE = "unreadable-file"
    NO_SUCH_TIME = "no-such-time"
    UNFINISHED_FILE = "unfinished-file"
    BAD_ROWS = "bad-rows"
    SCHEMA_MISMATCH = "schema-mismatch"
    SCHEMA_MISSING = "schema-missing"
    CSV_DIALECT = "csv-dialect"
    LOAD_GAP = "load-gap"
    LOAD_ARRIVING = "load-arriving"
    NO_FULL_LOAD = "no-full-load"
    FILES_VANISHED = "files-vanished"
    TRUNCATE_RISK = "truncate-risk"
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
    DELIVERED_TWICE_NO_ORDER = "delivered-twice-no-order"
    KEY_CHANGE_LOST = "key-change-lost"
    NO_BEFORE_IMAGE = "no-before-image"
    UNSENT_VALUES = "unsent-values"
    KEY_ONLY_DELETES = "key-only-deletes"
    CUT_TEXT = "cut-text"
    UNBOUNDED_NUMERIC = "unbounded-numeric"
    TYPES_CLASH = "types-clash"
    COLUMNS_CHANGE = "columns-change"
    PARTITION_NOT_THERE = "partition-not-there"
    TOO_MANY_PARTITIONS = "too-many-partitions"


class Kind(NamedTuple):
    """A sort of finding.

    Attributes:
        what: What is seen.
        why: What comes of it.
    """

    severity: Severity
    what: str
    why: str


_ERROR, _WARNING, _NOTE = Severity

KINDS = {
    Code.UNREADABLE_FILE: Kind(
        _ERROR,
        "a file is empty, truncated, or not of the format its name says",
        "a run stops at it, and nothing of what comes after it is applied",
    ),
    Code.NO_SUCH_TIME: Kind(
        _ERROR,
        "the name of a change file tells a time that there is not, such as minute 65",
        "a run stops at it before it applies anything, as nothing tells the file's place among the others",
    ),
    Code.UNFINISHED_FILE: Kind(
        _ERROR,
        "the last row of a CSV file does not end with the row delimiter",
        "DMS ends every row with one, so the file was cut: rows are lost, and the last may be half a row",
    ),
    Code.BAD_ROWS: Kind(
        _ERROR,
        "rows that cannot be read as rows of the table",
        "with more of them in a change than MaxQuarantinedRows nothing is applied; else they are left out",
    ),
    Code.SCHEMA_MISMATCH: Kind(
        _ERROR, "a file has other columns than Schema says, or such as the lake cannot keep", "a run stops at it"
    ),
    Code.SCHEMA_MISSING: Kind(
        _ERROR,
        "CSV files without a header line, and no Schema",
        "the first row of each file would be taken for the names of its columns",
    ),
    Code.CSV_DIALECT: Kind(
        _ERROR, "CSV files are written otherwise than the table's settings say", "rows cannot be taken apart rightly"
    ),
    Code.LOAD_GAP: Kind(
        _ERROR, "a LOAD file is missing and a later one is there", "the full load waits for it, and changes with it"
    ),
    Code.LOAD_ARRIVING: Kind(
        _NOTE, "the full load is still arriving", "it is taken once no LOAD file came for FullLoadQuietMinutes"
    ),
    Code.NO_FULL_LOAD: Kind(
        _WARNING,
        "change files, and no LOAD file",
        "the lake table will hold the rows that change, and not those that were there before",
    ),
    Code.FILES_VANISHED: Kind(
        _ERROR,
        "change files were seen and are gone, and were not applied",
        "the table is frozen, as their changes are lost: the source's table was truncated, dropped or loaded anew",
    ),
    Code.TRUNCATE_RISK: Kind(
        _WARNING,
        "the DMS task removes raw files when the source's table is truncated or dropped",
        "changes not applied yet are lost, and the table is frozen; rows in the lake table stay in any case",
    ),
    Code.MISSING_CHANGES: Kind(
        _WARNING,
        "updates of keys that were neither loaded nor inserted, though BI_ columns tell every change of a key",
        "a file with their inserts is gone, or rows were left out of the full load; what else was in it is not known",
    ),
    Code.TRANSACTIONS_UNREAD: Kind(
        _WARNING,
        "no change files, but transaction files beside the table, and no CdcPath",
        "if the table's changes are in them, the lake table stays as it was loaded",
    ),
    Code.OTHER_FILES: Kind(
        _NOTE, "objects in the raw folder that are no files of DMS", "they are listed at each look, and never read"
    ),
    Code.MANY_SMALL_FILES: Kind(
        _NOTE, "many small change files", "each costs requests and time to open, whatever little it holds"
    ),
    Code.VERSIONED_BUCKET: Kind(
        _NOTE,
        "the raw bucket keeps versions",
        "DMS advises against it: what DMS deletes or writes anew stays, is paid for, and slows listings down",
    ),
    Code.NO_OP: Kind(
        _ERROR,
        "change rows without Op",
        "every row is taken for an insert or update, and deletes are not sent: deleted rows stay in the lake table",
    ),
    Code.NO_PRIMARY_KEY: Kind(
        _ERROR, "updates or deletes, and no PrimaryKey", "in a table without a key, updates and deletes are ignored"
    ),
    Code.KEY_NOT_THERE: Kind(_ERROR, "a PrimaryKey column is in no file, or not in all", "a run stops at such a file"),
    Code.KEY_NOT_UNIQUE: Kind(
        _ERROR, "several rows of the full load have the same PrimaryKey", "the lake table keeps one row of each key"
    ),
    Code.NO_ORDER: Kind(
        _WARNING,
        "neither AR_H_CHANGE_SEQ nor OrderColumn",
        "file names alone order the changes: two tasks, a clock set back or rows sent again bring old values back",
    ),
    Code.ORDER_NOT_THERE: Kind(_ERROR, "a change file without OrderColumn", "a run stops at it"),
    Code.ORDER_FALLS: Kind(
        _WARNING,
        "the ordering column falls from one row to the next of a file",
        "of two changes of a key the one with the greater value counts, though the other was made later",
    ),
    Code.NAMES_GO_BACKWARDS: Kind(
        _ERROR,
        "names of change files went back by an hour or so, as clocks do when summer time ends",
        "changes of that hour are applied in the wrong order",
    ),
    Code.LOCAL_TIME_NAMES: Kind(
        _WARNING,
        "names of change files tell the time of a zone, and not UTC",
        "when summer time ends in it names go backwards, and changes of an hour are applied in the wrong order",
    ),
    Code.TWO_WRITERS: Kind(
        _WARNING,
        "change sequences of files run side by side",
        "two tasks write the table: each counts for itself, and their sequences cannot be compared",
    ),
    Code.DELIVERED_TWICE: Kind(
        _NOTE, "rows that came in two files", "a task was resumed; positions make the second ones harmless"
    ),
    Code.DELIVERED_TWICE_NO_ORDER: Kind(
        _WARNING,
        "rows that came in two files, and nothing tells which are old",
        "values that were changed in between come back; in a table without a key rows are there twice",
    ),
    Code.KEY_CHANGE_LOST: Kind(
        _ERROR,
        "updates of keys that were neither loaded nor inserted, and no BI_ column of the key",
        "their keys were changed: the row of the old key stays in the lake table",
    ),
    Code.NO_BEFORE_IMAGE: Kind(
        _WARNING,
        "updates without the BI_ column of a key column",
        "should a key be changed, nothing tells the old one, and its row stays in the lake table",
    ),
    Code.UNSENT_VALUES: Kind(
        _WARNING,
        "updates have nulls in columns that are never null in inserts and the full load",
        "values that the source did not log arrive as nulls, and nulls they become in the lake table",
    ),
    Code.KEY_ONLY_DELETES: Kind(
        _NOTE,
        "deletes tell the key alone",
        "enough to delete by; the source logs no whole rows, so updates may lack values too",
    ),
    Code.CUT_TEXT: Kind(
        _WARNING,
        "many long values of one and the same length, a number of whole kilobytes",
        "the limited LOB mode cuts values at that length",
    ),
    Code.UNBOUNDED_NUMERIC: Kind(
        _WARNING,
        "a column of the type decimal(28,6)",
        "so PostgreSQL's NUMERIC without precision arrives: digits after the sixth are cut",
    ),
    Code.TYPES_CLASH: Kind(
        _ERROR, "a column's type changes between files to one that does not go with it", "a run stops at the change"
    ),
    Code.COLUMNS_CHANGE: Kind(
        _NOTE,
        "columns come, go or become wider between files",
        "taken as they come; a wider type has every data file written anew",
    ),
    Code.PARTITION_NOT_THERE: Kind(_ERROR, "a PartitionKey column is in no file", "a run stops at such a file"),
    Code.TOO_MANY_PARTITIONS: Kind(
        _WARNING,
        "PartitionKey makes very many partitions of few rows",
        "each is a folder with a file of its own: loads and queries become slow, and a change rewrites many files",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing found.

    Attributes:
        code: What.
        seen: What was seen, with counts; names, settings and row numbers, never values of rows.
        mend: What to do, in a sentence.
        paste: A setting, mapping rule or command that does it; empty if there is none.
        file: Where it was seen first, relative to the raw folder; empty if it is no matter of a file.
        row: Number of the row in the file, from 0; None if it is no matter of a row.
        column: Column; empty if it is no matter of one.
    """

    code: Code
    seen: str
    mend: str
    paste: str = ""
    file: str = ""
    row: int | None = None
    column: str = ""

    @property
    def kind(self) -> Kind:
        """What sort it is of."""
        return KINDS[self.code]

    def to_json(self) -> dict[str, object]:
        """All that is known, for programs."""
        return {
            "code": self.code.value,
            "severity": self.kind.severity.value,
            "seen": self.seen,
            "why": self.kind.why,
            "mend": self.mend,
            "paste": self.paste,
            "file": self.file,
            "row": self.row,
            "column": self.column,
        }


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Findings by severity, then in the order of the codes."""
    severities, codes = list(Severity), list(Code)
    return sorted(findings, key=lambda one: (severities.index(one.kind.severity), codes.index(one.code)))


def counted(count: int, noun: str) -> str:
    """A number with its noun, as `1 row` or `2,000 rows`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
