"""The estimates as Markdown, for docs/deploy.md."""

from __future__ import annotations

from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING

from costs.model import EVENT_SECONDS, FRESHNESSES, TABLE_GB, USAGES, Costs
from costs.prices import LINE
from costs.recording import REQUEST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from costs.prices import Prices
    from costs.recorded import Recorded


def texts(recorded: Recorded, prices: Prices) -> dict[str, str]:
    """The parts of the document that depend on the figures, by the names of their places."""
    return {
        "freshness": f"{freshness_table(recorded, prices)}\n\n{function_note(recorded, prices)}",
        "costs": cost_table(recorded, prices),
        "storage": storage_table(recorded),
        "prices": str(prices),
        "sample": f"The sample stack costs ${prices.sample_per_day:.2f} per day.",
    }


def freshness_table(recorded: Recorded, prices: Prices) -> str:
    """For each freshness and deployment: dollars a month, and how long until new rows are visible."""
    rows = []
    for freshness in FRESHNESSES:
        cells = []
        for usage in USAGES:
            costs = Costs(usage, freshness, recorded, prices)
            unit, seconds = ("seconds", 1) if freshness.on_lambda else ("minutes", 60)
            least, most = (one / seconds for one in costs.seconds_to_visible)
            cells.append(f"{_dollars(costs.total)}, {int(least)} to {ceil(most)} {unit}")
        rows.append((freshness.name, freshness.settings, *cells))
    head = [f"{usage} tables" if usage.bursts == USAGES[0].bursts else f"{usage} each" for usage in USAGES]
    return _table(("freshness", "settings", *head), rows, numbers=False)


def function_note(recorded: Recorded, prices: Prices) -> str:
    """What a change takes the function for small changes."""
    (on_lambda,) = (one for one in FRESHNESSES if one.on_lambda)
    costs, work = Costs(USAGES[0], on_lambda, recorded, prices), recorded.function
    least, most = EVENT_SECONDS
    seconds, visible = costs.change_seconds(), costs.change_seconds(visible=True)
    note = (
        f"* **By file, on Lambda**, a small change takes the function {seconds:.1f} seconds: "
        f"{work.in_sequence:g} requests that wait for each other, {REQUEST_SECONDS * 1000:g} ms each, "
        f"{costs.computing_seconds:.1f} s of computing, and the transfer of {costs.written_mb:.0f} MB that it reads "
        f"and as many that it writes. Its rows are visible after {visible:.1f} seconds. S3's event and the calls are "
        f"assumed to take {least:g} to {most:g} seconds. Larger changes and full loads go to Spark, and come on top."
    )
    return fill(note, LINE, subsequent_indent="  ", break_on_hyphens=False)


def cost_table(recorded: Recorded, prices: Prices) -> str:
    """The monthly costs of each deployment and freshness."""
    rows = []
    for usage in USAGES:
        for freshness in FRESHNESSES:
            costs = Costs(usage, freshness, recorded, prices)
            shared, each = costs.monitoring(), costs.monitoring(table_metrics=True)
            parts = (costs.glue, costs.functions, costs.requests, costs.storage, shared, costs.total, each - shared)
            size = (f"{usage.tables:,}", f"{usage.changing:,}", f"{usage.bursts}", f"{usage.tables * TABLE_GB:,} GB")
            rows.append((freshness.name, *size, *map(_dollars, parts)))
    head = ("freshness", "active tables", "changing", "files per hour of each", "lake", "Glue", "functions", "requests")
    return _table((*head, "storage", "metrics", "total per month", "table metrics add"), rows)


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
