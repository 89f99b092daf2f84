"""Names of the files that AWS DMS writes, and their order.

From the DMS user guide ("Using Amazon S3 as a target"): the name of a full-load file is `LOAD` and eight upper-case hex
digits, counted from 1. The name of a change file is the time when it was written, `yyyymmdd-HHMMSSfff`. Change files
may be in date folders. Generators of test data write `yyyymmdd_HHMMSS`, in date folders without leading zeros; this
form is read too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class RawFormat(Enum):
    """The format of a raw file; its value is the extension of the file's name.

    `cdclake.lake.raw.formats` reads files of each.
    """

    PARQUET = "parquet"
    CSV = "csv"
    CSV_GZ = "csv.gz"

    @property
    def is_text(self) -> bool:
        """Whether all values are texts, whose types and dialect the table's settings tell."""
        return self in {RawFormat.CSV, RawFormat.CSV_GZ}

    @property
    def is_gzip(self) -> bool:
        """Whether the file as a whole is compressed."""
        return self is RawFormat.CSV_GZ


_EXTENSION = rf"\.(?P<extension>{'|'.join(re.escape(one.value) for one in RawFormat)})"
_FULL_LOAD = re.compile(r"(?:[^/]+/)*?(?:SEGMENT\d+_)?LOAD(?P<number>[0-9A-Fa-f]{8})" + _EXTENSION, re.ASCII)
_NAME = r"(?P<name>(?P<day>\d{8})(?:-(?P<time>\d{9,10})|_(?P<seconds>\d{6})))"
_CHANGE = re.compile(r"(?:[^/]+/)*?" + _NAME + _EXTENSION, re.ASCII)
TRANSACTIONS_NAME = "CDC_TXN-"
_TRANSACTIONS = re.compile(TRANSACTIONS_NAME + r"(?P<day>\d{8})(?P<time>\d{9,10})" + _EXTENSION, re.ASCII)
_TIME_DIGITS = 17
_DIGIT = re.compile(r"\d", re.ASCII)
_LONE_DIGIT = re.compile(r"(?<!\d)\d(?!\d)", re.ASCII)
INVALID_TIME_REMEDY = "Rename it to the time when it was written (yyyymmdd-HHMMSSfff), or move it to another folder"
"""Remedy for a change file with an invalid time in its name."""
_ETAG_DIGITS = 12
MAX_STAMP_AHEAD = timedelta(days=1)
"""How much later than it was written a change file may be stamped."""
_KNOWN_FORMAT = re.compile(_EXTENSION + "$")
_NOT_DATA = re.compile(r"^(s3_validation_failures|awsdms_[^/]*)/", re.IGNORECASE)


class RawKind(Enum):
    """The content of a raw file."""

    FULL_LOAD = "full load"
    CHANGE = "change"


class ListedObject(NamedTuple):
    """One object of a listing.

    Attributes:
        etag: The store's ETag, which changes with the content; empty if the store has none. A function computes it
            where a listing does not contain it.
    """

    key: str
    size_bytes: int
    modified_utc: datetime
    etag: str | Callable[[], str] = ""


@dataclass(frozen=True)
class RawFile:
    """One full-load or change file of a table.

    Attributes:
        key: Key in the raw bucket.
        relative: Key relative to the table's raw folder; for a transaction file, which is in another folder, its name.
        stamp: `yyyymmdd-HHMMSSfff` of a change file; the eight digits of a full-load file.
        modified_utc: When the object was last written.
        transactions: Whether the file holds whole transactions, with rows of many tables.
        etag: See `ListedObject`.
        direct: Whether an operator made the change, see `cdclake.model.direct`. The file is then in the lake bucket.
    """

    key: str
    relative: str
    kind: RawKind
    format: RawFormat
    stamp: str
    size_bytes: int
    modified_utc: datetime
    transactions: bool = False
    direct: bool = False
    etag: str | Callable[[], str] = field(default="", compare=False)

    @property
    def identity(self) -> str:
        """`<size>-<start of the ETag>`: equal for a file that was copied onto itself, and different for other content.

        48 bits of the ETag suffice for files of one name, and snapshots hold thousands of them. Empty if the store has
        no ETag. S3 gives a copy another ETag if its parts or its KMS key differ.
        https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html

        Computed once. Before Python 3.12, `cached_property` would compute identities of all files one after the other.
        """
        known: str | None = vars(self).get("_identity")
        if known is None:
            etag = self.etag if isinstance(self.etag, str) else self.etag()
            known = f"{self.size_bytes}-{etag[:_ETAG_DIGITS]}" if etag else ""
            object.__setattr__(self, "_identity", known)
        return known

    @cached_property
    def order(self) -> str:
        """Sort key for applying change files, see `file_order`."""
        return file_order(self.relative)

    @property
    def stamped_ahead(self) -> bool:
        """Whether the time in a change file's name is more than a day later than the file itself.

        DMS names files after the time when it wrote them, in a time zone that is up to 14 hours ahead of UTC.
        """
        stamped_utc = stamp_time(self.order)
        return stamped_utc is not None and stamped_utc - self.modified_utc > MAX_STAMP_AHEAD

    @property
    def unpadded(self) -> bool:
        """Whether a number in its folder has a single digit, so that such date folders do not sort by time."""
        return bool(_LONE_DIGIT.search(self.relative.rpartition("/")[0]))


