"""The simulated storage: what stays is what stays in a bucket with versions, and the recording fits today's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from costs.recorded import Recorded
from costs.stored import ANYWHERE, OLD_ROWS, Replaced, simulate_stored

from cdclake.adapters.s3 import S3Store
from cdclake.model.change.record import StagedFile
from cdclake.model.snapshot import DataFile, Snapshot
from cdclake_devkit.versioned_bucket import VersionedBucket
from tests.cdclake.control.world import LAKE, LAKE_PREFIX, World

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from cdclake.commit.log import ChangeLog
    from cdclake_devkit.memory import ManualClock
    from tests.cdclake.control.world import Rewritten

FILES, FILE_BYTES = 5, 100
DAYS, CHANGES_PER_DAY = 36, 6
FOLDER = f"{LAKE_PREFIX}shop/orders/"
RECORDED = Recorded.read()


class Rewriting:
    """Stages the files of changes, each of which replaces the oldest file, and tells the simulation of them."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self.replaced = clock, Replaced()

    def __call__(self, log: ChangeLog, before: Snapshot) -> Rewritten:
        number = before.change + 1
        old = before.files[: 1 if before.files else 0]
        names = [log.layout.data_path(number, index, (), ()) for index in range(1 if before.files else FILES)]
        sizes = dict.fromkeys(names, FILE_BYTES + number)
        staged = [StagedFile(f"{log.layout.staging_prefix(number, 'run')}{name[-13:]}", name) for name in names]
        for file in staged:
            log.store.put(file.staged_key, bytes(sizes[file.path]))
        self.replaced.commit(self._clock(), sizes, [file.path for file in old])
        files = (*before.files[len(old) :], *(DataFile(name, 1, sizes[name]) for name in names))
        return staged, [file.path for file in old], files


@pytest.mark.long
def test_replaced_files_stay_as_long_as_in_a_bucket_with_versions(clock: ManualClock) -> None:
    """Changes every four hours, for longer than states are retained, through runs that clean up."""
    world, bucket = World(clock), VersionedBucket(clock)
    world.lake = S3Store(cast("S3Client", bucket), LAKE)
    world.rewrite = rewriting = Rewriting(clock)
    world.add_table("LOAD00000001.parquet")
    world.process()
    kept = []
    for _ in range(DAYS * CHANGES_PER_DAY):
        clock.advance(86_400 / CHANGES_PER_DAY)
        world.put(f"{clock():%Y%m%d-%H%M%S}000.parquet")
        world.process()
        pages = bucket.get_paginator("list_object_versions").paginate(Bucket=LAKE, Prefix=FOLDER)
        stored = sum(version["Size"] for page in pages for version in page.get("Versions", ()))
        log = world.log()
        live = sum(file.bytes for file in log.snapshot(log.head()).files)
        assert rewriting.replaced.retained == log.retained()
        assert live + rewriting.replaced.bytes == stored
        kept.append(len(log.retained().up_to(log.head())))
    assert max(kept[-CHANGES_PER_DAY:]) < 80 < len(kept)


@pytest.mark.parametrize("old_rows", OLD_ROWS)
def test_small_files_write_a_tenth_of_what_whole_files_do(old_rows: str) -> None:
    """Of the recorded pattern, with a change for each of its bursts."""
    one = next(one for one in RECORDED.stored if (one.bursts, one.changes, one.old_rows) == (6, 6, old_rows))
    assert one.written_gb < one.one_size_gb / 9


@pytest.mark.long
@pytest.mark.slow
def test_the_recorded_storage_is_that_of_this_code() -> None:
    assert simulate_stored(6, ANYWHERE, [1]) == [RECORDED.stored_of(6, 1)]
