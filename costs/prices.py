"""The prices in `prices.json`."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill

FILE = Path(__file__).parent / "prices.json"
LINE = 150
HOURS_PER_DAY, DAYS_PER_MONTH = 24, 730 / 24


class Prices:
    """The prices of `prices.json`, in dollars.

    Attributes:
        headlines: What AWS announced without a price, by subject.
    """

    def __init__(self) -> None:
        content = json.loads(FILE.read_text(encoding="utf-8"))
        self._prices: dict[str, dict[str, float | str]] = content["dollars"]
        self._hourly = content["sample_dollars_per_hour"].values()
        self._monthly = content["sample_dollars_per_month"].values()
        self.headlines: dict[str, str] = content["headlines"]

    def __getitem__(self, name: str) -> float:
        return float(self._prices[name]["dollars"])

    def __str__(self) -> str:
        """When they were seen, as Markdown."""
        newer, older = (", ".join(f"`{name}`" for name in self.seen_in(year)) for year in (2026, 2025))
        lines = [
            f"Seen in 2026, but not on AWS's pages: {newer}.",
            f"AWS's list prices of 2025: {older}, and the sample stack's.",
            *(f"{subject}: {text}." for subject, text in self.headlines.items()),
        ]
        return "\n".join(fill(f"* {line}", LINE, subsequent_indent="  ", break_on_hyphens=False) for line in lines)

    @property
    def names(self) -> list[str]:
        """Of all prices but the sample's."""
        return list(self._prices)

    def seen_at(self, name: str) -> str:
        """Where a price was last seen, if not on AWS's page; else empty."""
        return str(self._prices[name].get("seen_at", ""))

    def seen_in(self, year: int) -> list[str]:
        """Names of the prices that were last seen in a year."""
        return [name for name, price in self._prices.items() if str(price["seen"]).startswith(str(year))]

    @property
    def sample_per_day(self) -> float:
        """Dollars per day for the sample stack."""
        hourly, monthly = (sum(one["dollars"] for one in prices) for prices in (self._hourly, self._monthly))
        return float(hourly * HOURS_PER_DAY + monthly / DAYS_PER_MONTH)
