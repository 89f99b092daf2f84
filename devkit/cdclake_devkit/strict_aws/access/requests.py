"""The permissions that a request to AWS needs.

An operation that this module does not know needs a permission that no policy of cdclake grants, so no role may call it.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Callable, NamedTuple
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree as ET

from moto.secretsmanager.models import secretsmanager_backends

from cdclake_devkit.strict_aws.access.policies import Permission

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake_devkit.strict_aws.calls import Call

_VERSION_MARK = "?versionId="
_OF_BUCKET = {
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "GetBucketVersioning": "GetBucketVersioning",
    "GetBucketLocation": "GetBucketLocation",
}
_OF_OBJECT = {
    "GetObject": "GetObject",
    "HeadObject": "GetObject",
    "DeleteObject": "DeleteObject",
    "PutObject": "PutObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "AbortMultipartUpload": "AbortMultipartUpload",
    "ListParts": "ListMultipartUploadParts",
}
"""Actions by operation. https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html"""
_OF_FUNCTION = {"Invoke": "InvokeFunction"}
"""Actions that have another name than their operation."""
_OF_VERSIONS = frozenset({"GetObject", "DeleteObject"})
"""Actions that have another name for a version, such as GetObjectVersion."""
_NAMES_A_PART = frozenset(
    {"versionId", "uploadId", "partNumber", "uploads", "versions", "delete", "versioning", "location"}
)
_LISTS = frozenset(
    {"list-type", "prefix", "delimiter", "encoding-type", "start-after", "continuation-token", "max-keys"}
)
_KNOWN_PARAMETERS = _NAMES_A_PART | _LISTS | {"x-id", "marker", "key-marker", "version-id-marker", "fetch-owner"}
"""Others may ask for something else that has an action of its own."""


class Request(NamedTuple):
    """A request of a caller.

    Attributes:
        call: Its operation.
        path: URL path, decoded; of S3, it starts with the bucket.
        query: Parameters by name.
        headers: With names in lower case.
        body: Empty for an upload.
        place: Region and account, as in ARNs: `eu-central-1:123456789012`.
    """

    call: Call
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    place: str

    def arn(self, resource: str) -> str:
        """ARN of a resource of the service that is called."""
        return f"arn:aws:{self.call.service}:{self.place}:{resource}"


def permissions_of(request: Request) -> list[Permission]:
    """The permissions that a request needs, all of them."""
    try:
        return list(_SERVICES.get(request.call.service, _unknown)(request))
    except (KeyError, ValueError, ET.ParseError):  # a body that names no resource
        return list(_unknown(request))


def deleted_objects(request: Request) -> list[tuple[str, Permission]]:
    """Key and permission of each object of a DeleteObjects request, which S3 answers one by one, in order."""
    bucket, found = request.path.strip("/"), []
    for element in ET.fromstring(request.body):
        if element.tag.endswith("Object"):
            texts = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
            key, action = texts["Key"], _action("DeleteObject", "VersionId" in texts)
            found.append((key, Permission(action, f"arn:aws:s3:::{bucket}/{key}")))
    return found


def _unknown(request: Request) -> Iterator[Permission]:
    yield Permission(f"{request.call.service}:{request.call.operation}", "*")


def _action(name: str, is_version: bool) -> str:
    return f"s3:{name}Version" if is_version and name in _OF_VERSIONS else f"s3:{name}"


def _s3(request: Request) -> Iterator[Permission]:
    operation, query = request.call.operation, request.query
    bucket, _, key = request.path.lstrip("/").partition("/")
    if query.keys() - _KNOWN_PARAMETERS:
        yield from _unknown(request)
    elif operation in _OF_BUCKET and not key:
        prefix = frozenset({("s3:prefix", query["prefix"][0])}) if "prefix" in query else frozenset()
        yield Permission(f"s3:{_OF_BUCKET[operation]}", f"arn:aws:s3:::{bucket}", prefix)
    elif operation in _OF_OBJECT and key:
        arn = f"arn:aws:s3:::{bucket}/{key}"
        yield Permission(_action(_OF_OBJECT[operation], "versionId" in query), arn)
        source, mark, _ = request.headers.get("x-amz-copy-source", "").partition(_VERSION_MARK)
        if source:
            yield Permission(_action("GetObject", bool(mark)), f"arn:aws:s3:::{unquote(source).lstrip('/')}")
        # A condition on the content tells something about it.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-delete-enforce.html
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        if operation not in ("GetObject", "HeadObject") and request.headers.get("if-match", "*") != "*":
            yield Permission("s3:GetObject", arn)
    elif operation != "DeleteObjects":  # each of its objects needs a permission, see `deleted_objects`
        yield from _unknown(request)


def _dynamodb(request: Request) -> Iterator[Permission]:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/using-identity-based-policies.html."""
    table = json.loads(request.body)["TableName"]
    yield Permission(f"dynamodb:{request.call.operation}", request.arn(f"table/{table}"))


