"""Contents of a feed: operations, sequences on one key, transactions, file sizes, schema changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake_cli.dms.settings import settings_from
from cdclake_devkit.feed.feed import Feed
from cdclake_devkit.feed.options import DeleteImage, FeedOptions, OperationShares
from cdclake_devkit.feed.schedule import FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake_devkit.feed.schedule import FeedFile


def options(**more: Any) -> FeedOptions:
    dms = {"DataFormat": "parquet", "TimestampColumnName": "ts", **more.pop("dms", {})}
    return replace(FeedOptions(rows=500, changes=4_000, settings=settings_from(dms)), **more)


def table(file: FeedFile) -> pa.Table:
    assert file.content is not None
    return pq.read_table(pa.BufferReader(file.content()))


def change_files(requested: FeedOptions) -> list[pa.Table]:
    return [table(file) for file in Feed(requested).files() if file.kind is not FileKind.FULL_LOAD]


def column(tables: Sequence[pa.Table], name: str) -> list[Any]:
    return [value for one in tables for value in one[name].to_pylist()]


def test_operations_have_the_requested_shares() -> None:
    tables = change_files(options(rows=5_000, shares=OperationShares(0.2, 0.7, 0.1)))
    counts = Counter(column(tables, "Op"))
    assert counts.total() == 4_000
    for operation, share in (("I", 0.2), ("U", 0.7), ("D", 0.1)):
        assert counts[operation] / 4_000 == pytest.approx(share, abs=0.03)


def test_every_sequence_of_operations_on_one_key_occurs_in_one_file() -> None:
    sequences = set()
    for file in change_files(options(rows=50)):
        of_key: defaultdict[int, str] = defaultdict(str)
        for operation, key in zip(file["Op"].to_pylist(), file["id"].to_pylist(), strict=True):
            of_key[key] += operation
        sequences |= set(of_key.values())
    joined = " ".join(sequences)
    assert all(sequence in joined for sequence in ("ID", "DI", "IU", "UU", "UD", "DID", "IUD"))


def test_each_operation_is_valid_for_its_row() -> None:
    requested = options(rows=50, shares=OperationShares(0.3, 0.3, 0.2, 0.2), dms={"BeforeImages": "pk-only"})
    there = set(range(1, 51))
    for file in change_files(requested):
        for operation, key, before in zip(*(file[name].to_pylist() for name in ("Op", "id", "BI_id")), strict=True):
            assert (before is not None) == (operation == "U")
            if operation == "I":
                assert key not in there
                there.add(key)
            elif operation == "D":
                there.remove(key)
            else:
                there.remove(before)
                there.add(key)


def test_untidy_inserts_and_deletes_contradict_the_table() -> None:
    there = set(range(1, 51))
    odd: Counter[str] = Counter()
    for file in change_files(options(rows=50, shares=OperationShares(0.3, 0.2, 0.2, 0, 0.3))):
        for operation, key in zip(file["Op"].to_pylist(), file["id"].to_pylist(), strict=True):
            odd[operation] += (operation == "I") == (key in there)
            (there.discard if operation == "D" else there.add)(key)
    assert odd["I"] > 100
    assert odd["D"] > 100


def test_the_requested_share_of_updates_hits_hot_keys() -> None:
    requested = options(rows=5_000, hot_keys=3, hot_share=0.6, shares=OperationShares(0, 1, 0))
    hot = sum(count for _, count in Counter(column(change_files(requested), "id")).most_common(3))
    assert hot / 4_000 == pytest.approx(0.6, abs=0.05)


@pytest.mark.slow
def test_rows_of_a_transaction_share_a_commit_time_and_times_never_decrease() -> None:
    for rows in (1, 5, 50):
        requested = options(transaction_rows=rows, dms={"HeaderColumns": "AR_H_TRANSACTION_ID,AR_H_CHANGE_SEQ"})
        tables = change_files(requested)
        times, transactions = column(tables, "ts"), column(tables, "AR_H_TRANSACTION_ID")
        assert times == sorted(times)
        assert len(set(zip(times, transactions, strict=True))) == len(set(transactions))
        assert 4_000 / len(set(transactions)) == pytest.approx(rows, rel=0.3)
        sequences = column(tables, "AR_H_CHANGE_SEQ")
        assert sequences == sorted(set(sequences))
        assert {len(one) for one in sequences} == {35}
        assert sequences[0][:14] == times[0][:19].translate(str.maketrans("", "", "-: "))


def test_a_delete_has_all_columns_or_only_the_key() -> None:
    for image in DeleteImage:
        deleted = [
            row for one in change_files(options(delete_image=image)) for row in one.to_pylist() if row["Op"] == "D"
        ]
        filled = {name for row in deleted for name, value in row.items() if value is not None}
        assert ("note" in filled) == (image is DeleteImage.FULL)
        assert {"Op", "ts", "id"} <= filled


@pytest.mark.parametrize(("name", "kind"), [("MaxFileSize", FileKind.FULL_LOAD), ("CdcMinFileSize", FileKind.CHANGE)])
def test_file_sizes_follow_the_settings(name: str, kind: FileKind) -> None:
    requested = options(rows=4_000, change_files=1, dms={"DataFormat": "csv", name: "100"})
    files = [file for file in Feed(requested).files() if file.kind is kind]
    sizes = [len(file.content()) for file in files if file.content]
    assert len(sizes) > 3
    assert all(60_000 < size < 120_000 for size in sizes), sizes
    assert sum(file.rows for file in files) == 4_000


def test_schema_changes_add_widen_and_drop_columns() -> None:
    tables = change_files(options(schema_changes=3))
    schemas = [table.schema for table in tables]
    changed = [after for before, after in zip(schemas, schemas[1:], strict=False) if before != after]
    assert len(changed) == 3
    added, widened, dropped = changed
    assert set(added.names) - set(schemas[0].names) == {"added_1"}
    assert (added.field("quantity").type, widened.field("quantity").type) == (pa.int32(), pa.int64())
    assert set(widened.names) - set(dropped.names) == {"name"}


def test_a_feed_without_rows_has_no_files() -> None:
    feed = Feed(options(rows=0, changes=0))
    assert list(feed.files()) == []
    assert sum(rows.num_rows for rows in feed.expected_table()) == 0