def file_order(relative: str) -> str:
    """Sort key of a change file: the time in its name, then its key within the table's folder.

    The time may have nine or ten digits after the date. The shorter form is a prefix of the longer, so both sort by
    time. A time in whole seconds gets zero milliseconds. Date folders of any pattern do not affect the order. The sort
    key of any other file is the empty string.

    Example:
        >>> file_order("20240305-101500123.parquet")
        '20240305-101500123.parquet'
        >>> file_order("05032024/20240305-101500123.parquet")
        '20240305-101500123/05032024/20240305-101500123.parquet'
        >>> file_order("2024/3/5/20240305_101500.parquet")
        '20240305-101500000/2024/3/5/20240305_101500.parquet'
        >>> file_order("CDC_TXN-20240305101500123.csv")
        '20240305-101500123/CDC_TXN-20240305101500123.csv'
    """
    transactions = _TRANSACTIONS.fullmatch(relative)
    if transactions:
        return f"{_stamp(transactions)}/{relative}"
    match = _CHANGE.fullmatch(relative)
    if not match:
        return ""
    stamp = _stamp(match)
    return relative if relative.startswith(stamp) else f"{stamp}/{relative}"


def _stamp(match: re.Match[str]) -> str:
    """`yyyymmdd-HHMMSSfff` of a match of `_CHANGE` or `_TRANSACTIONS`, with nine or ten digits after the date."""
    seconds = match.groupdict().get("seconds")
    return f"{match['day']}-{seconds + '000' if seconds else match['time']}"


def stamp_time(order: str) -> datetime | None:
    """The time at the start of a `file_order`, to the second; None for the empty order.

    Its time zone is DMS's DatePartitionTimezone, by default UTC. Such times are only compared with each other.
    """
    if not order:
        return None
    year, month, day = int(order[:4]), int(order[4:6]), int(order[6:8])
    hour, minute, second = int(order[9:11]), int(order[11:13]), int(order[13:15])
    return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)  # strptime takes ten times as long


def read_time(text: str) -> datetime | None:
    """The time at the start of a file's order or an ordering value, to the millisecond; None if there is none.

    Example:
        >>> read_time("202403051015001230")
        datetime.datetime(2024, 3, 5, 10, 15, 0, 123000)
    """
    digits = text.replace("-", "", 1)[:_TIME_DIGITS]
    if not (len(digits) == _TIME_DIGITS and digits.isdigit()):
        return None
    year, rest, milliseconds = int(digits[:4]), digits[4:14], int(digits[14:])
    month, day, hour, minute, second = (int(rest[place : place + 2]) for place in range(0, 10, 2))
    try:
        return datetime(year, month, day, hour, minute, second, milliseconds * 1000)  # noqa: DTZ001 - the time zone is unknown
    except ValueError:
        return None


def start_after(relative: str, stamp: str) -> str:
    """A key before every change file written at a given time or later, in date folders like a change file's.

    Folders without leading zeros do not sort by time: `2024/10/` comes before `2024/9/`. The key has leading zeros in
    any case, as `2024/09/` comes before both.

    Args:
        relative: `RawFile.relative` of a change file.
        stamp: `yyyymmdd-HHMMSS`.

    Returns:
        A relative key; empty if such folders do not sort by time, as with DMS's date folder patterns DDMMYYYY and
        MMYYYYDD.

    Example:
        >>> start_after("2024/03/05/20240305-101500123.parquet", "20240302-101500")
        '2024/03/02/20240302-101500'
        >>> start_after("2024/10/5/20241005_101500.parquet", "20240902-101500")
        '2024/09/02/20240902-101500'
        >>> start_after("05032024/20240305-101500123.parquet", "20240302-101500")
        ''
    """
    match = _CHANGE.fullmatch(relative)
    folder = _LONE_DIGIT.sub(r"0\g<0>", relative[: match.start("name")]) if match else ""
    digits = "".join(_DIGIT.findall(folder))
    if not (match and _stamp(match).replace("-", "").startswith(digits)):
        return ""
    fill = iter(stamp.replace("-", "").ljust(len(digits), "0"))
    return _DIGIT.sub(lambda _: next(fill), folder) + stamp


