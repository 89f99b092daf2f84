"""`cdclake tables` lists, shows and configures tables, and refuses invalid settings."""

import json
import re

import boto3
import pytest

from cdclake.adapters.filesystem import FileSystemSpec
from cdclake.adapters.s3 import S3Store
from cdclake.control.plan.lost_files import PendingNote
from cdclake.control.plan.open_findings import OpenFindings
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState

STORE = "cdclake-raw/shop/store/"


def test_list_shows_every_table_by_name(cdclake, state):
    result = cdclake.ok("tables")
    assert result.stdout.index("shop.product") < result.stdout.index("shop.store")
    assert cdclake("tables", "list").stdout == result.stdout
    records = cdclake.records("tables")
    assert [record["table"] for record in records] == ["shop.product", "shop.store"]
    assert records[1]["active"] is False
    assert records[1]["item"][Attribute.PATH] == STORE


def test_tables_of_another_raw_location_are_not_listed(cdclake, state):
    state.register(TableState.new("other-raw", "shop/", "store/"))
    assert len(cdclake.records("tables")) == 2
    assert cdclake.record("tables", "--raw-bucket", "other-raw")["item"][Attribute.BUCKET] == "other-raw"


def test_the_raw_location_can_come_from_the_environment(cdclake, state):
    state.register(TableState.new("other-raw", "dms/shop/", "store/"))
    record = cdclake.record("tables", CDCLAKE_RAW_BUCKET="other-raw", CDCLAKE_RAW_PREFIX="/dms")
    assert record["table"] == "shop.store"


def test_an_empty_list_has_a_hint(cdclake, state):
    assert "cdclake run" in cdclake.ok("tables", "--raw-bucket", "nothing-here").output


def test_set_changes_only_the_named_settings(cdclake, state):
    before = dict(state.get(STORE).item)
    cdclake.ok(
        "tables",
        "set",
        "shop.store",
        "--primary-key",
        "id",
        "--partition-key",
        "country,city",
        "--schema",
        "id int, price decimal(10,2)",
        "--set",
        "CsvDelimiter=;",
        "--unchecked",
    )
    assert dict(state.get(STORE).item) == {
        **before,
        Attribute.PRIMARY_KEY: "id",
        Attribute.PARTITION_KEY: "country,city",
        Attribute.SCHEMA: "id int, price decimal(10,2)",
        Attribute.CSV_DELIMITER: ";",
    }


def test_set_registers_a_table_without_folder_once(cdclake, state):
    arguments = ("tables", "set", "shop.voucher", "--register")
    assert cdclake(*arguments, "--set", "CdcPath=cdc").exit_code == 0
    assert cdclake(*arguments, "--primary-key", "id", "--unchecked").exit_code == 0
    item = state.get("cdclake-raw/shop/voucher/").item
    assert (item[Attribute.CDC_PATH], item[Attribute.PRIMARY_KEY]) == ("cdc", "id")
    assert item[Attribute.ACTIVE_FLAG] == "false"


def test_set_turns_history_on_and_off(cdclake, state):
    for option, value in (("--history", "true"), ("--no-history", "false")):
        assert cdclake("tables", "set", "shop.store", option).exit_code == 0
        assert state.get(STORE).item[Attribute.HISTORY] == value
        assert state.get(STORE).settings.history is (value == "true")


def test_a_table_with_wrong_settings_can_be_turned_off(cdclake, state):
    state.set_attributes(STORE, {"ActiveFlag": "true", "LateWindowHours": "some"})
    assert cdclake("tables", "pause", "shop.store").exit_code == 0
    assert not state.get(STORE).active


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "shop.store"], "There is nothing to set"),
        (["set", "shop.store", "--set", "Primarykey=id"], "is not a setting"),
        (["set", "shop.store", "--set", "FencingToken=9"], "is not a setting"),
        (["set", "shop.store", "--set", "PrimaryKey"], "is not a setting"),
        (["set", "shop.store", "--set", "LastChangeId=0"], "is not a setting"),
        (["set", "shop.store", "--set", "LastFullLoadDate=yesterday"], "LastFullLoadDate is 'yesterday'"),
        (["set", "shop.store", "--set", "LastIncrementalFile=LOAD1"], "which is not a change file"),
        (["set", "shop.store", "--set", "ActiveFlag=yes"], "ActiveFlag is 'yes'"),
        (["set", "shop.store", "--schema", "id integre"], "is not a column type"),
        (["set", "shop.store", "--primary-key", "id,ID"], "names a column twice"),
        (["set", "shop.store", "--primary-key", "id", "--set", "NullMeansUnsent=note,ID"], "names ID, a key column"),
        (["set", "shop.store", "--set", "TargetFileBytes=big"], "TargetFileBytes is 'big'"),
        (["set", "shop.store", "--primary-key", "id"], "--unchecked"),
        (["set", "shop.store", "--partition-key", "month(at)", "--unchecked"], "is an expression and not a column"),
    ],
)
def test_an_invalid_setting_is_refused_and_changes_nothing(cdclake, state, arguments, message):
    before = dict(state.get(STORE).item)
    assert message in cdclake.refused("tables", *arguments)
    assert dict(state.get(STORE).item) == before


