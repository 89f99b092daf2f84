"""A folder of any size is listed in bounded memory, and its sample covers the whole range."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

from cdclake.model.raw.files import ListedObject
from cdclake_cli.doctor.listing import EvenSample, evenly_spaced, read_listing

PREFIX = "shop/orders/"
START = datetime(2024, 3, 5, tzinfo=timezone.utc)


def change(number: int, size_bytes: int = 10, folder: str = "") -> ListedObject:
    when = START + timedelta(minutes=number)
    return ListedObject(f"{PREFIX}{folder}{when:%Y%m%d-%H%M%S}000.parquet", size_bytes, when)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 5, 30, 31, 700, 20_000])
def test_a_sample_has_the_oldest_the_newest_and_some_between(count: int) -> None:
    objects = [change(number) for number in range(count)]
    random.Random(7).shuffle(objects)  # date folders of some patterns are not listed in the order of their times
    listing = read_listing(objects, PREFIX, 30)
    keys = sorted(entry.key for entry in objects)
    sample = [file.key for file in listing.sample]
    assert listing.change_count == count
    assert len(sample) == min(count, 30)
    assert sample == sorted(sample)
    assert sample[:10] == keys[: len(sample)][:10]
    assert sample[-10:] == keys[-len(sample) :][-10:] if count else not sample
    assert len(read_listing(objects, PREFIX, 0).sample) == count


def test_all_files_are_counted_and_foreign_objects_are_reported() -> None:
    objects = [
        ListedObject(f"{PREFIX}LOAD00000001.parquet", 5, START),
        change(1, 0),
        change(2, 200_000),
        ListedObject(PREFIX, 0, START),
        ListedObject(f"{PREFIX}awsdms_status/x.csv", 3, START),
        ListedObject(f"{PREFIX}readme.txt", 3, START),
    ]
    listing = read_listing(objects, PREFIX, 30)
    assert [file.relative for file in listing.loads] == ["LOAD00000001.parquet"]
    assert (listing.change_count, listing.change_bytes, listing.small_count) == (2, 200_000, 1)
    assert [file.relative for file in listing.empty] == ["20240305-000100000.parquet"]
    assert (listing.other, listing.other_count) == ((f"{PREFIX}readme.txt",), 1)
    assert listing.pending == ()


def test_files_that_the_operator_ignores_are_left_out() -> None:
    objects = [change(1), change(2), ListedObject(f"{PREFIX}readme.txt", 3, START)]
    listing = read_listing(objects, PREFIX, 30, ignore=["*.txt", "20240305-000100000.parquet"])
    assert (listing.change_count, listing.other_count) == (1, 0)


def test_a_change_file_stamped_in_the_future_has_an_invalid_time() -> None:
    ahead = ListedObject(f"{PREFIX}20340305-101500000.parquet", 3, START)
    listing = read_listing([change(1), ahead], PREFIX, 30)
    assert [file.relative for file in listing.invalid_times] == ["20340305-101500000.parquet"]


def test_pending_files_are_kept_on_request() -> None:
    objects = [change(number) for number in range(5)]
    listing = read_listing(objects, PREFIX, 30, pending_from="20240305-000300000.parquet")
    assert [file.relative for file in listing.pending] == ["20240305-000300000.parquet", "20240305-000400000.parquet"]


def test_an_even_sample_keeps_the_first_item_and_at_most_twice_its_size() -> None:
    sample = EvenSample[int](10)
    for number in range(100_000):
        sample.add(number)
        assert len(sample.items) < 20
    assert sample.items[0] == 0
    assert len({after - before for before, after in zip(sample.items, sample.items[1:])}) == 1


def test_evenly_spaced_items_include_both_ends() -> None:
    assert evenly_spaced(range(100), 5) == [0, 25, 50, 74, 99]
    assert evenly_spaced(range(3), 5) == [0, 1, 2]
    assert evenly_spaced(range(3), 1) == [2]
    assert evenly_spaced(range(3), 0) == [0, 1, 2]
