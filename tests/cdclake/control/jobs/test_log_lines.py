"""Every log line of a job is JSON with the run, the table, and the table's change."""

from __future__ import annotations

import io
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from cdclake import logs
from cdclake.errors import JobRunError
from cdclake.model.names import JOB_LOAD_INCREMENTAL
from tests.cdclake.control.world import RAW, World

if TYPE_CHECKING:
    from collections.abc import Iterator


CHANGE = "20240305-100000000.parquet"


class Written:
    """Return the lines logged since the last call."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def lines(self) -> list[dict[str, Any]]:
        read = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        self.stream.truncate(0)
        self.stream.seek(0)
        return read


@pytest.fixture
def written() -> Iterator[Written]:
    """Configure the log of the process as a job does, and restore it afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    into = Written()
    logs.configure(stream=into.stream, run_id="run-1")
    yield into
    root.handlers[:] = handlers
    root.setLevel(level)


def subjects(lines: list[dict[str, Any]]) -> set[tuple[object, ...]]:
    return {(line["run_id"], line["table"], line["change"]) for line in lines}


def test_process_table_logs_run_table_and_change_on_every_line(world: World, written: Written):
    world.add_table(CHANGE)
    world.process()
    lines = written.lines()
    changes = [line["change"] for line in lines]
    assert subjects(lines) == {("run-1", "shop.orders", None), ("run-1", "shop.orders", 1)}
    assert changes == sorted(changes, key=lambda change: change or 0)
    world.put("20240305-100000001.parquet")
    world.failures[JOB_LOAD_INCREMENTAL] = "BadRowError: no such Op"
    with pytest.raises(JobRunError):
        world.process()
    lines = written.lines()
    assert subjects(lines) == {("run-1", "shop.orders", 1)}
    (failed,) = [line for line in lines if line["level"] == "ERROR"]
    assert "BadRowError: no such Op" in failed["error"]


def test_log_lines_of_called_code_have_the_table_of_the_step(world: World, written: Written):
    world.add_table(CHANGE)
    world.raw.after_listing = lambda: logging.getLogger("cdclake.adapters.s3").warning("slow")
    world.process()
    first, *_ = [line for line in written.lines() if line["message"] == "slow"]  # later ones come from the Spark job
    assert first["table"] == "shop.orders"


def test_the_controller_logs_each_table_with_its_own_change(world: World, written: Written):
    world.register(LastChangeId="7")
    world.put("LOAD00000001.csv", path=f"{RAW}/dms/shop/items/")
    world.run_controller()
    assert subjects(written.lines()) == {("run-1", "shop.orders", 7), ("run-1", "shop.items", None)}


def test_a_field_of_a_block_ends_with_the_block_and_is_local_to_the_thread(written: Written):
    log = logs.bind("here", table="bound")
    plain = logging.getLogger("here")
    with logs.context(table="outer", change=1), logs.context(change=2):
        plain.info("inside")
        log.info("bound")
        thread = threading.Thread(target=lambda: plain.info("other thread"))
        thread.start()
        thread.join()
    plain.info("after")
    logged = {line["message"]: (line["table"], line["change"]) for line in written.lines()}
    assert logged == {
        "inside": ("outer", 2),
        "bound": ("bound", 2),
        "other thread": (None, None),
        "after": (None, None),
    }
