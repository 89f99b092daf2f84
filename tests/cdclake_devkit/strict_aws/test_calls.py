"""The operation of a request is the one that the client called, in this process and at a server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from moto.core.botocore_stubber import BotocoreStubber

from cdclake_devkit.local import EmbeddedAws
from cdclake_devkit.strict_aws.calls import gated_app, gated_process
from tests.cdclake_devkit.strict_aws.conftest import BUCKET, client_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from wsgiref.types import WSGIApplication

    from cdclake_devkit.strict_aws.calls import Answer, Call

SOMEBODY = {"aws_access_key_id": "somebody", "aws_secret_access_key": "fake"}
KEY = {"Bucket": BUCKET, "Key": "a/b c"}
PARTS = {**KEY, "UploadId": "u"}
SOURCE = {"CopySource": {"Bucket": BUCKET, "Key": "x"}}
S3: Mapping[str, Mapping[str, Any]] = {
    "list_buckets": {},
    "create_bucket": {"Bucket": BUCKET},
    "head_bucket": {"Bucket": BUCKET},
    "delete_bucket": {"Bucket": BUCKET},
    "get_bucket_location": {"Bucket": BUCKET},
    "get_bucket_versioning": {"Bucket": BUCKET},
    "put_bucket_versioning": {"Bucket": BUCKET, "VersioningConfiguration": {"Status": "Enabled"}},
    "list_objects": {"Bucket": BUCKET},
    "list_objects_v2": {"Bucket": BUCKET, "Prefix": "a/"},
    "list_object_versions": {"Bucket": BUCKET},
    "list_multipart_uploads": {"Bucket": BUCKET},
    "delete_objects": {"Bucket": BUCKET, "Delete": {"Objects": [{"Key": "a"}]}},
    "get_object": KEY,
    "head_object": KEY,
    "put_object": KEY,
    "copy_object": {**KEY, **SOURCE},
    "delete_object": KEY,
    "create_multipart_upload": KEY,
    "upload_part": {**PARTS, "PartNumber": 1},
    "upload_part_copy": {**PARTS, "PartNumber": 1, **SOURCE},
    "list_parts": PARTS,
    "complete_multipart_upload": {**PARTS, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "e"}]}},
    "abort_multipart_upload": PARTS,
}
OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    ("dynamodb", "get_item", {"TableName": "t", "Key": {"path": {"S": "p"}}}),
    ("glue", "get_table", {"DatabaseName": "d", "Name": "t"}),
    ("cloudwatch", "put_metric_data", {"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": 1}]}),
]
CALLS = [("s3", operation, parameters) for operation, parameters in S3.items()] + OTHERS


class Seen(list["Call"]):
    def __call__(self, call: Call) -> Answer | None:
        self.append(call)
        return None


def assert_names(client: Any, operation: str, parameters: Mapping[str, Any], seen: Seen, service: str) -> None:
    with suppress(ClientError, BotoCoreError):  # only the name of the operation matters here
        getattr(client, operation)(**parameters)
    expected = client.meta.method_to_api_mapping[operation]
    assert [(call.service, call.operation, call.access_key) for call in seen] == [(service, expected, "somebody")]


def test_of_this_process(aws: None, monkeypatch: pytest.MonkeyPatch):
    seen = Seen()
    monkeypatch.setattr(BotocoreStubber, "process_request", gated_process(BotocoreStubber.process_request, seen))
    for service, operation, parameters in CALLS:
        seen.clear()
        assert_names(client_of(service, **SOMEBODY), operation, parameters, seen, service)


@pytest.mark.aws
def test_of_a_server():
    seen = Seen()

    def watched(app: WSGIApplication) -> WSGIApplication:
        return gated_app(app, seen)

    with EmbeddedAws(middleware=watched) as embedded:
        for service, operation, parameters in CALLS:
            if service != "cloudwatch":  # names the operation in the body
                seen.clear()
                client = client_of(service, embedded.endpoint, **SOMEBODY)
                assert_names(client, operation, parameters, seen, service)
