"""Findings about the order of changes, and about rows that arrive twice. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from cdclake.lake.raw.added_columns import SEQUENCE_COLUMN
from cdclake.model.table.attributes import Attribute
from cdclake_cli.doctor.clocks import find_clock_shift, usual_offset
from cdclake_cli.doctor.findings import Code, Finding, counted, some_have
from cdclake_cli.doctor.fixes import change_sequence_rule, s3_settings, tables_set
from cdclake_cli.doctor.infer import clock_offsets, timestamp_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake_cli.doctor.evidence import Evidence
    from cdclake_cli.doctor.row_statistics import FileStatistics

_MIN_EQUAL_ROWS = 10
"""Two files with this many equal rows are not a coincidence, even if the rows contain no time or sequence."""


def check_order(evidence: Evidence) -> Iterator[Finding]:
    """Faults in the order of changes."""
    sequenced = bool(evidence.changes) and all(facts.has(SEQUENCE_COLUMN) for facts in evidence.changes)
    ordered = sequenced or bool(evidence.settings.order_column)
    yield from _ordering_column(evidence, ordered=ordered)
    if not ordered:
        yield from _clocks(evidence)
    yield from _two_writers(evidence)
    yield from _delivered_twice(evidence, sequenced=sequenced, ordered=ordered)


def _ordering_column(evidence: Evidence, *, ordered: bool) -> Iterator[Finding]:
    rule = change_sequence_rule(evidence.name)
    if evidence.changes and not ordered:
        without = [facts for facts in evidence.changes if not facts.has(SEQUENCE_COLUMN)]
        text = f"{some_have(len(without), len(evidence.changes), 'change file')} neither"
        fix, paste = "Add this mapping rule to the task, then reload the table", rule
        renamed = [column for column, is_like in evidence.statistics.sequence_like.items() if is_like]
        if renamed:
            fix = f"{renamed[0]} seems to contain change sequences: set it as the order column, then reload"
            paste = tables_set(evidence.name, "--set", f"{Attribute.ORDER_COLUMN}={renamed[0]}")
        yield Finding(Code.NO_ORDER, text, fix, paste, without[0].file.relative)
    name = evidence.settings.order_column
    without = [facts for facts in evidence.changes if name and not facts.has(name)]
    if without:
        text = f"{some_have(len(without), len(evidence.changes), 'change file')} no {name}"
        fix = "Correct OrderColumn, or remove it and add this mapping rule to the task; then reload the table"
        yield Finding(Code.ORDER_NOT_THERE, text, fix, rule, without[0].file.relative, column=name)
    rows_of = evidence.statistics.files
    decreasing = [(file, rows.first_decrease) for file, rows in rows_of.items() if rows.first_decrease is not None]
    if ordered and decreasing:
        file, row = decreasing[0]
        fix = "Order by a value that grows with every change: add this mapping rule to the task, then reload the table"
        text = f"in {len(decreasing):,} of {counted(len(evidence.changes), 'change file')}"
        yield Finding(Code.ORDER_FALLS, text, fix, rule, file, row, name or SEQUENCE_COLUMN)


def _clocks(evidence: Evidence) -> Iterator[Finding]:
    offsets = clock_offsets(evidence, evidence.listing.timeline)
    shift, rule = find_clock_shift(offsets), change_sequence_rule(evidence.name)
    paste = f"{rule}\n{s3_settings(DatePartitionTimezone='UTC')}"
    if shift:
        text = f"by {shift.by}, after {shift.before.relative}"
        fix = "Add this mapping rule to the task, or use UTC in names; then reload the table"
        yield Finding(Code.NAMES_GO_BACKWARDS, text, fix, paste, shift.after.relative)
        return
    offset = usual_offset(offsets)
    in_folders = any("/" in file.relative for file in evidence.listing.timeline)
    if offset and in_folders:
        text = f"{offset.total_seconds() / 3600:+g} h from UTC"
        fix = "Add this mapping rule to the task, or use UTC in names"
        yield Finding(Code.LOCAL_TIME_NAMES, text, fix, paste, offsets[-1][0].relative)


def _two_writers(evidence: Evidence) -> Iterator[Finding]:
    """Files whose ranges of sequences overlap although they share no sequence."""
    sequences = {file: rows.sequences for file, rows in evidence.statistics.files.items() if rows.sequences}
    ranges = [(min(values), max(values), file, set(values)) for file, values in sequences.items()]
    ranges.sort(key=lambda span: span[:3])
    pairs = [(one, two) for one, two in zip(ranges, ranges[1:]) if two[0] < one[1] and not one[3] & two[3]]
    if pairs:
        (_, _, first, _), (_, _, second, _) = pairs[0]
        text = f"{counted(len(pairs), 'pair')} of files, for example this one and {first}"
        fix = "Write the table with one task, or give each task its own table"
        yield Finding(Code.TWO_WRITERS, text, fix, file=second)


def _delivered_twice(evidence: Evidence, *, sequenced: bool, ordered: bool) -> Iterator[Finding]:
    pairs = [*_shared_sequences(evidence.statistics.files)] or [*_equal_files(evidence, evidence.statistics.files)]
    if not pairs:
        return
    rows = sum(count for _, _, count in pairs)
    first, second, _ = pairs[0]
    text = f"{counted(rows, 'row')} in {counted(len(pairs), 'pair')} of files, for example this one and {first}"
    rule = change_sequence_rule(evidence.name)
    if ordered and evidence.settings.primary_key:
        if sequenced or not evidence.settings.history:
            yield Finding(Code.DELIVERED_TWICE, text, "No action needed", file=second)
        else:
            fix = "Add this mapping rule to the task, then reload the table"
            yield Finding(Code.DELIVERED_TWICE_IN_HISTORY, text, fix, rule, second)
    else:
        fix = "Set PrimaryKey if it is not set, and add this mapping rule to the task"
        yield Finding(Code.DELIVERED_TWICE_NO_ORDER, text, fix, rule, second)


def _shared_sequences(files: dict[str, FileStatistics]) -> Iterator[tuple[str, str, int]]:
    """Pairs of files, with the number of change sequences that occur in both."""
    first_in: dict[str, str] = {}
    shared: Counter[tuple[str, str]] = Counter()
    for file, statistics in files.items():
        for sequence in set(statistics.sequences):
            other = first_in.setdefault(sequence, file)
            if other != file:
                shared[other, file] += 1
    yield from ((first, second, count) for (first, second), count in sorted(shared.items()))


def _equal_files(evidence: Evidence, files: dict[str, FileStatistics]) -> Iterator[tuple[str, str, int]]:
    """Pairs of change files with equal rows in the same order, with the number of rows."""
    by_digest: defaultdict[bytes, list[str]] = defaultdict(list)
    timed = bool(timestamp_column(evidence))
    changes: Sequence[str] = [facts.file.relative for facts in evidence.changes if facts.all_rows_read]
    for file in changes:
        statistics = files.get(file)
        if statistics and statistics.rows >= (1 if timed else _MIN_EQUAL_ROWS):
            by_digest[statistics.digest].append(file)
    for equal in by_digest.values():
        yield from ((equal[0], other, files[other].rows) for other in equal[1:])
