"""`cdclake apply` makes the tables as a file says, and `cdclake export-config` writes such a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cdclake.model.table.state import TableState
from cdclake_cli.doctor import check_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake.adapters.dynamodb import DynamoState

    File = Callable[[str], str]

STORE, PRODUCT = "cdclake-raw/shop/store/", "cdclake-raw/shop/product/"


@pytest.fixture
def file(tmp_path: Path) -> File:
    """Writes a file of tables, and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "tables.yml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def settings(state: DynamoState, path: str, *names: str) -> list[str | None]:
    found = state.get(path)
    assert found
    return [found.item.get(name) for name in names]


def test_differences_are_shown_and_made_and_then_there_are_none(cdclake: Any, state: DynamoState, file: File):
    state.set_attributes(STORE, {"LateWindowHours": "48"})
    path = file("defaults: {LateWindowHours: 24, Readers: folder}\ntables: {shop.*: }\n")
    difference = {"setting": "LateWindowHours", "after": "24", "effect": "from the first load on"}
    expected = [
        {
            "table": f"shop.{name}",
            "registered": True,
            "reloads": False,
            "done": False,
            "differences": [{**difference, "before": before}],
        }
        for name, before in (("product", None), ("store", "48"))
    ]
    assert cdclake.records("apply", path, "--dry-run") == expected
    checked = cdclake("apply", path, "--check")
    assert checked.exit_code == 6
    assert "2 tables not as the file says: shop.product, shop.store" in checked.stderr
    assert settings(state, STORE, "LateWindowHours") == ["48"]

    shown = cdclake.ok("apply", path, "--yes").stdout
    assert [line.split()[:4] for line in shown.splitlines() if "shop." in line] == [
        ["shop.product", "LateWindowHours", "72", "(default)"],
        ["shop.store", "LateWindowHours", "48", "24"],
    ]
    assert "Changed: 2 tables." in shown
    assert settings(state, STORE, "LateWindowHours", "Readers") == ["24", None]
    assert cdclake.records("apply", path, "--check") == []
    assert "as in the file: 2" in cdclake.ok("apply", path).stdout


def test_it_asks_and_no_means_no(cdclake: Any, state: DynamoState, file: File):
    path = file("tables: {shop.store: {LateWindowHours: 24}}")
    assert "--yes" in cdclake.refused("apply", path)
    answered = cdclake.at_terminal("apply", path, answer="n")
    assert (answered.exit_code, settings(state, STORE, "LateWindowHours")) == (1, [None])
    assert "Change 1 table?" in answered.stderr
    assert cdclake.at_terminal("apply", path, answer="y").exit_code == 0
    assert settings(state, STORE, "LateWindowHours") == ["24"]


def test_what_somebody_set_after_it_was_shown_is_not_overwritten(cdclake: Any, state: DynamoState, file: File):
    def answer() -> str:
        state.set_attributes(STORE, {"LateWindowHours": "12"})
        return "y"

    path = file("tables: {shop.*: {LateWindowHours: 24}}")
    answered = cdclake.at_terminal("apply", path, answer=answer)
    assert answered.exit_code == 4
    assert "changed after the differences were shown" in answered.stderr
    assert settings(state, STORE, "LateWindowHours") == ["12"]
    assert settings(state, PRODUCT, "LateWindowHours") == [None]


def test_what_somebody_did_while_it_was_checked_is_not_overwritten_without_a_question_either(
    cdclake: Any, state: DynamoState, file: File, monkeypatch: pytest.MonkeyPatch
):
    def check(*_: object, **__: object) -> None:
        state.record_run(STORE, {"LastOffByRollback": "true"})

    monkeypatch.setattr(check_settings, "check_columns", check)
    path = file("tables: {shop.store: {ActiveFlag: true, PrimaryKey: id}}")
    answered = cdclake("apply", path, "--yes")
    assert answered.exit_code == 4
    assert settings(state, STORE, "ActiveFlag", "PrimaryKey") == ["false", "null"]
    assert cdclake.ok("apply", path, "--yes").exit_code == 0
    assert settings(state, STORE, "ActiveFlag", "PrimaryKey") == ["false", "id"]


def test_a_wrong_file_exits_with_2_and_its_line(cdclake: Any, state: DynamoState, file: File):
    error = cdclake.refused("apply", file("tables:\n  shop.store:\n    PrimaryKy: id\n"))
    assert "line 3" in error
    assert "Did you mean PrimaryKey?" in error
    assert "does not exist" in cdclake.refused("apply", "/nowhere.yml")


def test_values_come_from_the_environment(cdclake: Any, state: DynamoState, file: File):
    path = file("tables: {shop.store: {CdcPath: '${STAGE}/cdc'}}")
    assert "STAGE is not set" in cdclake.refused("apply", path, "--yes")
    cdclake.ok("apply", path, "--yes", STAGE="test")
    assert settings(state, STORE, "CdcPath") == ["test/cdc"]


