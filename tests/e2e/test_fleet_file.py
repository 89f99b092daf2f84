"""One short file configures 1,000 tables within seconds: for each, one file is opened and one item written.

`make test-fleet` prints counts and seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable

import boto3
import pytest
from typer.testing import CliRunner

from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.state import TableState
from cdclake_cli.main import assembled
from cdclake_devkit.local import EmbeddedAws
from tests.moto_buckets import s3_backend

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SCHEMAS, TABLES_OF_A_SCHEMA, COLUMNS = 10, 100, b"Op,id,region,amount,created\n"
TABLES = SCHEMAS * TABLES_OF_A_SCHEMA
MOST_SECONDS = 30
"""For each command."""
LISTINGS = 3
"""A page with a file of each of 1,000 tables, one of the table that its end cuts, and one of transaction files."""
FILE = """\
defaults:
  PrimaryKey: id
  AddColumnName: true
  CsvDelimiter: ","
  LateWindowHours: 48
  RetentionDays: 14
  KeepEveryState: 2
  FullLoadQuietMinutes: 5
  MaxDelayMinutes: 30
  SchemaPolicy: warn
  UniqueChecks: immediate
  CdcPath: ${STAGE}/cdc
tables:
  s0.*:
    PartitionKey: region
    ActiveFlag: true
  s1.*:
    PrimaryKey: [id, region]
  s2.*:
    History: true
    HistoryTimeColumn: created
  s3.*:
    DeleteMode: soft
  s4.*:
    Readers: both
  s5.*:
  s[6-9].*:
    OrderColumn: created
  "*.t99":
    CleanUp: manual
  s0.t7:
    MaxQuarantinedRows: 10
    TargetFileBytes: 1000000
  s9.t7:
    ActiveFlag: true
"""


class Requests:
    """Counts the requests to DynamoDB by operation, and those to S3 by method."""

    def __init__(self) -> None:
        self.count = Counter[str]()

    def watch(self, application: WSGIApplication) -> WSGIApplication:
        def watched(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            service, _, operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")
            self.count[operation if service.startswith("DynamoDB") else environ["REQUEST_METHOD"]] += 1
            return application(environ, start)

        return watched


def register(aws: EmbeddedAws) -> None:
    """Register the tables, each with a raw file."""
    create_state_table(aws.client("dynamodb"), STATE_TABLE)
    names = [(f"s{schema}/", f"t{table}/") for schema in range(SCHEMAS) for table in range(TABLES_OF_A_SCHEMA)]
    with boto3.resource("dynamodb").Table(STATE_TABLE).batch_writer() as batch:
        for schema, table in names:
            batch.put_item(Item=dict(TableState.new("cdclake-raw", schema, table).item))
    for bucket in ("cdclake-raw", "cdclake-lake"):
        aws.client("s3").create_bucket(Bucket=bucket)
    for schema, table in names:
        s3_backend().put_object("cdclake-raw", f"{schema}{table}20240305-100000000.csv", COLUMNS)


@pytest.mark.aws
@pytest.mark.thorough
def test_a_short_file_configures_1000_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    requests, file = Requests(), tmp_path / "cdclake.yml"
    with EmbeddedAws(region="us-east-1", middleware=requests.watch) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        register(aws)

        def cdclake(text: str, *arguments: str) -> Counter[str]:
            """Run the command with the file, print how long it takes, and return its requests."""
            if text:
                file.write_text(text, encoding="utf-8")
            requests.count.clear()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            done = CliRunner().invoke(assembled(), arguments, env={"STAGE": "test"})
            seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
            assert done.exit_code == 0, done.output
            with capsys.disabled():
                took = f"{seconds:.1f} s, {cpu_seconds:.1f} s of CPU for command and AWS"
                print(f"\ncdclake {' '.join(arguments)}: {took}; {dict(requests.count)}", end="")
            assert cpu_seconds < MOST_SECONDS  # of an idle machine, which answers one request at a time
            return Counter(requests.count)

        path = str(file)
        assert len(FILE.splitlines()) <= 40
        assert cdclake(FILE, "apply", path, "--yes") == {"Scan": 2, "GET": TABLES + LISTINGS, "UpdateItem": TABLES}
        assert "UpdateItem" not in cdclake(FILE, "apply", path, "--check")
        changed = FILE.replace("TimeColumn: created", "TimeColumn: amount").replace("Rows: 10", "Rows: 20")
        made = cdclake(changed, "apply", path, "--yes")
        assert made == {"Scan": 2, "GET": TABLES_OF_A_SCHEMA + LISTINGS - 1, "UpdateItem": TABLES_OF_A_SCHEMA + 1}
        by_hand = cdclake("", "tables", "set", "s2.*", "--set", "HistoryTimeColumn=created")
        assert by_hand == {**made, "Scan": 1, "GetItem": TABLES_OF_A_SCHEMA, "UpdateItem": TABLES_OF_A_SCHEMA}
        cdclake(changed, "apply", path, "--yes")
        cdclake("", "export-config", "--force", "--to", path)
        assert "UpdateItem" not in cdclake("", "apply", path, "--check")
        assert len(file.read_text(encoding="utf-8").splitlines()) < 4 * TABLES
        states = DynamoState(aws.client("dynamodb"), STATE_TABLE)
        tables = {state.name: state.item for state in states.all()}
        assert sum(item["ActiveFlag"] == "true" for item in tables.values()) == TABLES_OF_A_SCHEMA + 1
