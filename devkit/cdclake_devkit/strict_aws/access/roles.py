"""A caller with a role may do what the role's policies grant, and nothing else.

Roles come from moto's IAM, with their inline policies. Callers are known by the credentials that STS gave them when
they assumed the role. Who has others, such as the made-up ones of tests, may do everything, as an account's root may.
"""

from __future__ import annotations

import io
import json
import re
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote
from xml.sax.saxutils import escape

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.s3.responses import S3Response
from moto.sts.models import sts_backends

from cdclake_devkit.strict_aws.access.policies import Permission, allows
from cdclake_devkit.strict_aws.access.requests import Request, deleted_objects, permissions_of
from cdclake_devkit.strict_aws.calls import Answer, Call, call_of, error_response
from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule
from cdclake_devkit.strict_aws.s3_listing import hidden_objects
from cdclake_devkit.strict_aws.s3_requests import access_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_PARTITION = "aws"
_SCOPE = re.compile(r"Credential=(?P<key>[^/,]*)/\d*/(?P<region>[^/]+)/")
_OBJECT = re.compile(rb"<Object>.*?</Object>", re.DOTALL)
_END_OF_RESULT = "</DeleteResult>"


class Caller(NamedTuple):
    """Who assumed a role.

    Attributes:
        role: Name of the role.
        arn: ARN of the session.
        account: Account of the role.
        statements: What the role's inline policies state.
    """

    role: str
    arn: str
    account: str
    statements: tuple[Mapping[str, Any], ...]

    def may(self, permission: Permission) -> bool:
        """Whether the role grants a permission."""
        return any(allows(statement, permission) for statement in self.statements)

    def refusal(self, permission: Permission) -> str:
        """The message of the error.

        https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
        """
        action, resource, _ = permission
        on = "" if resource == "*" else f" on resource: {resource}"
        reason = f"because no identity-based policy allows the {action} action"
        return f"User: {self.arn} is not authorized to perform: {action}{on} {reason}"


def caller_of(access_key: str) -> Caller | None:
    """Whose access key it is; None if no role's."""
    session = sts_backends[DEFAULT_ACCOUNT_ID][_PARTITION].get_assumed_role_from_access_key(access_key)
    if session is None:
        return None
    try:
        role = iam_backends[session.account_id][_PARTITION].get_role_by_arn(session.role_arn)
        statements = tuple(statement for policy in role.policies.values() for statement in _statements(policy))
    except NotFoundException:  # it was deleted
        statements = ()
    return Caller(session.role_arn.rpartition("/")[2], session.arn, session.account_id, statements)


@lru_cache(maxsize=64)
def _statements(policy: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(policy)["Statement"])


def may_list(access_key: str, bucket: str) -> bool:
    """Whether a caller learns that an object is missing. A request for an object states no prefix of a list."""
    caller = caller_of(access_key)
    return caller is None or caller.may(Permission("s3:ListBucket", f"arn:aws:s3:::{bucket}"))


def _enforced(serve: Callable[..., Any]) -> Callable[..., Any]:
    """For the server's application."""

    def enforcing(app: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        found = requested(environ)
        denied = next((one for one in permissions_of(found[1]) if not found[0].may(one)), None) if found else None
        if found is None or denied is None:
            return serve(app, environ, start_response)  # type: ignore[no-any-return]  # moto's
        caller, request = found
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # clients send it all before they read
        return _refuse(request, environ["REQUEST_METHOD"], caller.refusal(denied), start_response)

    return enforcing


def requested(environ: WSGIEnvironment) -> tuple[Caller, Request] | None:
    """The request of a caller with a role, and the caller; None of others."""
    scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    caller = caller_of(scope["key"]) if scope else None
    if scope is None or caller is None:
        return None
    method, body = environ["REQUEST_METHOD"], b""
    if method == "POST":
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    path, query = environ["PATH_INFO"].encode("latin-1").decode(errors="replace"), environ.get("QUERY_STRING", "")
    call = call_of(method, f"http://{environ.get('HTTP_HOST', '')}{quote(path)}?{query}", headers, body)
    place = f"{scope['region']}:{caller.account}"
    return caller, Request(call, path, parse_qs(query, keep_blank_values=True), headers, body, place)


def _refuse(request: Request, method: str, message: str, start_response: StartResponse) -> list[bytes]:
    is_json = "x-amz-target" in request.headers
    answer = Answer(400, "AccessDeniedException") if is_json else Answer(403, "AccessDenied")
    status, headers, body = error_response(answer, request.call, method, message, is_json=is_json)
    start_response(f"{status} {HTTPStatus(status).phrase}", list(headers.items()))
    return [body]


def _one_by_one(delete: Callable[..., Any]) -> Callable[..., Any]:
    """For DeleteObjects, whose answer has an error for each object that the caller may not delete."""

    def delete_keys(response: S3Response, bucket_name: str, **options: Any) -> Any:  # noqa: ANN401  moto's
        caller = caller_of(access_key(response))
        if caller is None:
            return delete(response, bucket_name, **options)
        call = Call("s3", "DeleteObjects", "")
        objects = deleted_objects(Request(call, bucket_name, {}, {}, response.body, ""))
        errors, denied = "", 0
        for text, (key, permission) in zip(_OBJECT.findall(response.body), objects):
            if not caller.may(permission):
                denied += 1
                response.body = response.body.replace(text, b"", 1)
                message = escape(caller.refusal(permission))
                error = f"<Key>{escape(key)}</Key><Code>AccessDenied</Code><Message>{message}</Message>"
                errors += f"<Error>{error}</Error>"
        if denied == len(objects):
            return 200, {"content-type": "application/xml"}, f"<DeleteResult>{errors}{_END_OF_RESULT}"
        status, headers, body = delete(response, bucket_name, **options)
        return status, headers, body.replace(_END_OF_RESULT, f"{errors}{_END_OF_RESULT}")

    return delete_keys


ROLES = Rule(
    name="IAM: roles",
    aws="A caller with a role may do what the role's policies grant. All else is refused: S3 answers 403 AccessDenied, "
    "services with JSON 400 AccessDeniedException. DeleteObjects answers AccessDenied for each object. Versions of "
    "objects have actions of their own. Writes and deletes with the ETag of If-Match need s3:GetObject, too.",
    source="https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-delete-enforce.html, "
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html",
    measured=NOT_MEASURED,
    patches=(
        Patch(DomainDispatcherApplication, "__call__", _enforced),
        Patch(S3Response, "_bucket_response_delete_keys", _one_by_one),
    ),
)
HIDDEN_OBJECTS = hidden_objects(may_list)
