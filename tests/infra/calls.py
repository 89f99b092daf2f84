"""Records the permissions that callers with a role need on an embedded AWS."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from cdclake_devkit.strict_aws.access.policies import allows, as_list
from cdclake_devkit.strict_aws.access.requests import deleted_objects, permissions_of
from cdclake_devkit.strict_aws.access.roles import requested

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from cdclake_devkit.strict_aws.access.policies import Permission


class Recorder:
    """Middleware that records what callers need.

    Attributes:
        needed: The distinct permissions, by name of the role.
    """

    def __init__(self) -> None:
        self.needed: defaultdict[str, set[Permission]] = defaultdict(set)

    def around(self, app: WSGIApplication) -> WSGIApplication:
        """Wrap the services of `EmbeddedAws`."""

        def recorded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            found = requested(environ)
            if found:
                caller, request = found
                is_batch = request.call.operation == "DeleteObjects"
                objects = (permission for _, permission in deleted_objects(request)) if is_batch else ()
                self.needed[caller.role] |= {*permissions_of(request), *objects}
            return app(environ, start_response)

        return recorded


def unused(granted: Iterable[Mapping[str, Any]], needed: Iterable[Permission]) -> set[tuple[str, str]]:
    """The actions of statements, each with the statement's id, that nothing needs."""
    needed = list(needed)
    return {
        (one["Sid"], action)
        for one in granted
        for action in as_list(one["Action"])
        if not any(permission.action == action and allows(one, permission) for permission in needed)
    }
