"""The pages of `docs/reference` match the code."""

from __future__ import annotations

import pytest
from docs_build import attributes, command, proofs
from docs_build.reference import FOLDER, PAGES

from cdclake.model.table.attributes import ATTRIBUTES
from cdclake_cli.settings import meanings
from tests import ROOT

SLOW = {"proofs.md"}
"""Pages that take seconds, because they collect tests."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PAGES])
def test_a_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run make reference"


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in FOLDER.iterdir()} == PAGES.keys()


def test_every_attribute_has_a_meaning() -> None:
    found = meanings()
    assert list(found) == list(ATTRIBUTES)
    assert [name for name, text in found.items() if not text.endswith((".", "absent when free"))] == []


def test_defaults_are_texts_that_an_operator_can_type() -> None:
    assert r"| `CsvRowDelimiter` | Row delimiter of CSV files. Same as the DMS endpoint setting. | `\n` |" in (
        attributes.page().splitlines()
    )


def test_every_verb_has_a_heading_and_its_own_options() -> None:
    page = command.page()
    assert {"cdclake tables set", "cdclake clean-up", "cdclake local serve"} <= {path for path, _ in command.verbs()}
    assert [path for path, _ in command.verbs() if f"\n## {path}\n" not in page] == []
    _, _, shared = page.partition("## Location options")
    assert "| `--lake-bucket` | `cdclake-lake` | Bucket of the lake tables. Also `CDCLAKE_LAKE_BUCKET`. |" in shared
    assert page.count("`--lake-bucket`") == 1


def test_every_guarantee_has_one_proof_whose_files_exist() -> None:
    found = proofs.guarantees()
    assert len(found) >= 20
    assert [one.text for one in found if len(one.proofs) != 1 or not one.tests] == []
    assert [path for one in found for path, _ in one.tests if not (ROOT / path).exists()] == []


@pytest.mark.slow
def test_every_guarantee_is_held_by_a_test_that_make_test_runs() -> None:
    early = {"quick", "test"}
    assert [
        one.text
        for one in proofs.guarantees()
        if not any(early.intersection(tiers) for tests in proofs.tests_of(one).values() for tiers in tests.values())
    ] == []


def test_a_proof_names_folders_files_and_functions() -> None:
    one = proofs.Guarantee("", "", ["`make crash` and `tests/a`, `tests/b.py::test_1` and `::test_2` of `shop.orders`"])
    assert one.tests == [("tests/a", ""), ("tests/b.py", "test_1"), ("tests/b.py", "test_2")]
    assert one.commands == ["make crash"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tests/cdclake/commit/test_undo.py::test_of_nothing", "tests/crash/faults.py"])
def test_a_proof_that_names_no_test_is_an_error(name: str) -> None:
    with pytest.raises(LookupError, match=f"guarantees.md names {name}, which has no tests"):
        proofs.tests_of(proofs.Guarantee("", "", [f"`{name}`"]))
