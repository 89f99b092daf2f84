"""A recommended setting, and how the doctor compares it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake_cli.doctor.findings import Severity

GUIDE = "https://docs.aws.amazon.com/dms/latest/userguide/"
"""The DMS user guide. The reasons are based on its pages, and on the DMS API reference."""


class Source(str, Enum):
    """Kind of source database."""

    MYSQL = "mysql"
    POSTGRES = "postgres"
    ORACLE = "oracle"
    SQLSERVER = "sqlserver"


@dataclass(frozen=True)
class Check:
    """How the doctor compares a setting of a live task.

    Attributes:
        severity: The consequence of another value.
        default: DMS's value if the setting is not set.
        also: Other values that are as good.
        any_value: Whether every value is good, as long as one is set.
    """

    severity: Severity
    default: object = ""
    also: tuple[object, ...] = ()
    any_value: bool = False


@dataclass(frozen=True)
class Setting:
    """A recommended setting.

    Attributes:
        name: Its name in DMS, or in the source database. A task setting is named `Section.Name`.
        value: The recommended value, as in JSON; for a step in the source database, the SQL.
        reason: Why, in one line.
        source_url: Where AWS documents it.
        check: How the doctor compares it; None if it does not, because other values are as good for the lake or
            another finding covers them.
    """

    name: str
    value: Any
    reason: str
    source_url: str
    check: Check | None = None


def by_name(settings: Iterable[Setting]) -> dict[str, Any]:
    """The values of settings by name."""
    return {setting.name: setting.value for setting in settings}


def shown(value: object) -> str:
    """A value as text: JSON, but without quotes around text."""
    return value if isinstance(value, str) else json.dumps(value)


def by_section(settings: Iterable[Setting]) -> dict[str, dict[str, Any]]:
    """The values of task settings, as in `ReplicationTaskSettings`."""
    sections: dict[str, dict[str, Any]] = {}
    for setting in settings:
        section, _, name = setting.name.partition(".")
        sections.setdefault(section, {})[name] = setting.value
    return sections
