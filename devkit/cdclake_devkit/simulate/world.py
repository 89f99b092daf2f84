"""The world of a simulation: stores, state table, jobs and source, and every call that reaches them."""

from __future__ import annotations

import traceback
from collections import Counter, defaultdict
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.errors import CommitStateUnknownError, RetryableError
from cdclake.model.layout import HISTORY, HISTORY_SUFFIX, LakeLayout
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake.ports import ObjectStore, Ports
from cdclake_devkit.memory import MemoryMetrics, MemoryState, MemoryStore
from cdclake_devkit.memory_catalog import MemoryCatalog
from cdclake_devkit.simulate.case import ADOPTED, BAD_ROWS, CSV_FILES, HOUR, KEY_UPDATES, SEQUENCED, Case
from cdclake_devkit.simulate.faults import Faults, Kind
from cdclake_devkit.simulate.intercepted import Files, Intercepted
from cdclake_devkit.simulate.lake_state import IcebergReader
from cdclake_devkit.simulate.scheduler import KilledError, Process, Scheduler
from cdclake_devkit.simulate.source import SourceTable, utc
from cdclake_devkit.simulate.standard_library import EPOCH
from cdclake_devkit.versioned_bucket import VersionedBucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.model.raw.files import ListedObject
    from cdclake_devkit.simulate.faults import Fault
    from cdclake_devkit.simulate.intercepted import Call

RAW, LAKE, PREFIX = "raw-bucket", "lake-bucket", "dms/"
SCHEMA = "shop"


class Entry(NamedTuple):
    """A line of the time line."""

    at: float
    process: str
    text: str


class Violation(NamedTuple):
    """An invariant that does not hold.

    Attributes:
        name: Which one.
        text: What was found.
    """

    name: str
    text: str


class Excuse(NamedTuple):
    """What a publisher did late that slept within a call; see `docs/guarantees.md`.

    Attributes:
        changes: How many changes the table had then.
        files: Paths of the data files that appeared or vanished.
    """

    changes: int
    files: frozenset[str]


class _Overtaken:
    """When a process that sleeps goes on.

    Attributes:
        is_taken: Whether another one took its lease over.
        calls: How many calls others make until then; 0: until they have released the lease.
    """

    def __init__(self, calls: int) -> None:
        self.is_taken, self.calls = False, calls


