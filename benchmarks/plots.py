"""A plot of how a run's time and memory grow with the table and with the change."""

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
"""How far the axes go beyond the greatest value."""
_PANELS = {
    "table": ("rows", "rows of the table (the change stays the same)"),
    "change": ("change_rows", "rows of the change (the table stays the same)"),
}


def plot_growth(results: Sequence[Result], path: Path) -> None:
    """Draw growth results, of each kind there is, as a PNG."""
    kinds = [kind for kind in _PANELS if any(one["grows"] == kind for one in results)]
    figure, panels = plt.subplots(1, len(kinds), figsize=(6 * len(kinds), 4), squeeze=False)
    for axes, kind in zip(panels[0], kinds, strict=True):
        counted = [one for one in results if one["grows"] == kind and one["median_s"] is not None]
        _panel(axes, kind, counted)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _panel(axes: Axes, kind: str, results: Sequence[Result]) -> None:
    size, label = _PANELS[kind]
    sizes = [one[size] for one in results]
    (seconds,) = axes.plot(sizes, [one["median_s"] for one in results], "o-", color="tab:blue", label="seconds")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{one:,}" for one in sizes])
    axes.set_ylim(0, HEADROOM * axes.get_ylim()[1])
    axes.set_xlabel(label)
    axes.set_ylabel("seconds")
    memory_axes = axes.twinx()
    (memory,) = memory_axes.plot(
        sizes, [one["peak_rss_mb"] for one in results], "s--", color="tab:gray", label="peak memory"
    )
    memory_axes.set_ylim(0, HEADROOM * memory_axes.get_ylim()[1])
    memory_axes.set_ylabel("MB")
    axes.legend(handles=[seconds, memory], loc="lower right")
    axes.grid(visible=True, alpha=0.3)
