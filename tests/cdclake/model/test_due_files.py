"""Which change files are due, whatever their order of arrival."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import UnreadableFileError
from cdclake.model.due_files import (
    Pending,
    begin_after,
    covered_by_full_load,
    covered_by_reload,
    mark_applied,
    mark_loaded,
    mark_seen,
    pending_changes,
)
from cdclake.model.raw.files import ListedObject, RawFile, raw_files
from cdclake.model.raw.ledger import Recorded
from cdclake.model.snapshot import Snapshot
from tests.builders import recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

T0 = datetime(2024, 3, 5, tzinfo=timezone.utc)
HOURS = 72
LATER = T0 + timedelta(hours=400)
"""After the names of all files, which are never stamped in the future."""


def name(hour: float, folder: str = "") -> str:
    return f"{folder}{T0 + timedelta(hours=hour):%Y%m%d-%H%M%S}000.parquet"


def written(*relatives: str, at: datetime = LATER) -> Sequence[RawFile]:
    return raw_files([ListedObject(f"s/t/{relative}", 1, at) for relative in relatives], "s/t/").changes


def due(snapshot: Snapshot, *relatives: str, hours: int = HOURS) -> list[str]:
    return [file.relative for file in pending(snapshot, written(*relatives), hours).due]


def pending(snapshot: Snapshot, files: Sequence[RawFile], hours: int = HOURS) -> Pending:
    return pending_changes(snapshot, files, hours, recorded(snapshot, files))


def applied(*relatives: str, to: Snapshot | None = None, hours: int = HOURS) -> Snapshot:
    return mark_applied(to or Snapshot(), written(*relatives), hours)


def _loads(*hours: int) -> Sequence[RawFile]:
    listing = [ListedObject(f"s/t/LOAD0000000{hour}.csv", 1, T0 + timedelta(hours=hour)) for hour in hours]
    return raw_files(listing, "s/t/").full_load


def test_a_table_without_any_change_lacks_every_file_however_old() -> None:
    assert due(Snapshot(), name(0), name(-9000)) == [name(-9000), name(0)]


def test_files_after_the_watermark_are_due_in_order() -> None:
    assert due(applied(name(1)), name(3), name(1), name(2)) == [name(2), name(3)]


def test_a_late_file_is_due_and_one_delivered_again_is_not() -> None:
    snapshot = applied(name(1), name(3))
    assert due(snapshot, name(1), name(2), name(3), name(4)) == [name(2), name(4)]
    assert due(applied(name(2), name(4), to=snapshot), name(1), name(2), name(3), name(4)) == []


def test_a_late_file_leaves_the_watermark_where_it_is() -> None:
    snapshot = applied(name(2), to=applied(name(1), name(3)))
    assert snapshot.watermark == name(3)
    assert list(snapshot.ledger.recent) == [name(1), name(3), name(2)]


def test_the_window_includes_its_first_second() -> None:
    snapshot = applied(name(100))
    just_outside = name(100 - HOURS - 1 / 3600)
    assert due(snapshot, name(100 - HOURS), just_outside) == [name(100 - HOURS)]


def test_files_in_other_folders_and_with_longer_stamps_are_compared_by_time() -> None:
    fine = "20240305-0200000001.csv"
    snapshot = applied(name(1, "05032024/"), name(3, "04032024/"))
    assert due(snapshot, fine, name(1, "05032024/"), name(-80, "09032024/")) == [fine]


def test_files_behind_the_window_are_not_due_again_when_the_window_becomes_longer() -> None:
    snapshot = applied(name(0), name(100), hours=72)
    assert due(snapshot, name(0), name(10), hours=1000) == []
    longer = applied(name(101), to=snapshot, hours=1000)
    assert due(longer, name(0), name(10), hours=1000) == []
    assert due(longer, name(29), name(99), hours=1000) == [name(29), name(99)]


def test_a_shorter_window_applies_at_once_and_applied_files_are_not_due() -> None:
    snapshot = applied(name(0), name(60), hours=72)
    assert due(snapshot, name(0), name(50), name(59.5), hours=1) == [name(59.5)]


def test_a_window_longer_than_the_calendar_is_unlimited() -> None:
    forever = 10**9
    snapshot = applied(name(0), hours=forever)
    assert due(snapshot, "00010101-000000000.csv", hours=forever) == ["00010101-000000000.csv"]
    assert due(snapshot, "20230101-000000000.csv", hours=9_500_000) == ["20230101-000000000.csv"]


def test_without_a_window_only_files_of_the_watermarks_second_can_be_late() -> None:
    snapshot = applied("20240305-000000500.csv", hours=0)
    assert due(snapshot, "20240304-235959999.csv", "20240305-000000499.csv", hours=0) == ["20240305-000000499.csv"]


def test_files_that_a_full_load_covers_are_never_due() -> None:
    snapshot = begin_after(applied(name(1), name(5)), name(3))
    assert due(snapshot, name(1), name(2), name(3), name(4), name(5)) == [name(4), name(5)]
    after = applied(name(5), to=snapshot)
    assert due(after, name(2), name(4)) == [name(4)]


def test_a_full_load_that_covers_no_change_file_makes_all_due() -> None:
    assert due(begin_after(applied(name(100)), ""), name(0), name(100)) == [name(0), name(100)]


def test_a_full_load_resets_the_horizon() -> None:
    snapshot = applied(name(1), to=begin_after(applied(name(0), name(100)), ""))
    assert due(snapshot, name(0), name(1), name(100)) == [name(0), name(100)]


def test_a_reload_covers_the_change_files_written_before_it() -> None:
    loads = _loads(2, 3)
    before, since = written(name(0), name(1), at=T0 + timedelta(hours=1)), written(name(2), at=T0 + timedelta(hours=2))
    assert covered_by_full_load(loads, [*before, *since]) == name(1)
    assert covered_by_full_load(loads, since) == ""


def test_a_newer_reload_covers_what_was_applied_of_files_that_are_gone() -> None:
    snapshot = replace(applied(name(1)), full_load_utc=f"{T0 + timedelta(hours=1):%Y-%m-%d %H:%M:%S}")
    late = written(name(0.5), at=T0 + timedelta(hours=4))
    assert covered_by_reload(snapshot, _loads(3), late) == name(1)
    assert covered_by_reload(snapshot, _loads(3), written(name(1), at=T0 + timedelta(hours=4))) == ""
    assert covered_by_reload(snapshot, _loads(3), written(name(2), at=T0 + timedelta(hours=2))) == name(2)
    assert covered_by_reload(snapshot, _loads(1), late) == ""  # as old as the load before


def test_a_file_before_the_window_is_too_late_unless_it_was_applied() -> None:
    left = pending(applied(name(0), name(100)), written(name(0), name(10), name(99)))
    assert [file.relative for file in left.too_late] == [name(10)]
    assert [file.relative for file in left.due] == [name(99)]


def test_a_file_that_appears_after_a_full_load_in_the_time_that_it_covers_is_too_late() -> None:
    there = [*written(name(1), name(3), at=T0), *written(name(5))]
    snapshot = mark_loaded(applied(name(1)), _loads(4), there, name(3), Recorded())
    left = pending(snapshot, written(name(1), name(2), name(3), name(5)))
    assert [file.relative for file in left.too_late] == [name(2)]
    assert [file.relative for file in left.due] == [name(5)]


def test_a_file_written_after_a_full_load_in_the_time_that_it_covers_is_too_late() -> None:
    there = [*written(name(1), name(3), at=T0), *written(name(2), name(5))]
    for by_hand, too_late in ((False, [name(2)]), (True, [])):  # an operator said what the full load contains
        snapshot = mark_loaded(applied(name(1)), _loads(4), there, name(3), Recorded(), by_hand=by_hand)
        left = pending(snapshot, there)
        assert [file.relative for file in left.too_late] == too_late
        assert [file.relative for file in left.due] == [name(5)]


def test_a_table_that_begins_after_a_file_contains_all_files_up_to_there_that_are_there_at_first() -> None:
    snapshot, there = begin_after(Snapshot(), name(20)), written(name(10), name(30))
    assert pending(snapshot, there).too_late == []
    snapshot = applied(name(30), to=mark_seen(snapshot, there))
    assert [file.relative for file in pending(snapshot, written(name(10), name(11))).too_late] == [name(11)]


@pytest.mark.parametrize(("hours", "ahead"), [(24, False), (24.01, True)])
def test_a_file_stamped_more_than_a_day_later_than_it_was_written_is_refused(hours: float, ahead: bool) -> None:
    files = written(name(hours), at=T0)
    if not ahead:
        assert pending(Snapshot(), files).due == files
        return
    with pytest.raises(UnreadableFileError, match="stamped more than a day later") as caught:
        pending(Snapshot(), files)
    assert caught.value.details == {"file": f"s/t/{name(hours)}"}


def test_a_file_stamped_in_the_future_is_refused_once_it_is_due() -> None:
    assert pending(applied(name(30)), written(name(30), at=T0)).due == []
    assert covered_by_full_load(_loads(1), written(name(0), name(30), at=T0)) == name(0)


def test_a_snapshot_round_trips_through_bytes() -> None:
    snapshot = begin_after(applied(name(0), name(100)), name(5))
    assert Snapshot.from_bytes(snapshot.to_bytes(), "key") == snapshot
    snapshot = applied(name(0), name(100))
    assert snapshot.horizon
    assert Snapshot.from_bytes(snapshot.to_bytes(), "key") == snapshot


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[int]]:
    """Hours of change files, split into runs. No file is older than an earlier file by more than the window."""
    hours = draw(st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True))
    came: list[int] = []
    for hour in hours:
        if hour >= max(came, default=0) - HOURS:
            came.append(hour)
    cuts = draw(st.lists(st.integers(0, len(came)), max_size=6).map(sorted))
    return [came[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(came)], strict=True)]


@given(arrivals())
def test_any_order_within_the_window_and_any_split_into_runs_applies_every_file_once(runs: list[list[int]]) -> None:
    snapshot, there, done = Snapshot(), list[str](), list[str]()
    for run in runs:
        there += [name(hour) for hour in run]
        todo = pending(snapshot, written(*there)).due
        assert todo == sorted(todo, key=lambda file: file.order)
        snapshot = mark_applied(snapshot, todo, HOURS)
        done += [file.relative for file in todo]
        assert due(snapshot, *there) == []
    assert sorted(done) == sorted(there)
