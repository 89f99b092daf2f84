"""What the product takes from Python's standard library besides its ports, simulated: time, threads, random ids.

While a simulation runs, these replace the names in the modules of the product that refer to the originals.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

from cdclake.concurrency import executor
from cdclake_devkit.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor
    from random import Random

    from cdclake_devkit.simulate.scheduler import Actor, Scheduler

EPOCH = 1_709_632_800.0
"""When simulations begin: 2024-03-05 10:00 UTC, in seconds since 1970."""


_PACKAGES = ("cdclake", "on_raw_file")
_MODULES = ("pyiceberg.avro.file",)
"""Marks the blocks of a file with random bytes."""


def calls_at_submission(*_: object, **__: object) -> Executor:
    """In place of a pool of threads: makes each call when it is submitted. The scheduler lets others go on then."""
    return executor(1)


def replacements(scheduler: Scheduler, chance: Random) -> list[tuple[object, object]]:
    """Pairs of an object of the standard library and what replaces it."""

    class Event:
        def __init__(self) -> None:
            self._is_set = False
            self._waiting: list[Actor] = []

        def is_set(self) -> bool:
            return self._is_set

        def set(self) -> None:
            self._is_set = True
            for actor in self._waiting:
                scheduler.wake(actor)
            self._waiting.clear()

        def wait(self, timeout: float | None = None) -> bool:
            if not self._is_set:
                self._waiting.append(scheduler.actor)
                scheduler.wait(timeout)
            return self._is_set

    class Thread:
        def __init__(self, target: Callable[[], object], name: str = "", daemon: bool = False) -> None:
            self._target, self._name, self._daemon, self._ended = target, name, daemon, Event()

        def start(self) -> None:
            def work() -> None:
                self._target()
                self._ended.set()

            scheduler.spawn(scheduler.process, work)

        def join(self) -> None:
            self._ended.wait()

    def machine_time() -> float:
        return EPOCH + scheduler.now + scheduler.process.skew_seconds

    def new_id() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128), version=4)

    simulated_time = SimpleNamespace(
        time=machine_time,
        time_ns=lambda: int(machine_time() * 1e9),
        perf_counter=lambda: scheduler.now,
        monotonic=lambda: scheduler.now,
        sleep=scheduler.sleep,
    )
    simulated_uuid = SimpleNamespace(**{**vars(uuid), "uuid4": new_id})
    return [
        (time, simulated_time),
        (uuid, simulated_uuid),
        (uuid.uuid4, new_id),
        (secrets.token_bytes, chance.randbytes),
        (random, chance),
        (os, SimpleNamespace(**{**vars(os), "urandom": chance.randbytes})),
        (threading.Thread, Thread),
        (threading.Event, Event),
        (ThreadPoolExecutor, calls_at_submission),
    ]


@contextmanager
def simulated(scheduler: Scheduler, chance: Random) -> Iterator[None]:
    """Replace the standard library in all modules of the product that are loaded, until the `with` block ends."""
    import cdclake.lake.storage.iceberg_manifests  # noqa: F401 - otherwise the first Iceberg table loads it, too late

    pairs = replacements(scheduler, chance)
    by_original = {id(original): new for original, new in pairs}
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] not in _PACKAGES and name not in _MODULES:
                continue
            for attribute, value in list(vars(module).items()):
                if id(value) in by_original and not attribute.startswith("__"):
                    stack.enter_context(replaced(module, attribute, by_original[id(value)]))
        yield
