"""Values of text columns: realistic names, streets and companies, and texts that tend to break a pipeline."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from faker import Faker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cdclake_devkit.feed.columns import FeedColumn

    U64 = NDArray[np.uint64]

LOCALES = ("en_US", "de_DE", "fr_FR", "pl_PL", "ja_JP")
_SEED, _POOL = 20_240_305, 500
_REGION, _CHAR = "region", "char "
_REGIONS = ("africa", "asia", "caribbean", "europe", "latin-america", "middle-east", "north-america", "oceania")
_FAKER_METHODS = {
    "name": "name",
    "email": "safe_email",
    "mail": "safe_email",
    "company": "company",
    "street": "street_address",
    "address": "street_address",
    "city": "city",
    "country": "country",
    "phone": "phone_number",
    "job": "job",
    "url": "url",
    "iban": "iban",
}
"""Faker methods by the part of a column's name that selects them."""
AWKWARD = (
    "",
    "NULL",
    'said "call first", twice',
    "line one\nline two",
    "line one\r\nline two",
    "Größe L, façade side",
    "日本語のメモ",
    "🎁 wrap it",
    "back\\slash and\ttab",
    "'single'; semi|pipe",
    " leading and trailing ",
)


class TextPools:
    """Pools of texts from which values are drawn; all feeds use the same pools.

    Args:
        excluded_parts: Texts with one of these parts are left out, because CSV could not represent them.
        excluded: Texts to leave out for the same reason.
    """

    def __init__(self, *, excluded_parts: Sequence[str] = (), excluded: Sequence[str] = ()) -> None:
        self._excluded_parts, self._excluded = tuple(excluded_parts), frozenset(excluded)
        self._pools: dict[str, pa.Array] = {}

    def values(self, column: FeedColumn, drawn: U64, nulls: NDArray[np.bool_]) -> pa.Array:
        """Values of a text column."""
        pool = self._pool(column)
        indices = pa.array((drawn % np.uint64(len(pool))).astype(np.int32), mask=nulls)
        return pa.DictionaryArray.from_arrays(indices, pool).cast(pa.string())

    def _pool(self, column: FeedColumn) -> pa.Array:
        kind = f"{_CHAR}{column.char_length}" if column.char_length else _kind(column.name.lower())
        if kind not in self._pools:
            texts = [text for text in _generated(kind) if self._is_allowed(text)]
            self._pools[kind] = pa.array(texts or ["x"], pa.string())
        return self._pools[kind]

    def _is_allowed(self, text: str) -> bool:
        return text not in self._excluded and not any(part in text for part in self._excluded_parts)


def _kind(name: str) -> str:
    """Kind of texts in a column of this name: a Faker method, `region`, or empty for remarks."""
    if name == _REGION:
        return name
    return next((method for part, method in _FAKER_METHODS.items() if part in name), "")


@cache
def _generated(kind: str) -> Sequence[str]:
    if kind.startswith(_CHAR):
        length = int(kind.removeprefix(_CHAR))
        letters = np.random.default_rng([_SEED, length]).integers(ord("A"), ord("Z") + 1, (_POOL, length))
        return sorted({"".join(map(chr, row[: 1 + i % length])) for i, row in enumerate(letters.tolist())})
    if kind == _REGION:
        return _REGIONS
    faker = Faker(list(LOCALES))
    faker.seed_instance(_SEED)
    if kind:
        return [str(getattr(faker, kind)()) for _ in range(_POOL)]
    return [*AWKWARD, *(faker.sentence(nb_words=6) for _ in range(_POOL - len(AWKWARD)))]
