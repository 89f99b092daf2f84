"""Options of a feed, validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.dms.names import can_be_folder
from cdclake_cli.dms.settings import CHANGE_SEQUENCE, BeforeImages, Compression, DataFormat, DmsSettings

PARQUET = DmsSettings(data_format=DataFormat.PARQUET)
HEADERS = (
    CHANGE_SEQUENCE,
    "AR_H_STREAM_POSITION",
    "AR_H_TRANSACTION_ID",
    "AR_H_TIMESTAMP",
    "AR_H_COMMIT_TIMESTAMP",
    "AR_H_OPERATION",
)
"""DMS headers that a feed can generate."""
MAX_ROWS = 1 << 31
DEFAULT_TABLE = TableName("shop", "orders")
DEFAULT_COLUMNS = (
    "id bigint, code char(6), name string, email string, company string, street string, city string, region string, "
    "quantity int, price decimal(12,2), weight double, ordered_on date, updated_at timestamp, gift boolean, note string"
)
"""Columns of a feed by default."""
_LOAD_FILE_ROWS = 200_000
_TOLERANCE = 1e-9
_NON_TEXT_CHARACTERS = frozenset("0123456789+-.: eEtruefalsNUL")


class Fault(str, Enum):
    """Faults that a feed can inject."""

    BAD_ROWS = "bad-rows"
    """Rows with an unknown operation or without a key, in one change file."""
    TRUNCATED = "truncated"
    """A change file whose end is cut off."""
    VANISHED = "vanished"
    """A change file that is deleted in the next round; with one round it is never written."""
    VANISHED_LOAD = "vanished-load"
    """A full-load file that is never written, which leaves a gap in the file numbers."""


class DeleteImage(str, Enum):
    """The columns that a delete contains."""

    FULL = "full"
    KEY = "key"
    """As PostgreSQL with the default replica identity: all columns but the key are null."""


@dataclass(frozen=True)
class OperationShares:
    """Shares of the kinds of change rows; their sum is 1.

    Attributes:
        insert: Inserts of new keys, and of some that were deleted before.
        update: Updates that keep the key.
        delete: Deletes.
        move: Updates of the key.
        untidy: Inserts of keys that exist, and deletes of keys that do not.
    """

    insert: float = 0.3
    update: float = 0.5
    delete: float = 0.2
    move: float = 0.0
    untidy: float = 0.0

    @property
    def all(self) -> tuple[float, ...]:
        """The shares in the order of the attributes."""
        return (self.insert, self.update, self.delete, self.move, self.untidy)


@dataclass(frozen=True)
class FeedOptions:
    """Options of a feed of one table.

    Attributes:
        table: Name of the table.
        columns: Columns of the table, as text.
        primary_key: Key columns; the last one is unique by itself.
        partition_key: Partition columns of the lake table.
        settings: Settings of the DMS task.
        seed: The same options and seed produce the same bytes.
        start_utc: Time at which the full load is written.
        rows: Number of rows in the full load.
        load_files: Number of full-load files; 0 to derive it from the number of rows.
        changes: Number of change rows at the source, including those that the DMS settings exclude.
        change_files: Number of change files, without repeated ones.
        shares: Shares of the kinds of change rows.
        hot_keys: Number of keys that are updated often.
        hot_share: Share of updates that hit a hot key.
        transaction_rows: Rows per transaction, on average.
        delete_image: The columns that a delete contains.
        schema_changes: Number of schema changes, at equal intervals.
        late_files: Number of change files that are delivered one round late.
        repeated_files: Number of change files that are delivered again in the next round.
        resumed_files: Number of change files whose rows are repeated in the next file, under another name.
        rounds: Number of rounds in which files are delivered; the full load is part of the first.
        faults: Faults to inject.
        bad_rows: Number of bad rows, with `Fault.BAD_ROWS`.
        history: Whether the table keeps a history.
        soft_delete: Whether deleted rows stay in the table.
    """

    table: TableName = DEFAULT_TABLE
    columns: str = DEFAULT_COLUMNS
    primary_key: tuple[str, ...] = ("id",)
    partition_key: tuple[str, ...] = ()
    settings: DmsSettings = PARQUET
    seed: int = 7
    start_utc: datetime = datetime(2024, 3, 5, tzinfo=timezone.utc)
    rows: int = 10_000
    load_files: int = 0
    changes: int = 2_000
    change_files: int = 10
    shares: OperationShares = field(default_factory=OperationShares)
    hot_keys: int = 10
    hot_share: float = 0.2
    transaction_rows: int = 5
    delete_image: DeleteImage = DeleteImage.FULL
    schema_changes: int = 0
    late_files: int = 0
    repeated_files: int = 0
    resumed_files: int = 0
    rounds: int = 1
    faults: frozenset[Fault] = frozenset()
    bad_rows: int = 5
    history: bool = False
    soft_delete: bool = False

    def __post_init__(self) -> None:
        """Validate the options.

        Raises:
            ConfigurationError: An option is invalid; the message and the remedy name it.
        """
        self._check_numbers()
        self._check_shares()
        self._check_files()
        self._check_csv()

    @property
    def load_file_count(self) -> int:
        """Number of full-load files."""
        return self.load_files or max(1, -(-self.rows // _LOAD_FILE_ROWS))

    @property
    def before_key(self) -> bool:
        """Whether updates contain the old key. Without `Op` an update looks like an insert."""
        return self.settings.before_images is not BeforeImages.NONE and self.settings.op_in_changes

    @property
    def in_order_by_name(self) -> bool:
        """Whether change files are ordered by their names alone."""
        return CHANGE_SEQUENCE not in self.settings.header_columns

    @property
    def interval(self) -> timedelta:
        """Time between change files."""
        return timedelta(seconds=self.settings.cdc_max_batch_interval)

    def _check_numbers(self) -> None:
        for name in ("rows", "changes", "change_files", "load_files", "schema_changes", "late_files", "hot_keys"):
            _require(getattr(self, name) >= 0, f"{name} is {getattr(self, name)}", "Set it to 0 or more")
        _require(self.rows + self.changes < MAX_ROWS, "The feed has too many rows", f"Ask for fewer than {MAX_ROWS}")
        for name in ("rounds", "transaction_rows"):
            _require(getattr(self, name) > 0, f"{name} is {getattr(self, name)}", "Set it to 1 or more")
        message = "Changes need at least one change file"
        _require(not self.changes or self.change_files > 0, message, "Ask for change files, or for no changes")
        _require(self.start_utc.tzinfo is not None, "The start time has no time zone", "Write it in UTC")
        _require(bool(self.primary_key), "A feed needs a primary key", "Name a key column")
        for name in (self.table.schema, self.table.table):
            message = f"'{name}' cannot be the name of a folder"
            _require(can_be_folder(name), message, "Leave out slashes, and names such as '..'")

    def _check_shares(self) -> None:
        shares = self.shares.all
        valid = all(0 <= share <= 1 for share in shares) and abs(sum(shares) - 1) < _TOLERANCE
        total = " + ".join(f"{share:g}" for share in shares)
        _require(valid, f"The shares of operations are {total}", "Use shares from 0 to 1 with a sum of 1")
        _require(0 <= self.hot_share <= 1, f"The share of hot keys is {self.hot_share:g}", "Use a share from 0 to 1")

    def _check_files(self) -> None:
        later = self.late_files + self.repeated_files
        message = "Late and repeated files need at least two rounds"
        _require(not later or self.rounds > 1, message, "Ask for more rounds")
        message = "The feed needs more change files than schema changes"
        _require(self.schema_changes < max(self.change_files, 1), message, "Ask for more change files")
        gap = Fault.VANISHED_LOAD in self.faults
        message = "A gap in the full load needs at least two full-load files"
        _require(not gap or self.load_file_count > 1, message, "Ask for more full-load files")
        for name in self.settings.header_columns:
            _require(name in HEADERS, f"A feed cannot generate the header {name}", f"Use one of {', '.join(HEADERS)}")

    def _check_csv(self) -> None:
        settings = self.settings
        csv = settings.csv_changes
        message = "CSV without a header line cannot express schema changes"
        possible = not self.schema_changes or not csv or settings.add_column_name
        _require(possible, message, "Set AddColumnName, or DataFormat to parquet")
        ambiguous = csv and not settings.rfc4180 and settings.csv_delimiter in _NON_TEXT_CHARACTERS
        message = "Numbers and times contain the CsvDelimiter"
        _require(not ambiguous, message, "Choose another delimiter, or set Rfc4180 to true")
        partial = csv and settings.unsent_text is not None
        message = "cdclake refuses late files whose values later updates with CsvNoSupValue did not send"
        _require(not (partial and self.late_files), message, "Ask for no late files, or for no CsvNoSupValue")
        message = "An update with CsvNoSupValue is not a complete version, so the table cannot have a history"
        _require(not (partial and self.history), message, "Ask for no history, or for no CsvNoSupValue")
        undetectable = Fault.TRUNCATED in self.faults and csv and settings.compression_type is Compression.NONE
        message = "Truncation of uncompressed CSV cannot be detected"
        _require(not undetectable, message, "Set CompressionType to gzip, or use Parquet")


def _require(valid: bool, message: str, remedy: str) -> None:
    if not valid:
        raise ConfigurationError(message, remedy=remedy)
