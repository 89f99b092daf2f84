"""Has ministack's Glue Data Catalog leave out the owner that a table does not have.

Ministack 1.5.33 answers an empty owner, which no table of Glue's can have: a text there has one letter at least.
Whoever sends such a table back, as UpdateTable wants it, is refused by his own boto3.
https://docs.aws.amazon.com/glue/latest/webapi/API_Table.html
"""

from __future__ import annotations

from typing import Any

from ministack.services import glue

_create = glue._create_table


def leave_out_empty_owners() -> None:
    """Leave it out from now on."""
    glue._create_table = _create_without


def _create_without(request: dict[str, Any]) -> Any:  # noqa: ANN401  ministack's own answer
    answer = _create(request)
    table = glue._tables.get(f"{request.get('DatabaseName')}/{request.get('TableInput', {}).get('Name')}", {})
    if table.get("Owner") == "":
        del table["Owner"]
    return answer
