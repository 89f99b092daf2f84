"""Glue updates the version of a table that the caller has read."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse

from cdclake_devkit.strict_aws.rule import Patch, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

_one_at_a_time = Lock()


def _versioned(update: Callable[..., Any]) -> Callable[..., Any]:
    def update_table(response: GlueResponse) -> Any:  # noqa: ANN401  moto's
        parameters = response.parameters
        with _one_at_a_time:
            table = response.glue_backend.get_table(parameters["DatabaseName"], parameters["TableInput"]["Name"])
            current = table.as_dict()["VersionId"]
            if parameters.get("VersionId", current) != current:
                message = "Update table failed due to concurrent modifications."
                raise GlueClientError("ConcurrentModificationException", message)
            updated = update(response)
            if parameters.get("SkipArchive"):
                table.delete_version(current)
            return updated

    return update_table


TABLE_VERSIONS = Rule(
    name="Glue: versions of tables",
    aws="UpdateTable with a VersionId that is not the table's current one answers ConcurrentModificationException. "
    "With SkipArchive, the version before is not kept. That any other VersionId is refused, rather than only an "
    "older one, is not documented.",
    source="https://docs.aws.amazon.com/glue/latest/webapi/API_UpdateTable.html",
    measured="https://github.com/floci-io/floci/issues/1183, with the AWS CLI",
    patches=(Patch(GlueResponse, "update_table", _versioned),),
)
