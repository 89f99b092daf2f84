"""A published example without history yields the published table."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.cdclake.lake.merge.published_scd import CHANGES, TYPE_1
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cdclake.lake.merge.published_scd import Change

COLUMNS = pa.schema([("userId", pa.int64()), ("name", pa.string()), ("city", pa.string()), ("sequenceNum", pa.int64())])
FILES = [(CHANGES,), [(one,) for one in CHANGES], *permutations([CHANGES[:4], CHANGES[4:6], CHANGES[6:]])]


@pytest.mark.sampled(quick=4)
@pytest.mark.parametrize("files", FILES)
def test_the_greatest_sequence_number_of_a_user_wins_whatever_the_files(
    tmp_path: Path, files: Sequence[Sequence[Change]]
) -> None:
    table = Table(tmp_path, COLUMNS, {"PrimaryKey": "userId", "OrderColumn": "sequenceNum"})
    for number, changes in enumerate(files):
        rows = [
            (operation, {"userId": user, "name": name, "city": city, "sequenceNum": sequence})
            for user, name, city, operation, sequence in changes
        ]
        table.apply_file(f"20240305-10150{number}000.parquet", rows)
    found = [tuple(one.row[name] for name in ("userId", "name", "city")) for one in table.rows()]
    assert sorted(found) == sorted(TYPE_1)
