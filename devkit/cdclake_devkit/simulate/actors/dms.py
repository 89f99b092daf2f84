"""DMS: it writes full loads and change files, and S3 tells of them."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from cdclake.control.plan.lost_files import PendingNote
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.simulate.actors.jobs import send_event
from cdclake_devkit.simulate.case import OVERWRITE, Step
from cdclake_devkit.simulate.world import PREFIX, RAW

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cdclake_devkit.simulate.actors.jobs import Jobs
    from cdclake_devkit.simulate.world import World


def write_change(world: World, jobs: Jobs, step: Step, name: str) -> None:
    """A transaction commits, and DMS writes its file: at once or late, perhaps again, with events."""
    table, chance = world.tables[step.table], Random(step.seed)
    delay = chance.choice((0.0, 0.0, 0.0, 0.0, 30.0, 900.0, 5000.0))
    now = world.time()
    file, content = table.change(chance, now, now + timedelta(seconds=delay))
    times = chance.choice((1, 1, 1, 1, 1, 2))
    for number in range(times):
        _write(world, jobs, f"{name}.file{number}", table.name, file, content, delay, chance)
        delay += chance.choice((5.0, 700.0, 9000.0))


def write_load(world: World, jobs: Jobs, step: Step, name: str) -> None:
    """DMS loads the table anew."""
    table, chance = world.tables[step.table], Random(step.seed)
    if not table.rows:
        table.fill(chance)
    _write(world, jobs, f"{name}.load", table.name, table.load_name, table.load(), 0.0, chance)


def damage(world: World, jobs: Jobs, step: Step, name: str) -> None:
    """Someone removes a change file, or puts other rows into it: mostly the newest one, which waits to be applied."""
    table, chance = world.tables[step.table], Random(step.seed)
    folder = f"{PREFIX}shop/{table.name}/"
    written = sorted(entry.key[len(folder) :] for entry in world.raw.list(folder))
    files, log = [file for file in written if file != table.load_name], world.log(table)
    if not files or not log.snapshot(log.head()).exists:
        return
    file = chance.choice((files[-1], files[-1], chance.choice(files)))
    noted = world.damaged.setdefault(table.name, set())
    world.hurt.setdefault(table.name, set()).add(file)
    if step.kind == OVERWRITE:
        _write(world, jobs, f"{name}.file", table.name, file, table.overwrite(file), 0.0, chance)
        return
    if file in PendingNote.of_item(world.state(table).item).names:
        noted.add(file)
    world.raw.delete([folder + file])
    world.note(name, f"removes {table.name}/{file}")


def repair_damaged(world: World, jobs: Jobs, applied: Mapping[str, Collection[str]]) -> None:
    """What operators do about such files: they have DMS load the table again, or put the files back.

    Args:
        applied: What each table contains, by its name, see `LakeState.applied`.
    """
    for number, table in enumerate(world.tables):
        chance, name = world.chance(f"remedy {table.name}"), f"rest.{table.name}"
        at_work = Attribute.LEASE_HOLDER in world.state(table).item
        others = any(version in table.versions.values() for version in applied[table.name])
        if table.name in world.damaged and chance.random() < 0.5 and not (at_work or others):
            world.counts["damaged tables: files are put back"] += 1
            for file in sorted(world.hurt[table.name]):
                _write(world, jobs, f"{name}.back-{file}", table.name, file, table.original(file), 0.0, chance)
        elif table.name in world.damaged:
            world.counts["damaged tables: loaded again"] += 1
            log = world.log(table)
            if not log.snapshot(log.head()).exists:
                world.unrepaired.add(table.name)
            table.change(chance, world.time(), world.time())  # the full load contains it
            write_load(world, jobs, Step(0.0, "load", number, 0), f"{name}.reload")


def _write(
    world: World, jobs: Jobs, name: str, table: str, file: str, content: bytes, delay: float, chance: Random
) -> None:
    """Let a raw file appear, and let S3 tell of it at least once."""
    key = f"{PREFIX}shop/{table}/{file}"
    events = [chance.choice((0.5, 1.0, 5.0, 300.0)) for _ in range(chance.choice((1, 1, 1, 2)))]

    def work() -> None:
        world.raw.put(key, content)
        world.note("dms", f"writes {table}/{file}")
        moment = world.time().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = {
            "eventName": "ObjectCreated:Put",
            "eventTime": moment,
            "s3": {"bucket": {"name": RAW}, "object": {"key": key}},
        }
        for number, later in enumerate(events):
            send_event(world, jobs, f"{name}.event{number}", {"Records": [record]}, later)

    if delay:
        world.scheduler.spawn(world.process(name), work, delay)
    else:
        work()
