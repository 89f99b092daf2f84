"""The file of tables is read as it is written, and what is wrong in it is refused with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import ConfigurationError
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake_cli.config.model import Config
from cdclake_cli.config.read import read_config
from cdclake_cli.config.structure import File
from cdclake_cli.config.vocabulary import CONFIGURABLE, READERS, same_value
from cdclake_cli.config.write import Comments, config_text, scalar
from cdclake_cli.settings import SETTABLE
from tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Read = Callable[..., Config]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str, **environment: str) -> Config:
        file = tmp_path / "cdclake.yml"
        file.write_text(text, encoding="utf-8")
        return read_config(file, environment)

    return read_text


def test_the_words_of_the_file_are_the_attributes_that_a_table_keeps():
    assert set(SETTABLE) - set(CONFIGURABLE) == {"LastFullLoadDate", "LastIncrementalFile", "AcceptLostChanges"}
    assert READERS.keys() >= set(CONFIGURABLE)


def test_a_value_is_the_text_that_is_written(read: Read):
    config = read("""
defaults: {History: true, LateWindowHours: 048}
tables:
  shop.orders:
    PrimaryKey: [id, region]
    CsvNullValue: NULL
    MissingColumns: null
    OrderColumn: ~
    Schema:
      - id int
      - price decimal(10,2)
    CdcPath: "${ENV}/$$cdc"
  shop.*:
