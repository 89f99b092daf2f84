"""Writes the page of a table's attributes from the docstrings of `Attribute` and the defaults in the code."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from enum import Enum
from typing import NamedTuple

from cdclake.model import names
from cdclake.model.names import Attribute
from cdclake.model.table.settings import TableSettings
from cdclake.model.table.state import TableState

BY_OPERATOR = "Set by the operator."
"""End of the docstring of every attribute that no job writes."""

READ_MORE = {
    Attribute.SCHEMA: "../configuration.md#types-of-columns",
    Attribute.CDC_PATH: "../configuration.md#transaction-files",
    Attribute.ORDER_COLUMN: "../architecture.md#order-of-changes",
    Attribute.LATE_WINDOW_HOURS: "../configuration.md#late-files",
    Attribute.MAX_QUARANTINED_ROWS: "../operations.md#quarantined-rows",
    Attribute.RETENTION_DAYS: "../undo.md#what-is-kept-and-for-how-long",
    Attribute.CLEAN_UP: "../undo.md#what-is-kept-and-for-how-long",
    Attribute.LAST_RETIRED_SINCE_UTC: "../undo.md#what-is-kept-and-for-how-long",
    Attribute.FULL_LOAD_QUIET_MINUTES: "../operations.md#a-full-load-that-is-still-arriving",
    Attribute.DMS_TASK: "../operations.md#a-full-load-that-is-still-arriving",
    Attribute.MAX_FILES_PER_RUN: "../operations.md#a-large-backlog",
    Attribute.MAX_BYTES_PER_RUN: "../operations.md#a-large-backlog",
    Attribute.MISSING_COLUMNS: "../schema-changes.md#updates-that-lack-columns",
    Attribute.NULL_MEANS_UNSENT: "../schema-changes.md#updates-that-lack-columns",
    Attribute.SCHEMA_POLICY: "../schema-changes.md",
    Attribute.ACCEPTED_DRIFT: "../schema-changes.md#what-else-should-happen",
    Attribute.ACCEPT_LOST_CHANGES: "../configuration.md#reload-a-table",
    Attribute.ACKNOWLEDGED_CHANGE: "../schema-changes.md#acknowledge",
    Attribute.LAST_DEATHS: "../operations.md#a-raw-file-that-ends-the-run",
    Attribute.LAST_FINDINGS: "../schema-changes.md#acknowledge",
    Attribute.IGNORE_FILES: "../operations.md#files-that-are-left-out",
    Attribute.UNIQUE_CHECKS: "../configuration.md#updates-of-keys",
    Attribute.UNKNOWN_KEYS: "../configuration.md#updates-of-unknown-keys",
    Attribute.DELETE_MODE: "../soft-delete.md",
    Attribute.READERS: "../iceberg.md",
    Attribute.HISTORY: "../history.md",
    Attribute.HISTORY_TIME_COLUMN: "../history.md#what-makes-a-version",
    Attribute.CATALOG_TABLE: "../athena.md#names",
    Attribute.LAST_FULL_LOAD_DATE: "../configuration.md#reload-a-table",
    Attribute.LAST_INCREMENTAL_FILE: "../configuration.md#dates-and-watermarks-set-by-hand",
    Attribute.LAST_RECORDED: "../configuration.md#dates-and-watermarks-set-by-hand",
    Attribute.LAST_PENDING: "../operations.md#raw-files-that-vanish",
    Attribute.LAST_LEFT_OUT: "../operations.md#files-that-are-left-out",
    Attribute.LAST_PAGE_END: "../operations.md#many-tables",
    Attribute.LAST_KNOWN_FILES: "../operations.md#files-that-are-left-out",
    Attribute.LAST_LOOK_FROM: "../operations.md#many-tables",
    Attribute.LAST_CATALOG_ERROR: "../athena.md",
    Attribute.LEASE_HOLDER: "../architecture.md#one-writer",
    Attribute.FENCING_TOKEN: "../architecture.md#one-writer",
}
"""The section of the documents that explains an attribute."""

HEAD = """\
<!-- Written by `make reference` from glue_jobs/cdclake/model: do not edit. -->

# Attributes of a table

Each source table has an item in the DynamoDB table `DMSCDC_Controller`. All values are strings. An unset
attribute is absent or `null`. [Configuration](../configuration.md) explains how to set them.
"""


class Row(NamedTuple):
    """An attribute as the page shows it."""

    name: str
    meaning: str
    by_operator: bool


def rows() -> list[Row]:
    """All attributes, in the order of the code."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(names.Attribute))).body
    assert isinstance(body, ast.ClassDef)
    attributes = []
    for assignment, docstring in itertools.pairwise(body.body):
        match assignment, docstring:
            case (
                ast.Assign(value=ast.Constant(value=str(name))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                meaning = " ".join(text.split())
                attributes.append(Row(name, meaning.removesuffix(BY_OPERATOR).rstrip(), meaning.endswith(BY_OPERATOR)))
    return attributes


def defaults() -> dict[str, str]:
    """The value of each unset setting; empty if there is none."""
    settings = TableSettings()
    registered = TableState.new("bucket", "schema/", "table/").item
    special = {
        Attribute.RFC4180: settings.csv.quoting,
        Attribute.MISSING_COLUMNS: "keep" if settings.keep_missing_columns else "null",
        Attribute.DELETE_MODE: "soft" if settings.soft_delete else "hard",
        Attribute.CLEAN_UP: "automatic" if settings.clean_up else "manual",
    }
    values = {}
    for constant, name in vars(Attribute).items():
        if constant.startswith("_"):
            continue
        field = constant.lower()
        value = special.get(name, getattr(settings, field, getattr(settings.csv, field.removeprefix("csv_"), None)))
        values[name] = registered[name] if name in registered else _text(value)
    return values


def _text(value: object) -> str:
    match value:
        case Enum():
            return str(value.value)
        case bool():
            return str(value).lower()
        case str():
            return value.replace("\n", "\\n")
        case int():
            return str(value)
    return ""


def page() -> str:
    """The page in Markdown."""
    value_of, all_rows = defaults(), rows()
    lines = [HEAD, "## Set by the operator", "", "No job ever writes these.", ""]
    lines += ["| attribute | meaning | default |", "| --- | --- | --- |"]
    for row in all_rows:
        if row.by_operator:
            value = value_of[row.name]
            lines.append(f"| `{row.name}` | {_meaning(row)} | {f'`{value}`' if value else ''} |")
    lines += ["", "## Set by the jobs", "", "| attribute | meaning |", "| --- | --- |"]
    lines += [f"| `{row.name}` | {_meaning(row)} |" for row in all_rows if not row.by_operator]
    return "\n".join(lines) + "\n"


def _meaning(row: Row) -> str:
    more = READ_MORE.get(row.name)
    text = row.meaning.replace("|", "\\|")
    return f"{text} [More]({more})" if more else text
