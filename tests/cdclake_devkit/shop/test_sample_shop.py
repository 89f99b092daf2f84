"""The sample shop produces the same files for the same seed, in the format of DMS."""

import csv
import gzip
import io
from collections import Counter
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.model.raw.files import ListedObject, RawKind, raw_files, split_raw_key
from cdclake.model.schema import parse_columns
from cdclake_devkit.shop.data import TIMESTAMP_COLUMN
from cdclake_devkit.shop.sample_shop import ROUND_ONE_ORDERS, STORE_SCHEMA, SampleShop

ORDERS = 5_000
START = datetime(2024, 4, 1, 9, tzinfo=timezone.utc)


class TickingClock:
    """Advances by more than a millisecond with each call."""

    def __init__(self):
        self.now = START

    def __call__(self):
        self.now += timedelta(microseconds=1_234)
        return self.now


@pytest.fixture
def shop():
    return SampleShop(TickingClock(), orders=ORDERS)


def parquet(file):
    return pq.read_table(pa.BufferReader(file.data))


def csv_rows(data):
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def one(files, table):
    (file,) = [file for file in files if file.key.startswith(f"shop/{table}/")]
    return file


def test_the_same_seed_and_clock_produce_the_same_files():
    first, second = (SampleShop(TickingClock(), orders=ORDERS) for _ in range(2))
    for make in (SampleShop.full_load, SampleShop.round_one, SampleShop.round_two):
        assert make(first) == make(second)


def test_another_seed_produces_other_orders():
    other = SampleShop(TickingClock(), orders=ORDERS, seed=8)
    assert not other.expected("productorder").equals(SampleShop(TickingClock(), orders=ORDERS).expected("productorder"))


def test_every_file_is_recognized_as_raw_data_of_its_table(shop):
    files = [*shop.full_load(), *shop.round_one(), *shop.round_two()]
    assert all(split_raw_key(f"dms/{file.key}", "dms/") for file in files)
    objects = [ListedObject(f.key, len(f.data), START) for f in files if f.key.startswith("shop/productorder/")]
    full_load, changes, *_ = raw_files(objects, "shop/productorder/")
    assert [f.relative for f in full_load] == [f"LOAD0000000{n}.parquet" for n in (1, 2, 3, 4)]
    assert all(f.kind is RawKind.CHANGE for f in changes)
    assert len(changes) == 3


def test_full_load_files_have_the_source_rows_by_key_with_a_timestamp_and_no_op(shop):
    files = [f for f in shop.full_load() if f.key.startswith("shop/productorder/")]
    rows = pa.concat_tables(parquet(file) for file in files)
    assert rows.column_names == [TIMESTAMP_COLUMN, *shop.expected("productorder").column_names]
    assert rows["id"].to_pylist() == list(range(1, ORDERS + 1))
    source = shop.expected("productorder")
    assert rows.drop_columns([TIMESTAMP_COLUMN]).cast(source.schema).equals(source)


def test_the_timestamp_column_is_required_text_and_the_others_are_optional(shop):
    file = pq.ParquetFile(pa.BufferReader(one(shop.round_one(), "product").data))
    assert file.metadata.num_row_groups == 1
    assert file.metadata.metadata is None
    nullable = {field.name: field.nullable for field in file.schema_arrow}
    assert [name for name, optional in nullable.items() if not optional] == [TIMESTAMP_COLUMN]
    assert list(nullable)[:2] == ["Op", TIMESTAMP_COLUMN]
    stamp = file.read()[TIMESTAMP_COLUMN][0].as_py()
    assert datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=timezone.utc) > START
    assert len(stamp) == len("2024-04-01 09:00:00.000000")


def test_store_is_csv_without_header_as_the_schema_attribute_declares(shop):
    rows = csv_rows(one(shop.full_load(), "store").data)
    assert {len(row) for row in rows} == {len(parse_columns(STORE_SCHEMA))}
    assert [row[1] for row in rows] == [str(number) for number in range(1001, 1009)]
    assert rows[0][6] == "02139"
    assert rows[2][2] == 'Unit "B", 7 Rue de l\u2019Église\nCour intérieure'
    assert rows[3][4] == "NULL"


def test_round_one_is_the_walkthroughs_script(shop):
    files = shop.round_one()
    product = parquet(one(files, "product")).to_pylist()
    assert [(row["Op"], row["id"]) for row in product] == [("U", 1001), ("D", 1002)]
    assert product[0]["name"] == "Sample Product"
    orders = parquet(one(files, "productorder"))
    assert orders.num_rows == ROUND_ONE_ORDERS
    assert set(orders["Op"].to_pylist()) == {"I"}
    assert len(set(orders["orderdate"].to_pylist())) == 1
    (store,) = csv_rows(gzip.decompress(one(files, "store").data))
    assert store[0] == "I"
    assert store[2:] == ["1009", "125 Technology Dr.", "Irvine", "CA", "US", "92618"]
    assert shop.expected("productorder").num_rows == ORDERS + ROUND_ONE_ORDERS
    assert shop.expected("product").num_rows == 999


def test_a_delete_has_the_row_before_the_delete(shop):
    before = next(row for row in shop.expected("product").to_pylist() if row["id"] == 1002)
    deleted = parquet(one(shop.round_one(), "product")).to_pylist()[1]
    assert {name: deleted[name] for name in before} == before


def test_round_two_changes_every_day_and_has_every_sequence_of_one_key_in_one_file(shop):
    days = set(shop.expected("productorder")["orderdate"].to_pylist())
    shop.round_one()
    before = {row["id"]: row for row in shop.expected("productorder").to_pylist()}
    late, twice = (parquet(f).to_pylist() for f in shop.round_two() if f.key.startswith("shop/productorder/"))
    assert {before[row["id"]]["orderdate"] for row in late} >= days
    assert any(row["Op"] == "U" and row["orderdate"] != before[row["id"]]["orderdate"] for row in late)
    operations: dict[int, list[str]] = {}
    for row in twice:
        operations.setdefault(row["id"], []).append(row["Op"])
    assert set(Counter("".join(ops) for ops in operations.values())) == {"IU", "ID", "UD", "DI"}


def test_applying_the_change_files_to_the_full_load_reproduces_the_source(shop):
    rows = {row["id"]: row for row in shop.expected("productorder").to_pylist()}
    for file in [*shop.round_one(), *shop.round_two()]:
        if file.key.startswith("shop/productorder/"):
            for change in parquet(file).to_pylist():
                op, _ = change.pop("Op"), change.pop(TIMESTAMP_COLUMN)
                rows[change["id"]] = change
                if op == "D":
                    del rows[change["id"]]
    expected = {row["id"]: row for row in shop.expected("productorder").to_pylist()}
    assert rows == expected


def test_statements_that_contradict_the_rows_are_refused(shop):
    product = shop.tables["product"]
    for invalid in (lambda: product.insert(product.row(1001)), lambda: product.delete(1), lambda: product.update(1)):
        with pytest.raises(KeyError):
            invalid()
    assert product.take_changes() == []
