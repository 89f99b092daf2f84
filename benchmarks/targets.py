"""What the results should be, and whether they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.s3_server import DELAY_S
from benchmarks.workloads import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECONDS, FILES_PER_KEY, REQUESTS, GIGABYTES, GROWTH = "s", "files a key", "requests", "GB", "times"
"""Units of figures."""
EVERY = "every workload"


class Target(NamedTuple):
    """An upper limit of one of cdclake's figures.

    Attributes:
        workload: Name of the workload; `EVERY`; `table x8` or `change x8` for growth.
        times: The limit: the figure itself, or its multiple of the smallest reference. None: the figure is only shown.
        than: References: contestants in the same workload, or other workloads of cdclake.
        unit: Unit of the figure.
        plus: Added to the limit.
    """

    workload: str
    times: float | None
    than: tuple[str, ...] = ()
    unit: str = SECONDS
    plus: float = 0

    def __str__(self) -> str:
        if self.times is None:
            return "shown"
        if not self.than:
            return f"≤ {self.times:g} {self.unit}"
        plus = f" + {self.plus:g} {self.unit}" if self.plus else ""
        reference = self.than[0] if len(self.than) == 1 else f"the faster of {' and '.join(self.than)}"
        return f"≤ {self.times:g} x {reference}{plus}"


TARGETS = (
    # Every file must be rewritten: copying them is most of the work.
    Target("spread", 1.4, ("limit",)),
    Target("spread", 1.0, ("duckdb", "delta-rs")),
    # Files are written where they stay, but listed in manifests.
    Target("spread-iceberg", 1.0, ("spread",)),
    # Files are copied, and listed in manifests.
    Target("spread-both", 1.2, ("spread",)),
    # The same, with rows that move between files.
    Target("partition-moves", 1.4, ("limit",)),
    Target("partition-moves", 1.0, ("delta-rs",)),
    # A few files: Spark's stages cost more than the work.
    Target("newest", 1.2, ("delta-rs",)),
    # As `newest`, with many small raw files.
    Target("many-files", 1.2, ("delta-rs",)),
    # Keys have no order, but new rows lie together.
    Target("uuid", 1.5, ("duckdb",)),
    Target("uuid", 0.7, ("delta-rs",)),
    # Every file must be rewritten, with a fifth of its rows.
    Target("large", 1.0, ("duckdb", "delta-rs")),
    # DuckDB proves nothing about keys, and does not commit.
    Target("initial", 1.2, ("duckdb",)),
    # All key columns must prune, not only the first.
    Target("tenant", 1.5, ("newest",)),
    # Thousands of open partitions must cost no memory, and no shuffle.
    Target("partitions-load", 1.5, ("delta-rs",)),
    # Of 4,000 files, only those of changed partitions count.
    Target("partitions", 1.5, ("delta-rs",)),
    # Many small changes must leave the table as good as a full load does.
    Target("aged", 1.3, ("aged-fresh",)),
    # Key ranges must stay apart.
    Target("aged", 3, unit=FILES_PER_KEY),
    # A history is a second table, and each change closes versions.
    Target("history", 2.0, ("spread",)),
    # DMS's row groups are small: reading must not cost a call for each column of each.
    Target("row-groups", 1.2, ("row-groups-1m",)),
    # At most 20 requests may wait for each other.
    Target("s3-newest", 1.0, ("newest",), plus=20 * DELAY_S),
    # Requests cost money, and time where nothing else hides it.
    Target("s3-newest", None, unit=REQUESTS),
    Target("s3-spread", None, unit=REQUESTS),
    # The smallest Glue worker has 16 GB for several executors, and a laptop has less.
    Target(EVERY, 1.6, unit=GIGABYTES),
    # The cost of a change follows the change, not the table.
    Target("table x8", 1.2, unit=GROWTH),
    # A larger change costs less a row.
    Target("change x8", 8, unit=GROWTH),
)


class Verdict(NamedTuple):
    """A target and its figure.

    Attributes:
        figure: None: not measured, or wrong.
        limit: None: there is none, or a reference was not measured.
    """

    target: Target
    figure: float | None
    limit: float | None

    @property
    def met(self) -> str:
        """Whether the target is met, in words."""
        if self.figure is None:
            return "not measured"
        if self.target.times is None:
            return ""
        if self.limit is None:
            return "nothing to compare"
        return "yes" if self.figure <= self.limit else "no"

    def cells(self) -> tuple[str, ...]:
        """Workload, target, figure with its relation to the reference, and whether the target is met."""
        target, figure = self.target, self.figure
        text = "" if figure is None else f"{figure:,.0f}" if target.unit == REQUESTS else f"{figure:.2f} {target.unit}"
        if target.than and target.times and figure is not None and self.limit is not None:
            text += f" ({figure / ((self.limit - target.plus) / target.times):.2f} x)"
        return (target.workload, str(target), text, self.met)


def verdicts(content: Mapping[str, Any]) -> list[Verdict]:
    """All targets, with the figures of `results.json`."""
    figures = dict(_figures(content))
    results = []
    for target in TARGETS:
        references = [
            figures.get((target.workload, name, SECONDS), figures.get((name, OURS, SECONDS))) for name in target.than
        ]
        measured = [reference for reference in references if reference is not None]
        limit = target.times
        if target.than and limit is not None:
            limit = limit * min(measured) + target.plus if measured else None
        results.append(Verdict(target, figures.get((target.workload, OURS, target.unit)), limit))
    return results


def table(content: Mapping[str, Any]) -> str:
    """The targets as text."""
    rows = [("workload", "target", "figure", "met"), *(verdict.cells() for verdict in verdicts(content))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _figures(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """By workload, contestant and unit. Wrong results have none."""
    correct = [result for result in content["results"] if result["median_s"] is not None]
    for result in correct:
        name, detail = (result["workload"], result["contestant"]), result["detail"]
        yield (*name, SECONDS), result["median_s"]
        if "files_per_key" in detail:
            yield (*name, FILES_PER_KEY), detail["files_per_key"]
        if "requests" in detail:
            yield (*name, REQUESTS), detail["requests"]
    own = [*(result for result in correct if result["contestant"] == OURS), *content["growth"]]
    if own:
        yield (EVERY, OURS, GIGABYTES), max(result["peak_rss_mb"] for result in own) / 1000
    for kind in ("table", "change"):
        medians = {one["factor"]: one["median_s"] for one in content["growth"] if one["grows"] == kind}
        if medians.get(1) and medians.get(8):
            yield (f"{kind} x8", OURS, GROWTH), medians[8] / medians[1]
