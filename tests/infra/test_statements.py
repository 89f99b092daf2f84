"""Every policy statement of every role, in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.model.names import JOB_CONTROLLER, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL, JOB_PROCESS_TABLE
from tests.infra.stacks import ACCOUNT, CODE_BUCKET, CODE_KEY, KEY, REGION

if TYPE_CHECKING:
    from tests.infra.stacks import Stacks

LAKE = f"arn:aws:s3:::cdclake-lake-{ACCOUNT}-{REGION}"
STATE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/DMSCDC_Controller"
SHELL_LOGS, SPARK_LOGS = (
    f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws-glue/{kind}/*" for kind in ("python-jobs", "jobs")
)

LIST_RAW = {
    "Action": "s3:ListBucket",
    "Resource": "arn:aws:s3:::acme-raw",
    "Condition": {"StringLike": {"s3:prefix": "dms/erp/*"}},
}
READ_RAW = {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::acme-raw/dms/erp/*"}
LIST_LAKE = {"Action": ["s3:ListBucket", "s3:ListBucketVersions"], "Resource": LAKE}
WRITE_LAKE = {
    "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:AbortMultipartUpload"],
    "Resource": f"{LAKE}/tables/*",
}


def job_arn(name: str) -> str:
    return f"arn:aws:glue:{REGION}:{ACCOUNT}:job/{name}"


def put_metrics(namespace: str) -> dict[str, Any]:
    return {
        "Action": "cloudwatch:PutMetricData",
        "Resource": "*",
        "Condition": {"StringEquals": {"cloudwatch:namespace": namespace}},
    }


def write_logs(groups: str) -> dict[str, Any]:
    return {"Action": ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"], "Resource": groups}


def use_state(*actions: str) -> dict[str, Any]:
    return {"Action": [f"dynamodb:{action}" for action in actions], "Resource": STATE}


USE_KEY = {
    "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
    "Resource": KEY,
    "Condition": {"StringEquals": {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}},
}
EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
JOIN_NETWORK = {
    "ReadConnection": {
        "Action": "glue:GetConnection",
        "Resource": [f"arn:aws:glue:{REGION}:{ACCOUNT}:{name}" for name in ("catalog", "connection/cdclake")],
    },
    "LookAtNetwork": {
        "Action": [
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeRouteTables",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcAttribute",
            "ec2:DescribeVpcEndpoints",
        ],
        "Resource": "*",
    },
    "LeaveSubnet": {
        "Action": "ec2:DeleteNetworkInterface",
        "Resource": f"{EC2}:network-interface/*",
        "Condition": {"ArnEquals": {"ec2:Subnet": f"{EC2}:subnet/subnet-0123456789abcdef0"}},
    },
    "MarkInterfaces": {
        "Action": ["ec2:CreateTags", "ec2:DeleteTags"],
        "Resource": f"{EC2}:network-interface/*",
        "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["aws-glue-service-resource"]}},
    },
}
SPARK_JOBS = [job_arn(JOB_LOAD_INITIAL), job_arn(JOB_LOAD_INCREMENTAL)]
FOLLOW_JOBS = {"Action": "glue:GetJobRun", "Resource": SPARK_JOBS}
READ_TASKS = {"Action": "dms:DescribeTableStatistics", "Resource": f"arn:aws:dms:{REGION}:{ACCOUNT}:task:*"}
KEEP_CATALOG = {
    "Action": [
        "glue:GetDatabase",
        "glue:GetTable",
        "glue:CreateTable",
        "glue:UpdateTable",
        "glue:DeleteTable",
        "glue:GetPartitions",
        "glue:BatchCreatePartition",
        "glue:BatchUpdatePartition",
        "glue:BatchDeletePartition",
    ],
    "Resource": [
        f"arn:aws:glue:{REGION}:{ACCOUNT}:{name}" for name in ("catalog", "database/acme_lake", "table/acme_lake/*")
    ],
}
ON_TABLES: dict[str, dict[str, Any]] = {
    "ListRaw": LIST_RAW,
    "ListLake": LIST_LAKE,
    "WriteLake": WRITE_LAKE,
    "UseKey": USE_KEY,
    "UseState": use_state("GetItem", "UpdateItem"),
    "ReadTasks": READ_TASKS,
    "KeepCatalog": KEEP_CATALOG,
}
"""What a run does with tables under their leases."""
READ_HASH_SECRET = {
    "Action": "secretsmanager:GetSecretValue",
    "Resource": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:acme/hashes-??????",
}
SPARK = {
    **ON_TABLES,
    "PutMetrics": put_metrics("cdclake"),
    "ReadHashSecret": READ_HASH_SECRET,
    "WriteLogs": write_logs(SPARK_LOGS),
    "PutGlueMetrics": put_metrics("Glue"),
    "ReadRaw": READ_RAW,
    "StartJobs": {"Action": "glue:StartJobRun", "Resource": job_arn(JOB_PROCESS_TABLE)},
}
EXPECTED = {
    JOB_CONTROLLER: {
        "WriteLogs": write_logs(SHELL_LOGS),
        "PutMetrics": put_metrics("cdclake"),
        "ListRaw": LIST_RAW,
        "UseState": use_state("GetItem", "PutItem", "UpdateItem", "Scan"),
        "StartJobs": {"Action": "glue:StartJobRun", "Resource": job_arn(JOB_PROCESS_TABLE)},
        "ReadTasks": READ_TASKS,
    },
    JOB_PROCESS_TABLE: {
        **ON_TABLES,
        "PutMetrics": put_metrics("cdclake"),
        "WriteLogs": write_logs(SHELL_LOGS),
        "StartJobs": {"Action": "glue:StartJobRun", "Resource": [*SPARK_JOBS, job_arn(JOB_PROCESS_TABLE)]},
        "FollowJobs": FOLLOW_JOBS,
    },
    JOB_LOAD_INITIAL: SPARK,
    JOB_LOAD_INCREMENTAL: SPARK,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_job_has_exactly_the_expected_permissions(tailored: Stacks, name: str):
    job = tailored.one("AWS::Glue::Job", Name=name)
    granted = tailored.role_of(job)
    arguments = job["Properties"]["DefaultArguments"]
    packed = [arguments[key] for key in ("--extra-py-files", "--additional-python-modules") if key in arguments]
    code = [job["Properties"]["Command"]["ScriptLocation"], *",".join(packed).split(",")]
    read = granted.pop("ReadCode")
    assert read == {"Action": "s3:GetObject", "Resource": [url.replace("s3://", "arn:aws:s3:::") for url in code]}
    assert all(url.startswith(f"s3://{CODE_BUCKET}/") for url in code)
    assert granted.pop("DecryptCode") == {**USE_KEY, "Action": "kms:Decrypt", "Resource": CODE_KEY}
    join = granted.pop("JoinSubnet")
    (group,) = tailored.all("AWS::EC2::SecurityGroup")
    assert join == {
        "Action": "ec2:CreateNetworkInterface",
        "Resource": [
            f"{EC2}:subnet/subnet-0123456789abcdef0",
            f"{EC2}:security-group/<{group}.GroupId>",
            f"{EC2}:network-interface/*",
        ],
    }
    assert granted == {**EXPECTED[name], **JOIN_NETWORK}


@pytest.mark.parametrize("name", EXPECTED)
def test_jobs_have_no_permissions_for_an_unset_key_secret_or_network(default: Stacks, name: str):
    granted = default.role_of(default.one("AWS::Glue::Job", Name=name))
    assert set(granted) == {"ReadCode", *EXPECTED[name]} - {"UseKey", "ReadHashSecret"}


def test_without_a_prefix_permissions_cover_the_whole_bucket(default: Stacks):
    granted = default.role_of(default.one("AWS::Glue::Job", Name=JOB_LOAD_INCREMENTAL))
    raw = f"arn:aws:s3:::cdclake-raw-{ACCOUNT}-{REGION}"
    assert granted["ListRaw"] == {"Action": "s3:ListBucket", "Resource": raw}
    assert granted["ReadRaw"]["Resource"] == f"{raw}/*"
    assert granted["WriteLake"]["Resource"] == f"{LAKE}/*"


def test_no_job_may_write_raw_files(tailored: Stacks, default: Stacks):
    for deployed in (default, tailored):
        for name in EXPECTED:
            for statement in deployed.role_of(deployed.one("AWS::Glue::Job", Name=name)).values():
                resources = statement["Resource"]
                if any("raw" in arn for arn in ([resources] if isinstance(resources, str) else resources)):
                    assert statement["Action"] in ("s3:ListBucket", "s3:GetObject")


ON_RAW_FILE, SMALL_CHANGES = "cdclake-on-raw-file", "cdclake-small-changes"


def of_function(deployed: Stacks, name: str) -> dict[str, dict[str, Any]]:
    """The statements of a function's role, without those about its own log and its own queue."""
    function = deployed.one("AWS::Lambda::Function", FunctionName=name)
    granted = deployed.role_of(function)
    log = granted.pop("WriteLogs")
    assert log == {"Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": log["Resource"]}
    own = deployed.all("AWS::Logs::LogGroup")[log["Resource"].strip("<>").removesuffix(".Arn")]["Properties"]
    assert own["LogGroupName"] == f"/aws/lambda/{name}"
    queue = function["Properties"]["DeadLetterConfig"]["TargetArn"]
    assert granted.pop("KeepUndelivered") == {"Action": "sqs:SendMessage", "Resource": queue}
    return granted


