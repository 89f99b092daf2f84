"""A run that is paused past its lease at any call, while other runs work on its table, leaves no wrong file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from cdclake.adapters.folder import FolderStore
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.commit.roll_forward import roll_forward
from cdclake.commit.table_files import check_files, compare, repair
from cdclake.commit.takeover import take_over
from cdclake.commit.undo import check_files_retained, plan_rollback
from cdclake.errors import CdclakeError
from cdclake_devkit.memory import ManualClock, MemoryStore
from cdclake_devkit.versioned_bucket import VersionedBucket
from tests.builders import LAYOUT, LakeBuilder
from tests.conftest import COUNTS
from tests.dying_store import CALLS, PausingStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.ports import ObjectStore

    Verb = Callable[[LakeBuilder], object]


def change(lake: LakeBuilder) -> None:
    """Replace the oldest file, as a run does."""
    lake.change(files=2, retired=[lake.snapshot.files[0].path])


def repair_files(lake: LakeBuilder) -> None:
    change = roll_forward(lake.log)
    repair(lake.log, change, compare(lake.log, lake.log.snapshot(change).all_files))


VERBS: dict[str, Verb] = {
    "run": change,
    "rollback": lambda lake: lake.rollback(),
    "rollback to 1": lambda lake: lake.rollback(1),
    "rollback to 2": lambda lake: lake.rollback(2),
    "reapply": lambda lake: lake.reapply(),
    "repair": repair_files,
}
OTHERS = {
    "rollback to 1": ("rollback to 1",),
    "rollback": ("rollback",),
    "reapply": ("reapply",),
    "run and rollback to 2": ("run", "rollback to 2"),
    "rollback to 1 and run": ("rollback to 1", "run"),
    "rollback to 1, repair and reapply": ("rollback to 1", "repair", "reapply"),
}
"""What other runs do during the pause."""


def new_store(kind: str, folder: Path) -> ObjectStore:
    if kind == "memory":
        return MemoryStore()
    if kind == "folder":
        folder.mkdir()
        return FolderStore(folder)
    return S3Store(cast("Any", VersionedBucket()), "lake-of-tests")


def copy_of(store: ObjectStore, folder: Path) -> ObjectStore:
    """A store of the same kind with the same content."""
    if isinstance(store, FolderStore):
        return FolderStore(Path(shutil.copytree(store.root, folder)))
    if isinstance(store, S3Store):
        return S3Store(cast("Any", cast("VersionedBucket", store._client).clone()), store.bucket)
    copied = MemoryStore()
    copied._objects.update(cast("MemoryStore", store)._objects)
    return copied


def prepare(store: ObjectStore) -> None:
    """Five changes, each with files of its own; the last two are undone."""
    lake = LakeBuilder(store, ManualClock())
    for _ in range(5):
        lake.change(files=2, retired=[file.path for file in lake.snapshot.files[:1]])
    lake.rollback()
    lake.rollback()


def do(verb: Verb, lake: LakeBuilder) -> CdclakeError | None:
    try:
        verb(lake)
    except CdclakeError as error:
        return error
    return None


def try_pause(store: ObjectStore, verb: Verb, call: int, others: tuple[str, ...]) -> bool:
    """Pause a run at a call, finish the work of others, go on, and make the next run; False if there is no such call.

    Afterwards readers see exactly the files of the newest snapshot, and each change can still be rolled back to.
    """
    clock = ManualClock()
    continued: list[int] = []

    def work() -> None:
        other = LakeBuilder(ChangeLog(store, LAYOUT), clock)
        other.token = 2
        take_over(other.log, "other", 2, "the run is paused", clock)
        for name in others:
            do(VERBS[name], other)
        continued.append(other.log.head())

    paused = PausingStore(store, call, work, CALLS)
    lake = LakeBuilder(ChangeLog(cast("ObjectStore", paused), LAYOUT), clock)
    error = do(verb, lake)
    if not continued:
        return False
    log = ChangeLog(store, LAYOUT)
    if error is None:  # then the pause came after its work, or before it began
        assert log.head() >= continued[0]
        assert not compare(log, log.snapshot(log.head()).all_files).stale
    roll_forward(log)
    check_files(log, log.snapshot(log.head()))
    assert not compare(log, log.snapshot(log.head()).all_files)
    for number in range(1, log.head()):
        try:
            plan = plan_rollback(log, number)
        except CdclakeError:  # the table is as it was after that change
            continue
        check_files_retained(log, plan)
    return True


@pytest.mark.slow
@pytest.mark.sampled(test=9, ci=27)
@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", ["memory", "folder", "versioned bucket"])
def test_a_run_that_is_paused_at_any_call_while_others_work_leaves_no_stale_file(
    kind: str, verb: str, others: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prepared, pauses = new_store(kind, tmp_path / "prepared"), 0
    prepare(prepared)
    while try_pause(copy_of(prepared, tmp_path / str(pauses)), VERBS[verb], pauses + 1, OTHERS[others]):
        pauses += 1
    assert pauses > 3
    request.node.user_properties.append((COUNTS, {"pauses": pauses}))
