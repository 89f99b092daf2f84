"""Runs a history on a database, replicates it, delivers the raw files, runs the jobs, and compares lake and database.

To replay a failing history, paste its `repr` into a test: `check(History(...), database, Tally())`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from cdclake.control.controller import PlanInputs, plan
from cdclake.control.status import Health, table_statuses
from cdclake.errors import UnsentValueError, UnsettledKeyError
from cdclake.lake.limits import EngineLimits
from cdclake.lake.read.as_of import TableLocation
from cdclake.model.table.state import TableState
from cdclake_cli.dms.attributes import attributes_for
from cdclake_cli.dms.settings import settings_from
from cdclake_cli.sources.effort import CHECKSUMS, ROWS, Effort
from cdclake_cli.sources.verify import verify
from cdclake_devkit.memory import ManualClock, MemoryStore
from cdclake_devkit.replicate.raw_files import added_columns
from cdclake_devkit.replicate.service import Replication, ReplicationTask
from tests.builders import LAKE, RAW, FolderInstallation
from tests.databases.values import Column, Reading, differences, expected, lake_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.ports import Clock, ObjectStore
    from cdclake_cli.sources.source import ComparedSnapshot
    from cdclake_cli.sources.tables import SourceTable
    from cdclake_cli.sources.verify import TableVerification
    from cdclake_devkit.replicate.source import LoggedSource
    from tests.databases.history import History, Phase, Table

_PROGRESS = "awsdms_"
_HELD_BACK = 4
"""Places by which a file that is held back for the next phase is late."""


class Database(Protocol):
    """A database of one history."""

    schema: str

    @property
    def source(self) -> LoggedSource:
        """The database, as the source of a replication."""

    def run(self, sql: str) -> str:
        """Run a statement; returns why the database refused it, or nothing."""

    def columns(self, table: str) -> list[Column]:
        """The columns of a table, from the database's catalog."""

    def rows(self, table: str, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """All rows of a table, with the values that DMS sends for them."""


class Tally:
    """What histories contained, as counts by name."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, name: str, count: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + count


def _found(result: TableVerification) -> tuple[object, ...]:
    rows = {(one.kind, one.row) for one in result.named}
    return result.equal, result.lake_rows, result.source_rows, result.differing_rows, rows


class DifferenceError(AssertionError):
    """The lake differs from the database, or a job failed."""


class _Ticks:
    """The replication's clock: some seconds pass at each call."""

    def __init__(self, clock: ManualClock, ticks: Sequence[int]) -> None:
        self._clock, self._ticks = clock, cycle(ticks)

    def __call__(self) -> datetime:
        self._clock.advance(next(self._ticks))
        return self._clock.now


class _DiedError(Exception):
    pass


class _RefusedError(Exception):
    pass


class _DyingStore:
    """A raw bucket whose writer dies as soon as it saves its progress, having written raw files."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def put(self, key: str, data: bytes) -> None:
        if key.startswith(_PROGRESS):
            raise _DiedError
        self._store.put(key, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Trial:
    """One history under way."""

    def __init__(self, history: History, database: Database, tally: Tally, folder: Path) -> None:
        self._history, self._database, self._tally = history, database, tally
        self._settings = settings_from(dict(history.settings))
        self._reading = Reading(
            as_text=self._settings.csv_changes,
            milliseconds=self._settings.parquet_timestamp_in_millisecond,
            padded=self._settings.add_trailing_padding_character,
        )
        # Commits have the time of the database. A full load that overlaps them is of that time too, others are older.
        self._clock = ManualClock(datetime.now(timezone.utc)) if history.overlap else ManualClock()
        small_bytes, memory_bytes, medium_bytes = history.small_changes
        limits = EngineLimits(
            small_change_bytes=small_bytes,
            small_change_memory_bytes=memory_bytes,
            medium_change_bytes=medium_bytes,
            in_place_task_bytes=history.in_place_bytes,
        )
        self._installation = FolderInstallation(folder, clock=self._clock, limits=limits)
        self._sent = MemoryStore(self._clock)
        self._known: set[str] = set()
        self._delivered: list[str] = []
        self._applied_until = ""
        self._held: list[str] = []
        # Sequences tell whether the full load contains an update of a key, where keys are checked late.
        self._may_be_refused = bool(history.overlap) or not self._settings.header_columns
        self._load_delays = cycle(history.load_delays)

    def run(self) -> None:
        for sql in self._history.create:
            self._execute(sql)
        self._begin()
        self._configure()
        for number, phase in enumerate(self._history.phases, 1):
            is_last = number == len(self._history.phases)
            self._phase(phase, holds=phase.holds and not is_last)
            if not self._held:
                self._compare(f"after phase {number}")
        self._verify()
        for table in self._history.tables:
            self._add_books(table)

    def _execute(self, sql: str) -> None:
        refused = self._database.run(sql)
        self._tally.add("statements")
        if refused:
            self._tally.add("statements refused by the database")
        elif sql.startswith("alter"):
            self._tally.add("tables altered")
        elif sql.startswith("rollback"):
            self._tally.add("rollbacks")

    # The source's side

    def _replicate(self, ticks: Sequence[int], *, dies: bool = False, reload: bool = False) -> list[str]:
        """Replicate all changes up to now; returns the keys of the new raw files in the order of their names."""
        clock = _Ticks(self._clock, ticks)
        if dies:
            dying = self._replication("first", cast("ObjectStore", _DyingStore(self._sent)), clock)
            with suppress(_DiedError):
                dying.run(lambda: False, until_now=True)
            self._tally.add("replications that died")
            self._may_be_refused = True
        self._replication("first", self._sent, clock).run(lambda: False, reload=reload, until_now=True)
        keys = {stored.key for stored in self._sent.list("") if not stored.key.startswith(_PROGRESS)}
        new = {key for key in keys if "/LOAD" in key} if reload else keys - self._known
        self._known |= keys
        return sorted(new, key=lambda key: key.rpartition("/")[2])

    def _replication(self, name: str, raw: ObjectStore, clock: Clock) -> Replication:
        return Replication(ReplicationTask((), self._settings, name), self._database.source, raw, clock)

    def _source_tables(self) -> dict[str, SourceTable]:
        with self._database.source.snapshot() as now:
            return {table.name.table: table for table in now.tables}

    def _begin(self) -> None:
        """Begin the replication, then take the full load, which contains the first changes already."""
        loaded = self._replicate((0,))
        if self._history.overlap:
            for sql in self._history.overlap:
                self._execute(sql)
            store = MemoryStore(self._clock)
            self._replication("again", store, self._clock).run(lambda: False, until_now=True)
            loaded = [stored.key for stored in store.list(f"{self._database.schema}/")]
            for key in loaded:
                self._sent.put(key, store.get(key) or b"")
            self._known.update(loaded)
            self._tally.add("full loads that overlap changes")
        self._deliver_load(loaded)

    def _configure(self) -> None:
        """Register and activate the tables, as an operator does."""
        tables = self._source_tables()
        for table in self._history.tables:
            self._installation.states.register(TableState.new(RAW, f"{self._database.schema}/", f"{table.name}/"))
            attributes = self._attributes(table, tables[table.name])
            self._installation.activate(self._path(table), FullLoadQuietMinutes="0", **attributes)
        if self._delivered:
            self._run_jobs()
            self._compare("after the full load")

    def _attributes(self, table: Table, source: SourceTable) -> dict[str, str]:
        settings = self._settings
        columns = source.schema
        if settings.add_column_name:  # with a header, only the columns that every file has
            altered = {name.lower() for name in table.altered}
            for name in columns.names:
                if name.lower() in altered:
                    columns = columns.remove(columns.get_field_index(name))
        item = attributes_for(settings, columns, table.key, added=added_columns(source, settings))
        return {**item, **dict(table.attributes)}

    # The bucket's side

    def _put(self, key: str, seconds: float = 1) -> None:
        """Deliver a raw file some seconds later."""
        self._clock.advance(seconds)
        data = self._sent.get(key)
        assert data is not None
        self._installation.bucket(RAW).put(key, data)
        stamp = self._clock.now.timestamp()
        os.utime(self._installation.root / RAW / key, (stamp, stamp))

    def _deliver_load(self, keys: Sequence[str]) -> None:
        begin = self._clock.now
        for key in keys:
            # S3 reports the time at which an upload began.
            self._clock.now = begin
            self._put(key, next(self._load_delays))
        self._clock.now = begin + timedelta(seconds=5)
        self._delivered = list(keys)
        self._tally.add("LOAD files", len(keys))

    def _phase(self, phase: Phase, *, holds: bool) -> None:
        self._clock.advance(60)
        for statement in phase.sql:
            self._execute(statement)
        if phase.reload:
            self._deliver_changes(phase, self._replicate(phase.ticks))
        for statement in phase.alter:
            self._execute(statement)
        if phase.reload:
            self._reload()
        for statement in phase.then:
            self._execute(statement)
        self._verify()
        self._deliver_changes(phase, self._replicate(phase.ticks, dies=phase.dies), holds=holds)

    def _reload(self) -> bool:
        """Repeat the full load, as an operator does if change files cannot tell what happened; False if impossible."""
        tables = self._source_tables()
        for table in self._history.tables:
            attributes = self._attributes(table, tables[table.name])
            self._installation.states.set_attributes(self._path(table), attributes)
        if not all(self._database.rows(t.name, self._database.columns(t.name)) for t in self._history.tables):
            return False  # an empty table has no LOAD file, so nothing tells of its reload
        self._clock.advance(60)
        loaded = self._replicate((0,), reload=True)
        bucket = self._installation.bucket(RAW)
        bucket.delete([stored.key for stored in bucket.list("")])
        self._deliver_load(loaded)
        self._run_jobs()
        self._compare("after a repeated full load")
        self._tally.add("repeated full loads")
        return True

    def _deliver_changes(self, phase: Phase, keys: Sequence[str], *, holds: bool = False) -> None:
        runs, repeats = cycle(phase.runs), cycle(phase.repeats)
        numbered = list(zip(range(len(keys)), cycle(phase.delays), keys))
        late = [key for _, delay, key in numbered if holds and delay >= _HELD_BACK]
        in_time = [key for _, _, key in sorted(numbered, key=lambda file: file[0] + file[1]) if key not in late]
        arrivals, self._held = [*in_time, *self._held], late
        self._may_be_refused |= arrivals != list(keys)
        newest = self._applied_until
        for key in arrivals:
            self._tally.add("change files")
            name = key.rpartition("/")[2]
            if name < self._applied_until:
                self._tally.add("change files that arrive after a later one was applied")
            self._put(key)
            self._delivered.append(key)
            repeat = next(repeats)
            again = self._delivered[repeat % len(self._delivered)]
            if repeat >= 0:
                self._put(again)
                self._tally.add("files delivered again")
            newest = max(newest, name)
            if next(runs):
                self._run_jobs()
                self._applied_until = newest
        refused = self._run_jobs()
        self._applied_until = newest
        if refused and not self._held:
            self._settle(refused)

    def _settle(self, refused: str) -> None:
        """Do what the error of a refused change says. Only late files or unknown commit times may bring one about."""
        if not self._may_be_refused:
            raise DifferenceError(refused)
        self._tally.add("changes refused until a full load, because the files leave a row open")
        if not self._reload():
            raise _RefusedError

    def _run_jobs(self) -> str:
        """Run the Controller, and the jobs that it starts; returns why a change was refused, or nothing.

        If the source checks keys late, an update that moves a row to a used key is refused until the file arrives in
        which the other row leaves. A late value is refused if a later change of the row did not send its column.

        Raises:
            DifferenceError: A job failed for another reason.
        """
        self._clock.advance(1)
        self._installation.run_controller()
        self._tally.add("runs of the jobs")
        refused = ""
        for table in self._history.tables:
            error = self._installation.state(self._path(table)).item.get("LastError")
            if not error:
                continue
            message = f"the jobs failed on table {table.name}: {error}"
            checks_at_once = dict(table.attributes).get("UniqueChecks") == "immediate"
            if UnsentValueError.__name__ in error:
                self._tally.add("runs that refused a late value")
            elif UnsettledKeyError.__name__ in error and not checks_at_once:
                self._tally.add("runs that refused a key update")
            else:
                raise DifferenceError(message)
            refused = message
        return refused

    def _path(self, table: Table) -> str:
        return f"{RAW}/{self._database.schema}/{table.name}/"

    # The comparison

    def _compare(self, when: str) -> None:
        for table in self._history.tables:
            columns = self._database.columns(table.name)
            source = [
                tuple(expected(c, value, self._reading) for c, value in zip(columns, row, strict=True))
                for row in self._database.rows(table.name, columns)
            ]
            history = [f"{table.name}_history"] if ("History", "true") in table.attributes else []
            for name in (table.name, *history):
                folder = self._installation.root / LAKE / self._database.schema / name
                found = differences(columns, lake_rows(folder, columns, self._reading), source)
                if found:
                    message = f"table {name} differs {when}\n{found}"
                    raise DifferenceError(message)
                self._tally.add("rows compared", len(source))
                self._tally.add("values compared", len(source) * len(columns))
            self._tally.add("comparisons of histories", len(history))
        self._tally.add("comparisons")
        self._check_status(when)

    def _verify(self) -> None:
        """Have `cdclake verify` find by checksums what it finds by all rows, whether the lake is late or not."""
        with self._database.source.snapshot() as opened:
            now = cast("ComparedSnapshot", opened)
            for table in now.tables:
                location = TableLocation.at((self._installation.root / LAKE).as_uri(), str(table.name))
                rows, checksums = (verify(now, table, location, Effort(by, 2)) for by in (ROWS, CHECKSUMS))
                if _found(rows) != _found(checksums):
                    message = f"checksums of {table.name} differ from its rows\n{rows}\n{checksums}"
                    raise DifferenceError(message)
                self._tally.add(f"tables verified by {checksums.compared_by}")
                self._tally.add("rows that differ, verified", rows.differing_rows)
                self._tally.add("rows that were not read to verify", rows.rows_read - checksums.rows_read)

    def _check_status(self, when: str) -> None:
        bucket = self._installation.bucket(RAW)
        planned = plan(PlanInputs(bucket, self._installation.states, RAW, ""), self._clock()).tables
        log_of = {table.state.name: self._installation.log(table.state.path) for table in planned}
        for status in table_statuses(planned, log_of.__getitem__, self._clock(), late_after_minutes=180):
            if status.health is not Health.UP_TO_DATE:
                message = f"table {status.table} is {status.health.value} {when}: {status.reason} {status.to_do}"
                raise DifferenceError(message)

    def _add_books(self, table: Table) -> None:
        log = self._installation.log(self._path(table))
        for number in range(1, log.head() + 1):
            books = log.record(number).books
            for name in ("superseded", "derived", "absent", "updated", "deleted"):
                self._tally.add(f"change rows {name}", getattr(books, name))
            self._tally.add("change rows", books.read)


def check(history: History, database: Database, tally: Tally) -> None:
    """Run a history.

    Raises:
        DifferenceError: The lake differs from the database, a job failed, or a table is not up to date.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            _Trial(history, database, tally, Path(folder)).run()
        except _RefusedError:
            tally.add("histories that end with a refused change, because a table is empty and cannot be loaded again")
        except DifferenceError as error:
            message = f"{error}\n\n{history}\n\n{history!r}"
            raise DifferenceError(message) from None
    tally.add("histories")
