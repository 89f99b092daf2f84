"""Fills the figures of docs/testing.md from what runs of tests counted last, and from the tests themselves.

The page is written by hand, but for what stands between `<!-- figures: name -->` and `<!-- end -->`.
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

from tests.branches import AREAS, reason_of
from tests.counts import kept
from tests.models.mutants import MUTANTS
from tests.mutations.faults import FAULTS
from tests.simulated import METHOD

from cdclake_devkit.simulate.mutants import MUTANTS as SIMULATED
from docs_build.collect_tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PAGE = ROOT / "docs" / "testing.md"
COMMANDS = {"quick": "make quick", "test": "make test", "all": "make test-all", "thorough": "make thorough"}
"""The command of each tier."""
_BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The page with the figures of today."""

    def filled(found: re.Match[str]) -> str:
        figures = FIGURES[found[2]]()
        return f"{found[1]}\n{figures}\n{found[3]}" if figures else f"{found[1]}{found[3]}"

    return _BLOCK.sub(filled, PAGE.read_text(encoding="utf-8"))


def _table(header: Iterable[str], rows: Iterable[Iterable[object]], *, text_columns: int = 1) -> str:
    names = list(header)
    kinds = ["---"] * text_columns + ["---:"] * (len(names) - text_columns)
    lines = [names, kinds, *([_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def counted(*methods: str) -> str:
    """What tests counted, by file and name: a column for each tier that was recorded.

    Args:
        methods: Files or folders of tests.
    """
    known = kept()
    files = [file for method in methods for file in sorted(known) if file == method or file.startswith(f"{method}/")]
    tiers = [tier for tier in COMMANDS if any(tier in known[file] for file in files)]
    if not tiers:
        return "Not recorded yet.\n"
    rows = [
        (f"`{file}`", name, *(known[file].get(tier, {}).get(name, "") for tier in tiers))
        for file in files
        for name in dict.fromkeys(name for tier in tiers for name in known[file].get(tier, {}))
    ]
    return _table(("tests", "counted", *(f"`{COMMANDS[tier]}`" for tier in tiers)), rows, text_columns=2)


def _tiers() -> str:
    measured = json.loads((ROOT / "tests" / "seconds.json").read_text(encoding="utf-8"))
    rows = [(f"`make {target}`", one["tests"], f"{one['median'] / 60:.1f}") for target, one in measured.items()]
    return _table(("command", "tests", "minutes"), rows)


def _examples() -> str:
    """Number of examples of the property tests that run the engine, by tier."""
    budgets = list(_budgets())
    rows = [
        (f"`{COMMANDS[tier]}`", sum(1 for one in budgets if one.get(name)), sum(one.get(name, 0) for one in budgets))
        for tier, name in (("quick", "quick"), ("test", "test"), ("all", "ci"), ("thorough", "thorough"))
    ]
    return _table(("command", "property tests", "examples"), rows)


def _budgets() -> Iterator[dict[str, int]]:
    """The arguments of each `@examples(...)`, see tests/examples.py."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "@examples(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for one in getattr(node, "decorator_list", ()):
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "examples":
                    yield {
                        argument.arg: int(ast.literal_eval(argument.value))
                        for argument in one.keywords
                        if argument.arg and isinstance(argument.value, ast.Constant)
                    }


def _models() -> str:
    return f"{counted('tests/models')}\n{len(MUTANTS)} faults in the model each have a counterexample.\n"


def _faults() -> str:
    ran = kept().get("tests/mutations", {}).get("all")
    there = f"There are {len(FAULTS)} faults in {len({one.path for one in FAULTS})} modules.\n"
    return there + ("\n" + _table(("counted", "faults"), ran.items()) if ran else "")


def _simulator() -> str:
    known = kept().get(METHOD, {})
    runs, found = known.get("runs", {}), known.get("mutants", {})
    ran = _table(("long runs", "count"), runs.items()) if runs else "Not recorded yet.\n"
    rows = [(one.name, found.get(one.name, "not found")) for one in SIMULATED] if found else []
    mutants = _table(("fault in the protocol", "found by seed"), rows) if rows else ""
    return f"{ran}\n{mutants}"


def _branches() -> str:
    known = kept().get("branches", {})
    rows = [
        (f"`cdclake.{area}`", one["branches"], one["taken"], f"{100 * one['taken'] / one['branches']:.1f} %")
        for area, one in known.items()
        if area in AREAS
    ]
    if not rows:
        return "Not recorded yet.\n"
    untaken = [(f"`{branch}`", reason_of(branch)) for one in known.values() for branch in one["untaken"]]
    explained = _table(("untaken branch", "what it takes"), [map(_escaped, row) for row in untaken], text_columns=2)
    return _table(("package", "branches", "taken", "share"), rows) + (f"\n{explained}" if untaken else "")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


FIGURES: dict[str, Callable[[], str]] = {
    "tiers": _tiers,
    "examples": _examples,
    "databases": lambda: counted("tests/databases"),
    "crash": lambda: counted("tests/crash", "tests/cdclake/commit/test_pauses.py"),
    "models": _models,
    "readers": lambda: counted("tests/cdclake/lake/iceberg"),
    "files": lambda: counted("tests/cdclake/lake/raw/test_mutated_files.py"),
    "canaries": lambda: counted("tests/e2e/test_canaries.py"),
    "processes": lambda: counted("tests/e2e/test_dying_processes.py"),
    "faults": _faults,
    "branches": _branches,
    "simulator": _simulator,
}
"""The blocks of the page, and what returns their text."""


def write() -> None:
    """Fill the page."""
    PAGE.write_text(page(), encoding="utf-8")
