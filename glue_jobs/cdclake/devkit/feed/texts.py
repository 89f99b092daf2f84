"""What text columns hold: names, streets, companies as a person reads them, and texts that tend to break a pipeline."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from faker import Faker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cdclake.devkit.feed.columns import Column

    U64 = NDArray[np.uint64]

LOCALES = ("en_US", "de_DE", "fr_FR", "pl_PL", "ja_JP")
_SEED, _POOL = 20_240_305, 500
_REGION, _CHAR = "region", "char "
_REGIONS = ("africa", "asia", "caribbean", "europe", "latin-america", "middle-east", "north-america", "oceania")
_MADE_BY = {
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
"""Part of a column's name to the Faker method that makes its values."""
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


class Texts:
    """Pools of texts that values are taken from; the pools of all feeds are the same.

    Args:
        unfit_parts: What no text may hold, and
        unfit: what none may be: CSV could not tell it from something else.
    """

    def __init__(self, *, unfit_parts: Sequence[str] = (), unfit: Sequence[str] = ()) -> None:
        self._unfit_parts, self._unfit = tuple(unfit_parts), frozenset(unfit)
        self._pools: dict[str, pa.Array] = {}

    def values(self, column: Column, drawn: U64, nulls: NDArray[np.bool_]) -> pa.Array:
        """Values of a text column."""
        pool = self._pool(column)
        indices = pa.array((drawn % np.uint64(len(pool))).astype(np.int32), mask=nulls)
        return pa.DictionaryArray.from_arrays(indices, pool).cast(pa.string())

    def _pool(self, column: Column) -> pa.Array:
        kind = f"{_CHAR}{column.char_length}" if column.char_length else _kind(column.name.lower())
        if kind not in self._pools:
            fit = [text for text in _made(kind) if self._fits(text)]
            self._pools[kind] = pa.array(fit or ["x"], pa.string())
        return self._pools[kind]

    def _fits(self, text: str) -> bool:
        return text not in self._unfit and not any(part in text for part in self._unfit_parts)


def _kind(name: str) -> str:
    """What a column of that name holds: a Faker method, a kind of our own, or remarks if it is empty."""
    if name == _REGION:
        return name
    return next((method for part, method in _MADE_BY.items() if part in name), "")


@cache
def _made(kind: str) -> Sequence[str]:
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