def _glue(request: Request) -> Iterator[Permission]:
    """A call on a job; or on a table of the catalog, which also needs permission on its catalog and database.

    https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html
    """
    body: dict[str, Any] = json.loads(request.body)
    if "JobName" in body:
        names = [f"job/{body['JobName']}"]
    elif "DatabaseName" in body:
        database = body["DatabaseName"]
        table = body.get("TableName") or body.get("Name") or body.get("TableInput", {}).get("Name") or "*"
        names = ["catalog", f"database/{database}", f"table/{database}/{table}"]
    else:
        names = ["catalog", f"database/{body['Name']}"]
    for name in names:
        yield Permission(f"glue:{request.call.operation}", request.arn(name))


def _cloudwatch(request: Request) -> Iterator[Permission]:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/iam-cw-condition-keys-namespace.html."""
    content = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
    is_json = "x-amz-target" in request.headers
    namespace = json.loads(content)["Namespace"] if is_json else parse_qs(content.decode())["Namespace"][0]
    yield Permission(f"cloudwatch:{request.call.operation}", "*", frozenset({("cloudwatch:namespace", namespace)}))


def _dms(request: Request) -> Iterator[Permission]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsdatabasemigrationservice.html."""
    yield Permission(f"dms:{request.call.operation}", json.loads(request.body).get("ReplicationTaskArn", "*"))


def _lambda(request: Request) -> Iterator[Permission]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_awslambda.html."""
    operation = request.call.operation
    if operation.startswith("/"):  # it is not known
        yield from _unknown(request)
        return
    name = request.path.split("/")[-2].rpartition(":")[2]  # a name or an ARN
    yield Permission(f"lambda:{_OF_FUNCTION.get(operation, operation)}", request.arn(f"function:{name}"))


def _secrets_manager(request: Request) -> Iterator[Permission]:
    """A call on a secret, whose ARN ends with characters that AWS chose; of one that does not exist, without them.

    https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples.html
    """
    name = json.loads(request.body)["SecretId"]
    region, account = request.place.split(":")
    secret = secretsmanager_backends[account][region].secrets.get(name)
    arn = name if name.startswith("arn:") else request.arn(f"secret:{name}")
    yield Permission(f"secretsmanager:{request.call.operation}", secret.arn if secret else arn)


def _sts(request: Request) -> Iterator[Permission]:
    """https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html: it needs no permission."""
    if request.call.operation != "GetCallerIdentity":
        yield from _unknown(request)


_SERVICES: dict[str, Callable[[Request], Iterator[Permission]]] = {
    "cloudwatch": _cloudwatch,
    "dms": _dms,
    "dynamodb": _dynamodb,
    "glue": _glue,
    "lambda": _lambda,
    "s3": _s3,
    "secretsmanager": _secrets_manager,
    "sts": _sts,
}
