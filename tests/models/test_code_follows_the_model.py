"""The code makes the calls that the model of the commit protocol makes, in its order, wherever it dies.

Runs, rollbacks and clean-ups of the code work on stores in memory, which record the calls that change something, and
die or pause at any of them. Each history is repeated in the model: it must make the same calls, and end with the same
log, files, marks and item. So a change of the protocol needs a change of the model, which is then searched.
"""

from __future__ import annotations

import time
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.log import ChangeLog
from cdclake.commit.publish import FENCE_SECONDS
from cdclake.commit.table_files import check_files
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.errors import CdclakeError
from cdclake.model.change.record import StagedFile
from cdclake.model.layout import LakeLayout, change_of
from cdclake.model.names import Sentinel
from cdclake.model.snapshot import DataFile
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.memory import ManualClock
from tests.cdclake.control.world import ORDERS, World
from tests.dying_store import SECOND_HALF, Death, DiedError
from tests.examples import examples
from tests.models.calls import Setting
from tests.models.model import Model
from tests.models.world import BEGIN, NOBODY
from tests.models.world import World as ModelWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cdclake.model.snapshot import Snapshot
    from tests.models.calls import Call

YEARS = timedelta(days=3650)
TASKS = ("run", "run", "run", "clean-up", "rollback to 1", "rollback to 2", "rollback to 3")
MAX_CALLS = 30
"""More than any task makes."""


class Pause(NamedTuple):
    """Where a task is paused past its lease: after which call that changes something, and what another does then."""

    call: int
    other: str


class Recorder:
    """Records the calls of one task that change something, and dies or pauses at one of them."""

    def __init__(self, table: Table, fault: Death | Pause | None) -> None:
        self._table, self._fault = table, fault
        self.labels: list[str] = []
        self.hit = False

    def call(self, label: Callable[[], str], act: Callable[[], Any]) -> Any:
        """Make a call. Its label is empty if it changes nothing that the model has."""
        fault = self._fault
        if self.hit and isinstance(fault, Death):
            raise DiedError
        named = label()
        if not named:
            return act()
        before, number = self._table.contents(), len(self.labels) + 1
        if fault == Death(number, carried_out=False):
            self._die()
        answer = act()
        if self._table.contents() != before:
            self.labels.append(named)
            if fault == Death(number, carried_out=True):
                self._die()
            if isinstance(fault, Pause) and fault.call == number:
                self.hit = True
                self._table.work_meanwhile(self.labels, fault.other)
        return answer

    def _die(self) -> None:
        self.hit = True
        raise DiedError

    def through(self, port: Any, names: Callable[..., str]) -> Recorded:
        return Recorded(self, port, names)


class Recorded:
    """A port whose calls are recorded.

    Args:
        names: Returns the label for the name and the arguments of a call.
    """

    def __init__(self, recorder: Recorder, port: Any, names: Callable[..., str]) -> None:
        self._recorder, self._port, self._names = recorder, port, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            label = lambda: self._names(name, arguments)  # noqa: E731
            answer = self._recorder.call(label, lambda: found(*arguments, **named))
            if name not in SECOND_HALF:
                return answer
            keys = [file.key for file in arguments[0]] if name != "begin_removing" else [arguments[0]] * len(answer)
            return [self._second_half(SECOND_HALF[name], key, one) for key, one in zip(keys, answer)]

        return call

    def _second_half(self, name: str, key: str, act: Callable[[], None]) -> Callable[[], None]:
        return lambda: self._recorder.call(lambda: self._names(name, (key,)), act)


