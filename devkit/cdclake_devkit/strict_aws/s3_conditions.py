"""S3 writes an object under a condition, or answers which condition failed."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Any

from moto.s3.models import S3Backend
from moto.s3.responses import S3Response

from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule
from cdclake_devkit.strict_aws.s3_requests import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

_ANY = "*"


class _Deletes:
    """The deletes of objects, and when the request of each thread arrived, on one clock that counts them."""

    def __init__(self) -> None:
        self._clock = count(1)
        self._now = 0
        self._last: dict[tuple[str, str], int] = {}
        self._arrival = threading.local()

    def note_arrival(self) -> None:
        self._arrival.time = self._now

    def note_delete(self, bucket: str, key: str) -> None:
        self._now = next(self._clock)
        self._last[bucket, key] = self._now

    def since_arrival(self, bucket: str, key: str) -> bool:
        """Whether the object was deleted since the request of this thread arrived."""
        return self._last.get((bucket, key), 0) > getattr(self._arrival, "time", self._now)


_deletes = _Deletes()
note_arrival = _deletes.note_arrival
"""Called by what serves requests one at a time, when it receives one: deletes before its turn conflict with it."""


def _failure(response: S3Response, key: str) -> tuple[int, dict[str, str], str] | None:
    """The answer to a write whose condition does not hold; None if it holds, or there is none."""
    if_match, if_none_match = response.headers.get("If-Match"), response.headers.get("If-None-Match")
    if if_none_match and if_none_match != _ANY:
        message = "A header you provided implies functionality that is not implemented"
        return refusal(response, 501, "NotImplemented", message)
    existing = response.backend.get_object(response.bucket_name, key) if if_match or if_none_match else None
    if if_match and existing is None:
        return refusal(response, 404, "NoSuchKey", "The specified key does not exist.")
    if if_none_match and existing is None and _deletes.since_arrival(response.bucket_name, key):
        message = "The conditional request cannot succeed due to a conflicting operation against this resource."
        return refusal(response, 409, "ConditionalRequestConflict", message)
    is_same = if_match is None or if_match == _ANY or (existing and existing.etag.strip('"') == if_match.strip('"'))
    if not is_same or (if_none_match and existing is not None):
        message = "At least one of the pre-conditions you specified did not hold"
        return refusal(response, 412, "PreconditionFailed", message)
    return None


def _if_condition_holds(write: Callable[..., Any]) -> Callable[..., Any]:
    """For PutObject, CopyObject and DeleteObject."""

    def conditional(response: S3Response) -> Any:  # noqa: ANN401  moto's
        failure = _failure(response, response.parse_key_name())
        response.request.environ.pop("HTTP_IF_MATCH", None)  # moto compares it too, and does not know the asterisk
        return failure or write(response)

    return conditional


def _if_completion_may_replace(post: Callable[..., Any]) -> Callable[..., Any]:
    """For CompleteMultipartUpload. It may be repeated, so the object that it created before is no obstacle."""

    def conditional(
        response: S3Response, request: object, body: bytes, bucket: str, query: dict[str, list[str]], key: str
    ) -> Any:  # noqa: ANN401  moto's
        failure = _failure(response, key) if query.get("uploadId") else None
        if failure:
            existing = response.backend.get_object(bucket, key)
            is_repeated = existing and existing.multipart and existing.multipart.id == query["uploadId"][0]
            if not is_repeated:
                return failure
        return post(response, request, body, bucket, query, key)

    return conditional


def _noted(delete: Callable[..., Any]) -> Callable[..., Any]:
    def delete_object(backend: S3Backend, bucket_name: str, key_name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        deleted = delete(backend, bucket_name, key_name, *args, **kwargs)
        _deletes.note_delete(bucket_name, key_name)
        return deleted

    return delete_object


CONDITIONAL_WRITES = Rule(
    name="S3: conditional writes",
    aws="PutObject, CopyObject and CompleteMultipartUpload (If-Match, If-None-Match: *) and DeleteObject (If-Match) "
    "answer 412 PreconditionFailed if the condition does not hold, and 404 NoSuchKey to If-Match without a current "
    "object. "
    "If-None-Match answers 409 ConditionalRequestConflict if a delete of the object succeeded while the request was "
    "under way. What it answers to other values of If-None-Match is not documented; here 501 NotImplemented.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html",
    measured=NOT_MEASURED,
    patches=(
        Patch(S3Response, "put_object", _if_condition_holds),
        Patch(S3Response, "copy_object", _if_condition_holds),
        Patch(S3Response, "delete_object", _if_condition_holds),
        Patch(S3Response, "_key_response_post", _if_completion_may_replace),
        Patch(S3Backend, "delete_object", _noted),
    ),
)
