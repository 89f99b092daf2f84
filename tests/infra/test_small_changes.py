"""The function of small changes: its code, its limits, and where it runs."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.control.jobs.arguments import to_argv
from cdclake.control.run.run_arguments import PASSED_ON, RunArguments
from cdclake.model.names import JOB_PROCESS_TABLE, Argument
from tests.infra.stacks import CODE_BUCKET
from tests.infra.test_jobs import argv

if TYPE_CHECKING:
    from tests.infra.stacks import Stacks

pytestmark = pytest.mark.deployment

MOST_BYTES = 250 << 20
"""Of an unpacked archive: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html."""

OF_ARROW = re.compile(rb"\0(lib(?:arrow|parquet)\w*\.so[.\d]*)\0")
"""The name of one of Arrow's libraries in a table of an ELF file: its own, or that of a library that it loads."""


def function(deployed: Stacks, name: str = "cdclake-small-changes") -> dict[str, Any]:
    properties: dict[str, Any] = deployed.one("AWS::Lambda::Function", FunctionName=name)["Properties"]
    return properties


def test_without_the_setting_there_is_no_such_function(default: Stacks):
    names = {found["Properties"].get("FunctionName") for found in default.all("AWS::Lambda::Function").values()}
    assert names == {"cdclake-on-raw-file", None}  # None: the CDK's, which sets the notification
    assert default.all("AWS::Lambda::EventInvokeConfig") == {}
    assert "SMALL_CHANGES_FUNCTION" not in function(default, "cdclake-on-raw-file")["Environment"]["Variables"]


def test_it_runs_on_arm_with_python_3_13_for_at_most_five_minutes(tailored: Stacks):
    properties = function(tailored)
    assert (properties["Architectures"], properties["Runtime"]) == (["arm64"], "python3.13")
    assert (properties["Handler"], properties["Timeout"]) == ("handler.handler", 300)
    assert properties["MemorySize"] == 1769
    assert properties["Code"]["S3Bucket"] == CODE_BUCKET


def test_its_archive_fits_into_lambda_and_is_for_its_machine(tailored: Stacks):
    with zipfile.ZipFile(tailored.uploaded(function(tailored)["Code"]["S3Key"])) as archive:
        files = archive.infolist()
    assert sum(file.file_size for file in files) < MOST_BYTES
    compiled = {name for file in files if ".cpython-" in (name := file.filename)}
    assert {"numpy", "pyarrow", "pyiceberg"} < {name.partition("/")[0] for name in compiled}
    assert all(name.endswith(".cpython-313-aarch64-linux-gnu.so") for name in compiled)
    assert not [file.filename for file in files if file.filename.endswith(".pyc") or "pyspark" in file.filename]


def test_its_archive_has_every_library_of_arrow_that_another_one_loads(tailored: Stacks):
    with zipfile.ZipFile(tailored.uploaded(function(tailored)["Code"]["S3Key"])) as archive:
        compiled = [name for name in archive.namelist() if ".so" in name]
        loaded = {match.decode() for name in compiled for match in OF_ARROW.findall(archive.read(name))}
    assert "libarrow_python.so.2600" in loaded
    assert loaded <= {name.rpartition("/")[2] for name in compiled}


def test_concurrency_is_reserved_unless_the_setting_is_0(tailored: Stacks, everything: tuple[Stacks, Stacks]):
    assert function(tailored)["ReservedConcurrentExecutions"] == 3
    assert "ReservedConcurrentExecutions" not in function(everything[0])


def test_a_call_that_fails_is_repeated_twice_within_an_hour_and_then_kept(tailored: Stacks):
    (name,) = [
        key for key, one in tailored.all("AWS::Lambda::Function").items() if one["Properties"] == function(tailored)
    ]
    assert tailored.one("AWS::Lambda::EventInvokeConfig")["Properties"] == {
        "FunctionName": f"<{name}>",
        "Qualifier": "$LATEST",
        "MaximumRetryAttempts": 2,
        "MaximumEventAgeInSeconds": 3600,
    }
    target = function(tailored)["DeadLetterConfig"]["TargetArn"]
    queue = tailored.all("AWS::SQS::Queue")[target.strip("<>").removesuffix(".Arn")]["Properties"]
    assert queue == {"MessageRetentionPeriod": 14 * 24 * 3600, "SqsManagedSseEnabled": True}
    assert target != function(tailored, "cdclake-on-raw-file")["DeadLetterConfig"]["TargetArn"]


def test_its_log_is_kept_for_a_month(tailored: Stacks):
    log = tailored.all("AWS::Logs::LogGroup")[function(tailored)["LoggingConfig"]["LogGroup"].strip("<>")]
    assert log["Properties"] == {"LogGroupName": "/aws/lambda/cdclake-small-changes", "RetentionInDays": 30}


def test_nobody_but_the_roles_of_the_account_may_call_it(tailored: Stacks):
    called = {found["Properties"]["FunctionName"] for found in tailored.all("AWS::Lambda::Permission").values()}
    (name,) = [
        key for key, one in tailored.all("AWS::Lambda::Function").items() if one["Properties"] == function(tailored)
    ]
    assert not [one for one in called if name in one]


def test_it_gets_what_process_table_gets(tailored: Stacks):
    variables = function(tailored)["Environment"]["Variables"]
    assert variables.keys() <= {name.upper() for name in PASSED_ON}
    paths = {Argument.PATHS: '["a-bucket/shop/orders/"]'}
    own = RunArguments.parse(to_argv({name.lower(): value for name, value in variables.items()} | paths))
    assert own == RunArguments.parse(argv(tailored, JOB_PROCESS_TABLE, **paths))


def test_in_a_vpc_it_runs_where_the_jobs_do(tailored: Stacks):
    ((group, _),) = tailored.all("AWS::EC2::SecurityGroup").items()
    assert function(tailored)["VpcConfig"] == {
        "SecurityGroupIds": [f"<{group}.GroupId>"],
        "SubnetIds": ["subnet-0123456789abcdef0"],
    }
    assert "VpcConfig" not in function(tailored, "cdclake-on-raw-file")
