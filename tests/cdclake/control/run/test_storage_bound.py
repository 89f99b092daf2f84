"""What a table stores does not pile up: over a thousand changes, all bytes stay near what is live and can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from cdclake.adapters.s3 import S3Store
from cdclake.model.change.record import StagedFile
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake_devkit.versioned_bucket import VersionedBucket
from tests.cdclake.control.world import LAKE, World

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from cdclake.commit.log import ChangeLog
    from cdclake_devkit.memory import ManualClock
    from tests.cdclake.control.world import Rewritten

CHANGES, CHANGES_PER_DAY = 1000, 4
DAY_SECONDS = 24 * 3600
FILE_BYTES, FILES = 300_000, 10
RETENTION_DAYS = 30
OVERHEAD = 1.3


def rewrite_a_file(log: ChangeLog, before: Snapshot) -> Rewritten:
    """A full load of `FILES` files, then a change that replaces the oldest one."""
    number = before.change + 1
    old = before.files[: 1 if before.files else 0]
    names = [log.layout.data_path(number, index, (), ()) for index in range(1 if before.files else FILES)]
    staged = [
        StagedFile(f"{log.layout.staging_prefix(number, 'run')}{index}.parquet", name)
        for index, name in enumerate(names)
    ]
    for file in staged:
        log.store.put(file.staged_key, number.to_bytes(2, "big") * (FILE_BYTES // 2))
    files = (*before.files[len(old) :], *(DataFile(name, 1, FILE_BYTES) for name in names))
    return staged, [file.path for file in old], files


@pytest.mark.thorough
@pytest.mark.long
def test_all_versions_together_are_little_more_than_what_is_live_and_what_can_be_undone(clock: ManualClock) -> None:
    world, bucket = World(clock), VersionedBucket(clock)
    world.lake = S3Store(cast("S3Client", bucket), LAKE)
    world.rewrite = rewrite_a_file
    world.add_table("LOAD00000001.parquet", RetentionDays=str(RETENTION_DAYS), KeepEveryState=str(RETENTION_DAYS))
    world.process()
    live = FILES * FILE_BYTES
    ratios = []
    for change in range(1, CHANGES + 1):
        clock.advance(DAY_SECONDS / CHANGES_PER_DAY)
        world.put(f"{clock():%Y%m%d-%H%M%S}000.parquet")
        world.process()
        undoable = min(change, RETENTION_DAYS * CHANGES_PER_DAY) * FILE_BYTES
        ratios.append(bucket.stored_bytes / (live + undoable))
    assert world.log().head() == CHANGES + 1
    assert world.log().retained().first > CHANGES - 40 * CHANGES_PER_DAY
    assert max(ratios) <= OVERHEAD, f"stored up to {max(ratios):.2f} times what is needed"
    assert min(ratios) >= 1  # the judge counts the retired files too
