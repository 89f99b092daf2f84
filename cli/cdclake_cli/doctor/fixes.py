"""Settings, mapping rules and commands that fix a finding, ready to paste.

Sources: the DMS guide, "Transformation rules and actions" and "Using transformation rule expressions to define column
content", for rules; `S3Settings` in the DMS API for endpoint settings; "Specifying task settings" for task settings.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdclake.printable import shell_word
from cdclake_cli.doctor.dms.recommended import old_key_rule, sequence_rule

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName


def s3_settings(**settings: object) -> str:
    """Settings of the DMS endpoint, by API name."""
    return json.dumps({"S3Settings": settings})


def task_settings(section: str, **settings: object) -> str:
    """Settings of the DMS task."""
    return json.dumps({section: settings})


def change_sequence_rule(table: TableName) -> str:
    """A mapping rule that adds `AR_H_CHANGE_SEQ`."""
    return json.dumps(sequence_rule("901", "901", table.schema, table.table))


def before_image_rule(table: TableName) -> str:
    """A mapping rule that adds a `BI_` column for each key column."""
    return json.dumps(old_key_rule("902", "902", table.schema, table.table))


def tables_set(table: TableName, *arguments: str) -> str:
    """The command that changes settings of the table."""
    return " ".join(["cdclake tables set", table.typed, *map(shell_word, arguments)])
