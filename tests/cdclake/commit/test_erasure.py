"""An erasure deletes every copy of the files that it replaces, and nothing of other runs, on every kind of store."""

from __future__ import annotations

import pytest

from cdclake.commit.erasure import Replacement, commit_erasure, delete_unreferenced, rewrite_snapshots
from tests.builders import LAYOUT, LakeBuilder
from tests.cdclake.commit.conftest import in_memory


@pytest.mark.parametrize("is_live", [True, False], ids=["live", "retired"])
def test_no_version_of_an_erased_file_is_left(lake: LakeBuilder, is_live: bool) -> None:
    erased, other = (file.path for file in lake.change(files=2).added)
    lake.change(retired=[other if is_live else erased])
    replacement = Replacement({erased: None})
    record = commit_erasure(lake.log, lake.snapshot, replacement, "eraser", lake.token, lake.clock)
    rewrite_snapshots(lake.log, record.change, replacement)
    delete_unreferenced(lake.log, record.change)
    assert not lake.store.is_retained(LAYOUT.data_key(erased), LAYOUT.retired_key(erased))
    assert lake.store.is_retained(LAYOUT.data_key(other), LAYOUT.retired_key(other))


@in_memory
def test_what_a_later_run_has_written_stays(lake: LakeBuilder) -> None:
    lake.change(tombstones=1)
    head = lake.log.head()
    lake.stage(run_id="at-work", tombstones=1)
    before = lake.control_keys()
    delete_unreferenced(lake.log, head)
    assert lake.control_keys() == before
