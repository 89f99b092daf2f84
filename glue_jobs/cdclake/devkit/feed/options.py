"""What a person asks of a feed, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum

from cdclake.devkit.dms.names import can_be_folder
from cdclake.devkit.dms.settings import BeforeImages, Compression, DataFormat, DmsSettings
from cdclake.errors import ConfigurationError
from cdclake.model.table import TableName

PARQUET = DmsSettings(data_format=DataFormat.PARQUET)
CHANGE_SEQUENCE = "AR_H_CHANGE_SEQ"
HEADERS = (
    CHANGE_SEQUENCE,
    "AR_H_STREAM_POSITION",
    "AR_H_TRANSACTION_ID",
    "AR_H_TIMESTAMP",
    "AR_H_COMMIT_TIMESTAMP",
    "AR_H_OPERATION",
)
"""DMS's headers that a feed can make."""
MOST_ROWS = 1 << 31
TABLE = TableName("shop", "orders")
STANDARD = (
    "id bigint, code char(6), name string, email string, company string, street string, city string, region string, "
    "quantity int, price decimal(12,2), weight double, ordered_on date, updated_at timestamp, gift boolean, note string"
)
"""Columns of a feed for which none are given."""
_ROWS_OF_A_LOAD_FILE = 200_000
_TOLERANCE = 1e-9
_OF_VALUES = frozenset("0123456789+-.: eEtruefalsNUL")


class Fault(str, Enum):
    """What is wrong with a feed on purpose."""

    BAD_ROWS = "bad-rows"
    """Rows of an unknown operation or without a key, in one change file."""
    TRUNCATED = "truncated"
    """A change file that ends before its end."""
    VANISHED = "vanished"
    """A change file that is gone again in the next round; with one round it never comes."""
    VANISHED_LOAD = "vanished-load"
    """A full-load file that never comes: a gap in the numbers of those that do."""


class DeleteImage(str, Enum):
    """What a delete tells of the row."""

    FULL = "full"
    KEY = "key"
    """PostgreSQL with the default replica identity: all but the key is null."""


@dataclass(frozen=True)
class Shares:
    """How many of the change rows are what; together 1.

    Attributes:
        insert: New keys, and some that were deleted before.
        update: Changes of a row that leave its key.
        delete: Deletes.
        move: Updates of the key.
        untidy: Inserts of keys that are there, and deletes of keys that are not.
    """

    insert: float = 0.3
    update: float = 0.5
    delete: float = 0.2
    move: float = 0.0
    untidy: float = 0.0

    @property
    def all(self) -> tuple[float, ...]:
        """In the order of the attributes."""
        return (self.insert, self.update, self.delete, self.move, self.untidy)


