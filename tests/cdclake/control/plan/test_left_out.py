"""What a table leaves out is stored, and stays a finding as long as the files are there."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from cdclake.control.plan.left_out import MAX_ACCEPTED, MAX_STORED, LeftOut
from cdclake.model.due_files import Pending
from cdclake.model.raw.files import ListedObject, RawFiles, raw_files
from cdclake.model.table.name import TableName

NOW = datetime(2024, 3, 5, tzinfo=timezone.utc)
A, B, C = (f"20240305-10000{n}000.csv" for n in (1, 2, 3))


def listed(**etags: str) -> RawFiles:
    return raw_files([ListedObject(f"s/t/{name}", 1, NOW, etag) for name, etag in etags.items()], "s/t/")


@pytest.mark.parametrize(
    "left_out",
    [
        LeftOut(),
        LeftOut(too_late={A: "1-a"}),
        LeftOut(overwritten={A: "1-a", B: ""}),
        LeftOut(("",), {A: "1-a"}, {}, {B: "1-b"}),
    ],
)
def test_stored_text_round_trips(left_out: LeftOut):
    assert LeftOut.parse(left_out.stored) == left_out
    assert bool(left_out.stored) is any(left_out)


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"unread": true}', "x"])
def test_other_text_means_that_nothing_was_left_out(text: str):
    assert LeftOut.parse(text) == LeftOut()


def test_stored_text_is_limited_and_keeps_that_something_is_unread():
    many = {f"20240305-{number:09d}.csv": f"1-{number:032x}" for number in range(2 * MAX_STORED)}
    stored = LeftOut([f"{number}.txt" for number in range(9999)], many, many).stored
    assert len(stored) < 100_000
    assert LeftOut.parse(stored).unread
    assert len(LeftOut.parse(stored).too_late) == MAX_STORED


def test_late_files_are_acknowledged_a_part_at_a_time_until_none_is_left():
    files = listed(**{f"20240305-{number:09d}.csv": "a" for number in range(3 * MAX_STORED - 1)})
    late = Pending([], [*files.changes], [])
    now = LeftOut().updated(files, late)
    for left in (2 * MAX_STORED - 1, MAX_STORED - 1, 0):
        acknowledged = LeftOut.parse(now.stored).acknowledged()
        now = LeftOut.parse(acknowledged.stored).updated(files, late)
        assert len(now.too_late) == left


def test_stored_text_with_many_acknowledged_files_fits_into_an_item():
    many = {f"2024/03/05/20240305-{number:09d}.parquet": f"123456789-{number:012x}" for number in range(9999)}
    stored = LeftOut((), many, many, many).stored
    assert len(stored) < 220_000
    assert len(LeftOut.parse(stored).accepted) == MAX_ACCEPTED


def test_only_files_that_are_left_out_are_identified():
    """In a folder, that reads a file."""

    def etag() -> str:
        raise AssertionError("it would read the file")

    files = listed(**{A: "a", B: "b"})
    others = raw_files([ListedObject(f"s/t/{C}", 1, NOW, etag)], "s/t/")
    files = files._replace(changes=[*files.changes, *others.changes])
    before = LeftOut(too_late={A: "1-a"}, accepted={B: "1-b"})
    assert before.updated(files)[1:] == before[1:]
    assert before.updated(files, Pending([], [*files.changes[:2]], []))[1:] == before[1:]


def test_a_file_is_left_out_until_it_is_gone_changed_or_accounted_for():
    before = LeftOut(too_late={A: "1-a", B: "1-b", C: "1-c"})
    assert before.updated(listed(**{A: "a", B: "other"})).too_late == {A: "1-a"}
    files = listed(**{A: "a", B: "b"})
    assert before.updated(files, Pending([], [*files.changes[1:]], [])).too_late == {B: "1-b"}


def test_an_acknowledged_file_is_no_finding_until_it_changes():
    seen = LeftOut(too_late={A: "1-a"}, overwritten={B: "1-b"}).acknowledged()
    files = listed(**{A: "a", B: "b"})
    for pending in (None, Pending([], [*files.changes[:1]], [*files.changes[1:]])):
        again = seen.updated(files, pending)
        assert (again.accepted, again.unaccepted) == ({A: "1-a", B: "1-b"}, False)
    files = listed(**{B: "other"})
    assert seen.updated(files, Pending([], [], [*files.changes])).overwritten == {B: "1-other"}
    assert not any(seen.updated(files, Pending([*files.changes], [], [])))


def test_stored_text_is_outdated_once_a_kind_of_file_appears_or_goes():
    late = LeftOut(too_late={A: "1-a"})
    assert LeftOut().is_outdated(late)
    assert late.is_outdated(LeftOut())
    assert not late.is_outdated(LeftOut(too_late={B: "1-b"}))


def test_each_finding_counts_names_and_says_the_remedy():
    unread = ["d", "a", "c", "b"]
    texts = LeftOut(unread, {A: ""}, {B: "", C: ""}).findings(TableName("shop", "my orders"))
    assert [text.split(")")[0] for text in texts] == [
        "4 files (a, b, c, ...",
        f"1 change file ({A}",
        f"2 change files ({B}, {C}",
    ]
    assert "cdclake tables set 'shop.my orders' --set 'IgnoreFiles=<globs>'" in texts[0]
    assert all("cdclake tables acknowledge 'shop.my orders'" in text for text in texts[1:])