""".replace("${ENV}", "${STAGE}"), STAGE="test")  # fmt: skip
    assert config.defaults == {"History": "true", "LateWindowHours": "048"}
    assert config.tables == {
        "shop.orders": {
            "PrimaryKey": "id, region",
            "CsvNullValue": "NULL",
            "MissingColumns": "null",
            "OrderColumn": "null",
            "Schema": "id int, price decimal(10,2)",
            "CdcPath": "test/$cdc",
        },
        "shop.*": {},
    }


def test_nothing_in_a_file_configures_nothing(read: Read):
    assert read("# no tables yet") == read("tables:") == Config()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("tabels:\n", 1, ["'tabels' is not known here", "Did you mean tables?"]),
        ("tables:\n  shop.x:\n    PrimaryKy: id\n", 3, ["'PrimaryKy' is not known here", "Did you mean PrimaryKey?"]),
        ("defaults:\n  primarykey: id\n", 2, ["Did you mean PrimaryKey?"]),
        ("defaults:\n  LastFullLoadDate: null\n", 2, ["LastFullLoadDate cannot be set in a file", "tables set"]),
        ("defaults:\n  AcceptLostChanges: 3\n", 2, ["AcceptLostChanges cannot be set in a file"]),
        ("tables:\n  shop:\n    PrimaryKey: id\n", 2, ["'shop' is not a table name", "schema.table"]),
        ("tables:\n  shop.x: id\n", 2, ["shop.x: below it there are no names"]),
        ("tables:\n- shop.x\n", 1, ["tables: below it there are no names"]),
        ("- shop.x\n", 1, ["The file: there are no names in it"]),
        ("defaults:\n  PrimaryKey: {id: int}\n", 2, ["PrimaryKey: a value is a text or a list of texts"]),
        ("defaults:\n  Readers: fold\n", 2, ["Readers is 'fold'", "folder or iceberg or both"]),
        ("tables:\n  shop.*:\n    LateWindowHours: null\n", 3, ["LateWindowHours is 'null'", "a whole number"]),
        ("tables:\n  shop.x:\n  shop.y:\n  shop.x:\n", 4, ["shop.x is there twice"]),
        ("tables:\n  a.b:\n  a/b:\n", 3, ["a/b is there twice"]),
        ("defaults:\n  CdcPath: ${STAGE}/cdc\n", 2, ["The environment variable STAGE is not set"]),
        ("defaults:\n  CdcPath: cdc\n  OrderColumn: a$b\n", 3, ["A $ stands alone", "Write $$"]),
        ("tables:\n  *.orders:\n", 2, ["not YAML", "Quote a pattern that begins with *"]),
        ("tables: &a\n  shop.x: *a\n", 1, ["too many levels"]),
        ("tables: \x01\n", None, ["not YAML"]),
        ("tables: " + "[" * 2_000, None, ["not YAML", "too many levels"]),
        ('defaults:\n  CdcPath: "\\UFFFFFFFF"\n', None, ["not YAML"]),
        ("%YAML " + "9" * 5000 + ".1\n---\ntables:\n", None, ["not YAML"]),
        ('defaults:\n  CdcPath: "\\ud800"\n', 2, ["half of a character"]),
        ("defaults:\n  CdcPath: !Ref Stage\n", 2, ["The tag !Ref has no meaning here"]),
        ("defaults:\n  CsvNullValue: !!binary aGVsbG8=\n", 2, ["The tag !!binary has no meaning here"]),
        ("tables: !Include tables.yml\n", 1, ["The tag !Include has no meaning here"]),
        ("tables:\n  ? [shop.x]\n  : {History: true}\n", 2, ["A name is a text"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(read: Read, text: str, line: int | None, words: list[str]):
    with pytest.raises(ConfigurationError) as error:
        read(text)
    assert [word for word in words if word not in str(error.value)] == []
    assert error.value.details["line"] == line


def test_every_mistake_is_named_at_once(read: Read):
    with pytest.raises(ConfigurationError) as error:
        read("defaults:\n  Reader: both\ntables:\n  shop.x:\n    PrimaryKy: id\n  shop.y:\n    Histori: true\n")
    assert error.value.message.partition(" has ")[2] == (
        "3 mistakes: line 2: 'Reader' is not known here. Did you mean Readers?; line 5: 'PrimaryKy' is not known here."
        " Did you mean PrimaryKey?; line 7: 'Histori' is not known here. Did you mean History?"
    )


def test_values_are_read_with_the_defaults_beside_them(read: Read):
    assert read("defaults: {CsvDelimiter: ;}\ntables: {shop.x: {CsvRowDelimiter: ','}}").tables


ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")


def test_the_tables_own_name_counts_then_the_last_pattern_then_the_default():
    config = Config(
        {"LateWindowHours": "1", "RetentionDays": "1", "Readers": "both", "CleanUp": "manual"},
        {
            "shop.orders": {"LateWindowHours": "4"},
            "shop.*": {"LateWindowHours": "2", "RetentionDays": "2", "Readers": "folder"},
            "*.*": {"LateWindowHours": "3", "RetentionDays": "3"},
        },
    )
    assert config.settings_of(ORDERS) == {
        "LateWindowHours": "4",
        "RetentionDays": "3",
        "Readers": "folder",
        "CleanUp": "manual",
    }


def test_the_defaults_are_those_of_the_tables_in_the_file():
    assert Config({"Readers": "both"}, {"shop.orders": {}}).settings_of(ITEMS) is None
    assert Config({"Readers": "both"}, {"shop.i*": {}}).settings_of(ITEMS) == {"Readers": "both"}


def test_a_name_with_brackets_is_that_of_a_table_if_there_is_one():
    config = Config({}, {"shop.a[1]": {"PrimaryKey": "id"}, "shop.*": {"PrimaryKey": "no"}})
    one, other = TableName("shop", "a[1]"), TableName("shop", "a1")
    assert config.settings_of(one) == {"PrimaryKey": "id"}  # its own name, although another pattern follows
    assert config.settings_of(other) == {"PrimaryKey": "no"}
    with pytest.raises(ConfigurationError, match=r"is the name of a table, and as a pattern it matches shop\.a1"):
        config.chosen({one, other})
    two = Config({}, {"shop.a[1]": {}, "shop.[a]1": {}})
    with pytest.raises(ConfigurationError, match=r"shop\.a1; .*shop\.a1"):
        two.chosen({one, other, TableName("shop", "[a]1")})


@pytest.mark.parametrize(
    ("attribute", "one", "other", "same"),
    [
        ("PrimaryKey", "id, region", "id,region", True),
        ("PrimaryKey", "id,region", "region,id", False),
        ("LateWindowHours", None, "72", True),
        ("LateWindowHours", None, "73", False),
        ("OrderColumn", "null", None, True),
        ("ActiveFlag", "True", "true", True),
        ("Readers", "wrong", "folder", False),
        ("Readers", "wrong", "wrong", True),
    ],
)
def test_values_that_mean_the_same_are_the_same(attribute: str, one: str | None, other: str | None, same: bool):
    items: list[Any] = [{} if value is None else {attribute: value} for value in (one, other)]
    assert same_value(attribute, *items) is same


NAMES = st.from_regex(r"[a-z*\[\]?$éß \U0001F600]{1,6}\.[a-z0-9*~#:]{1,6}", fullmatch=True)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["", "null", "NULL", "~", "true", "True", "no", "012", "1_000", "0x1f", "1.50", "1e3", "12:30"]),
    st.sampled_from(
        ["2024-01-01", "2024-13-45", "<<", "- a", "a: b", "a #b", "[a", "'", "\\t", "\t", "$", "${A}", "é"]
    ),
)
FREE = st.dictionaries(st.sampled_from([Attribute.CSV_NULL_VALUE, Attribute.CDC_PATH, Attribute.DMS_TASK]), TEXTS)


@given(defaults=FREE, tables=st.dictionaries(NAMES, FREE, max_size=4))
def test_a_file_that_is_written_says_the_same(
    defaults: dict[str, str], tables: dict[str, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
):
    file, config = tmp_path_factory.getbasetemp() / "written.yml", Config(defaults, tables)
    file.write_text(config_text(config), encoding="utf-8")
    assert read_config(file, {}) == config


def test_it_is_written_without_needless_quotes():
    texts = ["id, region", "true", "72", "null", "id int, price decimal(10,2)", "shop.*"]
    assert [scalar(text) for text in texts] == texts
    assert [scalar(text) for text in ("NULL", "", "*.orders", "012")] == ['"NULL"', '""', '"*.orders"', '"012"']


def test_reasons_stand_beside_their_settings_and_what_is_unsure_is_a_comment(read: Read):
    config = Config({"Readers": "both"}, {"shop.orders": {"PrimaryKey": "id"}, "shop.log": {}})
    comments = {
        "shop.orders": Comments(["Orders of the shop\nand more"], {"PrimaryKey": ["primary key of the database"]}),
        "shop.log": Comments(reasons={"PrimaryKey": ["distinct in 30 files"]}, unsure={"PrimaryKey": "line"}),
    }
    text = config_text(config, comments, ["Proposed by cdclake import."])
    assert (
        text
        == r"""# Proposed by cdclake import.
