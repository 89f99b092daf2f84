"""What changes of a table left out or found, and no operator has acknowledged. The table's item holds it as JSON.

So the planner and `cdclake status` know it without reading the lake. Each run under the table's lease adds what is new.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from cdclake.model.change.record import ChangeKind
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import SchemaPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.table.name import TableName

MAX_DRIFT_TEXTS = 20
"""The newest ones; the change log has all."""
_CAN_EMPTY_QUARANTINE = frozenset(
    {ChangeKind.FULL_LOAD, ChangeKind.RELEASE, ChangeKind.ROLLBACK, ChangeKind.REAPPLY, ChangeKind.ERASURE}
)


@dataclass(frozen=True)
class OpenFindings:
    """Findings of a table.

    Attributes:
        through: Number of the newest change that they account for.
        quarantined_rows: Quarantined rows that the table lacks.
        drift: Column changes at the source, under the policy `warn`.
        suppressed_rows: Rows that were left out because their keys were erased after them.
        unknown_keys: Updates of keys that the table lacked since the last full load, see `ChangeRecord.unknown_keys`.
        unfinished_erasures: Changes of erasures that stopped before they were complete, ascending.
    """

    through: int
    quarantined_rows: int = 0
    drift: tuple[str, ...] = ()
    suppressed_rows: int = 0
    unknown_keys: int = 0
    unfinished_erasures: tuple[int, ...] = ()

    @classmethod
    def of(cls, item: Mapping[str, str]) -> OpenFindings | None:
        """The findings that an item holds; None if it has none, as before the first change."""
        try:
            data = json.loads(item.get(Attribute.LAST_FINDINGS, ""))
            through, rows, suppressed, unknown = (
                int(data[name]) for name in ("through", "quarantined_rows", "suppressed_rows", "unknown_keys")
            )
            erasures = tuple(map(int, data.get("unfinished_erasures", ())))
            return cls(through, rows, tuple(map(str, data["drift"])), suppressed, unknown, erasures)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def __str__(self) -> str:
        """The JSON that an item holds."""
        return json.dumps(asdict(self))

    def after(self, records: Sequence[ChangeRecord], policy: SchemaPolicy) -> OpenFindings:
        """Add newer changes.

        Args:
            records: In order. The rows that they quarantined are added, see `can_empty_quarantine`.
        """
        unknown_keys = self.unknown_keys
        for record in records:
            unknown_keys = 0 if record.kind is ChangeKind.FULL_LOAD else unknown_keys + record.unknown_keys
        drift = [f"{one} (change {record.change})" for record in records for one in record.drift]
        return replace(
            self,
            through=records[-1].change if records else self.through,
            quarantined_rows=self.quarantined_rows + sum(record.books.quarantined for record in records),
            suppressed_rows=self.suppressed_rows + sum(record.books.suppressed for record in records),
            unknown_keys=unknown_keys,
            drift=(*self.drift, *(drift if policy is SchemaPolicy.WARN else ()))[-MAX_DRIFT_TEXTS:],
        )

    def texts(self, name: TableName) -> tuple[str, ...]:
        """A text for each, with its remedy."""
        acknowledge = f"cdclake tables acknowledge {name.typed}"
        texts = []
        if self.unfinished_erasures:
            texts.append(
                "erasures that stopped before they were complete, in the changes"
                f" {', '.join(map(str, self.unfinished_erasures))}. Rows of their keys may still be in earlier states"
                f" and raw files. Erase the same keys again, which does the rest: cdclake erase {name.typed}"
            )
        if self.quarantined_rows:
            texts.append(
                f"quarantined rows that the table lacks: {self.quarantined_rows:,}. See cdclake quarantine show"
                f" {name.typed}; release them after a correction, or do without them: {acknowledge}"
            )
        if self.suppressed_rows:
            texts.append(
                f"rows left out because their keys were erased after them: {self.suppressed_rows:,}. Their change files"
                f" arrived late or were read again. If that is as it should be: {acknowledge}"
            )
        if self.unknown_keys:
            texts.append(
                f"updates of keys that the table lacked, without the key before them (BI_): {self.unknown_keys:,}. An"
                " insert is missing, or the update changed the key and the row with the old key is still there. Have"
                " DMS send before images of the key, and reload the table; or if the source never updates keys, set"
                f" {Attribute.UNKNOWN_KEYS} to insert, and: {acknowledge}"
            )
        if self.drift:
            texts.append(
                f"columns changed at the source: {'; '.join(self.drift)}. Check the readers of the table, then:"
                f" {acknowledge}"
            )
        return tuple(texts)


def can_empty_quarantine(records: Iterable[ChangeRecord]) -> bool:
    """Whether some of these changes may have taken rows out of quarantine, so that the rows must be counted again."""
    return any(record.kind in _CAN_EMPTY_QUARANTINE for record in records)