def parse_raw_file(entry: ListedObject, raw_prefix: str) -> RawFile | None:
    """Recognize a raw file of a table by its key; None for anything else (folders, other files).

    Args:
        entry: An object of the table's raw folder, or of the transaction files' folder.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
    """
    if not entry.key.startswith(raw_prefix):
        relative = entry.key.rpartition("/")[2]
        match = _TRANSACTIONS.fullmatch(relative)
        return _raw_file(entry, relative, RawKind.CHANGE, match, _stamp(match)) if match else None
    relative = entry.key[len(raw_prefix) :]
    match = _FULL_LOAD.fullmatch(relative)
    if match:
        return _raw_file(entry, relative, RawKind.FULL_LOAD, match, match["number"])
    match = _CHANGE.fullmatch(relative)
    return _raw_file(entry, relative, RawKind.CHANGE, match, _stamp(match)) if match else None


def _raw_file(entry: ListedObject, relative: str, kind: RawKind, match: re.Match[str], stamp: str) -> RawFile:
    written_as = RawFormat(match["extension"])
    transactions = match.re is _TRANSACTIONS
    size_bytes, modified_utc = entry.size_bytes, entry.modified_utc
    return RawFile(
        entry.key, relative, kind, written_as, stamp, size_bytes, modified_utc, transactions, etag=entry.etag
    )


class RawFiles(NamedTuple):
    """The data in a table's raw folder, and in the transaction files' folder if there is one.

    Attributes:
        full_load: Full-load files, by name.
        changes: Change files, in the order to apply them.
        unread: Relative keys of data files that are neither, by name.
        ignored: Raw files that `IgnoreFiles` covers, by name. They are in no other field.
        no_transactions: Whether the table names a folder of transaction files, but none was listed. Before the first
            change all are listed, later those since the begin of the listing.
        begin: Relative key after which they were listed; empty: these are all.
    """

    full_load: Sequence[RawFile] = ()
    changes: Sequence[RawFile] = ()
    unread: Sequence[str] = ()
    ignored: Sequence[RawFile] = ()
    no_transactions: bool = False
    begin: str = ""

    @property
    def all_changes(self) -> list[RawFile]:
        """Change files, also those that `IgnoreFiles` covers."""
        return [*self.changes, *(file for file in self.ignored if file.kind is RawKind.CHANGE)]


def raw_files(objects: Iterable[ListedObject], raw_prefix: str, ignore: Sequence[str] = ()) -> RawFiles:
    """Sort a listing of a table's raw folder, and of the transaction files' folder if there is one.

    Args:
        objects: Listing, any order.
        raw_prefix: Key prefix of the table's folder, with a trailing slash.
        ignore: Globs of relative keys, see `is_covered`.

    Raises:
        UnreadableFileError: The name of a change file has an invalid time, so its order is unknown.
    """
    full_load, changes, unread, ignored = list[RawFile](), list[RawFile](), list[str](), list[RawFile]()
    for entry in objects:
        file = parse_raw_file(entry, raw_prefix)
        relative = file.relative if file else entry.key[len(raw_prefix) :]
        if ignore and is_covered(relative, ignore):
            ignored += [file] if file else []
        elif file:
            (full_load if file.kind is RawKind.FULL_LOAD else changes).append(file)
        elif entry.key.startswith(raw_prefix) and is_data(relative, entry.size_bytes):
            unread.append(relative)
    changes.sort(key=lambda file: file.order)
    for file in changes:
        if not read_time(file.order):
            message = "The name of a change file has an invalid time"
            raise UnreadableFileError(message, remedy=INVALID_TIME_REMEDY, file=file.key)
    full_load.sort(key=lambda file: file.relative)
    ignored.sort(key=lambda file: file.relative)
    return RawFiles(full_load, changes, sorted(unread), ignored)


