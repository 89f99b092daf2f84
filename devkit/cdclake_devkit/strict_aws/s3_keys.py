"""S3 refuses long keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.s3.responses import S3Response

from cdclake_devkit.strict_aws.rule import Patch, Rule
from cdclake_devkit.strict_aws.s3_requests import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_BYTES = 1024


def _checked(respond: Callable[..., Any]) -> Callable[..., Any]:
    def key_response(response: S3Response, *args: Any) -> Any:  # noqa: ANN401  moto's
        if len(response.parse_key_name().encode()) > _MAX_BYTES:
            return refusal(response, 400, "KeyTooLongError", "Your key is too long")
        return respond(response, *args)

    return key_response


LONG_KEYS = Rule(
    name="S3: long keys",
    aws="Refuses a key of more than 1,024 bytes in UTF-8 with KeyTooLongError, status 400, whatever the request. What "
    "DeleteObjects answers for such a key is not documented, so there moto decides.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
    measured="https://github.com/basho/riak_cs/pull/1233",
    patches=(Patch(S3Response, "_key_response", _checked),),
)
