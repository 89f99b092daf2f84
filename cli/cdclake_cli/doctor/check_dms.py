"""Findings about the settings of the DMS task and its endpoints: differences from those recommended. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdclake_cli.doctor.dms.recommended import CSV_HEADER_CHECK, FILES, OWNER_CHECK, TIME_ZONE_CHECK, task_settings
from cdclake_cli.doctor.dms.setting import Setting, Source, by_name, by_section, shown
from cdclake_cli.doctor.dms.sources import SOURCES
from cdclake_cli.doctor.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake.adapters.dms import DmsEndpoint, DmsTask
    from cdclake_cli.doctor.evidence import Evidence

_CODES = {
    Severity.ERROR: Code.DMS_SETTING_LOSES_CHANGES,
    Severity.WARNING: Code.DMS_SETTING_UNSAFE,
    Severity.NOTE: Code.DMS_SETTING_DIFFERS,
}
_SPELLINGS = {"y": "true", "n": "false", "yes": "true", "no": "false"}
_PARQUET_ONLY = "ParquetTimestampInMillisecond"


def check_dms(evidence: Evidence) -> Iterator[Finding]:
    """Differences between the task of the table and the recommended settings."""
    task = evidence.task
    if task is None:
        return
    source = next((kind for kind in Source if task.source and task.source.engine in SOURCES[kind].engines), None)
    yield from _task(task, source)
    if task.target and task.target.engine == "s3":
        yield from _target(task.target)
    if task.source and source:
        advice = SOURCES[source]
        place = f"the source endpoint ({advice.api_name})"
        for setting in advice.endpoint:
            paste = json.dumps({advice.api_name: by_name([setting])})
            yield from _difference(setting, task.source.value(setting.name), place, "modify-endpoint", paste)


def _task(task: DmsTask, source: Source | None) -> Iterator[Finding]:
    for setting in task_settings(source or Source.MYSQL):
        section, _, name = setting.name.partition(".")
        value = (task.sections.get(section) or {}).get(name)
        paste = json.dumps(by_section([setting]))
        yield from _difference(setting, value, "the task", "modify-replication-task, while the task is stopped", paste)


def _target(target: DmsEndpoint) -> Iterator[Finding]:
    parquet = _text(target.value("DataFormat")) == "parquet"
    settings = [setting for setting in FILES if parquet or setting.name != _PARQUET_ONLY]
    settings.append(OWNER_CHECK)
    if not parquet and _text(target.value("PreserveTransactions")) != "true":
        settings.append(CSV_HEADER_CHECK)
    if _text(target.value("DatePartitionEnabled")) == "true":
        settings.append(TIME_ZONE_CHECK)
    for setting in settings:
        paste = json.dumps({"S3Settings": by_name([setting])})
        yield from _difference(setting, target.value(setting.name), "the S3 endpoint", "modify-endpoint", paste)


def _difference(setting: Setting, value: object, place: str, command: str, paste: str) -> Iterator[Finding]:
    check = setting.check
    if check is None:
        return
    actual = check.default if value in (None, "") else value
    good = bool(_text(actual)) if check.any_value else _text(actual) in map(_text, (setting.value, *check.also))
    if not good:
        current = "not set" if value in (None, "") else shown(value)
        seen = f"{setting.name} of {place} is {current}, recommended: {shown(setting.value)}"
        fix = f"{setting.reason}. Set it with aws dms {command}. See {setting.source_url}"
        yield Finding(_CODES[check.severity], seen, fix, paste)


def _text(value: object) -> str:
    """A value in one spelling: DMS accepts several."""
    text = str(value).lower().replace("_", "-")
    return _SPELLINGS.get(text, text)
