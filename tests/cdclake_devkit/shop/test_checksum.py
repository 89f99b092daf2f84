"""Equal tables have the same checksum in any order, and every difference is found."""

from datetime import date, datetime, timezone
from decimal import Decimal
from hashlib import sha256

import pyarrow as pa
import pytest

from cdclake.errors import IntegrityError
from cdclake.model.layout import LakeLayout
from cdclake.model.table.name import TableName
from cdclake_devkit.memory import MemoryStore
from cdclake_devkit.shop.checksum import checksum, compare_checksums, read_lake
from tests.builders import parquet_bytes

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("weight", pa.float64()),
    ]
)
ROWS = [
    {
        "id": number,
        "name": name,
        "price": Decimal(number) / 4,
        "day": date(2024, 1, number),
        "at": datetime(2024, 1, number, 1, 2, 3, 456789, tzinfo=timezone.utc),
        "weight": number / 3,
    }
    for number, name in enumerate(["a", None, "", "NULL", 'qu"o,te\n', "日本"], 1)
]
SOURCE = pa.Table.from_pylist(ROWS, COLUMNS)
LAYOUT = LakeLayout("lake", "", TableName("shop", "things"))


def with_row(number, **values):
    rows = [dict(row) for row in ROWS]
    rows[number].update(values)
    return pa.Table.from_pylist(rows, COLUMNS)


def test_order_of_rows_and_added_columns_do_not_matter():
    shuffled = SOURCE.take(pa.array([3, 1, 5, 0, 2, 4]))
    lake = shuffled.append_column("Op", pa.repeat(pa.scalar("I"), 6)).append_column(
        "_cdc_position", pa.repeat(pa.scalar(""), 6)
    )
    result = compare_checksums(lake, SOURCE, "id")
    assert result.equal
    assert (result.rows, result.checksum) == (6, checksum(SOURCE))


def test_the_checksum_is_computed_as_documented():
    table = pa.table({"id": pa.array([7, 8], pa.int32()), "name": pa.array([None, "é"], pa.string())})
    rows = ["1:7-", "1:82:é"]
    total = sum(int(sha256(row.encode()).hexdigest()[:32], 16) for row in rows) % 2**128
    assert checksum(table) == f"{total:032x}"


@pytest.mark.parametrize(
    "lake",
    [
        pytest.param(with_row(0, name="A"), id="text"),
        pytest.param(with_row(1, name=""), id="empty text for null"),
        pytest.param(with_row(3, name=None), id="null for the text NULL"),
        pytest.param(with_row(0, price=Decimal("0.26")), id="decimal"),
        pytest.param(with_row(0, day=date(2024, 1, 2)), id="date"),
        pytest.param(with_row(0, at=datetime(2024, 1, 1, 1, 2, 3, 456788, tzinfo=timezone.utc)), id="microsecond"),
        pytest.param(with_row(0, weight=0.33333333333333337), id="last bit of a double"),
        pytest.param(SOURCE.slice(1), id="row missing"),
        pytest.param(pa.concat_tables([SOURCE, SOURCE.slice(0, 1)]), id="row twice"),
        pytest.param(pa.concat_tables([SOURCE.slice(1), SOURCE.slice(5)]), id="one row for another"),
        pytest.param(pa.concat_tables([SOURCE, SOURCE]), id="all rows twice"),
        pytest.param(SOURCE.slice(0, 0), id="no rows"),
        pytest.param(SOURCE.drop_columns(["name"]), id="column missing"),
        pytest.param(SOURCE.append_column("more", pa.repeat(pa.scalar(1), 6)), id="column too many"),
        pytest.param(
            SOURCE.set_column(2, "price", SOURCE["price"].cast(pa.decimal128(12, 2))), id="another column type"
        ),
    ],
)
def test_every_kind_of_difference_is_found(lake):
    assert not compare_checksums(lake, SOURCE, "id").equal


def test_values_shifted_between_columns_are_found():
    columns = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    source = pa.Table.from_pylist([{"id": 1, "a": "x", "b": "yz"}], columns)
    lake = pa.Table.from_pylist([{"id": 1, "a": "xy", "b": "z"}], columns)
    assert not compare_checksums(lake, source, "id").equal


def test_repeated_keys_are_counted():
    result = compare_checksums(pa.concat_tables([SOURCE, SOURCE.slice(0, 2)]), SOURCE, "id")
    assert "2 rows repeat a key" in result.differences


def test_partition_columns_are_read_from_the_path():
    store = MemoryStore()
    for number in range(6):
        part = SOURCE.slice(number, 1)
        folder = f"day={part['day'][0].as_py()}"
        store.put(
            LAYOUT.data_key(f"{folder}/000000000001-0000{number}.parquet"), parquet_bytes(part.drop_columns("day"))
        )
    store.put("_cdclake/shop/things/changes/000000000001.json", b"{}")
    lake = read_lake(store, LAYOUT, COLUMNS)
    assert lake.num_rows == 6
    assert compare_checksums(lake, SOURCE, "id").equal


def test_null_and_escaped_partition_values_are_decoded():
    columns = pa.schema([("id", pa.int64()), ("kind", pa.string())])
    store = MemoryStore()
    for number, folder in enumerate(["kind=a%2Fb", "kind=__HIVE_DEFAULT_PARTITION__"]):
        store.put(
            LAYOUT.data_key(f"{folder}/000000000001-0000{number}.parquet"), parquet_bytes(pa.table({"id": [number]}))
        )
    rows = read_lake(store, LAYOUT, columns).to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 0, "kind": "a/b"}, {"id": 1, "kind": None}]


def test_a_foreign_object_in_the_folder_is_an_error():
    store = MemoryStore()
    store.put(LAYOUT.data_key("_temporary/part-0.parquet.crc"), b"")
    with pytest.raises(IntegrityError, match="not data files"):
        read_lake(store, LAYOUT, COLUMNS)


def test_an_empty_lake_differs_from_a_source_with_rows():
    assert not compare_checksums(read_lake(MemoryStore(), LAYOUT, COLUMNS), SOURCE, "id").equal
