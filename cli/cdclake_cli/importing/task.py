"""What the settings of a DMS task's endpoints say about its files. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from cdclake_cli.dms.settings import DmsSettings, dms_name, settings_from
from cdclake_cli.named_files import object_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.adapters.dms import DmsTask

_S3 = "s3"
_RULES = frozenset({"BeforeImages", "HeaderColumns", "ParallelLoad"})
"""Of table mappings, not of an endpoint."""


def table_definitions(task: DmsTask) -> Mapping[str, object]:
    """The external table definitions of a task's source; empty if it is not S3, or was not read.

    Raises:
        ConfigurationError: They are not JSON.
    """
    text = task.source.value("ExternalTableDefinition") if task.source and task.source.engine == _S3 else None
    return object_of(text.encode(), "ExternalTableDefinition of the task's source") if text else {}


def endpoint_settings(task: DmsTask) -> DmsSettings | None:
    """The settings of a task's endpoints that affect its files; None if its target is not S3, or was not read.

    Raises:
        ConfigurationError: One has a value that cdclake does not know.
    """
    if task.target is None or task.target.engine != _S3:
        return None
    values: dict[str, object] = {}
    for endpoint in (task.source, task.target):
        for name in (dms_name(field.name) for field in fields(DmsSettings)):
            value = endpoint.value(name) if endpoint and name not in _RULES else None
            if value not in (None, ""):
                values[name] = value
    return settings_from(values)
