"""Up to how many bytes, rows and files the engine reads, holds, sends and writes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdclake.errors import NeedsSparkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.model.snapshot import DataFile


@dataclass(frozen=True)
class EngineLimits:
    """The sizes at which the engine changes how it works, or leaves the work to Spark, never what it computes.

    A run has them (`TableRun.limits`), and gives them to the shape of its table, which tasks receive. What has no run
    uses the defaults. "In memory" means in Arrow.
    """

    rewritten_bytes: int | None = None
    """A change that rewrites more bytes of data files in this process needs Spark, or compares more with their history;
    None: any number."""
    held_bytes: int | None = None
    """Likewise if its rows need more memory than this, which their raw files do not show: a mass update of two million
    rows may be a file of 4 MB, and takes 600 MB to merge;"""
    looked_up_files: int | None = None
    """or if its keys may be in more data files, each of which takes a task some requests."""
    small_change_bytes: int = 16 << 20
    """The driver itself reads up to this many bytes of raw files."""
    small_change_memory_bytes: int = 64 << 20
    """If their rows need more memory than this, the driver sends them to tasks after all."""
    medium_change_bytes: int = 96 << 20
    """Of a change that is merged in place, the driver reads up to this many bytes of raw files."""
    min_read_task_bytes: int = 4 << 20
    """A task reads at least about this many bytes of raw files."""
    read_alone_bytes: int = 1 << 30
    """Most bytes of raw files whose rows are read only to see whether a file ends the process."""

    batch_rows: int = 1 << 17
    """Rows of a batch that is read from a raw file; smaller batches are combined to at least half as many,"""
    batch_bytes: int = 64 << 20
    """or half of these bytes: the most of a batch in memory, decoded. Plain texts count as texts of average length."""
    raw_group_bytes: int = 32 << 20
    """Uncompressed. Row groups of a raw file are requested together up to this size; a larger one is read in pieces."""
    csv_head_bytes: int = 1 << 18
    """Of the uncompressed beginning of a CSV file, which shows its columns; more if a record is longer,"""
    csv_chunk_bytes: int = 4 << 20
    """of a part that follows and is parsed at once,"""
    csv_record_bytes: int = 1 << 28
    """and, at most, of a record."""
    reads_ahead: int = 16
    """Small files fetched at once: 200 files take as long as 13 files in sequence."""
    small_file_bytes: int = 1 << 20
    """Larger files are read in their turn, batch by batch: reading them takes longer than requesting them."""
    together_bytes: int = 4 << 20
    """In memory, as they are read. Rows of small files are converted together up to about this size."""

    min_load_task_bytes: int = 8 << 20
    """A task of a full load without a shuffle reads at least about this many bytes of raw files, if there are cores."""
    load_task_targets: int = 2
    """It keeps its rows in memory, so it takes no more raw data than this many data files."""
    load_task_memory_bytes: int = 1 << 30
    """Nor more uncompressed data than this, by the footers and in memory."""

    in_place_task_bytes: int = 256 << 20
    """In memory; a task that merges in place holds its rows of the change several times. So many are planned for it, as
    rows of mean length."""
    in_place_held_bytes: int = 512 << 20
    """With more, and the lake's rows of the same keys if it needs their values, it gives up."""

    key_range_rows: int = 250_000
    """Rows of a key range, which one task resolves,"""
    key_range_bytes: int = 128 << 20
    """and their bytes in memory: a task holds the rows of a key range several times."""
    samples_per_file: int = 16
    """Keys of new rows that the driver gets for each data file to write, so that it can split them evenly."""
    write_group_bytes: int = 16 << 20
    """A task of the backend writes several files if they are expected to be smaller than this together."""

    job_bytes: int = 16 << 20
    """Most bytes of values that a job sends to another backend, unless it sends a single partition: each process that
    runs its tasks has all of them in memory."""
    task_data_bytes: int = 8 << 20
    """Most bytes of values that are sent as parts of tasks."""

    sorted_bytes: int = 512 << 20
    """In memory. More rows to sort go to a file on disk, and come back a part at a time."""
    sorted_piece_bytes: int = 8 << 20
    """In memory, of the rows that are written there together."""
    part_bytes: int = 64 << 20
    """In memory, of a part of the rows that are in a file: those sorted on disk, or a row group that is too large."""

    read_group_bytes: int = 256 << 20
    """In memory, of a row group of a data file that is read at once; a larger one comes in parts."""
    hot_file_bytes: int = 5 << 20
    """A data file of which a change touches a small part is cut: the part becomes a file of half to all of these bytes,
    and of an eighth if the file grows at its end. The target counts if it is smaller."""
    settled_days: int = 7
    """Neighboring files that no change touched for so many days are merged again."""
    loose_days: int = 2
    """Rows that no change touched for so many days go to the files where their keys belong; at most `settled_days`."""
    fetched_bytes: int = 32 << 20
    """A task fetches its data files whole if they are no larger together: fewer requests wait for each other."""
    row_group_rows: int = 1 << 19
    """Rows of a row group of a data file that is written,"""
    row_group_bytes: int = 128 << 20
    """and their bytes in memory, decoded: whoever reads a file reads its row groups one by one."""
    tombstone_group_rows: int = 65_536
    """Rows of a row group of a file of tombstones: a task reads those row groups that may have its keys."""
    tombstone_file_rows: int = 1 << 22
    """Files of tombstones are not merged to more rows than this, because they are merged in memory."""
    checked_files: int = 5000
    """Objects of a table's folders that a run compares with the snapshot at most, which takes five requests."""
    manifest_files: int = 256
    """Data files that a manifest lists. A changed file costs copying so many entries, 0.05 ms each. A reader requests
    each manifest."""
    ledger_segment_files: int = 1024
    """About so many change files are in a segment of a table's ledger, and up to twice as many in its snapshot."""
    adopted_key_bytes: int = 256 << 20
    """In memory, of the keys of adopted files that are compared at once."""
    adopted_key_step: int = 10_000
    """Every so many keys of an adopted file, one is a sample: where the ranges of keys begin."""

    def check_rewritten(self, files: Iterable[DataFile], what: str = "rewrites") -> None:
        """Refuse to rewrite data files that are too large together for this process.

        Args:
            what: What is done to them.

        Raises:
            NeedsSparkError: They are.
        """
        _check(sum(file.bytes for file in files), self.rewritten_bytes, f"it {what} data files of {{:,}} bytes")

    def check_held(self, memory_bytes: int) -> None:
        """Refuse rows of a change that need too much memory for this process.

        Raises:
            NeedsSparkError: They do.
        """
        _check(memory_bytes, self.held_bytes, "its rows need {:,} bytes of memory")

    def check_looked_up(self, files: int) -> None:
        """Refuse to look up keys in too many data files for this process.

        Raises:
            NeedsSparkError: They are too many.
        """
        _check(files, self.looked_up_files, "its keys may be in {:,} data files")


def _check(found: int, most: int | None, text: str) -> None:
    if most is not None and found > most:
        message = f"{text.format(found)}, of at most {most:,}"
        raise NeedsSparkError(message, remedy="Nothing to do: a Spark run does the work")


DEFAULT_LIMITS = EngineLimits()
