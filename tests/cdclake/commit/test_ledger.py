"""Ledgers in segments answer as one table of all files would."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.ledger import all_entries, entries, identified, recorded, seal
from cdclake.commit.log import ChangeLog
from cdclake.errors import IntegrityError
from cdclake.model.layout import LakeLayout
from cdclake.model.raw.files import ListedObject, RawFile, raw_files
from cdclake.model.raw.ledger import Entry, Ledger, Recorded, Segment
from cdclake.model.table.name import TableName
from cdclake_devkit.memory import MemoryStore
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = datetime(2024, 3, 5, tzinfo=timezone.utc)


def name(number: int) -> str:
    return f"{'2024/03/05/' if number % 3 else ''}20240305-{number:09d}.csv"


def listed(etags: dict[int, str]) -> list[RawFile]:
    objects = [ListedObject(f"s/t/{name(number)}", 1, NOW, etag) for number, etag in etags.items()]
    return list(raw_files(objects, "s/t/").changes)


def new_log() -> ChangeLog:
    return ChangeLog(MemoryStore(lambda: NOW), LakeLayout("lake", "", TableName("s", "t")))


def sealed(log: ChangeLog, numbers: range, files: int = 2) -> Ledger:
    return seal(log, Ledger().with_files(listed(dict.fromkeys(numbers, "a")), 1), 1, "run", files)


STEPS = st.one_of(
    st.tuples(st.just("apply"), st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True)),
    st.tuples(st.sampled_from(["remove", "overwrite", "erase", "learn"]), st.lists(st.integers(0, 40), max_size=3)),
)


@examples(thorough=5_000, ci=300, test=150)
@given(st.lists(STEPS, min_size=1, max_size=12), st.integers(1, 4))
def test_any_ledger_answers_as_one_table_of_all_files(steps: list[tuple[str, list[int]]], files: int) -> None:
    log, ledger = new_log(), Ledger()
    there, known = dict[int, str](), dict[int, Entry]()
    for change, (step, numbers) in enumerate(steps, 1):
        if step == "apply":
            there.update((number, there.get(number, "a")) for number in numbers)
            ledger = ledger.with_files(listed({number: there[number] for number in numbers}), change)
            known.update((number, Entry(f"1-{there[number]}", change)) for number in numbers)
        elif step == "learn":
            ledger = identified(log, ledger, listed(there), recorded(log, ledger, listed(there)))
            for number in there.keys() & known.keys():
                if not known[number].identity:
                    known[number] = known[number]._replace(identity=f"1-{there[number]}")
        else:
            for number in there.keys() & set(numbers):
                there[number] += "b"
                if step == "remove":
                    del there[number]
            if step == "erase":
                erased = entries(log, ledger, [name(number) for number in numbers])
                ledger = ledger.with_entries({one: entry._replace(identity="") for one, entry in erased.items()})
                known.update((one, known[one]._replace(identity="")) for one in numbers if one in known)
        ledger = seal(log, ledger, change, "run", files)
        here = [number for number in there if number in known]
        assert recorded(log, ledger, listed(there)) == Recorded(
            {name(one) for one in here},
            {name(one) for one in here if known[one].identity not in ("", f"1-{there[one]}")},
            {name(one) for one in here if not known[one].identity},
        )
        assert all_entries(log, ledger) == {name(number): entry for number, entry in known.items()}
        assert entries(log, ledger, list(map(name, range(41)))) == all_entries(log, ledger)
        assert len(ledger.recent) <= 2 * files
        assert [one.last < other.first for one, other in zip(ledger.segments, ledger.segments[1:])].count(False) == 0
        assert all(segment.files < 3 * files for segment in ledger.segments)


def test_a_segment_whose_files_are_listed_as_they_were_is_not_read() -> None:
    log = new_log()
    ledger = sealed(log, range(10))
    reads: list[str] = []

    def read(segments: Sequence[Segment]) -> list[dict[str, Entry]]:
        reads.extend(segment.key for segment in segments)
        return [all_entries(log, Ledger(segments=(segment,))) for segment in segments]

    files = listed(dict.fromkeys(range(12), "a"))
    assert ledger.recorded(files, read).names == {name(number) for number in range(10)}
    assert ledger.recorded(files[8:], read).names == {name(8), name(9)}
    assert reads == []
    assert ledger.recorded(files[1:], read).names == {name(number) for number in range(1, 10)}
    assert reads == [ledger.segments[0].key]


def test_of_a_folder_only_sizes_of_old_files_are_compared() -> None:
    log = new_log()
    ledger = sealed(log, range(10))

    def etag() -> str:
        raise AssertionError("it would read the file")

    files = [replace(file, etag=etag) for file in listed(dict.fromkeys(range(8), "a"))]
    assert not recorded(log, ledger, files).overwritten
    assert recorded(log, ledger, [replace(file, size_bytes=2) for file in files]).overwritten == {
        name(number) for number in range(8)
    }


def test_identities_that_the_store_does_not_tell_are_not_learned() -> None:
    log = new_log()
    ledger = seal(log, Ledger().with_files(listed(dict.fromkeys(range(10), "")), 1), 1, "run", 2)
    there = listed(dict.fromkeys(range(3, 10), ""))
    seen = recorded(log, ledger, there)
    assert seen.unidentified
    assert identified(log, ledger, there, seen) == ledger


def test_a_segment_that_is_missing_or_damaged_is_named() -> None:
    log = new_log()
    ledger = sealed(log, range(10))
    key = ledger.segments[0].key
    log.store.put(key, b"x")
    with pytest.raises(IntegrityError, match="segment of the ledger of a table is damaged") as caught:
        all_entries(log, ledger)
    assert caught.value.details["file"] == key
    log.store.delete([key])
    with pytest.raises(IntegrityError, match="An object of the change log") as caught:
        all_entries(log, ledger)
    assert caught.value.details["key"] == key
