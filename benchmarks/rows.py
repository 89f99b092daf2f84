"""Generates the rows of the benchmark's table. A row is a function of its number and version, so none is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.hashing import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.hashing import U64

    Numbers = NDArray[np.int64]
    """Row numbers, from 0."""
    Versions = int | NDArray[np.int64]
    """A version of all rows, or one of each."""

SEED = 20240305
KEY, TENANT = "order_id", "tenant_id"
REGION, STORE = "region", "store"
REGIONS = ("africa", "asia", "caribbean", "europe", "latin-america", "middle-east", "north-america", "oceania")

_STATUS = pa.array(["delivered"] * 12 + ["shipped"] * 2 + ["open", "returned"])
_DISCOUNTS = pa.array([0.0, 0.0, 0.0, 0.0, 0.05, 0.1, 0.15, None])
_ADJECTIVES = "amber brisk calm dusty eager faint gentle hollow ivory jolly keen light mellow noble olive plain"
_NOUNS = "anchor basket candle drawer easel funnel goblet hammer inkwell jacket kettle ladder mirror needle oar pillow"
_PRODUCTS = pa.array(
    [f"{adjective} {noun} {size}" for adjective in _ADJECTIVES.split() for noun in _NOUNS.split() for size in range(16)]
)
_WORDS = pa.array(_ADJECTIVES.split())
_FIRST_DAY = 17_897  # 2019-01-01, in days since 1970
_DAY_US = 86_400_000_000
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class Source:
    """The columns of the source table: twelve, and those of the attributes.

    Attributes:
        uuid_keys: Whether order ids are UUIDs in random order; otherwise they ascend with the row numbers.
        tenants: If not 0, the key is (tenant, order id). Rows belong to tenants in turn; each tenant counts its orders.
        stores: If not 0, the last column is one of so many stores, at random; it never changes.
        extra_columns: Number of further columns, alternately integers, numbers and nearly unique text.
    """

    uuid_keys: bool = False
    tenants: int = 0
    stores: int = 0
    extra_columns: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return (TENANT, KEY) if self.tenants else (KEY,)

    def partition_values(self, column: str) -> tuple[str, ...]:
        """All values of a partition column."""
        return REGIONS if column == REGION else tuple(f"store-{number:05d}" for number in range(self.stores))


ORDERS = Source()
_EXTRA_TYPES = (pa.int32(), pa.float64(), pa.string())


def schema(source: Source = ORDERS) -> pa.Schema:
    """The source's columns, in order."""
    extra = [(f"extra_{i}", _EXTRA_TYPES[i % len(_EXTRA_TYPES)]) for i in range(source.extra_columns)]
    return pa.schema(
        [
            *([pa.field(TENANT, pa.int32())] if source.tenants else []),
            pa.field(KEY, pa.string() if source.uuid_keys else pa.int64()),
            pa.field("customer_id", pa.int32()),
            pa.field("status", pa.string()),
            pa.field(REGION, pa.string()),
            pa.field("quantity", pa.int32()),
            pa.field("unit_price", pa.decimal128(10, 2)),
            pa.field("discount", pa.float64()),
            pa.field("weight_kg", pa.float64()),
            pa.field("ordered_on", pa.date32()),
            pa.field("updated_at", pa.timestamp("us", tz="UTC")),
            pa.field("product", pa.string()),
            pa.field("note", pa.string()),
            *(pa.field(name, kind) for name, kind in extra),
            *([pa.field(STORE, pa.string())] if source.stores else []),
        ]
    )


