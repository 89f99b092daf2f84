"""Removes empty owners from tables in ministack's Glue Data Catalog.

Ministack 1.5.33 returns an empty owner for a table without owner. Glue's owners have at least one letter, so boto3
rejects such a table in UpdateTable. https://docs.aws.amazon.com/glue/latest/webapi/API_Table.html
"""

from __future__ import annotations

from typing import Any

from ministack.services import glue

_create = glue._create_table


def leave_out_empty_owners() -> None:
    """Install the patch."""
    glue._create_table = _create_without_owner


def _create_without_owner(request: dict[str, Any]) -> Any:  # noqa: ANN401  ministack's response
    response = _create(request)
    table = glue._tables.get(f"{request.get('DatabaseName')}/{request.get('TableInput', {}).get('Name')}", {})
    if table.get("Owner") == "":
        del table["Owner"]
    return response
