"""Operators: what people do to tables, with the product's own code."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from cdclake.commit.ledger import recorded
from cdclake.control.admin.table_admin import RegisteredTable
from cdclake.errors import CdclakeError, LeaseHeldError
from cdclake.lake.operations.erase.erase import Erasure, erase
from cdclake.lake.operations.erase.progress import Progress
from cdclake.lake.read.as_of import TableLocation
from cdclake.lake.read.key_filter import RowKeys
from cdclake.model.names import Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.simulate.actors.rows import adopt_files, change_row, release_rows
from cdclake_devkit.simulate.case import ADOPT, CHANGE_ROW, EXPIRE_RAW_FILES, RELEASE
from cdclake_devkit.simulate.faults import kind_of
from cdclake_devkit.simulate.source import KEYS
from cdclake_devkit.simulate.world import LAKE

if TYPE_CHECKING:
    from cdclake.adapters.filesystem import FileSystemSpec
    from cdclake.commit.log import ChangeLog
    from cdclake.model.layout import LakeLayout
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectStore
    from cdclake_devkit.simulate.case import Step
    from cdclake_devkit.simulate.scheduler import Process
    from cdclake_devkit.simulate.source import SourceTable
    from cdclake_devkit.simulate.world import World

_AGAIN_AFTER = (100.0, 250.0, 250.0)
_PATIENCE_SECONDS = 7200
"""A load may take longer than an hour, see `jobs`."""
_ACTIVATED_AFTER = (60.0, 900.0, 4000.0)


def operate_again(world: World, at: float) -> None:
    """At rest, operators do again what they began: erase, and move foreign files away."""

    def again(number: int) -> None:
        table = world.tables[number]
        path = world.path(table)
        process = world.process(f"rest.{table.name}.again")

        def work() -> None:
            lake = _opened(world, process, table, world.state(table), _PATIENCE_SECONDS)
            if world.foreign:
                world.note(process, f"repair: {lake.repair().to_json()}")
            for erased_path, key in sorted(world.to_erase):
                if erased_path == path:
                    world.note(process, f"erase: {erase_key(world, process, lake, key)}")

        world.scheduler.spawn(process, work, at)

    for number in range(len(world.tables)):
        again(number)


def _opened(world: World, process: Process, table: SourceTable, state: TableState, wait: int) -> RegisteredTable:
    return RegisteredTable(
        world.port(process, "states", world.states),
        state,
        world.log(table, world.store(process, LAKE)),
        process.name,
        world.time,
        lease_wait_seconds=wait,
        sleep=world.scheduler.sleep,
    )


def operate(world: World, step: Step, name: str, after: float = 0.0, attempt: int = 0) -> None:
    """Let an operator do something, and try again later if a run has the table."""
    process = world.process(name)

    def work() -> None:
        try:
            found = _do(world, process, step)
        except CdclakeError as error:
            found = f"{type(error).__name__}: {error}"
            world.counts[f"refused: {step.kind}"] += 1
            if isinstance(error, LeaseHeldError) and attempt < len(_AGAIN_AFTER):
                operate(
                    world, step, f"{step.name}.again{attempt}.{kind_of(step.name)}", _AGAIN_AFTER[attempt], attempt + 1
                )
        else:
            world.counts[f"done: {step.kind}"] += 1
        finally:
            process.is_over = True
        world.note(process, f"{step.kind} of {world.tables[step.table].name}: {found or 'done'}")

    world.scheduler.spawn(process, work, after)


def _do(world: World, process: Process, step: Step) -> str:
    table, chance = world.tables[step.table], Random(step.seed)
    states, path = world.port(process, "states", world.states), world.path(table)
    state = states.get(path)
    lake = _opened(world, process, table, state, chance.choice((0, 0, 60)))
    if step.kind == ADOPT:
        found = adopt_files(world, process, lake, table)
        activate(world, step.table, f"{process.name}.later")
        return found
    if table.name in world.unadopted:
        return "it waits for its adoption"
    if step.kind == "rollback":
        head = world.log(table).head()
        to = chance.choice((None, None, chance.randrange(head))) if head else None
        record = lake.rollback(to)
        activate(world, step.table, f"{process.name}.later", chance.choice(_ACTIVATED_AFTER))
        return f"change {record.change} is as of {record.as_of}"
    if step.kind == "reapply":
        record = lake.reapply()
        return f"change {record.change} is as of {record.as_of}"
    if step.kind == "clean up":
        retention = state.settings.retention / chance.choice((1, 1000, 100000))
        return f"retained {lake.clean_up(retention, state.settings.keep_every).retained}"
    if step.kind == "repair":
        return f"{lake.repair().to_json()}"
    if step.kind == "foreign file":
        key = f"{lake.log.layout.table_prefix}foreign-{process.name}.parquet"
        world.foreign.add(key)
        world.lake.put(key, b"PAR1 of another program PAR1")
        repair_later(world, step, f"{process.name}.repair", chance.choice(_ACTIVATED_AFTER))
    if step.kind == "erase":
        return erase_key(world, process, lake, chance.randrange(KEYS))
    if step.kind == CHANGE_ROW:
        return change_row(world, process, lake, table, chance)
    if step.kind == RELEASE:
        return release_rows(world, process, lake, table, chance)
    if step.kind == "read":
        return read_iceberg(world, lake.log, chance.choice((1.0, 60.0, 1200.0)))
    if step.kind == EXPIRE_RAW_FILES:
        return expire_raw_files(world, step)
    if step.kind == "pause":
        states.set_attributes(path, {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE})
        activate(world, step.table, f"{process.name}.later", chance.choice(_ACTIVATED_AFTER))
    if step.kind == "settings":
        changed = chance.choice(
            (
                {Attribute.MAX_FILES_PER_RUN: "1"},
                {Attribute.MAX_FILES_PER_RUN: "10000"},
                {Attribute.TARGET_FILE_BYTES: "1"},
                {Attribute.RETENTION_DAYS: "1"},
                {Attribute.KEEP_EVERY_STATE: "2"},
                {Attribute.READERS: "folder"},
                {Attribute.READERS: "both"},
                {Attribute.READERS: "iceberg"},
            )
        )
        states.set_attributes(path, changed)
        return str(changed)
    return ""


def repair_later(world: World, step: Step, name: str, after: float) -> None:
    """Let an operator repair a table later."""
    world.scheduler.spawn(
        world.process(f"{name}.plan"), lambda: operate(world, step._replace(kind="repair"), name), after
    )


class _Location(TableLocation):
    """A table whose lake a process opens as its own."""

    def __init__(self, layout: LakeLayout, fs: FileSystemSpec, store: ObjectStore) -> None:
        super().__init__(LAKE, layout, fs)
        object.__setattr__(self, "_opened", store)

    def store(self) -> ObjectStore:
        opened: ObjectStore = vars(self)["_opened"]
        return opened


def erase_key(world: World, process: Process, lake: RegisteredTable, key: int) -> str:
    """Erase the rows of a key."""
    log = lake.log
    snapshot = log.snapshot(log.head())
    if not snapshot.exists:
        return "no table"
    world.erasing[process.name] = key
    process.erasures += 1
    world.to_erase.add((lake.state.path, key))
    erasure = Erasure(
        location=_Location(log.layout, world.files(process, LAKE), log.store),
        log=log,
        keys=RowKeys.parse([str(key)], snapshot.primary_key, snapshot.schema),
        raw=None,
        run_id=process.name,
        reason="a request",
        made_by="operator",
        clock=world.time,
        progress=Progress(),
    )
    done = lake.change(lambda token: erase(erasure, token, lake.update_catalog))
    return f"change {done.change}, {done.touched.rows} rows of key {key}"


def read_iceberg(world: World, log: ChangeLog, seconds: float) -> str:
    """Open the Iceberg table, and read its files some time later, before the grace of a clean-up is over.

    Files that readers of the folder share are retired when they are replaced.
    """
    table = world.iceberg.offered_table(log.layout)
    if table is None:
        return "no Iceberg table"
    world.scheduler.sleep(seconds)
    own = (key for key in table.keys if key.startswith(log.layout.iceberg_prefix))
    gone = sorted(key for key in own if world.lake.get(key) is None)
    if gone and not any(world.table_of(path).name == log.layout.name.table for path, _ in world.to_erase):
        world.violate("files of an Iceberg table stay", f"{', '.join(gone)} of change {table.change} is gone")
    return f"{len(table.keys)} files of change {table.change}"


def expire_raw_files(world: World, step: Step) -> str:
    """A lifecycle rule of the raw bucket removes change files that were applied."""
    state, log = world.state(world.tables[step.table]), world.log(world.tables[step.table])
    files = list_raw_files(world.raw, state.raw_prefix, state.settings).all_changes
    applied = recorded(log, log.snapshot(log.head()).ledger, files).names
    gone = [file.key for file in files if file.relative in applied]
    world.raw.delete(gone)
    return f"{len(gone)} files"


def activate(world: World, number: int, name: str, after: float = 0.0) -> None:
    """Turn a table on, later."""
    process, path = world.process(name), world.path(world.tables[number])

    def work() -> None:
        if world.tables[number].name in world.unadopted:
            return
        try:
            world.port(process, "states", world.states).set_attributes(path, {Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})
            world.turned_on[path] = world.scheduler.now
        except CdclakeError as error:
            world.note(process, f"activate: {error}")

    world.scheduler.spawn(process, work, after)
