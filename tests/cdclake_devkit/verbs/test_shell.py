"""`cdclake local shell`, `put` and `query`; the page of the first own table is walked in tests/e2e."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from cdclake.errors import ConfigurationError
from cdclake_cli.signals import Interrupted, handling_stop_signals
from cdclake_devkit.local.environment import shell_environment
from cdclake_devkit.local.service import run_in_terminal
from cdclake_devkit.verbs.put import dms_names

NOW = datetime(2026, 3, 5, 10, 0, 0, 123_456, timezone.utc)
ENDPOINT = "http://127.0.0.1:5555"


def script(text: str) -> int:
    """Run a shell script as `cdclake local shell` does."""
    return run_in_terminal(["/bin/sh", "-c", text], os.environ)


def names(*files: str, changes: bool = False) -> list[str]:
    return dms_names(list(map(Path, files)), lambda: NOW, changes=changes)


def test_files_get_the_names_of_a_full_load_in_their_order() -> None:
    files = ("b/march.csv", "a.parquet", "b/april.csv.gz")
    assert names(*files) == ["LOAD00000001.csv", "LOAD00000002.parquet", "LOAD00000003.csv.gz"]


def test_change_files_are_named_after_the_time_each_later_than_the_one_before() -> None:
    assert names("one.csv", "two.csv", changes=True) == ["20260305-100000123.csv", "20260305-100000124.csv"]


@pytest.mark.parametrize("name", ["LOAD0000000A.parquet", "20240305-100000000.csv.gz"])
def test_a_file_that_dms_could_have_written_keeps_its_name(name: str) -> None:
    assert names(f"sample/{name}") == names(f"sample/{name}", changes=True) == [name]


@pytest.mark.parametrize(
    "files", [("LOAD00000002.csv", "b.csv"), ("a/20240305-100000000.csv", "b/20240305-100000000.csv")]
)
def test_no_file_overwrites_another(files: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match=f"{files[0]} and {files[1]} would both be"):
        names(*files)


def test_a_file_of_another_format_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no files such as rides\.xlsx") as refused:
        names("rides.xlsx")
    assert refused.value.remedy == "End the name with .parquet, .csv, .csv.gz"


def test_nothing_is_uploaded_to_an_account_or_read_from_one(cdclake, tmp_path: Path) -> None:
    file = tmp_path / "rides.csv"
    file.write_text("id\n1\n")
    for arguments in (("put", "my.rides", str(file)), ("query", "select 1")):
        for endpoint in ("", "https://s3.eu-central-1.amazonaws.com"):
            error = cdclake.refused("local", *arguments, AWS_ENDPOINT_URL=endpoint)
            assert "This works on a local AWS alone" in error
            assert "Run it in `cdclake local shell`" in error


def test_a_shell_reaches_the_local_aws_and_no_account() -> None:
    base = {
        "PATH": "/usr/bin",
        "HOME": "/home/a",
        "PYTHONPATH": "mine",
        "AWS_PROFILE": "production",
        "AWS_ENDPOINT_URL_S3": "https://elsewhere",
        "CDCLAKE_STACK": "CdclakePipeline",
        "no_proxy": "internal",
    }
    shell = shell_environment(base, ENDPOINT, "eu-central-1")
    assert shell["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert {name: shell[name] for name in ("HOME", "PYTHONPATH")} == {"HOME": "/home/a", "PYTHONPATH": "mine"}
    assert shell["AWS_ENDPOINT_URL"] == ENDPOINT
    assert shell["AWS_SHARED_CREDENTIALS_FILE"] == shell["AWS_CONFIG_FILE"] == os.devnull
    assert shell["no_proxy"] == shell["NO_PROXY"] == "internal,127.0.0.1"
    assert {"AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "CDCLAKE_STACK"}.isdisjoint(shell)


def test_the_exit_code_is_that_of_the_shell() -> None:
    assert script("exit 7") == 7
    assert script("kill -TERM $$") == 128 + signal.SIGTERM
    with pytest.raises(ConfigurationError, match="There is no program /no/such/shell"):
        run_in_terminal(["/no/such/shell"], os.environ)


def test_ctrl_c_in_the_shell_does_not_end_the_local_aws() -> None:
    with handling_stop_signals():
        assert script("kill -INT $PPID; exit 3") == 3


@pytest.mark.slow
def test_a_signal_that_ends_the_local_aws_ends_the_shell(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    with pytest.raises(Interrupted), handling_stop_signals():
        # The signal comes when this process waits for the shell.
        script(f"trap 'touch {ended}; exit' HUP; sleep 0.5; kill -TERM $PPID; for _ in $(seq 500); do sleep 0.01; done")
    assert ended.exists()
