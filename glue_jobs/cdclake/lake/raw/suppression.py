"""Leaves out rows of erased keys that are older than the erasure, whatever their operation, before they are merged.

So they reach neither the table and its history, nor a tombstone, nor the quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake.lake.raw.cast import cast_column
from cdclake.lake.storage.keys import keyed_hashes
from cdclake.model.position import COLUMN as POSITION
from cdclake.model.position import MARKS
from cdclake.model.raw.files import RawKind
from cdclake.model.schema import BEFORE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from cdclake.lake.raw.rows import BadRow, ReadBatch, Slice
    from cdclake.model.raw.files import RawFile
    from cdclake.model.schema import Schema
    from cdclake.model.snapshot import ErasedKeys

_WITHOUT_CONTENT = (
    "; its content is not kept, because the file is older than an erasure and the row has no readable key"
)


@dataclass(frozen=True)
class Suppression:
    """The erased keys of a table.

    Attributes:
        secret: The secret of their hashes.
        erased: See `Snapshot.erased`; `last` is empty where it does not compare with the positions of the rows to read.
    """

    secret: bytes = field(repr=False)
    erased: tuple[ErasedKeys, ...]

    @cached_property
    def _hashes(self) -> list[frozenset[str]]:
        return [frozenset(one.hashes) for one in self.erased]

    def later_than(self, file: RawFile, written_utc: datetime) -> tuple[int, ...]:
        """Indices of the erasures that are later than all rows of a raw file, see `ErasedKeys.is_later_than`."""
        return tuple(i for i, one in enumerate(self.erased) if one.is_later_than(file, written_utc))

    def kept(self, batch: ReadBatch, part: Slice, schema: Schema) -> ReadBatch:
        """The rows of a batch that are not suppressed.

        A bad row whose key cannot be read may be one of an erased key: of a file that is older than an erasure, it is
        quarantined without its content.

        Args:
            part: The slice that the rows are from, or one of several with the same `erasures`.
            schema: Columns of the table.
        """
        bad_rows = [kept for bad in batch.bad_rows if (kept := self._kept_bad_row(bad, part.erasures, schema))]
        suppressed = self._suppressed(batch.rows, part)
        if not suppressed.any() and len(bad_rows) == len(batch.bad_rows):
            return replace(batch, bad_rows=tuple(bad_rows))
        read = batch.rows.num_rows - batch.derived  # the deletes of old keys come last, and are in no file
        return replace(
            batch,
            rows=batch.rows.filter(pa.array(~suppressed)).combine_chunks(),
            bad_rows=tuple(bad_rows),
            derived=int((~suppressed[read:]).sum()),
            suppressed=int(suppressed[:read].sum()) + len(batch.bad_rows) - len(bad_rows),
        )

    def _suppressed(self, rows: pa.Table, part: Slice) -> NDArray[np.bool_]:
        """Whether each row has an erased key and is older than the erasure."""
        suppressed = np.zeros(rows.num_rows, dtype=bool)
        there = {name.lower(): name for name in rows.column_names}  # a reload may change the case of a name
        for i, (erased, hashes) in enumerate(zip(self.erased, self._hashes, strict=True)):
            names = [there[name.lower()] for name in erased.columns if name.lower() in there]
            if len(names) < len(erased.columns):
                continue
            older = np.arange(rows.num_rows)
            if i not in part.erasures:
                if not erased.last or part.file.kind is RawKind.FULL_LOAD:
                    continue
                positions = pc.utf8_rtrim(rows[POSITION], MARKS)
                older = np.flatnonzero(pc.less_equal(positions, erased.last).to_numpy())
            keys = [rows[name].combine_chunks().take(pa.array(older)) for name in names]
            suppressed[older] |= np.array([one in hashes for one in keyed_hashes(self.secret, keys)], dtype=bool)
        return suppressed

    def _kept_bad_row(self, bad: BadRow, erasures: Sequence[int], schema: Schema) -> BadRow | None:
        """What to quarantine of a bad row; None if it has an erased key."""
        for i in erasures:
            hashes = self._key_hashes(bad, self.erased[i], schema)
            if None in hashes:
                bad = replace(bad, content="", reason=bad.reason.removesuffix(_WITHOUT_CONTENT) + _WITHOUT_CONTENT)
            elif self._hashes[i].intersection(hashes):
                return None
        return bad

    def _key_hashes(self, bad: BadRow, erased: ErasedKeys, schema: Schema) -> list[str | None]:
        """Hashes of the key of a bad row, now and before the change; null for a key that cannot be read."""
        if isinstance(bad.content, str):
            return [None]
        texts = {name.lower(): text for name, text in bad.content.items()}
        keys = [[texts.get(name.lower()) for name in erased.columns]]
        before = [texts.get((BEFORE_PREFIX + name).lower()) for name in erased.columns]
        if any(before):
            keys.append([old or new for old, new in zip(before, keys[0], strict=True)])
        kinds = [column.type if (column := schema.find(name)) else "string" for name in erased.columns]
        return [
            one
            for key in keys
            for one in keyed_hashes(self.secret, [_typed(text, kind) for text, kind in zip(key, kinds, strict=True)])
        ]


def _typed(text: str | None, kind: str) -> pa.Array:
    """A text of a bad row as a value of a lake type; null if it is none."""
    if kind != "binary" or text is None:
        return cast_column(pa.array([text], pa.string()), kind)[0]
    try:
        return pa.array([bytes.fromhex(text)])
    except ValueError:
        return pa.array([text.encode()])
