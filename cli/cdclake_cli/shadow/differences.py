"""All differences between two tables as rows that any engine can read, and their counts and first examples. No I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdclake_cli.sources.compare import plain_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake_cli.comparing.match import Matched

ONLY_HERE, ONLY_THERE, DIFFERENT = "only here", "only there", "different"
REPEATED_HERE, REPEATED_THERE = "repeated here", "repeated there"
"""Kinds of difference; *here* is the lake table."""
SAMPLES = 5
"""Number of examples of each kind."""


@dataclass(frozen=True)
class Sample:
    """One differing row.

    Attributes:
        kind: Kind of difference.
        key: Values of the key; without a key, or if only one table has it, the whole row.
        values: For each differing column, the value in the lake table and that in the other one.
    """

    kind: str
    key: Mapping[str, Any]
    values: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass
class Found:
    """What was found so far.

    Attributes:
        kinds: Number of differing rows of each kind.
        columns: For each column, the number of rows in which it differs.
        samples: The first rows of each kind.
    """

    rows_here: int = 0
    rows_there: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    columns: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)

    def add(self, matched: Matched, differences: pa.Table) -> None:
        """Add a part of the tables, and its differences as rows."""
        self.rows_here += sum(one.num_rows for one in (matched.only_left, matched.left, matched.repeated_left))
        self.rows_there += sum(one.num_rows for one in (matched.only_right, matched.right, matched.repeated_right))
        counted = Counter(differences["kind"].to_pylist())
        for name, mask in matched.differs.items():
            self.columns[name] += pc.sum(mask).as_py() or 0
        for kind in counted:
            wanted = SAMPLES - sum(sample.kind == kind for sample in self.samples)
            of_kind = differences.filter(pc.equal(differences["kind"], kind)) if wanted > 0 else differences.slice(0, 0)
            self.samples += map(_sample, of_kind.slice(0, max(wanted, 0)).to_pylist())
        self.kinds += counted


def schema_of_differences(compared: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """The columns of `rows_of_differences`: the kind, the columns that differ, the key, and the row of each table."""
    row = pa.struct(list(compared))
    keys = [pa.field("key", pa.struct([compared.field(name) for name in key]))] if key else []
    kind, columns = pa.field("kind", pa.string()), pa.field("columns", pa.list_(pa.string()))
    return pa.schema([kind, columns, *keys, pa.field("here", row), pa.field("there", row)])


def rows_of_differences(matched: Matched, key: Sequence[str]) -> pa.Table:
    """One row for each difference. The row of a table that does not have it is null."""
    compared = matched.left.schema
    differing = matched.differing
    left, right = matched.left.filter(differing), matched.right.filter(differing)
    masks = [np.asarray(mask.filter(differing)) for mask in matched.differs.values()]
    parts = [
        (ONLY_HERE, matched.only_left, None, None),
        (ONLY_THERE, None, matched.only_right, None),
        (DIFFERENT, left, right, _names(list(matched.differs), masks, left.num_rows)),
        (REPEATED_HERE, matched.repeated_left, None, None),
        (REPEATED_THERE, None, matched.repeated_right, None),
    ]
    schema = schema_of_differences(compared, key)
    tables = [_table(schema, key, *part) for part in parts]
    return pa.concat_tables([schema.empty_table(), *tables])


def _table(
    schema: pa.Schema,
    key: Sequence[str],
    kind: str,
    here: pa.Table | None,
    there: pa.Table | None,
    names: pa.Array | None,
) -> pa.Table:
    shown = here if here is not None else there
    assert shown is not None
    rows = shown.num_rows
    columns = {
        "kind": pa.repeat(pa.scalar(kind), rows),
        "columns": names if names is not None else pa.nulls(rows, schema.field("columns").type),
        "key": _structs(shown.select(list(key))) if key else None,
        "here": _structs(here) if here is not None else pa.nulls(rows, schema.field("here").type),
        "there": _structs(there) if there is not None else pa.nulls(rows, schema.field("there").type),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _structs(rows: pa.Table) -> pa.Array:
    if not rows.num_rows:
        return pa.nulls(0, pa.struct(list(rows.schema)))
    return pa.StructArray.from_arrays([column.combine_chunks() for column in rows.columns], fields=list(rows.schema))


def _names(names: Sequence[str], masks: Sequence[np.ndarray], rows: int) -> pa.Array:
    """For each row, the names of the columns that differ."""
    if not rows:
        return pa.nulls(0, pa.list_(pa.string()))
    by_row = np.stack(masks, axis=1)
    _, columns = np.nonzero(by_row)
    offsets = np.concatenate([[0], np.cumsum(by_row.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()).take(pa.array(columns)))


def _sample(row: Mapping[str, Any]) -> Sample:
    here, there = row["here"], row["there"]
    key = plain_row(row.get("key") or here or there)
    mine, other = plain_row(here or {}), plain_row(there or {})
    return Sample(row["kind"], key, {name: (mine[name], other[name]) for name in row["columns"] or ()})
