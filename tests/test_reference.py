"""The pages of `docs/reference` match the code."""

from __future__ import annotations

import pytest
from docs_build import attributes, command
from docs_build.reference import FOLDER, pages

from cdclake.cli.settings import SETTABLE
from cdclake.model.names import Attribute


@pytest.mark.parametrize(("name", "text"), pages().items(), ids=pages())
def test_a_page_is_up_to_date(name: str, text: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == text, "run make reference"


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in FOLDER.iterdir()} == pages().keys()


def test_every_attribute_has_a_meaning() -> None:
    names = [value for name, value in vars(Attribute).items() if name.isupper()]
    assert [row.name for row in attributes.rows()] == names
    assert [row.name for row in attributes.rows() if not row.meaning.endswith((".", "absent when free"))] == []


def test_attributes_of_the_operator_are_those_that_the_command_sets() -> None:
    resettable = {Attribute.LAST_FULL_LOAD_DATE, Attribute.LAST_INCREMENTAL_FILE}
    by_operator = {row.name for row in attributes.rows() if row.by_operator}
    assert by_operator == set(SETTABLE) - resettable


def test_defaults_match_the_code() -> None:
    defaults = attributes.defaults()
    assert defaults[Attribute.PRIMARY_KEY] == "null"
    assert defaults[Attribute.CSV_ROW_DELIMITER] == "\\n"
    assert defaults[Attribute.DELETE_MODE] == "hard"
    assert (defaults[Attribute.RFC4180], defaults[Attribute.HISTORY]) == ("true", "false")
    assert (defaults[Attribute.LATE_WINDOW_HOURS], defaults[Attribute.ORDER_COLUMN]) == ("72", "")


def test_every_verb_has_a_heading_and_its_own_options() -> None:
    page = command.page()
    assert {"cdclake tables set", "cdclake clean-up", "cdclake local serve"} <= {path for path, _ in command.verbs()}
    assert [path for path, _ in command.verbs() if f"\n## {path}\n" not in page] == []
    _, _, shared = page.partition("## Location options")
    assert "| `--lake-bucket` | `cdclake-lake` | Bucket of the lake tables. Also `CDCLAKE_LAKE_BUCKET`. |" in shared
    assert page.count("`--lake-bucket`") == 1
