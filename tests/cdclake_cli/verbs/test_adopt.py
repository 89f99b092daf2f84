"""`cdclake adopt` shows the files, asks, and adopts. Uses an embedded AWS, because Arrow reads the files itself."""

import shlex

import boto3
import pyarrow as pa
import pytest

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.s3 import S3Store
from cdclake.commit.log import ChangeLog
from cdclake.model.change.record import ChangeKind
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake_cli.target import Target
from tests import ROOT
from tests.builders import LakeBuilder, parquet_bytes
from tests.cdclake.lake.over_time import versioned_bucket
from tests.cdclake_cli.test_docs import commands

pytestmark = pytest.mark.aws

ORDERS = TableName("shop", "orders")
APPLIED = "20240305-090000000.parquet"
PART = "shop/orders/part-00000-9f1c.c000.snappy.parquet"


def parquet(*ids):
    return parquet_bytes(pa.table({"id": pa.array(ids, pa.int64()), "Op": ["I"] * len(ids)}), store_schema=False)


class Lake:
    """A table that the walkthrough's jobs wrote: its files and its item."""

    def __init__(self, raw_bucket, lake_bucket):
        self.target = Target(raw_bucket=raw_bucket, lake_bucket=lake_bucket)
        self.s3, dynamodb = boto3.client("s3"), boto3.client("dynamodb")
        create_state_table(dynamodb, STATE_TABLE)
        self.states = DynamoState(dynamodb, STATE_TABLE)
        registered = self.target.installation.new_state(ORDERS)
        self.path = registered.path
        self.states.register(
            registered.with_attributes(
                **{
                    Attribute.PRIMARY_KEY: "id",
                    Attribute.ACTIVE_FLAG: "true",
                    Attribute.LAST_FULL_LOAD_DATE: "2024-03-01 12:00:00",
                    Attribute.LAST_INCREMENTAL_FILE: registered.path + APPLIED,
                }
            )
        )
        self.put(PART, parquet(1, 2, 3))
        self.put("shop/orders/_SUCCESS", b"")
        for name in (APPLIED, "20240305-100000000.parquet"):
            self.s3.put_object(Bucket=raw_bucket, Key=f"shop/orders/{name}", Body=parquet(1))

    @property
    def log(self):
        return ChangeLog(S3Store(self.s3, self.target.lake_bucket), self.target.installation.layout(ORDERS))

    def put(self, key, data):
        self.s3.put_object(Bucket=self.target.lake_bucket, Key=key, Body=data)

    @property
    def state(self):
        state = self.states.get(self.path)
        assert state
        return state

    def item(self):
        return dict(self.state.item)


@pytest.fixture
def lake(cdclake, monkeypatch):
    with versioned_bucket(monkeypatch, "cdclake-lake", "cdclake-raw"):
        yield Lake("cdclake-raw", "cdclake-lake")


def test_a_dry_run_shows_everything_and_changes_nothing(cdclake, lake):
    before = lake.item()
    result = cdclake.ok("adopt", "shop.orders", "--dry-run")
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert [PART.rpartition("/")[2], "3", str(len(parquet(1, 2, 3)))] in lines
    assert ["id", "bigint", "key"] in lines
    assert ["Rows", "3"] in lines
    assert ["Last", "change", "file", APPLIED] in lines
    assert ["Change", "files", "due", "1"] in lines
    assert "Dry run: nothing was changed" in result.stdout
    record = cdclake.record("adopt", "shop.orders", "--dry-run")
    assert (record["table"], record["done"], record["rows"], record["watermark"]) == ("shop.orders", False, 3, APPLIED)
    assert (lake.item(), lake.log.head()) == (before, 0)


def test_it_asks_and_then_adopts(cdclake, lake):
    assert (cdclake("adopt", "shop.orders", "-o", "json").exit_code, lake.log.head()) == (2, 0)
    assert (cdclake.at_terminal("adopt", "shop.orders", answer="n").exit_code, lake.log.head()) == (1, 0)
    result = cdclake.at_terminal("adopt", "shop.orders", answer="y")
    assert result.exit_code == 0, result.output
    assert "Done, as change 1: shop.orders is a lake table. Rows: 3." in result.stdout
    record = lake.log.record(1)
    assert (record.kind, record.books.restored, record.run_id[:7]) == (ChangeKind.ADOPTION, 3, "by-hand")
    assert lake.item()[Attribute.LAST_CHANGE_ID] == "1"
    assert Attribute.LEASE_HOLDER not in lake.item()
    assert "already a lake table, at change 1" in cdclake.refused("adopt", "shop.orders", "--yes")


