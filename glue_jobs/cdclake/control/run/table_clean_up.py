"""Cleans a lake table up at the end of a run, if enough can be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.commit.clean_up import clean_up, deletable_since, plan_clean_up
from cdclake.model.table.attributes import Attribute
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from cdclake.control.run.table_item import TableItem


def clean_up_if_due(item: TableItem, head: int) -> dict[str, str]:
    """Delete what is not retained any more, if that is due.

    What a crashed run has left of a later change than `head` stays until that change is committed: the run may only be
    paused.

    Args:
        head: Number of the newest change; 0 if there is none.

    Returns:
        Attributes that changed.
    """
    if not head:
        return {}
    state, changes, now = item.state, item.changes, item.ports.clock()
    if state.needs_clean_up(now):
        plan = plan_clean_up(changes, state.settings.retention, now, head, state.settings.keep_every, item.keep_alive)
        if item.report.catalog_error:
            plan = plan.without_iceberg()
        clean_up(changes, plan, item.keep_alive)
        item.log.info("cleaned up", extra={"objects": plan.count, "retained": str(plan.retained)})
        since = deletable_since(changes, head, just_cleaned=True)
    elif state.item.get(Attribute.LAST_RETIRED_SINCE_UTC) and state.item.get(Attribute.LAST_REPEATED_SINCE_UTC):
        return {}
    else:
        since = deletable_since(changes, head)
    names = (Attribute.LAST_RETIRED_SINCE_UTC, Attribute.LAST_REPEATED_SINCE_UTC)
    return {name: iso_utc(utc) if utc else "" for name, utc in zip(names, since)}
