"""Writes the JSON Schema of a file of tables, with which editors complete and check it."""

from __future__ import annotations

import json
from typing import Any

from cdclake.model.table.attributes import ATTRIBUTES
from cdclake_cli.config.structure import File
from cdclake_cli.settings import meanings


def schema() -> dict[str, Any]:
    """The structure that `cdclake apply` checks, with the meaning of each attribute."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **File.model_json_schema()}
    found["title"] = "cdclake.yml"
    meaning_of = meanings()
    for name, property_ in found["$defs"]["Settings"]["properties"].items():
        default = ATTRIBUTES[name].default
        property_["description"] = meaning_of[name] + (f" Default: {default}" if default else "")
    return found


def page() -> str:
    """The schema as text."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