def rows(numbers: Numbers, version: Versions, source: Source = ORDERS) -> pa.Table:
    """Rows of the source table.

    A new version has new random values in all columns except the key, the customer and the day of the order. Its region
    always differs from the previous one.

    Args:
        numbers: Row numbers, from 0. They are the keys, or the seeds of UUIDs.
        version: Of all rows or of each: 0 for the original row, 1 after an update, and so on.
    """
    first = [_draw(numbers, 0, column) for column in range(4)]
    drawn = [_draw(numbers, version, column) for column in range(4, 12)]
    columns = [
        *([pa.array(numbers % source.tenants).cast(pa.int32())] if source.tenants else []),
        _uuids(first[0], first[1]) if source.uuid_keys else pa.array(numbers // max(source.tenants, 1)),
        _pick(first[2], 400_000).cast(pa.int32()),
        _STATUS.take(_pick(drawn[0], len(_STATUS))),
        pa.array(REGIONS).take(region_of(numbers, version)),
        pc.add(_pick(drawn[1], 20), pa.scalar(1, pa.uint64())).cast(pa.int32()),
        _cents(99 + drawn[2] % np.uint64(50_000)),
        _DISCOUNTS.take(_pick(drawn[3], len(_DISCOUNTS))),
        pa.array((drawn[4] % np.uint64(40_000)) / 1000.0),
        pa.array((_FIRST_DAY + numbers // 4_000).astype(np.int32), pa.date32()),
        _times(numbers, version, drawn[5]),
        _PRODUCTS.take(_pick(drawn[6], len(_PRODUCTS))),
        _notes(drawn[6], drawn[7]),
        *(_extra(_draw(numbers, version, 13 + i), i) for i in range(source.extra_columns)),
        *([pa.array(source.partition_values(STORE)).take(store_of(numbers, source))] if source.stores else []),
    ]
    return pa.table(columns, schema=schema(source)) if len(numbers) else schema(source).empty_table()


def region_of(numbers: Numbers, version: Versions) -> NDArray[np.int64]:
    """Index in `REGIONS` of each row's region."""
    versions = np.asarray(version, np.uint64)
    return ((_draw(numbers, 0, 3) + versions) % np.uint64(len(REGIONS))).astype(np.int64)


def store_of(numbers: Numbers, source: Source) -> NDArray[np.int64]:
    """Index of each row's store."""
    return (_draw(numbers, 0, 12) % np.uint64(source.stores)).astype(np.int64)


def _draw(numbers: Numbers, version: Versions, column: int) -> U64:
    versions = np.atleast_1d(np.asarray(version, np.uint64))
    stream = mix(np.array([SEED, column << 48], np.uint64)).sum() + mix(versions << np.uint64(32))
    return mix(numbers.view(np.uint64) ^ stream)


def _extra(drawn: U64, number: int) -> pa.Array:
    kind = _EXTRA_TYPES[number % len(_EXTRA_TYPES)]
    return _hex(drawn[:, None], 16) if kind == pa.string() else _pick(drawn, 1_000_000).cast(kind)


def _pick(drawn: U64, choices: int) -> pa.Array:
    return pa.array((drawn >> np.uint64(8)) % np.uint64(choices))


def _cents(values: U64) -> pa.Array:
    """Whole cents as decimals with two decimal places."""
    low_and_high = np.zeros((len(values), 2), np.uint64)  # a decimal128 is 16 bytes, little-endian
    low_and_high[:, 0] = values
    return pa.Array.from_buffers(pa.decimal128(10, 2), len(values), [None, pa.py_buffer(low_and_high)])


def _times(numbers: Numbers, version: Versions, drawn: U64) -> pa.Array:
    day = _FIRST_DAY + numbers // 4_000 + 7 * version
    within = (drawn % np.uint64(86_400_000)).astype(np.int64) * 1000
    return pa.array(day * _DAY_US + within, pa.timestamp("us", tz="UTC"))


def _notes(product: U64, drawn: U64) -> pa.Array:
    """Nearly unique text; null in every eighth row."""
    text = pc.binary_join_element_wise(_WORDS.take(_pick(product, len(_WORDS))), _hex(drawn[:, None], 16), "-")
    return pc.if_else(pa.array(drawn % np.uint64(8) == 0), pa.scalar(None, pa.string()), text)


def _uuids(high: U64, low: U64) -> pa.Array:
    digits = np.concatenate([_digits(high[:, None], 16), _digits(low[:, None], 16)], axis=1)
    text = np.full((len(high), 36), ord("-"), np.uint8)
    for start, end, at in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        text[:, at : at + end - start] = digits[:, start:end]
    return _fixed_width(text)


def _hex(values: U64, digits: int) -> pa.Array:
    return _fixed_width(_digits(values, digits))


def _digits(values: U64, digits: int) -> NDArray[np.uint8]:
    shifts = np.arange(60, 60 - 4 * digits, -4, np.uint64)
    digits_of_each: NDArray[np.uint8] = _HEX[(values >> shifts) & np.uint64(15)]
    return digits_of_each


def _fixed_width(text: NDArray[np.uint8]) -> pa.Array:
    """Texts of equal width from a matrix of bytes with a row per text."""
    count, width = text.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