def test_a_setting_that_is_wrong_for_one_table_changes_none(cdclake: Any, state: DynamoState, file: File):
    path = file("tables: {shop.*: {LateWindowHours: 24}, shop.store: {PrimaryKey: id}}")
    assert "no raw files yet to check PrimaryKey" in cdclake.refused("apply", path, "--yes")
    assert settings(state, PRODUCT, "LateWindowHours") == [None]
    cdclake.ok("apply", path, "--yes", "--unchecked")
    assert settings(state, STORE, "PrimaryKey", "LateWindowHours") == ["id", "24"]


def test_tables_that_are_not_registered_are_named_and_registered_if_asked(cdclake: Any, state: DynamoState, file: File):
    path = file("defaults: {History: true}\ntables: {shop.stor: {PrimaryKey: id, Schema: id int}, crm.*: }\n")
    shown = cdclake.ok("apply", path, "--yes").stdout
    assert "shop.stor is not registered. Did you mean shop.store?" in shown
    assert "'crm.*' matches no registered table" in shown
    assert "not in the file and left alone: 2" in shown
    assert cdclake("apply", path, "--check").exit_code == 6
    assert "not registered" in cdclake.ok("apply", path, "--register", "--yes").stdout
    path = "cdclake-raw/shop/stor/"
    assert settings(state, path, "PrimaryKey", "History", "ActiveFlag") == ["id", "true", "false"]


def test_what_needs_a_reload_is_refused_without_consent(cdclake: Any, store: Any, state: DynamoState, file: File):
    state.set_attributes(STORE, {"PrimaryKey": "id", "LastFullLoadDate": "2024-03-05 00:00:00"})
    path = file("tables: {shop.*: {LateWindowHours: 24}, shop.store: {PrimaryKey: name}}")
    error = cdclake.refused("apply", path, "--yes", "--unchecked")
    assert "1 table must be loaded again for this: shop.store" in error
    assert settings(state, PRODUCT, "LateWindowHours") == [None]
    shown = cdclake.ok("apply", path, "--yes", "--unchecked", "--reload").stdout
    assert "the next run loads the table again" in shown
    assert settings(state, STORE, "PrimaryKey", "LastFullLoadDate") == ["name", "1900-01-01 00:00:00"]


def test_a_table_that_was_rolled_back_stays_off(cdclake: Any, state: DynamoState, file: File):
    state.record_run(STORE, {"LastOffByRollback": "true"})
    path = file("tables: {shop.*: {ActiveFlag: true}}")
    assert "shop.store stays off, because of a rollback" in cdclake.ok("apply", path, "--yes").stdout
    assert [settings(state, one, "ActiveFlag") for one in (STORE, PRODUCT)] == [["false"], ["true"]]


def test_many_differences_are_printed_in_groups(cdclake: Any, state: DynamoState, file: File):
    for number in range(40):
        state.register(TableState.new("cdclake-raw", "many/", f"t{number:02}/"))
    numbers = ("LateWindowHours", "RetentionDays", "KeepEveryState", "MaxDelayMinutes", "MaxQuarantinedRows")
    path = file(f"defaults: {{{', '.join(f'{name}: 9' for name in numbers)}}}\ntables: {{'*.*': }}")
    lines = cdclake.ok("apply", path, "--dry-run").stdout.splitlines()
    assert [" ".join(line.split()) for line in lines if "LateWindow" in line] == [
        "42 many.t00, many.t01, many.t02, ... LateWindowHours 72 (default) 9 from the first load on"
    ]
    assert len(cdclake.records("apply", path, "--dry-run")) == 42


def test_what_is_exported_is_what_is_there(cdclake: Any, state: DynamoState, tmp_path: Path):
    state.register(TableState.new("cdclake-raw", "crm/", "log/").with_attributes(Readers="wrong", DmsTask="$x: #"))
    for path in (STORE, PRODUCT):
        state.set_attributes(path, {"CsvDelimiter": ";", "PrimaryKey": "id", "ActiveFlag": "true"})
    to = tmp_path / "cdclake.yml"
    result = cdclake.ok("export-config", "--to", str(to))
    assert "Left out, because it is invalid: Readers is 'wrong'" in result.stdout
    assert to.read_text(encoding="utf-8").partition("\n")[2] == (
        "tables:\n"
        "  shop.*:\n    CsvDelimiter: ;\n"
        '  crm.log:\n    DmsTask: "$$x: #"\n'
        "  shop.product:\n    PrimaryKey: id\n    ActiveFlag: true\n"
        "  shop.store:\n    PrimaryKey: id\n    ActiveFlag: true\n"
    )
    assert cdclake.records("apply", str(to), "--check") == []
    assert "The file exists" in cdclake.refused("export-config", "--to", str(to))
    assert cdclake.record("export-config", "--to", str(to), "--force") == {
        "file": str(to),
        "tables": 3,
        "settings": 6,
    }
