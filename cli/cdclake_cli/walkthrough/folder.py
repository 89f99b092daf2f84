"""Inspects the files in a table's folder: half-written and left-behind ones, repeated and null keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from cdclake.concurrency import in_parallel
from cdclake.errors import LakeFilesError
from cdclake.lake.operations.adopt.foreign_file import ForeignFile, inspect_file
from cdclake.lake.storage.reader import open_parquet
from cdclake_cli.comparing.match import as_bytes, row_keys
from cdclake_cli.comparing.parts import number_of_parts, pairs_of_parts
from cdclake_cli.walkthrough.findings import Code, Finding, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

    from cdclake.commit.log import ChangeLog
    from cdclake.model.raw.files import ListedObject

_FILE = "_file_number"
_BATCH_ROWS = 20_000
_REPAIR = (
    "Remove the duplicates with the program that wrote them; or empty the folder, set LastFullLoadDate to"
    " 1900-01-01 00:00:00, and let cdclake load the table from its raw files"
)


class _Good(NamedTuple):
    """A file that can be a data file, and its entry in the listing."""

    entry: ListedObject
    file: ForeignFile


@dataclass(frozen=True)
class Folder:
    """The files of a table's folder.

    Attributes:
        files: Number of all files.
        sound: Those that hold the table's rows.
        rows: Number of their rows.
        left_behind: Those that the last run should have deleted.
        findings: What is wrong with the files.
    """

    files: int
    sound: tuple[str, ...]
    rows: int
    left_behind: tuple[str, ...]
    findings: tuple[Finding, ...]


class RepeatedKeys(NamedTuple):
    """Rows whose key another row has.

    Attributes:
        within: Number of rows that repeat a key of the same file, by the file's number.
        across: Number of keys that two files have, by their numbers.
    """

    within: Counter[int]
    across: Counter[tuple[int, int]]


def inspect_folder(
    log: ChangeLog,
    fs: FileSystem,
    listed: Sequence[ListedObject],
    primary_key: Sequence[str],
    partition_key: Sequence[str],
) -> Folder:
    """Inspect the footers and the keys of all files.

    Args:
        listed: The files that readers of the folder see.
        primary_key: Columns of the key; empty: keys are not checked.
    """
    prefix = log.layout.table_prefix
    inspect = partial(_inspect, fs, prefix, partition_key)
    good, findings = list[_Good](), list[Finding]()
    for one in in_parallel(inspect, listed, log.store.calls_at_once):
        if isinstance(one, Finding):
            findings.append(one)
        else:
            good.append(one)
    lacking = _lacking_key(good, primary_key, partition_key)
    left_behind: set[int] = set()
    if lacking:
        findings.append(lacking)
    elif primary_key and good:
        own = [name for name in primary_key if name.lower() not in {one.lower() for one in partition_key}]
        folders = [name for name in primary_key if name not in own]
        nulls = Counter[int]()
        keys = (_keys(fs, prefix, one, number, own, folders, partition_key, nulls) for number, one in enumerate(good))
        parts = number_of_parts(sum(one.file.rows for one in good), 0)
        repeated = repeated_keys(chain.from_iterable(keys), parts)
        left_behind = {min(pair, key=lambda number: _age(good[number])) for pair in repeated.across}
        ambiguous = {pair for pair in repeated.across if _age(good[pair[0]]) == _age(good[pair[1]])}
        left_behind -= set(chain.from_iterable(ambiguous))
        findings += _key_findings(good, nulls, repeated, left_behind)
    sound = [one for number, one in enumerate(good) if number not in left_behind]
    return Folder(
        files=len(listed),
        sound=tuple(one.file.path for one in sound),
        rows=sum(one.file.rows for one in sound),
        left_behind=tuple(good[number].file.path for number in sorted(left_behind)),
        findings=tuple(findings),
    )


def repeated_keys(batches: Iterator[pa.Table], parts: int) -> RepeatedKeys:
    """Find keys that occur more than once, with one part of them in memory at a time.

    Args:
        batches: The key's columns, and the number of the file in the last column.
    """
    first = next(batches)
    within, across = Counter[int](), Counter[tuple[int, int]]()
    by = first.column_names[:-1]
    nothing = [first.schema.empty_table()]
    for rows, _ in pairs_of_parts(chain([first], batches), nothing, lambda one: one.select(by), parts):
        codes = row_keys(rows, by).combine_chunks().dictionary_encode().indices.to_numpy()
        files = rows[_FILE].to_numpy()
        order = np.lexsort((files, codes))
        is_same_key = codes[order][1:] == codes[order][:-1]
        pairs = np.stack([files[order][:-1], files[order][1:]], axis=1)[is_same_key]
        for before, after in pairs.tolist():
            if before == after:
                within[after] += 1
            else:
                across[before, after] += 1
    return RepeatedKeys(within, across)


def _inspect(fs: FileSystem, prefix: str, partition_key: Sequence[str], entry: ListedObject) -> _Good | Finding:
    try:
        return _Good(entry, inspect_file(fs, prefix, entry, partition_key))
    except LakeFilesError as error:
        path = entry.key[len(prefix) :]
        if isinstance(error.__cause__, (pa.ArrowException, OSError)):
            text = f"{path} ({entry.size_bytes:,} bytes) is no whole Parquet file: a run died while it wrote it"
            remedy = "Delete it if the rows are in other files, as the comparison of rows shows"
            return Finding(Code.UNREADABLE_FILE, text, remedy, (path,))
        return Finding(Code.NOT_ADOPTABLE, error.message, error.remedy, (path,))


def _lacking_key(good: Sequence[_Good], primary_key: Sequence[str], partition_key: Sequence[str]) -> Finding | None:
    folders = {name.lower() for name in partition_key}
    for name in primary_key:
        if name.lower() in folders:
            continue
        lacking = tuple(one.file.path for one in good if one.file.schema.find(name) is None)
        if lacking:
            columns = ", ".join(good[0].file.schema.names)
            text = f"PrimaryKey names {name}, which {len(lacking)} of {len(good)} files do not have: {names(lacking)}"
            remedy = f"Correct it with cdclake tables set --primary-key; the columns are {columns}"
            return Finding(Code.KEY_NOT_IN_LAKE, text, remedy, lacking)
    return None


def _keys(
    fs: FileSystem,
    prefix: str,
    one: _Good,
    number: int,
    own: Sequence[str],
    folders: Sequence[str],
    partition_key: Sequence[str],
    nulls: Counter[int],
) -> Iterator[pa.Table]:
    """The keys of a file as text, in batches. Counts the null ones."""
    values = {name.lower(): text for name, text in zip(partition_key, one.file.partition, strict=True)}
    with open_parquet(fs, prefix + one.file.path) as parquet:
        stored = {name.lower(): name for name in parquet.schema_arrow.names}
        columns = [stored[name.lower()] for name in own]
        read = columns or parquet.schema_arrow.names[:1]
        for batch in chain([None], parquet.iter_batches(_BATCH_ROWS, columns=read)):
            rows = pa.Table.from_batches([batch]) if batch else parquet.schema_arrow.empty_table().select(read)
            count = rows.num_rows
            arrays = [_text(rows[name]) for name in columns]
            arrays += [pa.repeat(pa.scalar(values[name.lower()], pa.binary()), count) for name in folders]
            for column in arrays:
                nulls[number] += column.null_count
            keys = {str(place): column for place, column in enumerate(arrays)}
            yield pa.table({**keys, _FILE: pa.repeat(pa.scalar(number, pa.int64()), count)})


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a key column, whose type may differ between files."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    return as_bytes(column)


def _age(one: _Good) -> float:
    return one.entry.modified_utc.timestamp()


def _key_findings(
    good: Sequence[_Good], nulls: Counter[int], repeated: RepeatedKeys, left_behind: set[int]
) -> Iterator[Finding]:
    for number in sorted(left_behind):
        path = good[number].file.path
        rows = max(count for pair, count in repeated.across.items() if number in pair)
        keys = f"{rows:,} of its {good[number].file.rows:,} keys"
        text = f"{path} was left behind by a run that died: newer files have {keys}"
        remedy = "Delete it: what of it still holds is in the newer files, as the comparison of rows shows"
        yield Finding(Code.LEFT_BEHIND_FILE, text, remedy, (path,), rows)
    again = {number: rows for number, rows in repeated.within.items() if number not in left_behind}
    for pair, rows in repeated.across.items():
        if not left_behind.intersection(pair):
            again[pair[1]] = again.get(pair[1], 0) + rows
    if again:
        files = tuple(good[number].file.path for number in sorted(again))
        rows = sum(again.values())
        text = f"{rows:,} rows repeat the key of another row, in {names(files)}"
        yield Finding(Code.REPEATED_KEYS, text, _REPAIR, files, rows)
    if nulls.total():
        files = tuple(good[number].file.path for number, count in sorted(nulls.items()) if count)
        text = f"{nulls.total():,} rows have null in a column of PrimaryKey, in {names(files)}"
        yield Finding(Code.NULL_KEYS, text, "Correct PrimaryKey, or remove these rows", files, nulls.total())
