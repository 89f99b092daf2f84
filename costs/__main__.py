"""`make costs`: records hours of a table, estimates what deployments cost, and writes the tables in docs/deploy.md.

With `--recorded` it takes the recording as it is, as after a change of prices.
"""

from __future__ import annotations

import sys
from pathlib import Path

from costs.function import start_seconds
from costs.prices import Prices
from costs.recorded import Recorded
from costs.recording import FunctionWork
from costs.simulate import simulate, simulate_function
from costs.stored import ANYWHERE, MOSTLY_RECENT, simulate_stored
from costs.tables import texts

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "deploy.md"
FEW, MANY = 6, 60
"""Bursts per hour of the deployments."""


def record() -> Recorded:
    """Record all."""
    on_lambda, works = simulate_function(FEW, hours=2)
    hours = {
        "hourly": {FEW: simulate(FEW), MANY: simulate(MANY, hours=1)},
        "five_minutes": {FEW: simulate(FEW, looks=12), MANY: simulate(MANY, looks=12, hours=1)},
        "by_file": {FEW: simulate(FEW, by_file=True)},
        "on_lambda": {FEW: on_lambda},
    }
    stored = [
        *simulate_stored(FEW, ANYWHERE, (1, FEW)),
        *simulate_stored(FEW, MOSTLY_RECENT, (1, FEW)),
        *simulate_stored(MANY, ANYWHERE, (1, 12, MANY)),
    ]
    return Recorded(simulate(0), hours, FunctionWork.median(works), round(start_seconds(), 2), stored)


def block(name: str, text: str = "") -> str:
    """A part of the document, between its marks."""
    return f"<!-- make costs: {name} -->\n\n{text}\n\n<!-- until here -->"


def main() -> int:
    """Record, estimate, write."""
    if "--recorded" not in sys.argv:
        record().write()
    written = texts(Recorded.read(), Prices())
    document = DOCUMENT.read_text(encoding="utf-8")
    for name, text in written.items():
        begin, _, end = block(name).partition("\n\n\n\n")
        before, _, rest = document.partition(begin)
        document = before + block(name, text) + rest.partition(end)[2]
        sys.stdout.write(f"{text}\n\n")
    DOCUMENT.write_text(document, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
