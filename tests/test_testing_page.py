"""docs/testing.md has the figures that runs of tests counted last."""

from __future__ import annotations

import re

import pytest
from docs_build import testing

from tests import ROOT, counts
from tests.branches import AREAS, REASONS, counted, reason_of


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert testing.PAGE.read_text(encoding="utf-8") == testing.page(), "run make reference"


def test_every_block_of_the_page_is_known_and_used_once() -> None:
    used = re.findall(r"<!-- figures: ([\w-]+) -->", testing.PAGE.read_text(encoding="utf-8"))
    assert sorted(used) == sorted(testing.FIGURES)


def test_every_kept_count_is_of_something_that_exists() -> None:
    methods = [name for name in counts.kept() if name != "branches"]
    assert [name for name in methods if not (ROOT / name).exists()] == []


def test_every_untaken_branch_has_a_reason_and_every_reason_a_branch() -> None:
    known = counts.kept()["branches"]
    assert known.keys() == set(AREAS)
    untaken = [branch for one in known.values() for branch in one["untaken"]]
    assert [branch for branch in untaken if not reason_of(branch)] == []
    assert [begin for begin in REASONS if not any(branch.startswith(begin) for branch in untaken)] == []
    assert all(one["taken"] / one["branches"] > 0.93 for one in known.values())
    assert all(one["branches"] - one["taken"] == len(one["untaken"]) for one in known.values())


def test_branches_are_named_by_their_lines() -> None:
    text = (ROOT / "glue_jobs/cdclake/commit/roll_forward.py").read_text(encoding="utf-8").splitlines()
    line = text.index("    if change and not newest.is_published:") + 1
    files = {"glue_jobs/cdclake/commit/roll_forward.py": {"missing_branches": [[line, line + 2], [line, -1]]}}
    found = counted({"totals": {"num_branches": 8, "covered_branches": 6}, "files": files})
    branch = "commit/roll_forward.py: if change and not newest.is_published:"
    assert found == {"branches": 8, "taken": 6, "untaken": [f"{branch} -> return change", f"{branch} -> the end"]}


def test_counts_of_cases_are_added_and_take_the_place_of_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[tuple[str, str], object] = {}
    monkeypatch.setattr(counts, "keep", lambda method, part, found: written.update({(method, part): found}))
    cases = [("tests/a.py::test[1]", {"states": 2}), ("tests/a.py::test[2]", {"states": 3}), ("tests/b.py::test", {})]
    counts.keep_cases("test", cases)
    assert written == {("tests/a.py", "test"): {"cases": 2, "states": 5}, ("tests/b.py", "test"): {"cases": 1}}
