"""The pages of `docs/reference` are what the code says."""

from __future__ import annotations

import pytest
from docs_build import attributes, command
from docs_build.reference import FOLDER, pages

from cdclake.cli.settings import SETTABLE
from cdclake.model.names import Attribute


@pytest.mark.parametrize(("name", "text"), pages().items(), ids=pages())
def test_a_page_is_as_make_reference_writes_it(name: str, text: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == text, "run make reference"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == pages().keys()


def test_every_attribute_has_a_meaning() -> None:
    names = [value for name, value in vars(Attribute).items() if name.isupper()]
    assert [row.name for row in attributes.rows()] == names
    assert [row.name for row in attributes.rows() if not row.meaning.endswith((".", "absent when free"))] == []


def test_attributes_set_by_the_operator_are_those_that_the_command_sets() -> None:
    set_back = {Attribute.LAST_FULL_LOAD_DATE, Attribute.LAST_INCREMENTAL_FILE}
    by_operator = {row.name for row in attributes.rows() if row.by_operator}
    assert by_operator == set(SETTABLE) - set_back


def test_defaults_are_those_that_hold() -> None:
    told = attributes.defaults()
    assert told[Attribute.PRIMARY_KEY] == "null"
    assert told[Attribute.CSV_ROW_DELIMITER] == "\\n"
    assert told[Attribute.DELETE_MODE] == "hard"
    assert (told[Attribute.RFC4180], told[Attribute.HISTORY]) == ("true", "false")
    assert (told[Attribute.LATE_WINDOW_HOURS], told[Attribute.ORDER_COLUMN]) == ("72", "")


def test_every_verb_has_a_heading_and_its_own_options() -> None:
    page = command.page()
    assert {"cdclake tables set", "cdclake clean-up", "cdclake local serve"} <= {path for path, _ in command.verbs()}
    assert [path for path, _ in command.verbs() if f"\n## {path}\n" not in page] == []
    _, _, shared = page.partition("## Location options")
    assert "| `--lake-bucket` | `cdclake-lake` | Bucket of the lake tables. Also `CDCLAKE_LAKE_BUCKET`. |" in shared
    assert page.count("`--lake-bucket`") == 1
