"""The structure of the YAML in a file of tables, for pydantic; its JSON Schema is for editors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from cdclake.model.names import Sentinel
from cdclake_cli.config.vocabulary import CONFIGURABLE, choices, is_number

_VARIABLE = {"type": "string", "pattern": r"\$\{\w+\}"}
_STRICT = ConfigDict(extra="forbid")


def _value(value: object) -> object:
    """A value as the text of an attribute: the texts of a list are separated by commas, and no value is `null`."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, (list, dict)):
        raise ValueError("a value is a text or a list of texts")
    return Sentinel.NONE if value is None else value


def _section(value: object) -> object:
    """What stands below a name; nothing is as good as no settings."""
    if value is not None and not isinstance(value, dict):
        raise ValueError("below it there are no names with values")
    return value or {}


def _schema(attribute: str) -> dict[str, Any]:
    """What editors offer and accept as the value of an attribute; YAML reads some texts as other types."""
    allowed = choices(attribute)
    if allowed:
        of_yaml = {"true": True, "false": False, Sentinel.NONE: None}
        return {"anyOf": [{"enum": [of_yaml.get(one, one) for one in allowed]}, _VARIABLE]}
    if is_number(attribute):
        return {"anyOf": [{"type": "integer", "minimum": 0}, _VARIABLE]}
    return {
        "anyOf": [{"type": ["string", "number", "boolean", "null"]}, {"type": "array", "items": {"type": "string"}}]
    }


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _field(attribute: str) -> tuple[Any, Any]:
    kind = Annotated[str, BeforeValidator(_value), WithJsonSchema(_schema(attribute))]
    return kind, Field(None, title=attribute, json_schema_extra=_without_default)


def _part(default: object, description: str) -> Any:  # noqa: ANN401 - pydantic's own type for a field
    return Field(default, description=description, json_schema_extra=_without_default)


def _file() -> type[BaseModel]:
    fields: dict[str, Any] = {name: _field(name) for name in CONFIGURABLE}
    settings: Any = create_model("Settings", __config__=_STRICT, **fields)
    section: Any = Annotated[settings, BeforeValidator(_section)]
    tables: Any = Annotated[dict[str, section], BeforeValidator(_section)]
    parts: dict[str, Any] = {
        "defaults": (section, _part(settings(), "Settings of each table that a name or pattern matches.")),
        "tables": (tables, _part({}, "Settings by the name of a table, schema.table, or by a pattern such as shop.*.")),
    }
    return create_model("File", __config__=_STRICT, **parts)


File = _file()