class World:
    """Everything that the actors share.

    Attributes:
        time_line: What happened.
        iceberg: Opens Iceberg tables of the lake.
        violations: Ends the run as soon as there is one.
        counts: Counts calls, faults, commits, ...
        after_call: Called after the effect of each call that may change something.
        kills: Called with each process that was killed.
        holders: Processes that took or renewed leases, by the table and by their names as holders.
        overtaken: Processes that sleep until another one took their lease over, and how many calls it makes first.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.time_line: list[Entry] = []
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.scheduler = Scheduler(self._crashed)
        self.faults = Faults(case.faults, case.only)
        self.raw: ObjectStore = MemoryStore(self.time)
        self.lake: ObjectStore = MemoryStore(self.time)
        if case.versions:
            ids, client = self.chance("writers"), cast("Any", VersionedBucket(self.time))
            new_id = lambda: f"{ids.getrandbits(64):x}"  # noqa: E731
            self.lake = S3Store(client, LAKE, new_id=new_id, sleep=self.scheduler.sleep)
        self.iceberg = IcebergReader(self.lake)
        self.states, self.metrics, self.catalog = MemoryState(), MemoryMetrics(), MemoryCatalog()
        self.tables = [
            SourceTable(
                chr(ord("a") + number),
                sequenced=SEQUENCED in settings,
                bad_rows=0.5 if BAD_ROWS in settings else 0.1 if Attribute.MAX_QUARANTINED_ROWS in settings else 0.0,
                updates_keys=KEY_UPDATES in settings,
                has_csv=CSV_FILES in settings,
            )
            for number, settings in enumerate(case.tables)
        ]
        self.after_call: list[Callable[[Process, Call, object], None]] = []
        self.kills: list[Callable[[Process], None]] = []
        self.holders: dict[tuple[str, str], Process] = {}
        self.overtaken: dict[Process, _Overtaken] = {}
        self.raw_read: dict[str, dict[str, bytes]] = defaultdict(dict)
        """What each process read last of each raw file."""
        self.raw_inspected: dict[str, dict[str, bytes]] = defaultdict(dict)
        """What each process read first of each raw file, since it committed a change."""
        self.raw_listed: dict[str, dict[str, ListedObject]] = defaultdict(dict)
        """How each process listed each raw file last."""
        self.changed_since_listed: dict[str, set[str]] = defaultdict(set)
        """Change files of each table, by its name, that got other content after their run had listed them."""
        self.direct: dict[str, tuple[str, dict[str, Any]]] = {}
        """Operation and row of the direct change that each process makes."""
        self.erasing: dict[str, int] = {}
        """The key that each process erases."""
        self.to_erase: set[tuple[str, int]] = set()
        """Tables and keys that operators began to erase."""
        self.turned_on: dict[str, float] = {}
        """When an operator last turned a table on, by its path."""
        self.foreign: set[str] = set()
        """Keys of files of other programs in the lake's folders."""
        self.damaged: dict[str, set[str]] = {}
        """By name of the table, of which change files were lost or overwritten: the lost ones that a run had noted."""
        self.hurt: dict[str, set[str]] = {}
        """By name of the table, which change files were lost or overwritten."""
        self.unadopted: set[str] = set()
        """Names of tables whose files wait for their adoption."""
        self.unrepaired: set[str] = set()
        """Names of tables that a reload does not repair: of one that is not loaded yet, all change files are due."""
        self.excused: dict[str, Excuse] = {}
        """By name of the table."""
        self.takeovers: list[Callable[[Process, SourceTable, str, object], None]] = []
        """Called with who takes a table's lease, with the holder who had not released it, and with the answer."""
        self.releases: list[Callable[[SourceTable], None]] = []
        """Called with the table whose lease was released."""
        for number, table in enumerate(self.tables):
            state = TableState.new(RAW, f"{PREFIX}{SCHEMA}/", f"{table.name}/")
            active = {Attribute.ACTIVE_FLAG: Sentinel.ACTIVE}
            if ADOPTED in case.tables[number]:
                active = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE}
                self.unadopted.add(table.name)
                is_partitioned = Attribute.PARTITION_KEY in case.tables[number]
                files = table.adoptable(self.chance(f"adoptable {table.name}"), is_partitioned=is_partitioned)
                for path, content in files.items():
                    self.lake.put(f"{self.log(table).layout.table_prefix}{path}.parquet", content)
            self.states.register(state.with_attributes(**case.tables[number], **active))

    # --- names ---

    def path(self, table: SourceTable) -> str:
        """Key of a table's item."""
        return f"{RAW}/{PREFIX}{SCHEMA}/{table.name}/"

    def log(self, table: SourceTable, lake: ObjectStore | None = None) -> ChangeLog:
        """A table's change log, by default as it is, without faults."""
        return ChangeLog(lake or self.lake, LakeLayout(LAKE, "", TableName(SCHEMA, table.name)))

    def table_of(self, path: str) -> SourceTable:
        """The table of an item, or of a key in the lake or the raw bucket."""
        parts = path.split("/")
        name = parts[parts.index(SCHEMA) + 1].removesuffix(HISTORY_SUFFIX)
        (found,) = (table for table in self.tables if table.name == name)
        return found

    def state(self, table: SourceTable) -> TableState:
        """A table's item."""
        state = self.states.get(self.path(table))
        assert state is not None
        return state

    # --- time ---

    def time(self) -> datetime:
        """The true time."""
        return utc(EPOCH + self.scheduler.now)

    @property
    def has_faults(self) -> bool:
        """Whether calls may still go wrong."""
        return self.scheduler.now < self.case.hours * HOUR

    def chance(self, name: str) -> Random:
        """Chance for one purpose, which does not depend on what others draw."""
        return Random(f"{self.case.seed}|{name}")

    # --- processes ---

    def process(self, name: str) -> Process:
        """A new process, whose machine has a clock of its own."""
        skew = self.case.skew_seconds and self.chance(f"skew {name}").uniform(-1, 1) * self.case.skew_seconds
        process = Process(name, skew)
        process.began = self.scheduler.now
        return process

    def ports(self, process: Process, jobs: object) -> Ports:
        """What a process works with."""
        return Ports(
            states=cast("Any", self.port(process, "states", self.states)),
            jobs=cast("Any", self.port(process, "jobs", jobs)),
            open_bucket=lambda name: self.store(process, name),
            clock=self.time,
            metrics=self.metrics,
            catalog=cast("Any", self.port(process, "catalog", self.catalog)),
        )

    def store(self, process: Process, bucket: str) -> ObjectStore:
        """A bucket, as a process sees it."""
        port, target = ("raw", self.raw) if bucket == RAW else ("lake", self.lake)
        return cast("ObjectStore", self.port(process, port, target))

    def port(self, process: Process, name: str, target: object) -> Intercepted:
        """A port, as a process sees it."""
        return Intercepted(target, name, process, self.make)

    def files(self, process: Process, bucket: str) -> FileSystemSpec:
        """The files of a bucket, as the engine in a process opens them."""
        if bucket == LAKE:
            return cast("FileSystemSpec", Files(self.lake, "lake", process, self.make))
        return cast("FileSystemSpec", Files(self.raw, "raw", process, self.make, partial(self._was_read, process)))

    # --- calls ---

    def make(self, process: Process, call: Call, effect: Callable[[], Any]) -> Any:  # noqa: ANN401 - forwards
        """Make a call, or let it go wrong. Others may go on before it and after it."""
        if process.is_dead:
            raise KilledError
        self._wake_overtaken(process)
        process.calls += 1
        self.counts[f"calls of {call.port}"] += 1
        number = process.calls
        latency = self.faults.latency(process.name, number)
        answered = self.scheduler.now + latency
        self.scheduler.sleep(latency)
        has_slept = self.scheduler.now > answered  # another thread of the process lets all of it sleep
        process.leases += call.method == "acquire_lease"
        fault = self.has_faults and self.faults.at(process.name, number, call)
        kind = fault.kind if fault else None
        if fault:
            self.faults.happened.append(fault)
            self.counts["faults"] += 1
            self.counts[f"faults: {fault.kind.value}"] += 1
            process.disturbed_until = max(process.disturbed_until, self.scheduler.now + fault.seconds)
            seconds = f" for {fault.seconds:,.0f} s" if fault.seconds else ""
            self.note(process, f"{fault.kind.value} {call}{seconds}")
        if kind is Kind.EXPIRE and fault:
            process.no_answer_until = self.scheduler.now + fault.seconds
        if kind is Kind.FAIL or self.scheduler.now < process.no_answer_until:
            raise RetryableError("No answer", remedy="Run again", call=call.port)
        if kind is Kind.KILL_BEFORE:
            self.kill(process)
        if fault and kind in (Kind.PAUSE_BEFORE, Kind.SLOW, Kind.OVERTAKEN):
            self._pause(process, fault)
            has_slept = True
        if has_slept and call.port == "lake" and call.changes and not call.is_fenced:
            effect = partial(self._make_late, call, effect)
        if call.port == "states" and SCHEMA in call.subject:
            effect = partial(self._watch_lease, process, call, effect, is_told=kind is not Kind.LOSE_ANSWER)
        if kind is Kind.TWICE and call.may_be_repeated:
            effect()
        answer = effect()
        if call.port == "raw":
            self._note_raw(process, call, answer)
        if call.changes:
            for check in self.after_call:
                check(process, call, answer)
        if kind is Kind.KILL_AFTER:
            self.kill(process)
        if fault and kind is Kind.PAUSE_AFTER:
            self._pause(process, fault)
        if kind is Kind.LOSE_ANSWER:
            if call.method == "put_if_absent":
                raise CommitStateUnknownError("The answer was lost", remedy="Run again", call=str(call))
            raise RetryableError("The answer was lost", remedy="Run again", call=str(call))
        return answer

    def _was_read(self, process: Process, key: str, content: bytes) -> None:
        self.raw_read[process.name][key] = content
        self.raw_inspected[process.name].setdefault(key, content)

    def _note_raw(self, process: Process, call: Call, answer: Any) -> None:  # noqa: ANN401
        if call.method == "get" and answer is not None:
            self._was_read(process, call.subject, answer)
        elif call.method == "list":
            self.raw_listed[process.name].update((entry.key, entry) for entry in answer)

    def _pause(self, process: Process, fault: Fault) -> None:
        if fault.kind is Kind.SLOW:
            self.scheduler.sleep(fault.seconds)
            return
        if fault.kind is Kind.OVERTAKEN:
            self.overtaken[process] = _Overtaken(fault.calls_of_others)
        try:
            self.scheduler.freeze(fault.seconds)
        finally:
            self.overtaken.pop(process, None)

    def _wake_overtaken(self, process: Process) -> None:
        """Let processes go on that slept until others had made some calls."""
        for sleeper, until in list(self.overtaken.items()):
            if until.is_taken and until.calls and sleeper is not process:
                until.calls -= 1
                if not until.calls:
                    self._wake(sleeper, f"goes on, as {process.name} has its lease")

    def _wake(self, sleeper: Process, text: str) -> None:
        del self.overtaken[sleeper]
        self.note(sleeper, text)
        sleeper.disturbed_until = self.scheduler.now
        self.scheduler.thaw(sleeper)

    def _watch_lease(self, process: Process, call: Call, effect: Callable[[], Any], *, is_told: bool) -> Any:  # noqa: ANN401
        """Make a call, and tell who loses a lease to whom.

        Args:
            is_told: Whether the process gets the answer.
        """
        table = self.table_of(call.subject)
        before = self.state(table).item.get(Attribute.LEASE_HOLDER, "")
        answer = effect()
        after = self.state(table).item.get(Attribute.LEASE_HOLDER, "")
        if after == process.holder and call.method in ("acquire_lease", "renew_lease"):
            self.holders[table.name, after] = process
            if is_told:
                process.unaware_of.discard(table.name)
            elif before != after:
                process.unaware_of.add(table.name)
        if before and after not in ("", before) and before != process.parent:
            for told in self.takeovers:
                told(process, table, before, answer)
            for sleeper, until in self.overtaken.items():
                until.is_taken |= sleeper.holder == before
        if before and not after:
            for told_release in self.releases:
                told_release(table)
            for sleeper, until in list(self.overtaken.items()):
                if until.is_taken and not until.calls and sleeper.holder != before:
                    self._wake(sleeper, f"goes on, as {before} has released its lease")
        return answer

    def _make_late(self, call: Call, effect: Callable[[], Any]) -> Any:  # noqa: ANN401 - forwards
        """Make a call within which its process slept: no store keeps its effect from readers, see `Excuse`."""
        tables = [self.table_of(call.subject)] if SCHEMA in call.subject else self.tables
        before = [self._live_files(table) for table in tables]
        answer = effect()
        for table, files in zip(tables, before):
            earlier = self.excused.get(table.name)
            late = (files ^ self._live_files(table)) | (earlier.files if earlier else frozenset())
            self.excused[table.name] = Excuse(self.log(table).head() + 1, late)
        return answer

    def _live_files(self, table: SourceTable) -> frozenset[str]:
        """Paths of the data files in the folders of the table and of its history."""
        prefix = self.log(table).layout.history.table_prefix
        return self.visible(table) | {HISTORY + entry.key[len(prefix) :] for entry in self.lake.list(prefix)}

    def visible(self, table: SourceTable) -> frozenset[str]:
        """Paths of the data files that readers of the folder see."""
        prefix = self.log(table).layout.table_prefix
        keys = (entry.key for entry in self.lake.list(prefix) if entry.key not in self.foreign)
        return frozenset(key[len(prefix) :] for key in keys)

    def kill(self, process: Process) -> None:
        """End a process, which does nothing more.

        Raises:
            KilledError: Always.
        """
        process.is_dead = True
        self.counts["kills"] += 1
        for told in self.kills:
            told(process)
        raise KilledError

    # --- what is found ---

    def note(self, process: Process | str, text: str) -> None:
        """Add a line to the time line."""
        name = process if isinstance(process, str) else process.name
        self.time_line.append(Entry(self.scheduler.now, name, text))

    def violate(self, name: str, text: str) -> None:
        """Note that an invariant does not hold. The run ends soon."""
        self.note("!", f"{name}: {text}")
        self.violations.append(Violation(name, text))
        self.scheduler.stop()

    def _crashed(self, name: str, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        where = " < ".join(f"{one.filename.rpartition('/')[2]}:{one.lineno}" for one in reversed(frames))
        text = f"{name} ended with {type(error).__name__}: {error} ({where})"
        self.violate("no actor crashes", text)
