"""Of older states only some are kept. These read as when they were made; all else is refused, and deleted."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.adapters.s3 import S3Store
from cdclake.commit.clean_up import clean_up, plan_clean_up
from cdclake.commit.erasure import Replacement, commit_erasure, delete_unreferenced, rewrite_snapshots
from cdclake.commit.log import ChangeLog
from cdclake.commit.table_files import check_files
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import plan_reapply, plan_rollback
from cdclake.errors import ConfigurationError, PastRetentionError
from cdclake.lake.read.as_of import table_as_of
from cdclake.model.change.record import ChangeKind
from cdclake.model.retained import Retained
from cdclake.model.snapshot import DataFile
from cdclake_devkit.memory import ManualClock, MemoryStore
from cdclake_devkit.versioned_bucket import VersionedBucket
from tests.builders import LAYOUT, LakeBuilder
from tests.dying_store import Death, DiedError, DyingStore
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from cdclake.ports import ObjectStore

HOUR_SECONDS, DAY_SECONDS = 3600, 24 * 3600
DAY = timedelta(days=1)
MONTH = 30 * DAY
Content = dict[str, str]


def in_memory(clock: ManualClock) -> ObjectStore:
    return MemoryStore(clock)


def versioned(clock: ManualClock) -> ObjectStore:
    return S3Store(cast("S3Client", VersionedBucket(clock)), "lake")


class History:
    """A table whose every state is remembered, file by file."""

    def __init__(self, make_store: Callable[[ManualClock], ObjectStore]) -> None:
        self.clock = ManualClock()
        self.lake = LakeBuilder(make_store(self.clock), self.clock)
        self.store, self.log = self.lake.store, self.lake.log
        self.seen: dict[int, Content] = {}
        self.past_files: dict[int, set[str]] = {}
        """Files that erasures wrote for earlier states, by erasure."""

    def copy(self) -> History:
        """A history that goes on from the same state."""
        store = cast("Any", self.store)
        return deepcopy(self, {id(getattr(store, "_client", store)._lock): Lock()})

    def note(self) -> None:
        for number in range(max(self.seen, default=0) + 1, self.log.head() + 1):
            self.seen[number] = self.content(number)

    def content(self, number: int) -> Content:
        return {file.path: self.hash_of(file.path) for file in self.log.snapshot(number).all_files}

    def hash_of(self, path: str) -> str:
        key, copy = LAYOUT.data_key(path), LAYOUT.control_prefix + "copy"
        self.store.copy_retained(key, LAYOUT.retired_key(path), copy)
        content = self.store.get(copy) or b""
        self.store.remove(copy, lambda _: False)
        return sha256(content).hexdigest()

    def change(self, files: int = 1, replaced: int = 1, **more: Any) -> None:
        live = [file.path for file in self.lake.snapshot.files]
        self.lake.change(files, live[:replaced], tombstones=files, rows=0, **more)
        self.note()

    def adopt(self) -> None:
        number = self.log.head() + 1
        path = f"adopted-{number}.parquet"
        self.store.put(LAYOUT.data_key(path), path.encode())
        files = (*self.lake.snapshot.files, DataFile(path, 0, len(path)))
        self.change(0, 0, kind=ChangeKind.ADOPTION, snapshot={"files": files})

    def erase(self, number: int) -> None:
        """Replace one of the files of all retained states."""
        before = self.lake.snapshot
        paths = {file.path for change in self.log.retained().up_to(before.change) for file in self.files_of(change)}
        if not paths:
            return
        old = sorted(paths)[number % len(paths)]
        change = before.change + 1
        new = DataFile(LAYOUT.data_path(change, 1, (), ()), 0, 6)
        live = old in {file.path for file in before.files}
        staged = LAYOUT.staging_prefix(change, "eraser") + "1.parquet"
        self.store.put(staged if live else LAYOUT.retired_key(new.path), b"erased")
        replacement = Replacement({old: new}, staged={new.path: staged} if live else {})
        if (not live and isinstance(self.store, S3Store)) or not live:  # as the data file writer of an erasure does
            self.past_files[change] = {new.path}
        commit_erasure(self.log, before, replacement, "eraser", self.lake.token, self.clock)
        rewrite_snapshots(self.log, self.lake.snapshot, replacement)
        delete_unreferenced(self.log, change)
        erased = sha256(b"erased").hexdigest()
        for seen in self.seen.values():
            if old in seen:
                del seen[old]
                seen[new.path] = erased
        self.note()

    def files_of(self, change: int) -> tuple[DataFile, ...]:
        return self.log.snapshot(change).all_files

    def clean_up(self, retention: timedelta = MONTH, keep_every: timedelta = DAY) -> None:
        clean_up(self.log, plan_clean_up(self.log, retention, self.clock(), keep_every=keep_every))
        self.check(cleaned=True)

    def check(self, *, cleaned: bool = False) -> None:
        head, retained = self.log.head(), self.log.retained()
        for number in range(1, head + 1):
            if number in retained:
                assert self.content(number) == self.seen[number]
            else:
                with pytest.raises(PastRetentionError):
                    table_as_of(self.log, number)
        if not head:
            return
        check_files(self.log, self.lake.snapshot)
        assert self.lake.visible() == self.seen[head]
        if cleaned:
            self.check_nothing_is_left(retained.up_to(head))

    def check_nothing_is_left(self, kept: list[int]) -> None:
        snapshots = [self.log.snapshot(number) for number in kept]
        needed = {file.path for snapshot in snapshots for file in snapshot.all_files}
        later = {path for change, paths in self.past_files.items() if change > kept[0] for path in paths}
        known = {LAYOUT.data_path_of(key) for key in self.keys(LAYOUT.table_prefix)}
        known |= {key.removeprefix(LAYOUT.retired_folder) for key in self.keys(LAYOUT.retired_folder)}
        assert known - later == needed - later
        keys = set(self.keys(LAYOUT.snapshots_folder))
        assert keys == {self.log.record(number).snapshot_key for number in kept}
        assert set(self.keys(LAYOUT.tombstones_folder)) == {key for one in snapshots for key in one.part_keys}

    def keys(self, prefix: str) -> list[str]:
        """Keys of all objects, also of those that are hidden in a versioned bucket."""
        old = [version.key for version in self.store.old_versions(prefix)]
        hidden = old if prefix == LAYOUT.table_prefix else []
        return [*(entry.key for entry in self.store.list(prefix)), *hidden]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("changes"), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2), st.integers(0, 300)),
        st.just(("rollback",)),
        st.tuples(st.just("to"), st.integers(0, 20)),
        st.just(("reapply",)),
        st.just(("adopt",)),
        st.just(("take over",)),
        st.tuples(st.just("erase"), st.integers(0, 20)),
        st.tuples(st.just("hours"), st.integers(1, 200)),
        st.tuples(st.just("clean up"), st.sampled_from([30, 30, 3, 0]), st.sampled_from([1, 1, 0, 2, 30])),
        st.just(("crashed run",)),
    ),
    max_size=20,
)


@pytest.mark.parametrize("make_store", [in_memory, versioned])
@examples(thorough=2000, ci=200, test=60)
@given(steps=steps)
def test_kept_states_read_as_they_were_made_and_nothing_else_is_left(
    make_store: Callable[[ManualClock], ObjectStore], steps: list[tuple[Any, ...]]
) -> None:
    history = History(make_store)
    lake = history.lake
    for step in [*steps, ("hours", 40), ("clean up", 30, 1)]:
        name, *numbers = step
        with suppress(ConfigurationError):  # nothing to undo, or not retained
            if name == "changes":
                for _ in range(numbers[0]):
                    history.clock.advance(numbers[3] * 60)
                    history.change(numbers[1], numbers[2])
            elif name == "rollback":
                lake.rollback()
            elif name == "to":
                lake.rollback(to=numbers[0])
            elif name == "reapply":
                lake.reapply()
            elif name == "adopt":
                history.adopt()
            elif name == "take over":
                take_over(history.log, "other", lake.token, "a test", history.clock)
            elif name == "erase":
                history.erase(numbers[0])
            elif name == "hours":
                history.clock.advance(numbers[0] * HOUR_SECONDS)
            elif name == "crashed run" and history.log.head():
                lake.stage(run_id="crashed", tombstones=1, rows=0)
                take_over(history.log, "other", lake.token, "a run had left an unfinished change", history.clock)
        history.note()
        if name == "clean up":
            history.clean_up(numbers[0] * DAY, numbers[1] * DAY)
    history.check()


def change_often(history: History, times: int, minutes: int = 30) -> None:
    for _ in range(times):
        history.change()
        history.clock.advance(minutes * 60)


@pytest.mark.parametrize("make_store", [in_memory, versioned])
def test_a_dropped_state_is_refused_with_the_nearest_kept_ones(
    make_store: Callable[[ManualClock], ObjectStore],
) -> None:
    history = History(make_store)
    change_often(history, 200)  # from 10:00, so changes 4, 16, 28 ... are the last of their six hours
    history.clean_up()
    retained = history.log.retained()
    assert retained.kept[:3] == (4, 16, 28)
    with pytest.raises(
        PastRetentionError, match=r"Change 20 .* nearest retained ones: change 16 of 2024-03-05 17:30"
    ) as e:
        plan_rollback(history.log, 20)
    assert "or change 28 of 2024-03-05 23:30" in str(e.value)
    history.lake.rollback(to=16)
    history.note()
    history.check()


def test_a_plain_rollback_works_however_old_the_change_is() -> None:
    history = History(in_memory)
    change_often(history, 3, minutes=1)
    history.clock.advance(20 * DAY_SECONDS)
    history.clean_up()
    assert history.log.retained().up_to(3) == [2, 3]
    history.lake.rollback()
    history.note()
    assert history.lake.visible() == history.seen[2]


def test_what_can_be_reapplied_stays_and_dropped_changes_are_reapplied_with_the_next_kept_one() -> None:
    history = History(in_memory)
    change_often(history, 3, minutes=1)
    history.clock.advance(2 * DAY_SECONDS)
    history.clean_up()
    change_often(history, 3, minutes=1)
    assert history.log.retained().up_to(6) == [2, 3, 4, 5, 6]
    history.lake.rollback(to=2)
    history.note()
    history.clock.advance(3 * DAY_SECONDS)
    history.clean_up()
    for number in (3, 4, 5, 6):
        assert plan_reapply(history.log).undone == (number,)
        history.lake.reapply()
        history.note()
        assert history.lake.visible() == history.seen[number]

    history.log.mark_retained(Retained(9, (5, 6, 7)))
    history.lake.rollback(to=7)
    assert plan_reapply(history.log).undone == (3, 4, 5)


@pytest.mark.slow
@pytest.mark.parametrize("make_store", [in_memory, versioned])
def test_the_next_clean_up_deletes_what_one_that_died_had_dropped(
    make_store: Callable[[ManualClock], ObjectStore],
) -> None:
    before = History(make_store)
    change_often(before, 30, minutes=90)
    before.lake.rollback(to=12)
    before.note()
    before.clean_up()
    change_often(before, 20, minutes=120)
    before.clock.advance(10 * DAY_SECONDS)
    died = True
    call = 0
    while died:
        call += 1
        for carried_out in (False, True):
            history = before.copy()
            plan = plan_clean_up(history.log, MONTH, history.clock(), keep_every=DAY)
            assert plan.data_files
            dying = DyingStore(history.store, Death(call, carried_out))
            try:
                clean_up(ChangeLog(cast("Any", dying), LAYOUT), plan)
                died = False
            except DiedError:
                history.check()
            history.clock.advance(3 * HOUR_SECONDS)
            history.clean_up()
    assert call > 4


def test_a_clean_up_reads_only_what_is_new_since_the_last_one() -> None:
    history = History(in_memory)
    change_often(history, 300)
    history.clean_up()
    change_often(history, 12)
    read = []
    log, get = history.log, history.store.get

    class Counting(MemoryStore):
        def get(self, key: str) -> bytes | None:
            read.append(key)
            return get(key)

    counting = Counting(history.clock)
    counting._objects = cast("MemoryStore", history.store)._objects
    plan_clean_up(ChangeLog(counting, LAYOUT), MONTH, history.clock(), keep_every=DAY)
    records = {key for key in read if key.startswith(LAYOUT.changes_prefix)}
    kept = len(log.retained().kept)
    assert kept < 30
    assert len(records) <= 48 + 12 + kept + 2
    assert len([key for key in read if key.startswith(LAYOUT.snapshots_folder)]) <= kept + 3  # the newest, too


def test_a_clean_up_finds_the_files_of_states_that_an_erasure_dropped_before_it_died() -> None:
    before = History(versioned)
    change_often(before, 30, minutes=90)
    before.clock.advance(3 * DAY_SECONDS)
    before.clean_up()
    change_often(before, 2)
    head = before.log.head()
    died, call = True, 0
    while died:
        call += 1
        history = before.copy()
        history.log.mark_retained(Retained(head - 2))  # as before an erasure of raw files
        try:
            delete_unreferenced(ChangeLog(cast("Any", DyingStore(history.store, Death(call, True))), LAYOUT), head)
            died = False
        except DiedError:
            history.clock.advance(40 * DAY_SECONDS)
            history.clean_up()
    assert call > 2