defaults:
  Readers: both
tables:
  # Orders of the shop\x0aand more
  shop.orders:
    # primary key of the database
    PrimaryKey: id
  shop.log:
    # distinct in 30 files
    # PrimaryKey: line
"""
    )
    assert read(text) == config


def test_editors_get_the_names_and_choices():
    settings = File.model_json_schema()["$defs"]["Settings"]
    assert tuple(settings["properties"]) == CONFIGURABLE
    assert settings["additionalProperties"] is False
    assert settings["properties"]["MissingColumns"]["anyOf"][0] == {"enum": ["keep", None]}
    assert settings["properties"]["RetentionDays"]["anyOf"][0] == {"type": "integer", "minimum": 0}


def test_the_example_in_the_documents_is_a_file_of_tables(read: Read):
    text = (ROOT / "docs" / "tables-as-code.md").read_text(encoding="utf-8")
    config = read(text.partition("```yaml\n")[2].partition("```")[0], STAGE="test")
    assert config.settings_of(ORDERS) == {
        "Readers": "both",
        "RetentionDays": "14",
        "CdcPath": "test/cdc",
        "ActiveFlag": "true",
        "MaxDelayMinutes": "30",
        "PrimaryKey": "id",
        "PartitionKey": "country, orderdate",
        "History": "true",
    }
