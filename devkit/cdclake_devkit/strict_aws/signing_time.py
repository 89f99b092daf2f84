"""S3 and DynamoDB refuse requests of a caller whose clock is off."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from moto.dynamodb.responses import DynamoHandler
from moto.s3.responses import S3Response

from cdclake_devkit.strict_aws.calls import Answer, Call, error_response
from cdclake_devkit.strict_aws.rule import Patch, Rule
from cdclake_devkit.strict_aws.s3_requests import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from moto.core.responses import BaseResponse

_LONGEST = timedelta(minutes=15)
_FORMAT = "%Y%m%dT%H%M%SZ"


def _skew(response: BaseResponse) -> timedelta:
    """How far the time at which a request was signed is ahead; zero for an unsigned one."""
    signed = response.headers.get("X-Amz-Date")
    now = datetime.now(timezone.utc)
    return datetime.strptime(signed, _FORMAT).replace(tzinfo=timezone.utc) - now if signed else timedelta()


def _by_s3(respond: Callable[..., Any]) -> Callable[..., Any]:
    def checked(response: S3Response, *args: Any) -> Any:  # noqa: ANN401  moto's
        if abs(_skew(response)) > _LONGEST:
            message = "The difference between the request time and the current time is too large."
            return refusal(response, 403, "RequestTimeTooSkewed", message)
        return respond(response, *args)

    return checked


def _by_dynamodb(respond: Callable[..., Any]) -> Callable[..., Any]:
    def call_action(response: DynamoHandler) -> Any:  # noqa: ANN401  moto's
        skew = _skew(response)
        if abs(skew) <= _LONGEST:
            return respond(response)
        message = "Signature not yet current" if skew > timedelta() else "Signature expired"
        return error_response(Answer(400, "InvalidSignatureException"), Call("dynamodb", "", ""), "POST", message)

    return call_action


SIGNING_TIME = Rule(
    name="S3, DynamoDB: clocks that are off",
    aws="A request that was signed more than 15 minutes before or after the service's time is refused: S3 answers 403 "
    "RequestTimeTooSkewed, DynamoDB 400 InvalidSignatureException (Signature expired, or not yet current). Some "
    "services allow five minutes only.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html, "
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html",
    measured="https://github.com/aws/aws-sdk-js/issues/2565, https://github.com/aws/aws-sdk-js/issues/254",
    patches=(
        Patch(S3Response, "_key_response", _by_s3),
        Patch(S3Response, "_bucket_response", _by_s3),
        Patch(DynamoHandler, "call_action", _by_dynamodb),
    ),
)
