"""How many tables stand: their plans, with the newest change of each read from the lake."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Callable

from cdclake.control.run.item_sync import last_change
from cdclake.control.status import table_status
from cdclake.errors import CdclakeError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from cdclake.commit.log import ChangeLog
    from cdclake.control.controller import PlannedTable
    from cdclake.control.status import TableStatus
    from cdclake.model.table import TableName

CONCURRENT_READS = 32
"""As many connections as a client keeps."""


def table_standings(
    planned: Iterable[PlannedTable], log_of: Callable[[TableName], ChangeLog], now: datetime, late_after_minutes: int
) -> list[TableStatus]:
    """Tell how tables stand, those first that need a person, else in the order given.

    Args:
        planned: What the Controller would do about them.
        log_of: Gives a table's change log.
        now: The time.
        late_after_minutes: After how long a raw file that is due is late.
    """

    def look_up(one: PlannedTable) -> TableStatus:
        record, problem = None, ""
        number = last_change(one.state)
        if number:
            try:
                record = log_of(one.state.name).record(number)
            except CdclakeError as error:  # told as the table's own
                problem = str(error)
        return table_status(one, record, problem, now, late_after_minutes)

    with ThreadPoolExecutor(CONCURRENT_READS) as pool:
        found = list(pool.map(look_up, planned))
    return sorted(found, key=lambda one: not one.needs_a_person)
