"""What people do to rows, with the product's own code: direct changes, releases of quarantined rows, adoptions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from cdclake.commit.quarantine import quarantined_files
from cdclake.lake.operations.adopt.adopt import AdoptionSource, plan_adoption
from cdclake.lake.operations.direct.apply import DirectChange, change_directly
from cdclake.lake.operations.direct.input_tables import input_keys, input_rows
from cdclake.lake.operations.release import release
from cdclake.lake.operations.table_run import TableRun
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.schema import DELETE
from cdclake_devkit.simulate.source import KEYS
from cdclake_devkit.simulate.world import LAKE, PREFIX, RAW

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from cdclake.commit.log import ChangeLog
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.table.state import TableState
    from cdclake_devkit.simulate.scheduler import Process
    from cdclake_devkit.simulate.source import SourceTable
    from cdclake_devkit.simulate.world import World


def table_run(
    world: World,
    process: Process,
    state: TableState,
    log: ChangeLog,
    token: int,
    run_id: str = "",
    note_file: Callable[[str], None] | None = None,
) -> TableRun:
    """A table, as a process works on it.

    Args:
        run_id: If it is not the process's name.
    """
    return TableRun(
        raw=world.store(process, RAW),
        raw_fs=world.files(process, RAW),
        raw_prefix=state.raw_prefix,
        log=log,
        lake_fs=world.files(process, LAKE),
        settings=state.settings,
        run_id=run_id or process.name,
        fencing_token=token,
        clock=world.time,
        note_file=note_file,
    )


def change_row(world: World, process: Process, lake: RegisteredTable, table: SourceTable, chance: Random) -> str:
    """Insert, update or delete a row by hand. Most keys fit, as the lake mostly has the source's."""
    op, row = table.by_hand(chance)
    world.direct[process.name] = op, row
    rows = partial(input_keys, [row["id"]], ("id",)) if op == DELETE else partial(input_rows, [row])
    change = DirectChange(op, lambda _: rows(), "a simulation", "operator")
    run = partial(table_run, world, process, lake.state, lake.log)
    watermark = lake.state.checked_watermark
    done = lake.change(lambda token: change_directly(run(token), InProcessBackend(), change, watermark))
    return f"{op} of key {row['id']}: change {done.change}"


def release_rows(world: World, process: Process, lake: RegisteredTable, table: SourceTable, chance: Random) -> str:
    """Correct the rows without a key in their raw files, and release them."""
    raw, names = world.store(process, RAW), {one.raw_file for one in quarantined_files(lake.log, lake.log.head())}
    for name in sorted(names):
        key = f"{PREFIX}shop/{table.name}/{name}"
        if raw.get(key) is not None:
            raw.put(key, table.corrected(name, chance.randrange(KEYS)))
    if not names:
        return "nothing is in quarantine"
    run = partial(table_run, world, process, lake.state, lake.log)
    done = lake.change(lambda token: release(run(token), names, "corrected", "operator"))
    return f"{', '.join(sorted(names))}: change {done['change']}"


def adopt_files(world: World, process: Process, lake: RegisteredTable, table: SourceTable) -> str:
    """Make the files of another program the table, unless they are."""
    if table.name not in world.unadopted:
        return "adopted before"
    raw, raw_fs = world.store(process, RAW), cast("Any", world.files(process, RAW).open())
    lake_fs = cast("Any", world.files(process, LAKE).open())
    record = lake.adopt(plan_adoption(AdoptionSource(lake.state, lake.log, lake_fs, raw, raw_fs)).table)
    return f"change {record.change}"