def test_a_missing_state_table_is_named(cdclake, aws):
    assert "Elsewhere" in cdclake.refused("tables", "--state-table", "Elsewhere")
    assert boto3.client("dynamodb").list_tables()["TableNames"] == []


def test_unfreeze_lets_a_frozen_table_continue(cdclake, state):
    note = str(PendingNote.of(["20240305-100000000.csv", "20240305-100001000.csv"]))
    state.record_run(STORE, {"LastPending": note})
    dry = cdclake("tables", "unfreeze", "shop.store", "--dry-run")
    assert (dry.exit_code, "looked: 2, the last is 20240305-100001000.csv" in dry.output) == (0, True)
    assert cdclake("tables", "unfreeze", "shop.store").exit_code == 2  # needs a confirmation
    assert cdclake.at_terminal("tables", "unfreeze", "shop.store", answer="n").exit_code == 1
    assert state.get(STORE).item["LastPending"] == note
    assert cdclake("tables", "unfreeze", "shop.store", "--yes").exit_code == 0
    assert state.get(STORE).item["LastPending"] == "null"


def test_show_prints_settings_state_and_the_lake_table(cdclake, store):
    shown = cdclake.ok("tables", "show", "shop.store")
    for text in ("ActiveFlag", "LastChangeId", "s3://cdclake-lake/shop/store/", "bigint"):
        assert text in shown.stdout
    record = cdclake.record("tables", "show", "shop.store")
    assert record["active"] is True
    lake = record["lake"]
    assert (lake["change"], lake["rows"], lake["files"], lake["first_retained"]) == (3, 70, 2, 1)
    assert lake["columns"] == [{"name": "id", "type": "bigint"}]


def test_show_of_a_table_that_is_not_in_the_lake(cdclake, state):
    lake = cdclake.record("tables", "show", "shop.store")["lake"]
    assert (lake["change"], lake["first_retained"]) == (0, None)
    assert cdclake("tables", "show", "shop.store").exit_code == 0


def test_options_override_settings_from_a_file(cdclake, state, tmp_path):
    file = tmp_path / "table.json"
    file.write_text(json.dumps({Attribute.PRIMARY_KEY: "code", Attribute.HISTORY: "true"}))
    cdclake.ok("tables", "set", "shop.store", "--from", str(file), "--primary-key", "id", "--unchecked")
    item = state.get(STORE).item
    assert (item[Attribute.PRIMARY_KEY], item[Attribute.HISTORY]) == ("id", "true")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no JSON", "is not JSON"),
        ('["PrimaryKey"]', "is not a JSON object"),
        ('{"MaxQuarantinedRows": 5}', "MaxQuarantinedRows in"),
        ('{"LeaseHolder": "me"}', "is not a setting"),
        ('{"History": "perhaps"}', "History"),
    ],
)
def test_a_file_without_settings_is_refused(cdclake, state, tmp_path, text, words):
    file = tmp_path / "table.json"
    file.write_text(text)
    before = dict(state.get(STORE).item)
    assert words in cdclake.refused("tables", "set", "shop.store", "--from", str(file))
    assert state.get(STORE).item == before