@dataclass(frozen=True)
class FeedOptions:
    """A feed of one table.

    Attributes:
        table: Its name.
        columns: Its columns, as text.
        primary_key: Key columns, the last of which tells rows apart.
        partition_key: Partition columns of the lake table.
        settings: Of DMS.
        seed: The same options and seed give the same bytes.
        start_utc: When the full load is written.
        rows: Rows of the full load.
        load_files: Full-load files; 0: as many as rows need.
        load_parts: Partitions or segments of a parallel load.
        changes: Change rows at the source, those that settings leave out among them.
        change_files: Change files, those that come again not counted.
        shares: What change rows are.
        hot_keys: Keys that many updates are of.
        hot_share: How many of the updates.
        transaction_rows: Rows of a transaction, on average.
        delete_image: What a delete tells.
        schema_changes: How often the columns change, at equal distances.
        late_files: Change files that come a round after their time.
        repeated_files: Change files that come a second time in the next round.
        resumed_files: Change files whose rows come again in a file of another name right after them.
        rounds: Times at which files come; the full load comes in the first.
        faults: What is wrong on purpose.
        bad_rows: How many rows are bad, with `Fault.BAD_ROWS`.
        history: Whether the table keeps a history.
        soft_delete: Whether deleted rows stay in the table.
    """

    table: TableName = TABLE
    columns: str = STANDARD
    primary_key: tuple[str, ...] = ("id",)
    partition_key: tuple[str, ...] = ()
    settings: DmsSettings = PARQUET
    seed: int = 7
    start_utc: datetime = datetime(2024, 3, 5, tzinfo=timezone.utc)
    rows: int = 10_000
    load_files: int = 0
    load_parts: int = 3
    changes: int = 2_000
    change_files: int = 10
    shares: Shares = field(default_factory=Shares)
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
        """Refuse what cannot be made.

        Raises:
            ConfigurationError: Names what is wrong, and what would be right.
        """
        self._check_numbers()
        self._check_shares()
        self._check_files()
        self._check_csv()

    @property
    def load_file_count(self) -> int:
        """Full-load files."""
        return self.load_files or max(1, -(-self.rows // _ROWS_OF_A_LOAD_FILE))

    @property
    def before_key(self) -> bool:
        """Whether updates tell the key before. One that does not tell that it is an update is taken for an insert."""
        return self.settings.before_images is not BeforeImages.NONE and self.settings.op_in_changes

    @property
    def in_order_by_name(self) -> bool:
        """Whether nothing but the names of change files orders them."""
        return CHANGE_SEQUENCE not in self.settings.header_columns

    @property
    def interval(self) -> timedelta:
        """Time between change files."""
        return timedelta(seconds=self.settings.cdc_max_batch_interval)

    def _check_numbers(self) -> None:
        for name in ("rows", "changes", "change_files", "load_files", "schema_changes", "late_files", "hot_keys"):
            _require(getattr(self, name) >= 0, f"{name} is {getattr(self, name)}", "Give 0 or more")
        _require(self.rows + self.changes < MOST_ROWS, "That is too large", f"Make fewer than {MOST_ROWS} rows")
        for name in ("rounds", "transaction_rows", "load_parts"):
            _require(getattr(self, name) > 0, f"{name} is {getattr(self, name)}", "Give 1 or more")
        _require(not self.changes or self.change_files > 0, "Changes need a file", "Give change files, or no changes")
        _require(self.start_utc.tzinfo is not None, "The start has no zone", "Give it in UTC")
        _require(bool(self.primary_key), "A feed needs a key", "Name a key column")
        for name in (self.table.schema, self.table.table):
            message = f"'{name}' cannot be the name of a folder"
            _require(can_be_folder(name), message, "Leave out slashes, and names such as '..'")

    def _check_shares(self) -> None:
        shares = self.shares.all
        good = all(0 <= share <= 1 for share in shares) and abs(sum(shares) - 1) < _TOLERANCE
        told = " + ".join(f"{share:g}" for share in shares)
        _require(good, f"The shares of operations are {told}", "Give shares from 0 to 1 that make 1 together")
        _require(0 <= self.hot_share <= 1, f"The share of hot keys is {self.hot_share:g}", "Give a share from 0 to 1")

    def _check_files(self) -> None:
        later = self.late_files + self.repeated_files
        _require(not later or self.rounds > 1, "A late or repeated file comes in the next round", "Ask for more rounds")
        _require(self.schema_changes < max(self.change_files, 1), "Columns change between files", "Ask for more files")
        gap = Fault.VANISHED_LOAD in self.faults
        _require(not gap or self.load_file_count > 1, "A gap needs another full-load file", "Ask for more load files")

        for name in self.settings.header_columns:
            _require(name in HEADERS, f"A feed cannot make the header {name}", f"Ask for {', '.join(HEADERS)}")

    def _check_csv(self) -> None:
        settings = self.settings
        csv, named = settings.csv_changes, settings.add_column_name
        nameless = csv and not named
        message = "CSV without a header line cannot tell that columns changed"
        _require(not (self.schema_changes and nameless), message, "Set AddColumnName, or DataFormat to parquet")
        plain = csv and not settings.rfc4180 and settings.csv_delimiter in _OF_VALUES
        _require(not plain, "Numbers and times hold that CsvDelimiter", "Choose another one, or set Rfc4180 to true")
        partial = csv and settings.unsent_text is not None
        message = "Values that are not sent and files that come late do not go together"
        _require(not (partial and self.late_files), message, "Leave one of them out: cdclake takes them in order only")
        message = "A change that leaves columns out is no whole version"
        _require(not (partial and self.history), message, "Ask for no history, or for no CsvNoSupValue")
        cut = Fault.TRUNCATED in self.faults and csv and settings.compression_type is Compression.NONE
        _require(not cut, "Nobody can see that plain CSV is truncated", "Set CompressionType to gzip, or use Parquet")


def _require(good: bool, message: str, remedy: str) -> None:
    if not good:
        raise ConfigurationError(message, remedy=remedy)
