"""DMS: it writes full loads and change files, and S3 tells of them."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from cdclake_devkit.simulate.actors.jobs import send_event
from cdclake_devkit.simulate.source import LOAD
from cdclake_devkit.simulate.world import PREFIX, RAW

if TYPE_CHECKING:
    from cdclake_devkit.simulate.actors.jobs import Jobs
    from cdclake_devkit.simulate.case import Step
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
    _write(world, jobs, f"{name}.load", table.name, LOAD, table.load(), 0.0, chance)


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
