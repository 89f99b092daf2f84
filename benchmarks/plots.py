"""Plots how a run's time and memory grow with the table and with the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.results import Result

HEADROOM = 1.2
"""Upper limit of the axes, relative to the greatest value."""
_PANELS = {
    "table": ("rows", "rows of the table (constant change)"),
    "change": ("change_rows", "rows of the change (constant table)"),
}


def plot_growth(results: Sequence[Result], path: Path) -> None:
    """Draw the growth results as a PNG, with a panel for each kind."""
    kinds = [kind for kind in _PANELS if any(result["grows"] == kind for result in results)]
    figure, panels = plt.subplots(1, len(kinds), figsize=(6 * len(kinds), 4), squeeze=False)
    for axes, kind in zip(panels[0], kinds, strict=True):
        valid = [result for result in results if result["grows"] == kind and result["median_s"] is not None]
        _panel(axes, kind, valid)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _panel(axes: Axes, kind: str, results: Sequence[Result]) -> None:
    size, label = _PANELS[kind]
    sizes = [result[size] for result in results]
    medians = [result["median_s"] for result in results]
    (seconds,) = axes.plot(sizes, medians, "o-", color="tab:blue", label="seconds")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{rows:,}" for rows in sizes])
    axes.set_ylim(0, HEADROOM * axes.get_ylim()[1])
    axes.set_xlabel(label)
    axes.set_ylabel("seconds")
    memory_axes = axes.twinx()
    peaks = [result["peak_rss_mb"] for result in results]
    (memory,) = memory_axes.plot(sizes, peaks, "s--", color="tab:gray", label="peak memory")
    memory_axes.set_ylim(0, HEADROOM * memory_axes.get_ylim()[1])
    memory_axes.set_ylabel("MB")
    axes.legend(handles=[seconds, memory], loc="lower right")
    axes.grid(visible=True, alpha=0.3)
