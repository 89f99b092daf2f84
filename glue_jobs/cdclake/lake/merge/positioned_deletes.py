"""Checks deletes that have no ordering value and are positioned among their key's changes by the time of their file.

A file is written some time after its changes were made. So the key may have been inserted again before that time, or
the clock of the ordering column may be ahead. Then the order of the files contradicts the order of the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cdclake.errors import OrderingError
from cdclake.lake.storage.keys import KEY, matches
from cdclake.model.position import ARRIVED, MARKS, POSITIONED, file_and_row, order_in_files
from cdclake.model.position import COLUMN as POSITION

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE_AND_ROW = rf"\|(?P<file>\d{{8}}-[^|]*\|\d{{10}})[{MARKS}]*$"


def check_positioned_deletes(rows: pa.Table, existing_rows: pa.Table, tombstones: pa.Table) -> None:
    """Refuse positioned deletes whose place depends on which order counts: by file or by value.

    Args:
        rows: All change rows of some keys.
        existing_rows: The lake's rows of these keys.
        tombstones: Their tombstones.

    Raises:
        OrderingError: Names the row of the change that contradicts the order.
    """
    known = pa.concat_tables([table.select([KEY, POSITION]) for table in (existing_rows, tombstones)])
    new = rows.select([KEY, POSITION])
    entries = pa.concat_tables([new, known.filter(pc.not_equal(known[POSITION], ""))])
    is_positioned = pc.or_(*(pc.ends_with(entries[POSITION], marks) for marks in (POSITIONED, POSITIONED + ARRIVED)))
    if not pc.any(is_positioned).as_py():
        return
    entries = entries.filter(matches(entries[KEY], entries[KEY].filter(is_positioned).combine_chunks()))
    files = pc.struct_field(pc.extract_regex(entries[POSITION], _FILE_AND_ROW), "file")
    entries = entries.append_column("file", files)
    by_value, by_file = (
        entries.take(pc.sort_indices(entries, [(KEY, "ascending"), (name, "ascending")])) for name in (POSITION, "file")
    )
    differs = by_value.filter(pc.not_equal(by_value["file"], by_file["file"]))
    for key in pc.unique(differs[KEY]):
        positions = by_value.filter(pc.equal(by_value[KEY], key))[POSITION].to_pylist()
        _check_key(positions, set(new.filter(pc.equal(new[KEY], key))[POSITION].to_pylist()))


def _check_key(positions: Iterable[str], new: set[str]) -> None:
    entries = [(position, order_in_files(position)) for position in positions]
    for positioned, in_files in entries:
        if POSITIONED not in positioned[-2:]:
            continue
        for other, other_in_files in entries:
            if (other < positioned) != (other_in_files < in_files) and other_in_files != in_files:
                file, row = file_and_row(positioned if positioned in new else other)
                message = (
                    "A delete contains only the key, not the value of OrderColumn, and the time of its file"
                    " contradicts another change of the key"
                )
                remedy = (
                    "Nothing was applied. Have the source log whole rows (PostgreSQL: REPLICA IDENTITY FULL) or DMS add"
                    " AR_H_CHANGE_SEQ, then reload the table with a full load"
                )
                raise OrderingError(message, remedy=remedy, file=file, row=row + 1)
