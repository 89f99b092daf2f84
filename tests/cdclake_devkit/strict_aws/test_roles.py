"""Who has a role may do what its policies grant, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

import boto3
import pytest
from moto.moto_api._internal.models import moto_api_backend

from cdclake.adapters.filesystem import lake_filesystem, open_stream
from cdclake.errors import ConfigurationError
from cdclake_devkit.local.deploy import create_role
from cdclake_devkit.local.web import http_server
from cdclake_devkit.strict_aws import RULES, strict
from cdclake_devkit.strict_aws.access.policies import Permission, allows
from cdclake_devkit.strict_aws.access.requests import Request, permissions_of
from cdclake_devkit.strict_aws.access.roles import HIDDEN_OBJECTS, ROLES, caller_of
from cdclake_devkit.strict_aws.calls import call_of
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import client_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLACE = "eu-central-1:123456789012"
LIST = {"Action": "s3:ListBucket", "Resource": "arn:aws:s3:::lake", "Condition": {"StringLike": {"s3:prefix": "dms/*"}}}
WRITE = {"Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": ["arn:aws:s3:::lake/shop/*"]}


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("s3:PutObject", "arn:aws:s3:::lake/shop/orders/1.parquet", True),
        ("s3:PutObject", "arn:aws:s3:::lake/shops/1.parquet", False),
        ("s3:PutObject", "arn:aws:s3:::lakes/shop/1.parquet", False),
        ("s3:GetObject", "arn:aws:s3:::lake/shop/orders/1.parquet", False),
        ("s3:PutObjectAcl", "arn:aws:s3:::lake/shop/orders/1.parquet", False),
    ],
)
def test_action_and_resource_must_both_match_in_full(action: str, resource: str, allowed: bool) -> None:
    assert allows(WRITE, Permission(action, resource)) is allowed


@pytest.mark.parametrize(
    ("context", "allowed"), [({("s3:prefix", "dms/shop/")}, True), ({("s3:prefix", "other/")}, False), (set(), False)]
)
def test_a_condition_must_hold_and_its_key_must_exist(context: set[tuple[str, str]], allowed: bool) -> None:
    assert allows(LIST, Permission("s3:ListBucket", "arn:aws:s3:::lake", frozenset(context))) is allowed


def test_an_unknown_condition_grants_nothing() -> None:
    statement = {**WRITE, "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}
    permission = Permission("s3:PutObject", "arn:aws:s3:::lake/shop/1", frozenset({("aws:SourceIp", "10.0.0.1")}))
    assert not allows(statement, permission)


def needed(
    service: str, method: str, path: str, query: str = "", *, body: bytes = b"", **headers: str
) -> set[tuple[str, str]]:
    """Actions and resources that a request needs."""
    scope = f"Credential=key/20240305/eu-central-1/{service}/aws4_request"
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    call = call_of(method, f"http://127.0.0.1{quote(path)}?{query}", {**given, "authorization": scope}, body)
    request = Request(call, path, parse_qs(query, keep_blank_values=True), given, body, PLACE)
    return {(permission.action, permission.resource) for permission in permissions_of(request)}


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "expected"),
    [
        ("GET", "/lake/a", "", {}, {("s3:GetObject", "lake/a")}),
        ("HEAD", "/lake/a b?ü", "", {}, {("s3:GetObject", "lake/a b?ü")}),
        ("GET", "/lake/a", "versionId=7", {}, {("s3:GetObjectVersion", "lake/a")}),
        ("DELETE", "/lake/a", "versionId=7", {}, {("s3:DeleteObjectVersion", "lake/a")}),
        ("DELETE", "/lake/a", "uploadId=7", {}, {("s3:AbortMultipartUpload", "lake/a")}),
        ("POST", "/lake/a", "uploads", {}, {("s3:PutObject", "lake/a")}),
        ("PUT", "/lake/a", "", {"if_none_match": "*"}, {("s3:PutObject", "lake/a")}),
        ("PUT", "/lake/a", "", {"if_match": '"1"'}, {("s3:PutObject", "lake/a"), ("s3:GetObject", "lake/a")}),
        ("DELETE", "/lake/a", "", {"if_match": '"1"'}, {("s3:DeleteObject", "lake/a"), ("s3:GetObject", "lake/a")}),
        (
            "PUT",
            "/lake/c",
            "uploadId=1&partNumber=2",
            {"x_amz_copy_source": "lake/a%20b?versionId=7"},
            {("s3:GetObjectVersion", "lake/a b"), ("s3:PutObject", "lake/c")},
        ),
        ("GET", "/lake", "versions&prefix=a", {}, {("s3:ListBucketVersions", "lake")}),
        ("HEAD", "/lake", "", {}, {("s3:ListBucket", "lake")}),
    ],
)
def test_a_request_to_s3_needs(
    method: str, path: str, query: str, headers: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    assert needed("s3", method, path, query, **headers) == {
        (action, f"arn:aws:s3:::{name}") for action, name in expected
    }


def test_a_request_to_glue_also_needs_the_catalog_and_the_database() -> None:
    body = json.dumps({"DatabaseName": "lake", "TableInput": {"Name": "orders"}}).encode()
    assert needed("glue", "POST", "/", body=body, x_amz_target="AWSGlue.CreateTable") == {
        ("glue:CreateTable", f"arn:aws:glue:{PLACE}:{name}")
        for name in ("catalog", "database/lake", "table/lake/orders")
    }


@pytest.mark.parametrize("name", ["f", "arn:aws:lambda:eu-central-1:123456789012:function:f"])
@pytest.mark.parametrize(
    ("method", "end", "action"),
    [("POST", "invocations", "InvokeFunction"), ("GET", "configuration", "GetFunctionConfiguration")],
)
def test_a_request_to_lambda_needs_its_function(name: str, method: str, end: str, action: str) -> None:
    path = f"/2015-03-31/functions/{name}/{end}"
    assert needed("lambda", method, path) == {(f"lambda:{action}", f"arn:aws:lambda:{PLACE}:function:f")}


@pytest.mark.parametrize(
    ("service", "method", "path", "query", "target"),
    [
        ("s3", "GET", "/lake/a", "tagging", ""),
        ("s3", "GET", "/", "", ""),
        ("s3", "PUT", "/lake/a", "acl", ""),
        ("s3", "DELETE", "/lake", "", ""),
        ("dynamodb", "POST", "/", "", "DynamoDB_20120810.ListTables"),
        ("glue", "POST", "/", "", "AWSGlue.GetJobs"),
        ("lambda", "PUT", "/2015-03-31/functions/f/configuration", "", ""),
    ],
)
def test_what_is_not_known_needs_a_permission_on_everything(
    service: str, method: str, path: str, query: str, target: str
) -> None:
    headers = {"x_amz_target": target} if target else {}
    ((_, resource),) = needed(service, method, path, query, body=b"{}", **headers)
    assert resource == "*"


class Account:
    """A strict AWS on a socket, with a raw bucket that has an object `dms/1`."""

    def __init__(self, endpoint: str) -> None:
        self.region = "eu-central-1"
        self.endpoint = endpoint
        s3 = self.client("s3")
        s3.create_bucket(Bucket="raw", CreateBucketConfiguration={"LocationConstraint": self.region})
        s3.put_object(Bucket="raw", Key="dms/1", Body=b"1")

    def client(self, service: str, **keys: str) -> Any:
        given = keys or {"aws_access_key_id": "root", "aws_secret_access_key": "root"}
        return client_of(service, self.endpoint, **given)

    def credentials_of(self, *statements: Mapping[str, Any], name: str = "reader") -> dict[str, str]:
        """Assume a new role with these statements."""
        arn = create_role(self.client("iam"), name, [{"Effect": "Allow", **statement} for statement in statements])
        session = self.client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
        return {
            "aws_access_key_id": session["AccessKeyId"],
            "aws_secret_access_key": session["SecretAccessKey"],
            "aws_session_token": session["SessionToken"],
        }


def served() -> Iterator[Account]:
    moto_api_backend.reset()
    with http_server(0) as endpoint:
        yield Account(endpoint)
    moto_api_backend.reset()


@pytest.fixture
def account() -> Iterator[Account]:
    yield from served()


READ = {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::raw/dms/*"}
LIST_RAW = {"Action": "s3:ListBucket", "Resource": "arn:aws:s3:::raw"}
PREFIX = {**LIST_RAW, "Condition": {"StringLike": {"s3:prefix": "dms/*"}}}


@pytest.mark.aws
def test_a_role_may_do_what_it_grants_and_nothing_else(account: Account) -> None:
    keys = account.credentials_of(READ)
    s3, glue, dynamodb = (account.client(service, **keys) for service in ("s3", "glue", "dynamodb"))
    assert answer(s3, "get_object", Bucket="raw", Key="dms/1") == (200, "")
    assert answer(s3, "put_object", Bucket="raw", Key="dms/1", Body=b"2") == (403, "AccessDenied")
    assert answer(s3, "get_object", Bucket="raw", Key="other/1") == (403, "AccessDenied")
    assert answer(s3, "list_objects_v2", Bucket="raw", Prefix="dms/") == (403, "AccessDenied")
    assert answer(s3, "head_object", Bucket="raw", Key="other/1") == (403, "403")
    assert answer(glue, "start_job_run", JobName="job") == (400, "AccessDeniedException")
    assert answer(dynamodb, "scan", TableName="table") == (400, "AccessDeniedException")
    metric = {"MetricName": "m", "Value": 1.0}
    cloudwatch = account.client("cloudwatch", **keys)
    assert answer(cloudwatch, "put_metric_data", Namespace="n", MetricData=[metric])[1].startswith("AccessDenied")
    assert answer(account.client("sts", **keys), "get_caller_identity") == (200, "")
    assert answer(account.client("s3"), "get_object", Bucket="raw", Key="dms/1") == (200, "")


@pytest.mark.aws
def test_the_error_names_the_session_the_action_and_the_resource(account: Account) -> None:
    s3 = account.client("s3", **account.credentials_of(READ))
    with pytest.raises(s3.exceptions.ClientError) as caught:
        s3.put_object(Bucket="raw", Key="dms/1", Body=b"2")
    assert caught.value.response["Error"]["Message"] == (
        "User: arn:aws:sts::123456789012:assumed-role/reader/test is not authorized to perform: s3:PutObject on "
        "resource: arn:aws:s3:::raw/dms/1 because no identity-based policy allows the s3:PutObject action"
    )


@pytest.mark.aws
@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ([], (403, "AccessDenied")),
        ([PREFIX], (403, "AccessDenied")),
        ([LIST_RAW], (404, "NoSuchKey")),
    ],
    ids=["may not list", "may list a prefix", "may list"],
)
def test_only_who_may_list_the_bucket_learns_that_an_object_is_missing(
    account: Account, listing: list[Mapping[str, Any]], expected: tuple[int, str]
) -> None:
    s3 = account.client("s3", **account.credentials_of(READ, *listing))
    assert answer(s3, "get_object", Bucket="raw", Key="dms/2") == expected
    assert answer(s3, "head_object", Bucket="raw", Key="dms/2")[0] == expected[0]


@pytest.mark.aws
def test_a_batch_delete_deletes_what_the_role_may_delete(account: Account) -> None:
    administrator = account.client("s3")
    for key in ("dms/2", "other/<&>"):
        administrator.put_object(Bucket="raw", Key=key, Body=b"1")
    s3 = account.client("s3", **account.credentials_of({"Action": "s3:DeleteObject", "Resource": READ["Resource"]}))
    objects = [{"Key": "dms/1"}, {"Key": "other/<&>"}, {"Key": "dms/2", "VersionId": "null"}]
    done = s3.delete_objects(Bucket="raw", Delete={"Objects": objects})
    assert [one["Key"] for one in done["Deleted"]] == ["dms/1"]
    assert [(one["Key"], one["Code"]) for one in done["Errors"]] == [
        ("other/<&>", "AccessDenied"),
        ("dms/2", "AccessDenied"),
    ]
    done = s3.delete_objects(Bucket="raw", Delete={"Objects": objects[1:]})
    assert (len(done["Errors"]), "Deleted" in done) == (2, False)
    listed = administrator.list_objects_v2(Bucket="raw")["Contents"]
    assert [one["Key"] for one in listed] == ["dms/2", "other/<&>"]


@pytest.mark.aws
@pytest.mark.parametrize(
    ("listing", "key", "error"),
    [
        ([PREFIX], "dms/2", FileNotFoundError),
        ([LIST_RAW], "dms/2", FileNotFoundError),
        ([], "dms/2", ConfigurationError),
        ([PREFIX], "other/1", ConfigurationError),
        ([LIST_RAW], "other/1", ConfigurationError),
    ],
)
def test_a_task_distinguishes_a_file_that_vanished_from_one_that_it_may_not_read(
    account: Account,
    monkeypatch: pytest.MonkeyPatch,
    listing: list[Mapping[str, Any]],
    key: str,
    error: type[Exception],
) -> None:
    account.client("s3").put_object(Bucket="raw", Key="other/1", Body=b"1")
    keys = account.credentials_of(READ, *listing)
    for name, value in {**keys, "aws_default_region": account.region, "aws_endpoint_url": account.endpoint}.items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    filesystem = lake_filesystem("raw").open()
    with open_stream(filesystem, "dms/1") as stream:
        assert stream.read(10) == b"1"
    with pytest.raises(error), open_stream(filesystem, key):
        pass


@pytest.mark.aws
def test_a_deleted_role_grants_nothing(account: Account) -> None:
    keys = account.credentials_of(READ)
    iam = account.client("iam")
    iam.delete_role_policy(RoleName="reader", PolicyName="Grants")
    iam.delete_role(RoleName="reader")
    assert caller_of(keys["aws_access_key_id"]) is not None
    assert answer(account.client("s3", **keys), "get_object", Bucket="raw", Key="dms/1") == (403, "AccessDenied")


@pytest.mark.aws
def test_moto_alone_lets_everybody_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = tuple(rule for rule in RULES if rule not in (ROLES, HIDDEN_OBJECTS))
    monkeypatch.setattr("cdclake_devkit.local.web.strict", lambda: strict(kind))
    for account in served():
        s3 = account.client("s3", **account.credentials_of(READ))
        assert answer(s3, "put_object", Bucket="raw", Key="other/1", Body=b"2") == (200, "")
        assert answer(s3, "get_object", Bucket="raw", Key="dms/2") == (404, "NoSuchKey")
