"""The roles of jobs and functions, with the policies that the stacks synthesize for them.

`roles.json` has the statements about what the embedded AWS has. Those about code, logs and the queue of failed events
are for Glue and Lambda themselves. A test compares the file with the stacks; `make local-roles` writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = Path(__file__).parent / "roles.json"
ON_RAW_FILE, SMALL_CHANGES = "on_raw_file", "small_changes"
"""The functions, whatever their names are."""
_LIST_RAW, _READ_SECRET = "ListRaw", "ReadHashSecret"
_START_JOBS, _CALL = "StartJobs", "CallSmallChanges"
"""The function of raw files has the one or the other."""


@dataclass(frozen=True)
class Place:
    """What the policies name. Each field replaces the placeholder of its name, such as `<raw_bucket>`.

    Attributes:
        hash_secret: Name of the secret of hashed columns in Secrets Manager; empty for none.
    """

    account: str
    region: str
    raw_bucket: str
    raw_prefix: str
    lake_bucket: str
    lake_prefix: str
    state_table: str
    catalog_database: str
    hash_secret: str = ""


def policies(place: Place, *, small_changes: bool = False) -> dict[str, list[dict[str, Any]]]:
    """The statements of each role, by job, and `ON_RAW_FILE`; with `small_changes`, also `SMALL_CHANGES`."""
    text = FILE.read_text(encoding="utf-8")
    for name, value in vars(place).items():
        text = text.replace(f"<{name}>", value)
    roles: dict[str, list[dict[str, Any]]] = json.loads(text)
    if not place.raw_prefix:  # then the stacks restrict no lists of raw files
        for statements in roles.values():
            for statement in statements:
                if statement["Sid"] == _LIST_RAW:
                    del statement["Condition"]
    if not place.hash_secret:
        for name, statements in roles.items():
            roles[name] = [statement for statement in statements if statement["Sid"] != _READ_SECRET]
    if not small_changes:
        del roles[SMALL_CHANGES]
    left_out = _START_JOBS if small_changes else _CALL
    roles[ON_RAW_FILE] = [statement for statement in roles[ON_RAW_FILE] if statement["Sid"] != left_out]
    return roles


def role_variables(credentials: Mapping[str, Any]) -> dict[str, str]:
    """Variables with the credentials of a role, as STS answers them."""
    return {
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }
