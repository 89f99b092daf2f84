"""What was recorded of one table, and of the function that loads small changes, in `recorded.json`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from costs.recording import FunctionWork, Recording
from costs.stored import ANYWHERE, Stored

FILE = Path(__file__).parent / "recorded.json"


class Recorded(NamedTuple):
    """What was recorded of one table.

    Attributes:
        idle: Hours without changes, with a Controller run in each.
        hours: Hours with changes, by `Freshness.key` and bursts per hour.
        function: What a change takes the function that loads small changes.
        function_start_seconds: CPU time until a new process of it is ready.
        stored: What it stores, by bursts, changes and place of the old rows.
    """

    idle: Recording
    hours: dict[str, dict[int, Recording]]
    function: FunctionWork
    function_start_seconds: float
    stored: list[Stored]

    def hours_of(self, key: str, bursts: int) -> Recording:
        """Hours of a table with so many bursts per hour.

        By file, each burst takes the same requests, however many there are. So do the Controller's runs.
        """
        recorded = self.hours[key]
        if bursts in recorded:
            return recorded[bursts]
        ((known, one),) = recorded.items()
        more = bursts / known - 1
        return one.plus(one, more).plus(self.idle, -more * one.hours / self.idle.hours)

    def stored_of(self, bursts: int, changes: int) -> Stored:
        """What a table stores with so many bursts and changes per hour. The old rows are anywhere."""
        wanted = (bursts, ANYWHERE, changes)
        return next(one for one in self.stored if (one.bursts, one.old_rows, one.changes) == wanted)

    @classmethod
    def read(cls) -> Recorded:
        """The committed recordings."""
        read = json.loads(FILE.read_text(encoding="utf-8"))
        hours = {key: {int(n): Recording(**one) for n, one in of.items()} for key, of in read["hours"].items()}
        return cls(
            Recording(**read["idle"]),
            hours,
            FunctionWork(**read["function"]),
            read["function_start_seconds"],
            [Stored(**one) for one in read["stored"]],
        )

    def write(self) -> None:
        """Replace the committed recordings."""
        recorded = {
            "idle": asdict(self.idle),
            "hours": {key: {n: asdict(one) for n, one in of.items()} for key, of in self.hours.items()},
            "function": asdict(self.function),
            "function_start_seconds": self.function_start_seconds,
            "stored": [one._asdict() for one in self.stored],
        }
        FILE.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