def is_covered(relative: str, globs: Iterable[str]) -> bool:
    """Whether one of these globs matches a whole relative key. `*` and `?` match slashes too; nothing else is special.

    Example:
        >>> is_covered("2024/notes.txt", ["*.txt"]), is_covered("notes.txt.gz", ["*.txt"])
        (True, False)
    """
    return any(fnmatchcase(relative, glob.replace("[", "[[]")) for glob in globs)


def is_data(relative: str, size_bytes: int) -> bool:
    """Whether an object of a table's folder that is no raw file holds data.

    Folder markers, DMS's own files, names that Hive and Spark hide (`_SUCCESS`, `.part.crc`) and empty files do not.
    """
    parts = relative.split("/")
    hidden = any(part.startswith(("_", ".")) for part in parts) or relative.endswith(("/", "_$folder$"))
    return not (hidden or _NOT_DATA.match(relative)) and (size_bytes > 0 or bool(_KNOWN_FORMAT.search(relative)))


def missing_loads(full_load_files: Iterable[RawFile], ignore: Sequence[str]) -> list[str]:
    """Full-load files that are missing although a later one exists: DMS counts them from 1 without gaps.

    A parallel load counts from 1 in each folder or segment, so each is checked separately.

    Args:
        full_load_files: All full-load files of a table, any order.
        ignore: Globs of relative keys, see `is_covered`. A file that they cover is not missing.

    Returns:
        Relative keys without extension, by name; only the first of each gap.
    """
    numbers: dict[str, dict[int, str]] = {}
    for file in full_load_files:
        before_number, _, extension = file.relative.rpartition(file.stamp)
        numbers.setdefault(before_number, {})[int(file.stamp, 16)] = extension
    missing: list[str] = []
    for before_number, existing in sorted(numbers.items()):
        there = sorted(existing)
        for before, after in zip([0, *there], there):
            absent = (f"{before_number}{number:08X}" for number in range(before + 1, after))
            missing += islice((name for name in absent if not is_covered(name + existing[after], ignore)), 1)
    return missing


def transactions_prefix(raw_prefix: str, cdc_path: str) -> str:
    """Key prefix of the transaction files with a table's changes.

    Args:
        raw_prefix: `<prefix><schema>/<table>/`.
        cdc_path: Their folder below the prefix, without slashes at its ends; not empty.
    """
    root = "".join(f"{part}/" for part in raw_prefix.split("/")[:-3])
    return f"{root}{cdc_path}/{TRANSACTIONS_NAME}"


def is_transactions_key(key: str) -> bool:
    """Whether a raw key belongs to a transaction file."""
    return bool(_TRANSACTIONS.fullmatch(key.rpartition("/")[2]))


def one_level(prefix: str, keys: Iterable[str]) -> Iterator[str]:
    """The folders directly below a prefix, with a trailing slash, and the keys beside them, each once and by name.

    Args:
        keys: Keys that begin with the prefix, any order.
    """
    rests = (key[len(prefix) :].partition("/") for key in keys)
    return iter(sorted({f"{prefix}{name}{slash}" for name, slash, _ in rests if name or slash}))


def is_raw_name(name: str) -> bool:
    """Whether a full-load or change file may have this name, and it names no folder."""
    return "/" not in name and bool(_FULL_LOAD.fullmatch(name) or _CHANGE.fullmatch(name))


def is_data_folder(folder: str) -> bool:
    """Whether the folder of a schema or table, `<name>/`, may hold source data. DMS's own tables do not."""
    return not _NOT_DATA.match(folder)


class RawKey(NamedTuple):
    """The parts of a raw object's key."""

    schema_prefix: str
    folder: str
    relative: str


def split_raw_key(key: str, prefix: str) -> RawKey | None:
    """Find the table of a raw object; None if the object is not raw data of a table.

    Args:
        key: Object key, decoded.
        prefix: Key prefix of the schemas' folders, empty or with a trailing slash.
    """
    if not key.startswith(prefix):
        return None
    rest = key[len(prefix) :]
    if _NOT_DATA.match(rest):
        return None
    schema, _, rest = rest.partition("/")
    table, slash, relative = rest.partition("/")
    if not (schema and table and slash and relative) or _NOT_DATA.match(f"{table}/"):
        return None
    if not (_FULL_LOAD.fullmatch(relative) or _CHANGE.fullmatch(relative)):
        return None
    return RawKey(f"{prefix}{schema}/", f"{table}/", relative)
