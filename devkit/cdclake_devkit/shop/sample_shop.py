"""The sample shop in memory: a source database that produces AWS DMS files and knows the expected rows.

The first round of changes follows the script of AWS's walkthrough. The second has late corrections, as real sources
send them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cdclake.model.table.name import TableName
from cdclake_cli.dms.files import ChangeRows, change_bytes, full_load_bytes
from cdclake_cli.dms.names import ChangeFileTimes, DmsFile, change_path, full_load_path, table_folder
from cdclake_devkit.shop import data
from cdclake_devkit.shop.data import TIMESTAMP_COLUMN
from cdclake_devkit.shop.memory_table import KEY, MemoryTable, Row

if TYPE_CHECKING:
    from cdclake.ports import Clock
    from cdclake_devkit.shop.memory_table import ShopChange

DEFAULT_ORDERS = 300_000
ROUND_ONE_ORDERS = 1_345
LATE_UPDATES = 240
LATE_DELETES = 80
LATE_MOVES = 40
LATE_TWICE = 20
MIN_ORDERS = 1_000

STORE_SCHEMA = (
    f"{TIMESTAMP_COLUMN} string, id int, address1 string, city string, state string, country string, zip string"
)
"""`Schema` attribute of the store table, whose CSV files have no header line."""


class SampleShop:
    """A database with the tables `store`, `product` and `productorder`.

    Args:
        clock: Returns commit times and the times in file names.
        orders: Number of orders in the full load, at least `MIN_ORDERS`.
        seed: The same seed, orders and clock produce the same files.
    """

    def __init__(self, clock: Clock, *, orders: int = DEFAULT_ORDERS, seed: int = 7) -> None:
        if orders < MIN_ORDERS:
            message = f"the shop needs at least {MIN_ORDERS} orders, not {orders}"
            raise ValueError(message)
        self._clock = clock
        self._seed = seed
        self._times = ChangeFileTimes(clock)
        self._catalog = data.products(seed)
        self._next_order = orders + 1
        starting_rows = {
            "store": data.stores(),
            "product": self._catalog,
            "productorder": data.orders(orders, seed, self._catalog),
        }
        self.tables = {name: MemoryTable(rows, clock) for name, rows in starting_rows.items()}

    @staticmethod
    def name_of(table: str) -> TableName:
        """`shop.<table>`."""
        return TableName(data.SCHEMA_NAME, table)

    def expected(self, table: str) -> pa.Table:
        """The current rows of a table, in no order, with the source's columns."""
        return self.tables[table].rows()

    def full_load(self) -> list[DmsFile]:
        """The `LOAD*` files of the current rows of all tables, each ordered by key."""
        files = []
        written_utc = self._clock()
        for spec in data.TABLES.values():
            settings, folder = spec.full_load_settings, table_folder(spec.full_load_settings, self.name_of(spec.name))
            rows = self.expected(spec.name).sort_by(KEY)
            per_file = -(-rows.num_rows // spec.full_load_files)
            for number in range(spec.full_load_files):
                content = full_load_bytes(rows.slice(number * per_file, per_file), settings, written_utc)
                files.append(DmsFile(folder + full_load_path(settings, number + 1), content))
        return files

    def change_files(self) -> list[DmsFile]:
        """One change file for each table that changed since the last call."""
        files = []
        for spec in data.TABLES.values():
            taken = self.tables[spec.name].take_changes()
            if taken:
                settings, folder = spec.change_settings, table_folder(spec.change_settings, self.name_of(spec.name))
                content = change_bytes(_changes(taken, spec.columns), settings)
                files.append(DmsFile(folder + change_path(settings, self._times.next()), content))
        return files

    def round_one(self) -> list[DmsFile]:
        """The walkthrough's script: rename a product, delete one, insert a day of orders and a store."""
        product, store = self.tables["product"], self.tables["store"]
        product.update(1001, name="Sample Product", dept="Sample Dept", category="Sample Category")
        product.delete(1002)
        for row in self._new_orders(ROUND_ONE_ORDERS):
            self.tables["productorder"].insert(row)
        values = (1009, "125 Technology Dr.", "Irvine", "CA", "US", "92618")
        store.insert(dict(zip(data.STORE.names, values, strict=True)))
        return self.change_files()

    def round_two(self) -> list[DmsFile]:
        """Late corrections, in two change files of orders; see `_correct_late` and `_change_keys_repeatedly`."""
        self.tables["store"].update(1003, address1='7 Rue de l\u2019Église, "B"\n2e étage', zip=None)
        self.tables["product"].update(1003, price=data.price(1), weightkg=None, discontinued=True)
        late = LATE_UPDATES + LATE_DELETES + LATE_MOVES + 2 * LATE_TWICE
        keys = self._spread_keys(late)
        self._correct_late(keys[: late - 2 * LATE_TWICE])
        files = self.change_files()
        self._change_keys_repeatedly(keys[late - 2 * LATE_TWICE :])
        return files + self.change_files()

    def _correct_late(self, keys: list[int]) -> None:
        """Updates, deletes, and orders that move to another day and thus to another partition."""
        orders = self.tables["productorder"]
        for key in keys[:LATE_UPDATES]:
            orders.update(key, quantity=key % 7, note=data.NOTES[key % len(data.NOTES)], gift=None)
        for key in keys[LATE_UPDATES : LATE_UPDATES + LATE_DELETES]:
            orders.delete(key)
        for key in keys[LATE_UPDATES + LATE_DELETES :]:
            day = orders.row(key)["orderdate"] - timedelta(days=1 + key % 5)
            orders.update(key, orderdate=day, createdat=data.at(day, key % 86_400))

    def _change_keys_repeatedly(self, keys: list[int]) -> None:
        """Changes of the same key in one file: insert and update or delete, update and delete, delete and insert."""
        orders = self.tables["productorder"]
        for number, row in enumerate(self._new_orders(2 * LATE_TWICE)):
            orders.insert(row)
            if number % 2:
                orders.delete(row[KEY])
            else:
                orders.update(row[KEY], quantity=99)
        for key in keys[:LATE_TWICE]:
            orders.update(key, quantity=0)
            orders.delete(key)
        for key in keys[LATE_TWICE:]:
            row = orders.row(key)
            orders.delete(key)
            orders.insert({**row, "note": "again"})

    def _new_orders(self, count: int) -> list[Row]:
        """Orders with new ids, of the day after the last day of the full load."""
        first = self._next_order
        self._next_order += count
        day = data.FIRST_DAY + timedelta(days=data.DAYS)
        rows: list[Row] = data.orders_of_a_day(first, count, day, self._seed, self._catalog).to_pylist()
        return rows

    def _spread_keys(self, count: int) -> list[int]:
        """Ids of `count` orders from all days, shuffled."""
        ids = np.sort(self.expected("productorder")[KEY].to_numpy())
        chosen = ids[np.linspace(0, len(ids) - 1, count).astype(int)]
        return [int(key) for key in np.random.default_rng([self._seed, 3]).permutation(chosen)]


def _changes(taken: list[ShopChange], columns: pa.Schema) -> ChangeRows:
    return ChangeRows(
        pa.array([change.op for change in taken], pa.string()),
        pa.array([change.committed_utc for change in taken], pa.timestamp("us", tz="UTC")),
        pa.Table.from_pylist([change.row for change in taken], columns),
    )
