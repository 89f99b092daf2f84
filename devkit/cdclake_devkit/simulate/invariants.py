"""What must hold: after each call that changes something, and at rest."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cdclake.commit.ledger import all_entries
from cdclake.control.controller import PlanInputs, plan
from cdclake.control.run.lease import LEASE_SECONDS
from cdclake.control.status import LATE_AFTER_MINUTES, Health, table_statuses
from cdclake.errors import CdclakeError
from cdclake.model.change.record import ChangeKind
from cdclake.model.direct import FOLDER
from cdclake.model.layout import is_in_iceberg
from cdclake.model.names import RunState
from cdclake.model.position import position
from cdclake.model.raw.files import parse_raw_file
from cdclake.model.table.attributes import Attribute
from cdclake.ports import AcquiredLease
from cdclake_devkit.oracle import ChangeRow
from cdclake_devkit.simulate.lake_state import LakeState, after, difference, rows_of, whole
from cdclake_devkit.simulate.source import file_name, identity
from cdclake_devkit.simulate.world import PREFIX, RAW, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake.commit.log import ChangeLog
    from cdclake.control.status import TableStatus
    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.snapshot import ErasedKeys, Snapshot
    from cdclake_devkit.oracle import LakeRow
    from cdclake_devkit.simulate.intercepted import Call
    from cdclake_devkit.simulate.scheduler import Process
    from cdclake_devkit.simulate.source import SourceTable
    from cdclake_devkit.simulate.world import World

_GRACE_SECONDS = 60
"""A call may take some seconds, and so may the next renewal."""
_CALLS, _CALLS_A_COMMIT, _CALLS_A_CHANGE = 500, 300, 30
_OBJECTS_A_CHANGE, _BYTES_A_CHANGE = 60, 250_000
"""Some times what was seen, with data files of a row, erasures of all changes, and Iceberg metadata."""
_WELL = (Health.UP_TO_DATE, Health.INCOMPLETE)
_BROKEN = ("IntegrityError", "BooksError", "LakeFilesError", "RawFilesLostError")
_CHANGES_UNTIL_COMPARED = 3
"""A takeover, and the change of the run that compared the files before."""


class _Erasure(NamedTuple):
    key: int
    keys: ErasedKeys


@dataclass
class _Seen:
    """What was seen of a table.

    Attributes:
        states: Its content after each change, from none on.
        is_iceberg: Whether it is an Iceberg table after each change.
        token: The greatest fencing token of a change.
        released: The token of the lease that was released last.
        files: Paths of the data files of each change that readers of the folder see.
        rows: Rows of each data file, by path.
        visible: The files that readers of the folder saw last.
        erasures: The erasures, by the number of their change.
        unfinished: Keys of erasures that died after their commit: until they are repeated, a rollback brings rows back.
    """

    states: list[LakeState] = field(default_factory=lambda: [LakeState()])
    is_iceberg: list[bool] = field(default_factory=lambda: [False])
    token: int = 0
    released: int = 0
    files: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    rows: dict[str, list[LakeRow]] = field(default_factory=dict)
    visible: frozenset[str] = frozenset()
    erasures: dict[int, _Erasure] = field(default_factory=dict)
    unfinished: set[int] = field(default_factory=set)


class Invariants:
    """Checks a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.seen: dict[str, _Seen] = {}
        for table in world.tables:
            visible = world.visible(table)  # what is to be adopted
            self.seen[table.name] = _Seen(files=[visible], visible=visible)
        world.after_call.append(self.after_call)
        world.takeovers.append(self.check_takeover)
        world.releases.append(self.note_release)

    def after_call(self, process: Process, call: Call, answer: object) -> None:
        """What must hold after a call that may have changed something."""
        if call.port == "lake":
            if "/erasures/" in call.subject:  # the report, which is written last
                self.seen[self._world.table_of(call.subject).name].unfinished.discard(self._world.erasing[process.name])
            tables = [self._world.table_of(call.subject)] if SCHEMA in call.subject else self._world.tables
            for table in tables:
                if call.method.startswith("put") and "/changes/" in call.subject and answer is not False:
                    self._committed(table, process)
                self._check_visible(table)
                if "_iceberg/" in call.subject or not call.subject:
                    self._check_iceberg(table)
            self._check_requests(process)
        elif call.port == "states" and call.method in ("record_run", "release_lease"):
            table = self._world.table_of(call.subject)
            self._check_item(table)
            holder = self._world.state(table).item.get(Attribute.LEASE_HOLDER)
            if call.method == "record_run" and process.run_id not in ("", holder) and answer is not None:
                text = f"{process.name} writes the item of {table.name}, which {holder or 'nobody'} has leased"
                self._world.violate("only the holder of the lease writes the item", text)

    def check_takeover(self, process: Process, table: SourceTable, holder: str, answer: object) -> None:
        """Nobody loses a lease who works, and with whom nothing goes wrong.

        Except to who slept before asking: when it asked, it seemed to end later than any lease can.
        """
        world, earlier = self._world, self._world.holders[table.name, holder]
        is_gone = earlier.is_dead or earlier.is_over or table.name in earlier.unaware_of
        if is_gone or (isinstance(answer, AcquiredLease) and answer.fault):
            return
        if world.scheduler.now > earlier.disturbed_until + LEASE_SECONDS + _GRACE_SECONDS:
            text = f"{process.name} takes {table.name} over from {earlier.name}, which works"
            world.violate("leases of those who work are renewed", text)

    def note_release(self, table: SourceTable) -> None:
        """From now on, no holder of this lease or an earlier one commits."""
        self.seen[table.name].released = self._world.state(table).fencing_token

    # --- the change log ---

    def _committed(self, table: SourceTable, process: Process) -> None:
        world, seen = self._world, self.seen[table.name]
        log, number = world.log(table), len(seen.states)
        if log.head() < number:
            world.violate(
                "one change has each number", f"{process.name} overwrites change {number - 1} of {table.name}"
            )
            return
        record, snapshot = log.record(number), log.snapshot(number)
        world.counts[f"changes: {record.kind.value}"] += 1
        process.commits += 1
        files = ", ".join(record.raw_names)
        as_of = "" if record.as_of is None else f" as of {record.as_of}"
        world.note(process, f"commits change {number} of {table.name}: {record.kind.value}{as_of} {files}".rstrip())
        if record.fencing_token < seen.token:
            text = f"{process.name} commits change {number} of {table.name} with token {record.fencing_token}, and "
            world.violate("one writer", f"{text}token {seen.token} has written")
        if record.fencing_token < seen.released:
            text = f"{process.name} commits change {number} of {table.name} with token {record.fencing_token}, after "
            world.violate("overtaken runs commit nothing", f"{text}token {seen.released} was released")
        seen.token = max(seen.token, record.fencing_token)
        state_item, path = world.state(table), world.path(table)
        if record.kind is ChangeKind.ROLLBACK and state_item.active and world.turned_on.get(path, -1.0) < process.began:
            world.violate("a rollback turns its table off", f"change {number} of {table.name}, which is on")
        try:
            record.check()
            if record.kind is ChangeKind.DIRECT:
                (name,), (op, row) = record.raw_names, world.direct[process.name]
                lake = {one.row["id"]: one.row for one in seen.states[-1].rows(table, soft_delete=False)}
                before = lake.get(row["id"], {})  # what an update does not set stays as it is now
                table.changes[name] = [ChangeRow(position(name, 0), op, {**before, **row})]
            read, inspected = world.raw_read[process.name], world.raw_inspected[process.name]
            state = after(record, seen.states, table, read, inspected, f"{PREFIX}{SCHEMA}/{table.name}/")
            inspected.clear()
            world.changed_since_listed[table.name] |= self._overwritten_since_listed(table, record, process)
        except (CdclakeError, ValueError, KeyError) as error:
            world.violate("changes apply each file once", f"change {number} of {table.name}: {error!r}")
            return
        if record.kind is ChangeKind.ADOPTION:
            world.unadopted.discard(table.name)
        # A full load contains what was lost. And whoever rolls changes back may have taken their files out.
        if record.kind is ChangeKind.FULL_LOAD:
            world.damaged.get(table.name, set()).clear()
        elif record.kind is ChangeKind.ROLLBACK:
            world.damaged.get(table.name, set()).difference_update(map(file_name, seen.states[-1].applied))
        state = self._with_erasures(table, record, state, process)
        seen.states.append(state)
        seen.is_iceberg.append(record.iceberg)
        seen.files.append(frozenset(file.path for file in snapshot.files if not is_in_iceberg(file.path)))
        staged = {file.path: file.staged_key for file in record.added}
        found = [row for file in snapshot.files for row in self._rows(table, file.path, staged)]
        expected = state.rows(table, soft_delete=self._is_soft(table))
        wrong = difference(found, expected, seen.unfinished)
        if wrong:
            world.violate("each state equals the oracle", f"change {number} of {table.name}: {wrong}")
        if snapshot.history and snapshot.history.is_kept:
            self._check_history(table, snapshot, staged, found)
        live = sum(row.op != "D" for row in found)
        if not live == record.books.rows_after == snapshot.rows:
            counted = f"{record.books.rows_after} in the books, {snapshot.rows} in the snapshot, {live} in the files"
            world.violate("books balance", f"change {number} of {table.name}: {counted}")

    def _overwritten_since_listed(self, table: SourceTable, record: ChangeRecord, process: Process) -> set[str]:
        """Names of raw files that a run read with other content than it had listed."""
        read, listed = self._world.raw_read[process.name], self._world.raw_listed[process.name]
        keys = {name: f"{PREFIX}{SCHEMA}/{table.name}/{name}" for name in record.raw_names}
        return {
            name
            for name, key in keys.items()
            if key in read and key in listed and identity(read[key]) != listed[key].etag
        }

    def _with_erasures(self, table: SourceTable, record: ChangeRecord, state: LakeState, process: Process) -> LakeState:
        """The state without rows that are erased now, or are older than an erasure."""
        seen, world = self.seen[table.name], self._world
        if record.kind is ChangeKind.ERASURE:
            key = world.erasing[process.name]
            seen.unfinished.add(key)
            seen.states = [one.without(key) for one in seen.states]
            seen.rows.clear()
            snapshot = world.log(table).snapshot(record.change)
            seen.erasures[record.change] = _Erasure(key, snapshot.erased[-1])
            return state.without(key)
        if record.kind is ChangeKind.DIRECT:  # it is later than all erasures
            return state
        folder = f"{PREFIX}{SCHEMA}/{table.name}/"
        listed = world.raw_listed[process.name]
        for one in seen.erasures.values():
            for name in record.raw_names:
                entry = listed[folder + name]
                file = parse_raw_file(entry, folder)
                older = file and one.keys.is_later_than(file, entry.modified_utc)
                rows = [] if record.kind is ChangeKind.FULL_LOAD else table.changes[name]
                older = older or any(row.row["id"] == one.key and row.position <= one.keys.last for row in rows)
                if older:
                    stored = state.loaded if record.kind is ChangeKind.FULL_LOAD else name
                    state = replace(state, erased=state.erased | {(stored, one.key)})
        return state

    def _check_history(
        self, table: SourceTable, snapshot: Snapshot, staged: dict[str, str], rows: Sequence[LakeRow]
    ) -> None:
        """The newest versions that are no deletions are the rows of the table."""
        assert snapshot.history is not None
        log, newest = self._world.log(table), []
        for file in snapshot.history.files:
            content = self._world.lake.get(staged.get(file.path, "")) or self._content(log, file.path)
            if not content:
                self._world.violate("changes have all their files", f"{file.path} of {table.name} is nowhere")
                return
            versions = pq.read_table(pa.BufferReader(content), partitioning=None).to_pylist()
            newest += [one for one in versions if one["valid_to"] is None and one["operation"] != "delete"]
        have = sorted((one["id"], one["name"]) for one in newest)
        want = sorted((row.row["id"], row.row["name"]) for row in rows if row.op != "D")
        if have != want and not self.seen[table.name].unfinished:
            text = f"change {snapshot.change} of {table.name}: {set(have) ^ set(want)}"
            self._world.violate("the history ends with the rows of the table", text)

    def _is_soft(self, table: SourceTable) -> bool:
        return self._world.state(table).item.get(Attribute.DELETE_MODE) == "soft"

    def _rows(self, table: SourceTable, path: str, staged: dict[str, str]) -> list[LakeRow]:
        rows = self.seen[table.name].rows
        if path not in rows:
            log = self._world.log(table)
            content = self._world.lake.get(staged.get(path, "")) or self._content(log, path)
            if not content:
                self._world.violate("changes have all their files", f"{path} of {table.name} is nowhere")
                return []
            rows[path] = rows_of(path, content)
        return rows[path]

    def _content(self, log: ChangeLog, path: str) -> bytes | None:
        """A live or retired data file."""
        lake, key = self._world.lake, log.layout.data_key(path)
        content = lake.get(key) or lake.get(log.layout.retired_key(path))
        if content is None:
            content = next((lake.get_version(one) for one in lake.old_versions(key) if one.key == key), None)
        return content

    # --- readers ---

    def _check_visible(self, table: SourceTable) -> None:
        """Readers of the folder see the files of the newest published change, of the one that is published, or both."""
        seen, world = self.seen[table.name], self._world
        visible = world.visible(table)
        if visible == seen.visible:
            return
        seen.visible = visible
        head = len(seen.states) - 1
        before, now = seen.files[max(head - 1, 0)], seen.files[head]
        late = self._late_files(table)
        if not (before - late <= visible or now - late <= visible):
            missing = ", ".join(sorted(now - late - visible)[:3])
            world.violate("readers miss nothing", f"change {head} of {table.name}: {missing} is not there")
        if not visible <= before | now | late:
            more = ", ".join(sorted(visible - before - now - late)[:3])
            world.violate("readers see nothing stale", f"change {head} of {table.name}: {more} is there")

    def _check_iceberg(self, table: SourceTable) -> None:
        """Readers of the Iceberg table see the newest change, or the one before it, and find all its files."""
        world, seen, log = self._world, self.seen[table.name], self._world.log(table)
        if world.lake.get(log.layout.version_hint_key) is None:
            return
        try:
            offered = world.iceberg.offered_table(log.layout)
        except CdclakeError as error:
            world.violate("Iceberg readers find every file", f"{table.name}: {error}")
            return
        head = len(seen.states) - 1
        if offered is None and all(seen.is_iceberg[-2:]):
            world.violate("Iceberg readers see a change", f"{table.name}: they find none after change {head}")
        if offered is None or self._is_excused(table):
            return
        missing = sorted(key for key in offered.keys if world.lake.get(key) is None)
        if missing:
            world.violate("Iceberg readers find every file", f"change {offered.change} of {table.name}: {missing[:3]}")
        files = {log.layout.data_key(file.path) for file in log.snapshot(offered.change).files}
        if offered.change not in (head, head - 1) or (files != offered.keys and not seen.unfinished):
            found = f"change {offered.change} of {head}, files {sorted(files ^ offered.keys)[:3]} differ"
            world.violate("Iceberg readers see a change", f"{table.name}: {found}")

    def _is_excused(self, table: SourceTable) -> bool:
        """Whether a publisher slept within a call, see `Excuse`: until the next run has compared files."""
        excuse = self._world.excused.get(table.name)
        return excuse is not None and len(self.seen[table.name].states) < excuse.changes + _CHANGES_UNTIL_COMPARED

    def _late_files(self, table: SourceTable) -> frozenset[str]:
        return self._world.excused[table.name].files if self._is_excused(table) else frozenset()

    # --- costs ---

    def _check_requests(self, process: Process) -> None:
        """A process makes no more calls than its changes, and those that it may have to rewrite, explain.

        Each erasure may rewrite all of them.
        """
        changes = max(process.erasures, 1) * sum(len(seen.states) for seen in self.seen.values())
        most = _CALLS + _CALLS_A_COMMIT * process.commits + _CALLS_A_CHANGE * changes
        calls = process.calls - process.leases
        if calls > most:
            self._world.violate("requests are bounded", f"{process.name} made {calls} calls, not {most} at most")

    def _check_storage(self) -> None:
        """The lake keeps no more objects and bytes than its changes explain."""
        changes = sum(len(seen.states) for seen in self.seen.values())
        sizes = [entry.size_bytes for entry in self._world.lake.list("")]
        most_objects, most_bytes = _OBJECTS_A_CHANGE * changes, _BYTES_A_CHANGE * changes
        if len(sizes) > most_objects or sum(sizes) > most_bytes:
            found = f"{len(sizes)} objects with {sum(sizes):,} bytes after {changes} changes"
            self._world.violate("storage is bounded", f"{found}, not {most_objects} with {most_bytes:,} at most")

    # --- items ---

    def _check_item(self, table: SourceTable) -> None:
        item = self._world.state(table).item
        if item.get(Attribute.LAST_RUN_STATE) != RunState.FAILED:
            return
        code, error = item.get(Attribute.LAST_ERROR_CODE, ""), item.get(Attribute.LAST_ERROR, "")
        is_lost = code == "RawFilesLostError" and table.name in self._world.damaged
        is_late = code == "LakeFilesError" and any(path in error for path in self._late_files(table))
        if not code or (code in _BROKEN and not self._world.foreign and not is_lost and not is_late):
            self._world.violate("tables fail only for a reason", f"{table.name}: {error}")

    # --- at rest ---

    def at_rest(self) -> None:
        """What must hold some hours after the last step and the last fault."""
        world = self._world
        self._check_storage()
        logs = {table.name: world.log(table) for table in world.tables}
        by_name = self._statuses()
        for table in world.tables:
            status = by_name[table.name]
            if status.health not in _WELL:
                world.violate(
                    "tables get well", f"{table.name} is {status.health.value}: {status.reason} {status.error}"
                )
                continue
            self._check_table(table, logs[table.name])

    def _statuses(self) -> dict[str, TableStatus]:
        """What `cdclake status` shows, by name of the table."""
        world = self._world
        planned = plan(PlanInputs(world.raw, world.states, RAW, PREFIX), world.time())
        logs = {table.name: world.log(table) for table in world.tables}
        statuses = table_statuses(planned.tables, lambda name: logs[name.table], world.time(), LATE_AFTER_MINUTES)
        return {status.table.removeprefix(f"{SCHEMA}."): status for status in statuses}

    def damage_is_shown(self) -> None:
        """No table is up to date of which a change file was lost or overwritten that a run had noted or applied."""
        world, statuses = self._world, self._statuses()
        for name, lost in world.damaged.items():
            if statuses[name].health is not Health.UP_TO_DATE:
                continue
            (table,) = (one for one in world.tables if one.name == name)
            folder, state = f"{PREFIX}{SCHEMA}/{name}/", self.seen[name].states[-1]
            raw = {entry.key[len(folder) :]: world.raw.get(entry.key) or b"" for entry in world.raw.list(folder)}
            applied = {file_name(version): version for version in state.applied}
            wrong = {file for file in lost if file not in raw and file not in applied}
            wrong |= {
                file
                for file, version in applied.items()
                if file in raw and table.versions.get(identity(raw[file]), file) != version
            }
            wrong -= world.changed_since_listed[name]  # the ledger has them as they were listed
            if wrong:
                world.violate("damage is shown", f"{name} is up to date, without {', '.join(sorted(wrong))}")

    def _check_table(self, table: SourceTable, log: ChangeLog) -> None:
        world, seen, name = self._world, self.seen[table.name], table.name
        item, head = world.state(table).item, log.head()
        if Attribute.LEASE_HOLDER in item:
            world.violate("leases end", f"{name} is leased by {item[Attribute.LEASE_HOLDER]}")
        noted = int(item.get(Attribute.LAST_CHANGE_ID, "0"))
        unknown = [log.record(number).kind for number in range(noted + 1, head + 1)]
        if noted > head or any(kind is not ChangeKind.TAKEOVER for kind in unknown):  # those change nothing
            world.violate("items follow the lake", f"{name}: {noted}, not {head}")
        if seen.visible != seen.files[head] and not self._is_excused(table):
            more, less = sorted(seen.visible - seen.files[head]), sorted(seen.files[head] - seen.visible)
            world.violate("readers see the newest change", f"{name}: {more} are stale, {less} are missing")
        paths = [file.path for file in log.snapshot(head).files]
        lake = {row.row["id"]: dict(row.row) for path in paths for row in self._now(table, log, path)}
        erased = {one.key for one in seen.erasures.values()}
        source = {key: whole(row) for key, row in table.rows.items()}
        wrong = sorted({key for key in {*lake, *source} if lake.get(key) != source.get(key)} - erased - table.touched)
        if wrong and not self._is_excused(table) and table.name not in world.unrepaired:
            world.violate("the lake equals the source", f"{name}: keys {wrong}")
        self._check_erased(table)
        for number in range(1, head + 1):
            self._check_retained(table, log, number)
        applied = {file_name(version) for version in seen.states[head].applied}
        applied = {name for name in applied if not name.startswith(FOLDER)}
        left = applied - all_entries(log, log.snapshot(head).ledger).keys()
        if left:
            world.violate("the ledger has every file", f"{name}: {sorted(left)}")

    def _check_retained(self, table: SourceTable, log: ChangeLog, number: int) -> None:
        """Each retained change can be read, and is what it was."""
        if number not in log.retained():
            return
        world, seen = self._world, self.seen[table.name]
        snapshot: Snapshot = log.snapshot(number)
        found: list[LakeRow] = []
        for file in snapshot.files:
            content = self._content(log, file.path)
            if content is None:
                world.violate("retained changes stay", f"change {number} of {table.name} lacks {file.path}")
                return
            found += rows_of(file.path, content)
        expected = seen.states[number].rows(table, soft_delete=self._is_soft(table))
        wrong = difference(found, expected, seen.unfinished)
        if wrong:
            world.violate("retained changes stay", f"change {number} of {table.name}: {wrong}")

    def _check_erased(self, table: SourceTable) -> None:
        """No object of the lake contains a value that was erased."""
        seen, lake = self.seen[table.name], self._world.lake
        if not seen.erasures:
            return
        values = seen.states[-1].erased_values(table)
        objects = [(entry.key, lake.get(entry.key) or b"") for entry in lake.list("")]
        objects += [(f"version of {one.key}", lake.get_version(one) or b"") for one in lake.old_versions("")]
        for key, content in objects:
            text = content
            if content.startswith(b"PAR1") and "foreign" not in key:
                text += repr(pq.read_table(pa.BufferReader(content), partitioning=None).to_pylist()).encode()
            elif key.endswith(".gz"):
                text = gzip.decompress(content)
            found = next((value for value in values if value.encode() in text), None)
            if found:
                self._world.violate("erased rows are nowhere", f"{found} is in {key}")
                return

    def _now(self, table: SourceTable, log: ChangeLog, path: str) -> Iterable[LakeRow]:
        content = self._world.lake.get(log.layout.data_key(path))
        if not content and path in self._late_files(table):
            content = self._content(log, path)
        if not content:
            self._world.violate("readers miss nothing", f"{path} is not there")
            return ()
        return (row for row in rows_of(path, content) if row.op != "D")
