"""The books of a change: its row counts, which must balance before it is committed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cdclake.errors import BooksError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Balance:
    """An equation of row counts.

    Attributes:
        rule: The equation in words.
        left: Counts by their names in `Books`; subtracted ones are negative.
        right: Likewise.
    """

    rule: str
    left: Mapping[str, int]
    right: Mapping[str, int]

    @property
    def off_by(self) -> int:
        """Left side minus right side; 0 if it balances."""
        return sum(self.left.values()) - sum(self.right.values())


@dataclass(frozen=True)
class Books:
    """The row counts of one change, which must balance.

    * `read_*` count rows of raw files by operation; a full-load row counts as an insert. `read_unknown` counts
      quarantined rows without a known operation, and suppressed rows.
    * `derived` counts deletes in addition to the rows read: of old keys, which come from updates of keys, and of rows
      that a full load lacks which is taken as a difference.
    * Each row read or derived is `applied`, `superseded` (an equal or later row of its key is known), `ignored` (a
      table without a key accepts only inserts), `quarantined` or `suppressed` (its key was erased after it).
    * Each applied row `inserted`, `updated` or `deleted` a row, or was `absent`: the delete of a row that does not
      exist.
    * `replaced` counts rows of whole data files that a reload or a rollback retired, `restored` rows of whole data
      files that were brought back.
    * `erased` counts rows that were permanently removed.
    """

    read_insert: int = 0
    read_update: int = 0
    read_delete: int = 0
    read_unknown: int = 0
    derived: int = 0
    applied: int = 0
    superseded: int = 0
    ignored: int = 0
    quarantined: int = 0
    suppressed: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0
    replaced: int = 0
    restored: int = 0
    erased: int = 0
    rows_before: int = 0
    rows_after: int = 0

    @property
    def read(self) -> int:
        """Rows read."""
        return self.read_insert + self.read_update + self.read_delete + self.read_unknown

    @property
    def equations(self) -> tuple[Balance, ...]:
        """The equations that must balance."""
        return (
            Balance(
                "rows read + derived = applied + superseded + ignored + quarantined + suppressed",
                self._counts("read_insert", "read_update", "read_delete", "read_unknown", "derived"),
                self._counts("applied", "superseded", "ignored", "quarantined", "suppressed"),
            ),
            Balance(
                "applied = inserted + updated + deleted + absent",
                self._counts("applied"),
                self._counts("inserted", "updated", "deleted", "absent"),
            ),
            Balance(
                "rows before - replaced + restored + inserted - deleted - erased = rows after",
                {
                    "rows_before": self.rows_before,
                    "replaced": -self.replaced,
                    "restored": self.restored,
                    "inserted": self.inserted,
                    "deleted": -self.deleted,
                    "erased": -self.erased,
                },
                self._counts("rows_after"),
            ),
        )

    def check(self) -> None:
        """Refuse books that do not balance.

        Raises:
            BooksError: The books do not balance; names the equations.
        """
        wrong = [f"{one.rule} is off by {one.off_by}" for one in self.equations if one.off_by]
        if wrong:
            raise self.refusal("The books of a change do not balance: " + "; ".join(wrong))

    def refusal(self, message: str) -> BooksError:
        """The error that refuses a change with these books."""
        remedy = "Nothing was committed. Keep the raw files and report this with the figures"
        return BooksError(message, remedy=remedy, books=asdict(self))

    def _counts(self, *names: str) -> dict[str, int]:
        return {name: getattr(self, name) for name in names}
