"""The policies of docs/permissions.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests import ROOT

if TYPE_CHECKING:
    from cdclake_devkit.local.roles import Place

_PERMISSIONS = ROOT / "docs" / "permissions.md"
_FIELDS = {"ACCOUNT": "account", "REGION": "region", "RAW-BUCKET": "raw_bucket", "LAKE-BUCKET": "lake_bucket"}
_NAMES = {"table/DMSCDC_Controller": "table/{0.state_table}", "/cdclake": "/{0.catalog_database}"}


def documented_policy(heading: str, place: Place) -> list[dict[str, Any]]:
    """The statements of the policy below a heading, with the names of a deployment."""
    _, _, section = _PERMISSIONS.read_text(encoding="utf-8").partition(f"## {heading}\n")
    text = section.split("```json\n", 1)[1].split("```", 1)[0]
    for placeholder, field in _FIELDS.items():
        text = text.replace(placeholder, getattr(place, field))
    for name, form in _NAMES.items():
        text = text.replace(name, form.format(place))
    statements: list[dict[str, Any]] = json.loads(text)["Statement"]
    return statements
