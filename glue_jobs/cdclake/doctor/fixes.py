"""Settings, mapping rules and commands that fix a finding, ready to paste.

Sources: the DMS guide, "Transformation rules and actions" and "Using transformation rule expressions to define column
content", for rules; `S3Settings` in the DMS API for endpoint settings; "Specifying task settings" for task settings.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from cdclake.devkit.dms.files import BEFORE_PREFIX
from cdclake.lake.raw.normalize import SEQUENCE_COLUMN

if TYPE_CHECKING:
    from cdclake.model.table import TableName

_SEQUENCE_LENGTH = 50
"""As in the guide's example; a sequence has 35 digits."""


def s3_settings(**settings: object) -> str:
    """Settings of the DMS endpoint, by API name."""
    return json.dumps({"S3Settings": settings})


def task_settings(section: str, **settings: object) -> str:
    """Settings of the DMS task."""
    return json.dumps({section: settings})


def change_sequence_rule(table: TableName) -> str:
    """A mapping rule that adds `AR_H_CHANGE_SEQ`."""
    return _rule(
        table,
        "901",
        {
            "rule-action": "add-column",
            "value": SEQUENCE_COLUMN,
            "expression": f"${SEQUENCE_COLUMN}",
            "data-type": {"type": "string", "length": _SEQUENCE_LENGTH},
        },
    )


def before_image_rule(table: TableName) -> str:
    """A mapping rule that adds a `BI_` column for each key column."""
    definition = {"column-prefix": BEFORE_PREFIX, "column-suffix": "", "column-filter": "pk-only"}
    return _rule(table, "902", {"rule-action": "add-before-image-columns", "before-image-def": definition})


def _rule(table: TableName, number: str, action: dict[str, object]) -> str:
    return json.dumps(
        {
            "rule-type": "transformation",
            "rule-id": number,
            "rule-name": number,
            "rule-target": "column",
            "object-locator": {"schema-name": table.schema, "table-name": table.table},
            **action,
        }
    )


def tables_set(table: TableName, *arguments: str) -> str:
    """The command that changes settings of the table."""
    return shlex.join(["cdclake", "tables", "set", str(table), *arguments])
