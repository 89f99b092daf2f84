"""Refuses to load a table again from an old full load if change files that were applied since are gone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cdclake.commit.ledger import all_entries
from cdclake.errors import RawFilesLostError
from cdclake.lake.operations.history import last_full_load_utc
from cdclake.model.due_files import is_copied
from cdclake.model.raw.files import file_order, stamp_time
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import display_utc

if TYPE_CHECKING:
    from datetime import datetime

    from cdclake.lake.operations.table_run import TableRun
    from cdclake.model.raw.files import RawFiles
    from cdclake.model.snapshot import Snapshot

_ANY_ZONE = timedelta(days=1)
"""Names of change files have times of any zone."""


def require_applied_changes(run: TableRun, before: Snapshot, raw: RawFiles, begin: str) -> None:
    """Refuse a reload that would take the table back in time, unless the operator accepts that.

    LOAD files written after the last full load contain the changes until then. With older ones, and with copies of
    those that the table was loaded from, all change files that were applied since must be applied again.

    Args:
        before: The table before the reload.
        raw: The raw files, with LOAD files.
        begin: The last change file that the full load contains, according to the operator; empty if that is not set.

    Raises:
        RawFilesLostError: Some are gone; names the first and the last.
    """
    loaded_utc, first_utc = last_full_load_utc(before), min(file.modified_utc for file in raw.full_load)
    accepted = before.change and run.settings.accept_lost_changes == before.change
    if not loaded_utc or accepted:
        return
    if first_utc.replace(microsecond=0) > loaded_utc and not is_copied(before, raw.full_load):
        return
    load_utc = min(first_utc, loaded_utc)
    there = {file.relative for file in (*raw.changes, *raw.ignored)}
    begin_order = max(file_order(begin), file_order(before.floor))
    orders = {file_order(name): name for name in all_entries(run.log, before.ledger).keys() - there}
    gone = [name for order, name in sorted(orders.items()) if _is_needed(order, load_utc, begin_order)]
    if not gone:
        return
    skipped_utc = max(loaded_utc, *(file.modified_utc for file in raw.full_load))
    name, ends = run.layout.name.typed, gone[0] if len(gone) == 1 else f"{gone[0]} to {gone[-1]}"
    message = (
        f"The LOAD files are of {display_utc(load_utc)}, and change files that were applied since are gone from the"
        f" raw bucket: {len(gone):,} ({ends}). A reload would take the table back in time"
    )
    remedy = (
        "Nothing was applied. Put the change files back, or have DMS reload the table. To keep the table as it is:"
        f" cdclake tables set {name} --set '{Attribute.LAST_FULL_LOAD_DATE}={skipped_utc:%Y-%m-%d %H:%M:%S}'. To load"
        f" without these changes: cdclake tables set {name} --set '{Attribute.ACCEPT_LOST_CHANGES}={before.change}'"
    )
    raise RawFilesLostError(message, remedy=remedy, table=run.layout.name, file=gone[0])


def _is_needed(order: str, load_utc: datetime, begin: str) -> bool:
    """Whether a full load may lack the changes of a file."""
    stamped_utc = stamp_time(order)
    return order > begin and (stamped_utc is None or stamped_utc > load_utc - _ANY_ZONE)
