"""A feed's expectation equals the result of the reference merge over its files."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from cdclake.model.position import position
from cdclake.model.raw.files import file_order, read_time
from cdclake_cli.dms.settings import settings_from
from cdclake_devkit.feed.feed import Feed
from cdclake_devkit.feed.options import DeleteImage, FeedOptions, OperationShares
from cdclake_devkit.oracle import ChangeRow, Load, history, merge
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_devkit.feed.schedule import FeedFile
    from cdclake_devkit.oracle import Row, Version

COLUMNS = "id bigint, part string, code char(3), n smallint, note string, at timestamp, price decimal(9,2), city string"
LOADED_UTC = datetime(1900, 1, 1, tzinfo=timezone.utc)
SHARES = [
    OperationShares(),
    OperationShares(0.5, 0.1, 0.4),
    OperationShares(0.3, 0.3, 0.2, 0.2),
    OperationShares(0.2, 0.3, 0.2, 0.2, 0.1),
    OperationShares(1, 0, 0),
    OperationShares(0, 1, 0),
]


@st.composite
def options(draw: st.DrawFn) -> FeedOptions:
    images = draw(st.sampled_from(["none", "pk-only", "all"]))
    dms = {
        "DataFormat": "parquet",
        "BeforeImages": images,
        "HeaderColumns": draw(st.sampled_from(["", "AR_H_CHANGE_SEQ"])),
        "TimestampColumnName": draw(st.sampled_from(["", "ts"])),
        "CdcInsertsOnly": (only := draw(st.sampled_from(["", "", "", "I", "IU"]))) == "I",
        "CdcInsertsAndUpdates": only == "IU",
        "IncludeOpForFullLoad": draw(st.booleans()),
        "ParquetTimestampInMillisecond": draw(st.booleans()),
    }
    rounds = draw(st.integers(1, 3))
    # Files of a special kind need at least one row.
    special = only == "" and (changes := draw(st.sampled_from([0, 5, 30, 60]))) >= 30
    return FeedOptions(
        columns=COLUMNS,
        primary_key=draw(st.sampled_from([("id",), ("part", "id")])),
        settings=settings_from(dms),
        seed=draw(st.integers(0, 1_000)),
        rows=draw(st.integers(0, 12)),
        load_files=draw(st.integers(1, 3)),
        changes=changes if only == "" else draw(st.integers(0, 60)),
        change_files=8,
        shares=draw(st.sampled_from(SHARES)),
        hot_keys=draw(st.integers(0, 3)),
        delete_image=draw(st.sampled_from(DeleteImage)),
        schema_changes=draw(st.integers(0, 3)),
        late_files=draw(st.integers(0, 2)) if special and rounds > 1 else 0,
        repeated_files=draw(st.integers(0, 1)) if special and rounds > 1 else 0,
        resumed_files=draw(st.integers(0, 2)) if special else 0,
        rounds=rounds,
        history=True,
        soft_delete=draw(st.booleans()),
    )


@examples(thorough=2_000, ci=60, test=15)
@given(options())
def test_the_expectation_equals_the_oracle_result(requested: FeedOptions) -> None:
    feed = Feed(requested)
    check(feed, list(feed.files()))


@examples(thorough=500, ci=20, test=5)
@given(options(), st.integers(1, 2))
def test_the_expectation_after_a_round_reflects_the_delivered_files(requested: FeedOptions, rounds: int) -> None:
    feed = Feed(requested)
    delivered = list(feed.files(rounds))
    assert [file.key for file in delivered] == [file.key for file in Feed(requested).files() if file.round <= rounds]
    check(feed, delivered)


def check(feed: Feed, files: Sequence[FeedFile]) -> None:
    key = feed.options.primary_key
    table = pa.concat_tables(feed.expected_table())
    columns = [name for name in table.column_names if name != "Op"]
    loaded, changes = read(files, key, columns)
    expected = merge(key, loaded, changes, columns, soft_delete=feed.options.soft_delete)
    actual = sorted(table.to_pylist(), key=lambda row: tuple(row[name] for name in key))
    has_op = feed.options.settings.op_in_changes
    assert actual == [{**full(row.row, columns), "Op": row.op if has_op else "I"} for row in expected]

    def time_of(_: Row, place: str) -> datetime | None:
        when = read_time(place)
        return when.replace(tzinfo=timezone.utc) if when else None

    versions = history(key, [Load(loaded, LOADED_UTC, changes)], columns, time_of)
    assert ordered(pa.concat_tables(feed.expected_history()).to_pylist(), key) == [
        version(one, columns, versions[i + 1 : i + 2], key) for i, one in enumerate(versions)
    ]


def version(one: Version, columns: Sequence[str], following: Sequence[Version], key: Sequence[str]) -> dict[str, Any]:
    newest = not (following and all(following[0].row[name] == one.row[name] for name in key))
    return {
        **full(one.row, columns),
        "operation": one.operation,
        "valid_from": None if one.valid_from == LOADED_UTC else one.valid_from,
        "valid_to": one.valid_to,
        "validity_flag": int(newest),
    }


def ordered(rows: list[dict[str, Any]], key: Sequence[str]) -> list[dict[str, Any]]:
    """Sorted by key; the feed already orders the versions of a key."""
    return sorted(rows, key=lambda row: tuple(row[name] for name in key))


def full(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in columns}


def read(files: Sequence[FeedFile], key: Sequence[str], columns: Sequence[str]) -> tuple[list[Row], list[ChangeRow]]:
    """Rows of the full load and of all delivered change files, but for those that a sequence shows to be sent again."""
    loaded: list[Row] = []
    changes = []
    sent: set[str] = set()
    for file in files:
        assert file.content is not None
        rows = pq.read_table(pa.BufferReader(file.content())).to_pylist()
        assert len(rows) == file.rows
        relative = file.key.removeprefix("shop/orders/")
        if not file_order(relative):
            loaded += [full(row, columns) for row in rows]
            continue
        for i, row in enumerate(rows):
            sequence = row.get("AR_H_CHANGE_SEQ")
            if sequence in sent:
                continue
            if sequence:
                sent.add(sequence)
            old = tuple(row.get(f"BI_{name}") for name in key)
            old_key = old if row.get("Op") == "U" and None not in old else None
            values = {name: row.get(name) for name in columns}
            changes.append(ChangeRow(position(relative, i, sequence), row.get("Op", "I"), values, old_key))
    return loaded, changes
