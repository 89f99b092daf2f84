"""Keeps what long simulations came to, for docs/testing.md: `python -m tests.simulated FILE...`.

The files are those of `make simulate JSON=FILE`, whose counts are added up, or of `make simulate-mutants JSON=FILE`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from tests.counts import keep

SEEDS = "seeds"
METHOD = "devkit/cdclake_devkit/simulate"


def main(files: list[str]) -> None:
    """Keep the results in files."""
    runs = Counter[str]()
    for file in files:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
        if SEEDS in found:
            runs.update(found)
        else:
            keep(METHOD, "mutants", {name: int(seed) for name, seed in found.items()})
    if runs:
        keep(METHOD, "runs", {name: round(count) for name, count in sorted(runs.items())})


if __name__ == "__main__":
    main(sys.argv[1:])
