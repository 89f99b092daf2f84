"""Keeps what runs of tests counted in `counts.json`, from which `make reference` fills docs/testing.md.

`CDCLAKE_RECORD=1` before a command that runs tests, such as `make crash`, lets it keep its counts: for each file with
tests that count, the sums of all its cases. So record whole files, and of one tier. `tests/mutations` and
`tests/branches.py` keep theirs with `--record`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEPT = Path(__file__).with_name("counts.json")
IS_RECORDED = bool(os.environ.get("CDCLAKE_RECORD"))
"""Whether this run of tests keeps its counts."""

Counts = dict[str, dict[str, dict[str, Any]]]
"""By file of tests, or name of another method, and by tier, or part: counts by name."""


def kept() -> Counts:
    """The counts of the last runs that kept them."""
    found: Counts = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def keep(method: str, part: str, counts: Mapping[str, Any]) -> None:
    """Keep counts in place of those of the last such run."""
    known = kept()
    known.setdefault(method, {})[part] = dict(counts)
    KEPT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def keep_cases(tier: str, counted: Iterable[tuple[str, Mapping[str, int]]]) -> None:
    """Keep the counts of test cases.

    Args:
        counted: Node ids of cases, and what they counted.
    """
    sums: dict[str, Counter[str]] = {}
    for nodeid, counts in counted:
        of_file = sums.setdefault(nodeid.partition("::")[0], Counter())
        of_file.update({"cases": 1, **counts})
    for file, total in sums.items():
        keep(file, tier, dict(sorted(total.items())))