def test_the_function_of_raw_files_may_read_and_register_tables_start_one_job_and_follow_spark_runs(default: Stacks):
    assert of_function(default, ON_RAW_FILE) == {
        "UseState": use_state("GetItem", "PutItem", "UpdateItem", "Scan"),
        "StartJobs": {"Action": "glue:StartJobRun", "Resource": job_arn(JOB_PROCESS_TABLE)},
        "FollowJobs": FOLLOW_JOBS,
    }


def test_with_the_function_of_small_changes_it_may_call_that_and_start_no_job(tailored: Stacks):
    assert of_function(tailored, ON_RAW_FILE) == {
        "UseState": use_state("GetItem", "PutItem", "UpdateItem", "Scan"),
        "CallSmallChanges": {
            "Action": "lambda:InvokeFunction",
            "Resource": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{SMALL_CHANGES}",
        },
        "FollowJobs": FOLLOW_JOBS,
    }


def test_the_function_of_small_changes_may_do_what_process_table_does_and_read_raw_files(tailored: Stacks):
    granted = of_function(tailored, SMALL_CHANGES)
    network = {name: granted.pop(name) for name in ("LookAtNetwork", "JoinSubnet", "LeaveSubnet")}
    by_log = {"WriteLogs", "PutMetrics"}  # Lambda's own permissions cover what the function logs
    process_table = {sid: one for sid, one in EXPECTED[JOB_PROCESS_TABLE].items() if sid not in by_log}
    assert granted == {**process_table, "ReadRaw": READ_RAW, "ReadHashSecret": READ_HASH_SECRET}
    assert network == {
        "LookAtNetwork": {"Action": ["ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"], "Resource": "*"},
        "JoinSubnet": tailored.role_of(tailored.one("AWS::Glue::Job", Name=JOB_PROCESS_TABLE))["JoinSubnet"],
        "LeaveSubnet": {
            "Action": [
                "ec2:DeleteNetworkInterface",
                "ec2:AssignPrivateIpAddresses",
                "ec2:UnassignPrivateIpAddresses",
            ],
            "Resource": f"{EC2}:*/*",
        },
    }


