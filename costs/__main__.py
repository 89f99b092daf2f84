"""`make costs`: records hours of a table, estimates what deployments cost, and writes the table in docs/deploy.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from costs.model import BURSTS_PER_HOUR, Recorded, table
from costs.prices import Prices
from costs.simulate import simulate

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "deploy.md"
BEGIN, END = "<!-- written by make costs -->", "<!-- until here -->"


def text(recorded: Recorded, prices: Prices) -> str:
    """The part of the document that depends on the figures, as Markdown."""
    return f"{table(recorded, prices)}\n\n{prices}\n\nThe sample stack costs ${prices.sample_per_day:.2f} per day."


def main() -> int:
    """Record, estimate, write."""
    recorded = Recorded(
        simulate(0, by_file=False), simulate(BURSTS_PER_HOUR, by_file=False), simulate(BURSTS_PER_HOUR, by_file=True)
    )
    recorded.write()
    written = text(recorded, Prices())
    document = DOCUMENT.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    DOCUMENT.write_text(pattern.sub(lambda _: f"{BEGIN}\n\n{written}\n\n{END}", document), encoding="utf-8")
    sys.stdout.write(f"{written}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
