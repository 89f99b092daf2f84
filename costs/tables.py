"""The estimates as Markdown, for docs/deploy.md."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from costs.model import FRESHNESSES, TABLE_GB, USAGES, Costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from costs.prices import Prices
    from costs.recorded import Recorded


def texts(recorded: Recorded, prices: Prices) -> dict[str, str]:
    """The parts of the document that depend on the figures, by the names of their places."""
    return {
        "freshness": freshness_table(recorded, prices),
        "costs": cost_table(recorded, prices),
        "storage": storage_table(recorded),
        "prices": str(prices),
        "sample": f"The sample stack costs ${prices.sample_per_day:.2f} per day.",
    }


def freshness_table(recorded: Recorded, prices: Prices) -> str:
    """For each freshness and deployment: dollars a month, and minutes until new rows are visible."""
    rows = []
    for freshness in FRESHNESSES:
        cells = []
        for usage in USAGES:
            costs = Costs(usage, freshness, recorded, prices)
            least, most = (seconds / 60 for seconds in costs.seconds_to_visible)
            cells.append(f"{_dollars(costs.total)}, {int(least)} to {ceil(most)} minutes")
        rows.append((freshness.name, freshness.settings, *cells))
    head = [f"{usage} tables" if usage.bursts == USAGES[0].bursts else f"{usage} each" for usage in USAGES]
    return _table(("freshness", "settings", *head), rows, numbers=False)


def cost_table(recorded: Recorded, prices: Prices) -> str:
    """The monthly costs of each deployment and freshness."""
    rows = []
    for usage in USAGES:
        for freshness in FRESHNESSES:
            costs = Costs(usage, freshness, recorded, prices)
            shared, each = costs.monitoring(), costs.monitoring(table_metrics=True)
            amounts = map(_dollars, (costs.glue, costs.requests, costs.storage, shared, costs.total, each - shared))
            size = (f"{usage.tables:,}", f"{usage.changing:,}", f"{usage.bursts}", f"{usage.tables * TABLE_GB:,} GB")
            rows.append((freshness.name, *size, *amounts))
    head = ("freshness", "active tables", "changing", "files per hour of each", "lake", "Glue", "requests", "storage")
    return _table((*head, "metrics", "total per month", "table metrics add"), rows)


def storage_table(recorded: Recorded) -> str:
    """What a table stores and writes."""
    rows = [
        (
            one.old_rows,
            f"{one.bursts}",
            f"{one.changes}",
            f"{one.files}",
            f"{one.live_gb:.1f} GB",
            f"{one.replaced_gb:.0f} GB",
            f"{one.snapshots_gb:.1f} GB",
            f"{one.gb / one.live_gb:.0f}",
            f"{one.written_gb:.1f} GB",
            f"{one.one_size_gb:.0f} GB",
        )
        for one in recorded.stored
    ]
    head = ("old rows", "files per hour", "changes per hour", "data files", "live", "replaced, kept", "snapshots")
    return _table((*head, "all / live", "written a day", "the same with files of 128 MB"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table.

    Args:
        numbers: Whether all columns but the first are numbers.
    """
    alignment = [" --- ", *[" ---: " if numbers else " --- "] * (len(head) - 1)]
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(alignment)}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}"