def test_no_role_may_stop_runs(default: Stacks, tailored: Stacks, sample: Stacks):
    for deployed in (default, tailored, sample):
        assert "BatchStopJobRun" not in json.dumps(deployed.all("AWS::IAM::Role"))


def test_the_notification_function_may_only_set_notifications(tailored: Stacks):
    granted = tailored.role_of(tailored.one("AWS::Lambda::Function", Handler="index.handler"))
    names = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/lambda/CdclakePipeline-BucketNotif*"
    assert granted == {
        "WriteLogs": write_logs(names),
        "SetNotifications": {
            "Action": ["s3:GetBucketNotification", "s3:PutBucketNotification"],
            "Resource": "arn:aws:s3:::acme-raw",
        },
    }


def test_there_are_no_other_roles_and_policies(default: Stacks, tailored: Stacks):
    for deployed, others in ((default, 2), (tailored, 3)):
        assert len(deployed.all("AWS::IAM::Role")) == len(EXPECTED) + others
        assert deployed.all("AWS::IAM::Policy") == deployed.all("AWS::IAM::ManagedPolicy") == {}


@pytest.mark.deployment
def test_all_roles_get_the_cdks_permissions_boundary(everything: tuple[Stacks, Stacks]):
    roles = everything[1].all("AWS::IAM::Role").values()
    boundary = f"arn:aws:iam::{ACCOUNT}:policy/my-boundary"
    assert {role["Properties"].get("PermissionsBoundary") for role in roles} == {boundary}


@pytest.mark.parametrize(("service", "roles"), [("glue.amazonaws.com", 4), ("lambda.amazonaws.com", 2)])
def test_a_role_is_for_one_service_of_this_account(default: Stacks, service: str, roles: int):
    trusted = [role["Properties"]["AssumeRolePolicyDocument"] for role in default.all("AWS::IAM::Role").values()]
    principal = {
        "Action": "sts:AssumeRole",
        "Condition": {"StringEqualsIfExists": {"aws:SourceAccount": ACCOUNT}},
        "Effect": "Allow",
        "Principal": {"Service": service},
    }
    assert sum(document["Statement"] == [principal] for document in trusted) == roles
