"""S3 does not tell a caller who may not list a bucket which objects are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.s3.exceptions import MissingKey
from moto.s3.responses import S3Response

from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule
from cdclake_devkit.strict_aws.s3_requests import access_key, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

_READS = frozenset({"GET", "HEAD"})
_NOT_FOUND = 404


def hidden_objects(may_list: Callable[[str, str], bool]) -> Rule:
    """The rule for callers who may read, but not list.

    Args:
        may_list: Whether the owner of an access key may list a bucket, by access key and bucket.
    """

    def hiding(respond: Callable[..., Any]) -> Callable[..., Any]:
        def key_response(response: S3Response, *args: Any) -> Any:  # noqa: ANN401  moto's
            if response.method not in _READS or may_list(access_key(response), response.bucket_name):
                return respond(response, *args)
            try:
                answer = respond(response, *args)
            except MissingKey:
                answer = (_NOT_FOUND,)
            if isinstance(answer, tuple) and answer[0] == _NOT_FOUND:
                return refusal(response, 403, "AccessDenied", "Access Denied")
            return answer

        return key_response

    return Rule(
        name="S3: missing objects without s3:ListBucket",
        aws="GetObject and HeadObject of a missing object answer 403 AccessDenied instead of 404 NoSuchKey if the "
        "caller may not list the bucket.",
        source="https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, "
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html",
        measured=NOT_MEASURED,
        patches=(Patch(S3Response, "_key_response", hiding),),
    )
