"""`cdclake diff` prints the rows that differ between two changes, as a table or as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
import pytest

from cdclake.lake.read.diff_report import DiffReport
from cdclake_cli.aws.environment import aws_environment, environment
from cdclake_cli.printing.output import OutputFormat
from cdclake_cli.target import Target
from cdclake_cli.verbs.diff import show
from tests.cdclake.lake.over_time import TABLE, TableOverTime

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = "from cdclake_cli.main import main; main()"
REPORT = DiffReport(
    inserted=1_200,
    updated=1,
    deleted=0,
    columns=("change_type", "id", "ratio", "flag", "name"),
    rows=(
        ("update_before", 10_000, 0.125, True, None),
        ("update_after", 10_000, 0.1234567, False, ""),
        ("insert", 10_001, "nan", None, "null"),
    ),
)


@pytest.fixture
def table(tmp_path: Path) -> TableOverTime:
    columns = pa.schema([("id", pa.int64()), ("price", pa.decimal128(10, 2))])
    table = TableOverTime(tmp_path, columns, {"PrimaryKey": "id"})
    table.load([{"id": 1, "price": None}, {"id": 2, "price": None}])
    table.apply(("D", {"id": 1, "price": None}), ("I", {"id": 3, "price": 7}))
    return table


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in its own process, because it starts a JVM."""
    return subprocess.run([sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.spark
def test_the_command_prints_one_json_object_and_no_spark_messages(table: TableOverTime) -> None:
    arguments = ("diff", TABLE, "1", "2024-03-05T12:00:00Z", "--lake-bucket", table.location)
    result = run(*arguments, "--output", "json", "--limit", "1")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "table": TABLE,
        "from": 1,
        "to": 2,
        "counts": {"inserted": 1, "updated": 0, "deleted": 1},
        "rows": [{"change_type": "delete", "id": 1, "price": None}],
    }


@pytest.mark.thorough
@pytest.mark.spark
def test_an_error_in_a_spark_task_is_shown_as_the_error_itself(table: TableOverTime) -> None:
    for path in (table.lake / table.layout.control_prefix / "retired").rglob("*.parquet"):
        path.unlink()
    result = run("diff", TABLE, "1", "2", "--count", "--lake-bucket", table.location)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: A retired data file of shop.orders no longer exists (file")
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize("change", ["0", "3", "x"])
def test_an_unknown_change_is_refused_before_spark_starts(cdclake: Any, table: TableOverTime, change: str) -> None:
    for pair in ((change, "1"), ("1", change)):
        error = cdclake.refused("diff", TABLE, *pair, "--lake-bucket", table.location)
        assert f"no change {change}" in error or f"'{change}' is not a time" in error


def test_the_table_shows_exact_values(capsys: pytest.CaptureFixture[str]) -> None:
    show(TABLE, (3, 5), REPORT, OutputFormat.TABLE, with_rows=True)
    printed = capsys.readouterr().out
    assert "from change 3 to change 5: 1,200 inserted, 1 updated, 0 deleted" in printed
    lines = [line.split() for line in printed.splitlines()]
    assert ["update_before", "10000", "0.125", "true", "null"] in lines
    assert ["update_after", "10000", "0.1234567", "false"] in lines
    assert ["insert", "10001", "nan", "null", "null"] in lines
    assert "Rows not shown: 1,199" in printed


def test_counts_only_omits_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(TABLE, (3, 5), REPORT, OutputFormat.JSON, with_rows=False)
    assert json.loads(capsys.readouterr().out) == {"table": TABLE, "from": 3, "to": 5, "counts": REPORT.counts}
    show(TABLE, (3, 5), REPORT, OutputFormat.TABLE, with_rows=False)
    assert "update_before" not in capsys.readouterr().out


def test_the_environment_follows_the_options_and_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://other:1")
    with aws_environment(Target(endpoint_url="http://localhost:1", region="eu-west-3")):
        assert variables("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3") == ["http://localhost:1"] * 2
        assert variables("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID") == ["eu-west-3", "mine"]
    assert variables("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3") == ["http://other:1", None]


def test_a_profile_overrides_keys_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("[profile theirs]\nregion = eu-west-1\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with aws_environment(Target(profile="theirs")):
        credentials = boto3.Session().get_credentials()
        assert credentials is not None
        assert credentials.access_key == "a"
    assert variables("AWS_ACCESS_KEY_ID", "AWS_PROFILE") == ["mine", None]


def test_without_credentials_the_embedded_aws_gets_placeholders(
    monkeypatch: pytest.MonkeyPatch, cdclake: object
) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    nothing = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    with environment(nothing):
        with aws_environment(Target(endpoint_url="http://127.0.0.1:1")):
            assert variables("AWS_ACCESS_KEY_ID") == ["local"]
        with aws_environment(Target(endpoint_url="http://elsewhere:1")):
            assert variables("AWS_ACCESS_KEY_ID") == [None]


def variables(*names: str) -> list[str | None]:
    return [os.environ.get(name) for name in names]