def test_acknowledge_shows_what_it_acknowledges_and_asks(cdclake, store, state):
    findings = str(OpenFindings(3, quarantined_rows=2))
    state.record_run(STORE, {"LastFindings": findings, "LastDrift": "note string added"})
    dry = cdclake("tables", "acknowledge", "shop.store", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "the table lacks: 2." in dry.output
    assert "applied nothing: note string added" in dry.output
    assert cdclake("tables", "acknowledge", "shop.store").exit_code == 2  # needs a confirmation
    assert state.get(STORE).item["LastFindings"] == findings
    assert cdclake("tables", "acknowledge", "shop.store", "--yes").exit_code == 0
    item = state.get(STORE).item
    assert (item["AcknowledgedChange"], item["AcceptedDrift"]) == ("3", "note string added")
    assert '"quarantined_rows": 0' in item["LastFindings"]
    state.record_run(STORE, {"LastDrift": ""})
    assert "there is nothing to acknowledge" in cdclake("tables", "acknowledge", "shop.store", "--yes").output


def test_another_key_of_a_loaded_table_is_refused_unless_it_is_loaded_again(cdclake, store, state):
    arguments = ("tables", "set", "shop.store", "--primary-key", "id", "--partition-key", "id", "--unchecked")
    error = cdclake.refused(*arguments)
    assert "was created with PartitionKey ''" in error
    assert "LastFullLoadDate=1900-01-01 00:00:00" in error
    assert state.get(STORE).item[Attribute.PARTITION_KEY] == "null"
    assert cdclake(*arguments, "--set", "LastFullLoadDate=1900-01-01 00:00:00").exit_code == 0


def test_a_column_policy_of_a_loaded_table_is_refused_unless_it_is_loaded_again(cdclake, store, state):
    arguments = ("tables", "set", "shop.store", "--set", "ColumnPolicy=hash id", "--primary-key", "id", "--unchecked")
    assert "was created with ColumnPolicy ''" in cdclake.refused(*arguments)
    assert Attribute.COLUMN_POLICY not in state.get(STORE).item
    cdclake.ok(*arguments, "--set", "LastFullLoadDate=1900-01-01 00:00:00")
    assert state.get(STORE).item[Attribute.COLUMN_POLICY] == "hash id"


def test_a_type_that_a_loaded_table_cannot_have_is_refused_unless_it_is_loaded_again(cdclake, store, state):
    arguments = ("tables", "set", "shop.store", "--schema", "id string", "--primary-key", "id", "--unchecked")
    assert "Schema declares id as string, and in the lake table it is bigint" in cdclake.refused(*arguments)
    assert state.get(STORE).item.get(Attribute.SCHEMA, "null") == "null"
    cdclake.ok(*arguments, "--set", "LastFullLoadDate=1900-01-01 00:00:00")


def test_the_remedy_for_a_lost_lake_can_be_followed(cdclake, store, state):
    lake = boto3.client("s3")
    for version in lake.list_object_versions(Bucket="cdclake-lake")["Versions"]:
        lake.delete_object(Bucket="cdclake-lake", Key=version["Key"], VersionId=version["VersionId"])
    lake.put_object(Bucket="cdclake-raw", Key="shop/store/LOAD00000001.csv", Body=b"1\n")
    error = " ".join(cdclake("status", "shop.store").stderr.split())
    assert (
        "The state table has change 3 of shop.store (LastChangeId), but the newest change in the lake is none" in error
    )
    (command,) = re.findall(r"cdclake (tables reset shop\.store)", error)
    dry = cdclake.ok(*command.split(), "--dry-run")
    assert "change 3" in dry.stdout
    assert state.get(STORE).last_change == 3
    (record,) = cdclake.records(*command.split(), "--yes")
    assert (record["last_change"], record["last_full_load"]) == ("0", None)
    status = cdclake("status", "shop.store", "--output", "json")
    assert json.loads(status.stdout)["standing"] in ("behind", "waiting")


def test_a_table_in_the_lake_is_not_reset(cdclake, store, state):
    before = dict(state.get(STORE).item)
    result = cdclake("tables", "reset", "shop.store", "--yes")
    assert result.exit_code == 3
    assert "The lake has files of shop.store. Nothing was done" in result.stderr
    assert dict(state.get(STORE).item) == before


def test_a_pattern_changes_every_table_that_it_matches(cdclake, state):
    for verb, active in (("activate", True), ("pause", False)):
        records = cdclake.records("tables", verb, "shop.*")
        assert [(record["table"], record["active"]) for record in records] == [
            ("shop.product", active),
            ("shop.store", active),
        ]
    assert len(cdclake.records("tables", "set", "shop.s*", "--set", "LateWindowHours=5")) == 1
    assert "LateWindowHours" not in state.get("cdclake-raw/shop/product/").item


def test_tables_that_are_set_together_share_their_checks(cdclake, state, monkeypatch):
    listed: list[object] = []
    opened: list[object] = []

    def noting(made, notes, call):
        def noted(self, *arguments):
            notes.append(arguments)
            return call(self, *arguments)

        monkeypatch.setattr(made, call.__name__, noted)

    for number in range(20):
        state.register(TableState.new("cdclake-raw", "many/", f"t{number:02}/"))
        key = f"many/t{number:02}/20240305-100000000.csv"
        boto3.client("s3").put_object(Bucket="cdclake-raw", Key=key, Body=b"Op,id,name\n")
    noting(S3Store, listed, S3Store.list)
    noting(FileSystemSpec, opened, FileSystemSpec.open)
    command = ("tables", "set", "many.*", "--set", "AddColumnName=true", "--primary-key")
    error = cdclake.refused(*command, "key")
    assert error.count("PrimaryKey names 'key', which is not a column of 20240305-100000000.csv") == 20
    assert [record["differences"][1]["after"] for record in cdclake.records(*command, "id")] == ["id"] * 20
    assert (len(listed), len(opened)) == (2, 2)  # one of each for each command


def test_a_pattern_that_is_wrong_for_one_table_changes_nothing(cdclake, store, state):
    before = {table.path: dict(table.item) for table in state.all()}
    cdclake.refused("tables", "set", "shop.*", "--partition-key", "id", "--unchecked")  # shop.store is loaded
    assert {table.path: dict(table.item) for table in state.all()} == before


def test_set_shows_before_and_after_and_the_effect(cdclake, store, state):
    reload = "LastFullLoadDate=1900-01-01 00:00:00"
    dry = ("tables", "set", "*", "--set", "LateWindowHours=5", "--set", "ActiveFlag=true", "--dry-run")
    before = {table.path: dict(table.item) for table in state.all()}
    product, store_ = cdclake.records(*dry)
    assert (product["table"], product["done"], product["differences"]) == (
        "shop.product",
        False,
        [
            {"setting": "LateWindowHours", "before": None, "after": "5", "effect": "from the first load on"},
            {"setting": "ActiveFlag", "before": "false", "after": "true", "effect": "runs work on the table"},
        ],
    )
    assert [one["effect"] for one in store_["differences"]] == ["from the next run on", "none: it was so"]
    assert "Dry run: nothing was changed." in cdclake.ok(*dry).stdout
    assert {table.path: dict(table.item) for table in state.all()} == before
    shown = cdclake.ok("tables", "set", "shop.store", "--set", "LateWindowHours=5", "--set", reload).stdout
    lines = [line.split() for line in shown.splitlines()]
    values = ["shop.store", "LateWindowHours", "72", "(default)", "5", "the", "next", "run", "loads"]
    assert values in [line[:9] for line in lines]
    assert state.get(STORE).item["LateWindowHours"] == "5"


def test_a_dry_run_of_set_registers_nothing(cdclake, state):
    cdclake.ok("tables", "set", "shop.voucher", "--register", "--set", "CdcPath=cdc", "--dry-run")
    assert state.get("cdclake-raw/shop/voucher/") is None


def test_a_wrong_setting_names_every_table_that_it_is_wrong_for(cdclake, store, state):
    state.set_attributes("cdclake-raw/shop/product/", {"LateWindowHours": "some"})
    error = cdclake.refused("tables", "set", "*", "--partition-key", "id", "--unchecked")
    assert "shop.product: ConfigurationError: LateWindowHours is 'some'" in error
    assert "shop.store: ConfigurationError: The lake table was created with PrimaryKey" in error
    assert "2 of 2 tables failed: shop.product, shop.store" in error
    assert "Nothing was changed" in error


def test_a_table_that_cannot_be_turned_on_stops_no_other(cdclake, store, state):
    state.set_attributes("cdclake-raw/shop/product/", {"LateWindowHours": "some"})
    state.set_attributes(STORE, {"ActiveFlag": "false"})
    result = cdclake("tables", "activate", "*")
    assert (result.exit_code, "1 of 2 tables failed: shop.product" in result.stderr) == (2, True)
    assert "shop.store" in result.stdout
    assert state.get(STORE).active


def test_show_hides_internal_state_unless_all_is_asked_for(cdclake, store, state):
    long = {"LastSeen": "x" * 300, "LastError": "Error: " + "y" * 150, "LastRunId": "jr_7"}
    state.record_run(STORE, long)
    shown = cdclake.ok("tables", "show", "shop.store").stdout
    assert "LastSeen" not in shown
    assert "FencingToken" not in shown
    assert "jr_7" in shown
    assert "Attributes of internal state not shown: " in shown
    everything = cdclake.ok("tables", "show", "shop.store", "--all").stdout
    assert everything.count("x") >= 300
    assert "not shown" not in everything
    (line,) = [line for line in shown.splitlines() if "LastRunId" in line]
    assert line.split() == ["LastRunId", "jr_7"]
    assert cdclake.record("tables", "show", "shop.store")["item"]["LastSeen"] == long["LastSeen"]


def test_similar_names_are_suggested(cdclake, state):
    assert "Did you mean shop.store?" in cdclake("tables", "show", "shop.stroe").stderr
    assert "Did you mean LateWindowHours?" in cdclake("tables", "set", "shop.store", "--set", "LateWindowHour=1").stderr
