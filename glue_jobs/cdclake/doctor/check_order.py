"""Findings about the order of changes, and about rows that come twice. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from cdclake.doctor.findings import Code, Finding, counted
from cdclake.doctor.infer import timestamp_column
from cdclake.doctor.mend import change_sequence_rule, s3_settings, tables_set
from cdclake.doctor.times import name_offsets, shift_back, usual_offset
from cdclake.lake.raw.normalize import SEQUENCE_COLUMN
from cdclake.model.names import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.doctor.examination import Examination
    from cdclake.doctor.tally import FileRows

_LEAST_ROWS_ALIKE = 10
"""So many rows in a row that are alike in two files are no chance, even without a time or sequence in them."""


def check_order(seen: Examination) -> Iterator[Finding]:
    """What is wrong with the order of changes."""
    sequenced = bool(seen.changes) and all(facts.has(SEQUENCE_COLUMN) for facts in seen.changes)
    ordered = sequenced or bool(seen.settings.order_column)
    yield from _ordering_column(seen, ordered=ordered)
    if not ordered:
        yield from _clocks(seen)
    yield from _side_by_side(seen)
    yield from _twice(seen, ordered=ordered)


def _ordering_column(seen: Examination, *, ordered: bool) -> Iterator[Finding]:
    rule = change_sequence_rule(seen.name)
    if seen.changes and not ordered:
        without = [facts for facts in seen.changes if not facts.has(SEQUENCE_COLUMN)]
        text = f"{len(without):,} of {len(seen.changes):,} change files have neither"
        mend, paste = "Add this mapping rule to the task", rule
        renamed = [column for column, alike in seen.rows.like_sequences.items() if alike]
        if renamed:
            mend = f"{renamed[0]} holds what seem to be change sequences: set it"
            paste = tables_set(seen.name, "--set", f"{Attribute.ORDER_COLUMN}={renamed[0]}")
        yield Finding(Code.NO_ORDER, text, mend, paste, without[0].file.relative)
    name = seen.settings.order_column
    without = [facts for facts in seen.changes if name and not facts.has(name)]
    if without:
        text = f"{len(without):,} of {len(seen.changes):,} change files have no {name}"
        mend = "Correct OrderColumn, or leave it out and add this mapping rule to the task"
        yield Finding(Code.ORDER_NOT_THERE, text, mend, rule, without[0].file.relative, column=name)
    falling = [(file, told.falls_at) for file, told in seen.rows.files.items() if told.falls_at is not None]
    if ordered and falling:
        file, row = falling[0]
        mend = "Have the order told by what grows with every change: add this mapping rule to the task"
        text = f"in {len(falling):,} of {len(seen.changes):,} change files"
        yield Finding(Code.ORDER_FALLS, text, mend, rule, file, row, name or SEQUENCE_COLUMN)


def _clocks(seen: Examination) -> Iterator[Finding]:
    offsets = name_offsets(seen.listing.times, seen.rows.stamp_ends.get(timestamp_column(seen), {}))
    shift, rule = shift_back(offsets), change_sequence_rule(seen.name)
    paste = f"{rule}\n{s3_settings(DatePartitionTimezone='UTC')}"
    if shift:
        text = f"by {shift.by}, after {shift.before.relative}"
        mend = "Add this mapping rule, or have names in UTC; then have the task reload the table"
        yield Finding(Code.NAMES_GO_BACKWARDS, text, mend, paste, shift.after.relative)
        return
    offset = usual_offset(offsets)
    in_folders = any("/" in file.relative for file in seen.listing.times)
    if offset and in_folders:
        text = f"{offset.total_seconds() / 3600:+g} h from UTC"
        mend = "Add this mapping rule to the task, or have names in UTC"
        yield Finding(Code.LOCAL_TIME_NAMES, text, mend, paste, offsets[-1][0].relative)


def _side_by_side(seen: Examination) -> Iterator[Finding]:
    """Files whose sequences overlap without having any in common."""
    spans = [
        (min(told.sequences), max(told.sequences), file, set(told.sequences))
        for file, told in seen.rows.files.items()
        if told.sequences
    ]
    spans.sort(key=lambda span: span[:3])
    found = [
        (before, after) for before, after in zip(spans, spans[1:]) if after[0] < before[1] and not before[3] & after[3]
    ]
    if found:
        (_, _, first, _), (_, _, second, _) = found[0]
        text = f"{counted(len(found), 'pair')} of files, such as this one and {first}"
        mend = "Have one task write the table, or each task a table of its own"
        yield Finding(Code.TWO_WRITERS, text, mend, file=second)


def _twice(seen: Examination, *, ordered: bool) -> Iterator[Finding]:
    pairs = [*_shared_sequences(seen.rows.files)] or [*_alike(seen, seen.rows.files)]
    if not pairs:
        return
    rows = sum(count for _, _, count in pairs)
    first, second, _ = pairs[0]
    text = f"{counted(rows, 'row')} in {counted(len(pairs), 'pair')} of files, such as this one and {first}"
    if ordered and seen.settings.primary_key:
        yield Finding(Code.DELIVERED_TWICE, text, "Nothing is to be done", file=second)
    else:
        mend = "Set PrimaryKey if there is none, and add this mapping rule to the task"
        yield Finding(Code.DELIVERED_TWICE_NO_ORDER, text, mend, change_sequence_rule(seen.name), second)


def _shared_sequences(files: dict[str, FileRows]) -> Iterator[tuple[str, str, int]]:
    """Pairs of files with the number of change sequences that are in both."""
    first_in: dict[str, str] = {}
    shared: Counter[tuple[str, str]] = Counter()
    for file, told in files.items():
        for sequence in set(told.sequences):
            other = first_in.setdefault(sequence, file)
            if other != file:
                shared[other, file] += 1
    yield from ((first, second, count) for (first, second), count in sorted(shared.items()))


def _alike(seen: Examination, files: dict[str, FileRows]) -> Iterator[tuple[str, str, int]]:
    """Pairs of change files whose rows are the same, one by one."""
    by_digest: defaultdict[bytes, list[str]] = defaultdict(list)
    timed = bool(timestamp_column(seen))
    changes: Sequence[str] = [facts.file.relative for facts in seen.changes if facts.whole]
    for file in changes:
        told = files.get(file)
        if told and told.rows >= (1 if timed else _LEAST_ROWS_ALIKE):
            by_digest[told.digest].append(file)
    for alike in by_digest.values():
        yield from ((alike[0], other, files[other].rows) for other in alike[1:])