class Table:
    """A table of the code, and the same in the model.

    Args:
        pass_time: Lets the machine's clock go on for longer than a look for later changes is good.
    """

    def __init__(self, world: World, pass_time: Callable[[], object] = lambda: None) -> None:
        self.world = world
        world.rewrite = self._rewrite
        self.lake, self.states = self.world.lake, self.world.states
        self.layout: LakeLayout = self.world.log().layout
        self.model = Follower(Setting(("any",), versions=False))
        self.state = ModelWorld((BEGIN,), (0, 0, 0))
        self.pass_time = pass_time
        self._tasks = 0
        self._paused: list[Following] = []

    def live(self, task: str, fault: Death | Pause | None = None) -> bool:
        """Let the code and the model do a task; returns whether the fault happened."""
        if task == "run" and not self.state.active:
            return False  # it takes no lease
        following = Following(self, task)
        self._paused.append(following)
        recorder = self.do(task, fault)
        self._paused.pop()
        following.go_on(recorder.labels, to_the_end=not recorder.hit)  # an overtaken writer may stop at once
        assert self.contents() == self.of_model(), (task, fault, recorder.labels)
        return recorder.hit

    def work_meanwhile(self, labels: Sequence[str], task: str) -> None:
        """Let another writer take the table over and do a task, after the paused one made some calls."""
        self._paused[-1].go_on(labels, to_the_end=False)
        self.live(task)
        self.pass_time()

    # The code.

    def do(self, task: str, fault: Death | Pause | None) -> Recorder:
        """Let the code do a task."""
        self._tasks += 1
        recorder, run_id = Recorder(self, fault), f"{task}-{self._tasks}"
        world = self.world
        world.clock.advance(LEASE_SECONDS + 1)
        world.lake = recorder.through(self.lake, self._name_of_store)
        world.states = recorder.through(self.states, self._name_of_state)  # type: ignore[assignment]
        try:
            if task == "run":
                world.put(f"20240305-{100000000 + self._next_raw():09}.parquet")
                world.process(run_id=run_id)
            else:
                self._by_hand(task, run_id)
        except DiedError:
            pass
        except CdclakeError:  # the model says what it did before
            pass
        finally:
            world.lake, world.states = self.lake, self.states
        return recorder

    def _by_hand(self, task: str, run_id: str) -> None:
        by_hand = RegisteredTable(self.world.states, self.world.state(), self.world.log(), run_id, self.world.clock)
        if task == "clean-up":
            by_hand.clean_up(YEARS, timedelta(seconds=1))
        elif task == "take over":
            by_hand.repair()
        else:
            by_hand.rollback(int(task.rpartition(" ")[2]))

    def _next_raw(self) -> int:
        return 1 + max(self.state.head.ledger, default=0)

    def _rewrite(self, log: ChangeLog, before: Snapshot) -> Any:
        """Stage the file of a change, as the jobs do after they have compared the files."""
        check_files(log, before)
        number = before.change + 1
        key = f"{self.layout.staging_prefix(number, f'jr-{number}')}1.parquet"
        log.store.put(key, b"rows")
        path = self.layout.data_path(number, 1, (), ())
        old = before.files[:1] if len(before.files) > 1 else ()
        new = (*before.files[len(old) :], DataFile(path, 0, 4))
        return [StagedFile(key, path)], [file.path for file in old], new

    def _name_of_store(self, name: str, arguments: tuple[Any, ...]) -> str:
        """What the model calls a call to the lake bucket."""
        layout, key = self.layout, arguments[0] if arguments else ""
        if not isinstance(key, str):
            return "delete objects" if name == "delete" else ""
        number = change_of(key.rpartition("/")[2])
        if key.startswith(layout.table_prefix):
            return {"restore": f"restore file {number}", "retire": f"retire file {number}"}.get(
                name, f"delete file {number}" if name == "discard" else ""
            )
        if name == "copy":
            return f"publish file {change_of(arguments[1].rpartition('/')[2])}"
        folder, last = key.removeprefix(layout.control_prefix).partition("/")[0], key.rpartition("/")[2]
        if name == "remove":
            return "remove staging"
        if not name.startswith("put"):
            return ""
        if folder == "staging":
            return f"stage {int(key.removeprefix(layout.staging_folder)[:12])}"
        if folder == "snapshots":
            return f"write snapshot {int(last[:12])}"
        names = {"changes": f"commit {last[:12].lstrip('0')}", "published": f"mark {last.lstrip('0')}"}
        return {**names, "retained.json": "mark retained"}.get(folder, "")

    def _name_of_state(self, name: str, arguments: tuple[Any, ...]) -> str:
        """What the model calls a call to the state table."""
        if name == "acquire_lease":
            return "take the lease"
        if name == "release_lease":
            return "release the lease"
        attributes = arguments[1] if name in ("record_run", "set_attributes") else {}
        if attributes.get(Attribute.ACTIVE_FLAG) == Sentinel.INACTIVE:
            return "turn the table off"
        return f"record {attributes[Attribute.LAST_CHANGE_ID]}" if Attribute.LAST_CHANGE_ID in attributes else ""

    def contents(self) -> dict[str, object]:
        """What the stores hold, as far as the model has it."""
        lake, layout = self.lake, self.layout
        log, state = ChangeLog(lake, layout), self.states.get(ORDERS)
        assert state

        def numbers(folder: str, *, from_path: bool = False) -> set[int]:
            names = (entry.key[len(folder) :] for entry in lake.list(folder))
            return {change_of(name) if from_path else int(name[:12]) for name in names}

        item, head = state.item, log.head()
        records = log.records(1, head)
        retained = log.retained()
        snapshots = {entry.key for entry in lake.list(layout.snapshots_folder)}
        return {
            "log": [
                (one.kind.value, one.fencing_token, *map(_numbers, (one.added, one.restored, one.retired)))
                for one in records
            ],
            "states": [
                (sorted(change_of(file.path) for file in snapshot.files), _raw(snapshot.watermark))
                for snapshot in (log.snapshot_of(one) for one in records if one.snapshot_key in snapshots)
            ],
            "snapshots": {one.change for one in records if one.snapshot_key in snapshots},
            "drafts": {number for number in numbers(layout.snapshots_folder) if number > head},
            "live": numbers(layout.table_prefix, from_path=True),
            "retired": numbers(layout.retired_folder, from_path=True),
            "staged": numbers(layout.staging_folder),
            "published": numbers(layout.published_folder),
            "retained": [one for one in range(1, head + 1) if one in retained],
            "is held": Attribute.LEASE_HOLDER in item,
            "token": int(item.get(Attribute.FENCING_TOKEN, 0)),
            "active": item[Attribute.ACTIVE_FLAG] == Sentinel.ACTIVE,
            "known": int(item.get(Attribute.LAST_CHANGE_ID) or 0),
        }

    # The model.

    def of_model(self) -> dict[str, object]:
        """As `contents`, of the model."""
        state = self.state
        kinds = {"run": "incremental"}
        return {
            "log": [
                (kinds.get(one.kind, one.kind), one.token, *map(list, (one.added, one.restored, one.retired)))
                for one in state.log
            ],
            "states": [
                (sorted(one.numbers), max(one.ledger, default=0)) for one in state.log if one.number in state.snapshots
            ],
            "snapshots": set(state.snapshots),
            "drafts": set(state.drafts),
            "live": set(state.visible),
            "retired": {number for number, file in enumerate(state.files) if "retired" in file},
            "staged": {number for number, _ in state.staged},
            "published": set(state.published),
            "retained": state.retained,
            "is held": state.holder != NOBODY,
            "token": state.token,
            "active": state.active,
            "known": state.known,
        }