def test_duplicate_keys_are_refused_with_their_count_and_files(cdclake, lake):
    lake.put(PART.replace("00000", "00001"), parquet(3, 4))
    result = cdclake("adopt", "shop.orders", "--yes")
    assert result.exit_code == 5
    assert "1 rows in the lake folder repeat the key (id)" in result.stderr
    assert "part-00000-9f1c" in result.stderr
    assert "part-00001-9f1c" in result.stderr
    assert lake.log.head() == 0


def test_a_table_that_is_turned_off_stays_off(cdclake, lake):
    cdclake("tables", "pause", "shop.orders")
    assert "cdclake tables activate shop.orders" in cdclake("adopt", "shop.orders", "--yes").stdout
    assert lake.item()[Attribute.ACTIVE_FLAG] == "false"


def test_a_file_that_is_not_parquet_is_named(cdclake, lake):
    lake.put("shop/orders/notes.txt", b"hello")
    result = cdclake("adopt", "shop.orders", "--dry-run")
    assert result.exit_code == 5
    assert "cannot be read as Parquet" in result.stderr
    assert "notes.txt" in result.stderr


def test_the_documents_session_goes_as_it_says(cdclake, monkeypatch):
    monkeypatch.setenv("CDCLAKE_RAW_BUCKET", "acme-dms-files")
    monkeypatch.setenv("CDCLAKE_LAKE_BUCKET", "acme-lake")
    shown = {}
    with versioned_bucket(monkeypatch, "acme-lake", "acme-dms-files"):
        lake = Lake("acme-dms-files", "acme-lake")
        for arguments in commands("cdclake", [ROOT / "docs" / "adopt.md"]):
            result = cdclake.at_terminal(*arguments, answer="y")
            assert result.exit_code == 0, (shlex.join(arguments), result.output)
            shown[shlex.join(arguments)] = result.stdout
        assert lake.state.active
        assert lake.log.head() == 1
    assert "adoption" in shown["changes shop.orders"]
    assert f"1 change file after {APPLIED}" in shown["plan shop.orders"]


def test_going_back_to_the_old_jobs_restores_their_files_and_watermark(cdclake, lake):
    record = cdclake.record("adopt", "shop.orders", "--yes")
    assert (record["done"], record["change"]) == (True, 1)
    table = LakeBuilder(lake.log)
    adopted, before = table.visible(), lake.item()
    (adopted_file,) = [path for path in adopted if path.endswith(".parquet")]
    table.change(rows=5, retired=(adopted_file,))
    assert adopted_file not in table.visible()
    way_back = [
        arguments
        for arguments in commands("cdclake", [ROOT / "docs" / "migrate-from-walkthrough.md"])
        if "shop.orders" in arguments and arguments[0] != "changes"
    ]
    assert [arguments[0] for arguments in way_back] == ["tables", "rollback"]
    for arguments in way_back:
        result = cdclake.at_terminal(*arguments, answer="y")
        assert result.exit_code == 0, (shlex.join(arguments), result.output)
    assert table.visible() == adopted
    after = lake.item()
    kept_for_the_old_jobs = (Attribute.LAST_INCREMENTAL_FILE, Attribute.LAST_FULL_LOAD_DATE, Attribute.PRIMARY_KEY)
    assert {name: after[name] for name in kept_for_the_old_jobs} == {
        name: before[name] for name in kept_for_the_old_jobs
    }
    assert after[Attribute.ACTIVE_FLAG] == "false"


def test_a_pattern_adopts_each_table_and_an_error_stops_no_other(cdclake, lake):
    lake.states.register(lake.target.installation.new_state(TableName("shop", "empty")))
    result = cdclake("adopt", "shop.*", "--yes")
    assert result.exit_code == 2, result.output
    assert "1 of 2 tables failed: shop.empty" in result.stderr
    assert lake.log.head() == 1
    (summary,) = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["shop.orders"]]
    assert summary[1:] == ["1", "3"]