class Following:
    """A task of the model, which does what the code did."""

    def __init__(self, table: Table, task: str) -> None:
        self._table, self._me, self._seen = table, len(table._paused), 0
        self._work: Any = table.model.work(task, self._me)
        self._answer: Any = None
        table.state = table.state._replace(expired=table.state.holder != NOBODY)

    def go_on(self, labels: Sequence[str], *, to_the_end: bool) -> None:
        """Make the calls that the code made since; calls that change nothing need no counterpart.

        Args:
            labels: All that it made so far.
            to_the_end: Whether it is done.
        """
        left, table = list(labels[self._seen :]), self._table
        self._seen = len(labels)
        table.model.retained = tuple(table.contents()["retained"])  # type: ignore[arg-type]
        while left or to_the_end:
            try:
                call: Call = self._work.send(self._answer)
            except StopIteration:
                break
            done = call.act(table.state, self._me)
            assert done, call.label
            after, self._answer = done
            if after != table.state:
                assert left, f"the code does not: {call.label}"
                assert call.label.startswith(left[0]), f"the code does: {left[0]}; the model: {call.label}"
                left.pop(0)
            table.state = after
        assert not left, f"the model does not: {left}"


class Follower(Model):
    """The model, which drops what the code has dropped: which states to keep is no part of the protocol."""

    retained: tuple[int, ...] = ()

    def to_drop(self, head: int) -> frozenset[int]:
        return frozenset(range(1, head + 1)) - set(self.retained)


def _numbers(files: Any) -> list[int]:
    return [change_of(getattr(file, "path", file)) for file in files]


def _raw(watermark: str) -> int:
    """Number of a raw file."""
    return int(watermark[9:18]) - 100000000 if watermark else 0


def new_table() -> Table:
    world = World(ManualClock())
    world.register(**{Attribute.PRIMARY_KEY: "id"})
    return Table(world)


@cache
def _after_four_runs() -> Table:
    table = new_table()
    for _ in range(4):
        table.live("run")
    return table


def after_four_runs(pass_time: Callable[[], object] = lambda: None) -> Table:
    made = _after_four_runs()
    table = Table(made.world.copy(), pass_time)
    table.state = made.state
    return table


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Lets the machine's clock go on."""
    passed, now = [0], time.time
    monkeypatch.setattr(time, "time", lambda: now() + passed[0])
    return lambda: passed.append(passed.pop() + FENCE_SECONDS + 1)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["run", "rollback to 2", "clean-up"])
def test_a_task_that_dies_at_any_call_makes_those_of_the_model_and_so_does_the_next(task: str) -> None:
    for call in range(1, MAX_CALLS):
        for carried_out in (False, True):
            table = after_four_runs()
            hit = table.live(task, Death(call, carried_out))
            table.live("take over")
        if not hit:
            break
    assert 5 < call < MAX_CALLS - 1


@pytest.mark.slow
@pytest.mark.sampled(test=4)
@pytest.mark.parametrize("other", ["run", "rollback to 3", "clean-up"])
@pytest.mark.parametrize("task", ["run", "rollback to 2", "clean-up"])
def test_a_task_that_is_paused_while_another_takes_over_makes_the_calls_of_the_model(
    task: str, other: str, pass_time: Callable[[], object]
) -> None:
    for call in range(1, MAX_CALLS):
        table = after_four_runs(pass_time)
        if not table.live(task, Pause(call, other)):
            break
        table.live("take over")
    assert 5 < call < MAX_CALLS - 1


DEATHS = st.none() | st.builds(Death, st.integers(1, 20), st.booleans())


@given(tasks=st.lists(st.tuples(st.sampled_from(TASKS), DEATHS), max_size=8))
@examples(thorough=3000, ci=60, test=30)
def test_whatever_tasks_do_and_die_one_after_the_other_the_model_does_too(
    tasks: list[tuple[str, Death | None]],
) -> None:
    table = new_table()
    for task, death in tasks:
        table.live(task, death)
