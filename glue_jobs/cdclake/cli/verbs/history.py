"""`cdclake history`: every version of a few rows."""

from __future__ import annotations

import json
from typing import Any

from cdclake.cli.options import KeyOption, TableArgument, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target


@with_target
def history(
    table: TableArgument,
    *,
    key: KeyOption,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show every version of a row: what it was, from when to when, and which change made it so.

    For tables that keep their history; cdclake tables set SCHEMA.TABLE --history turns that on.

    Example: cdclake history shop.orders --key 1042
    """
    from cdclake.cli.aws.environment import aws_environment  # Arrow takes a while, and --help needs none
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_history import find_versions

    with aws_environment(target), progress(f"Looking up versions of rows of {table}"):
        found = find_versions(TableLocation.at(target.lake_bucket, table, target.lake_prefix), key)
    shown = output_for(output)
    if output is OutputFormat.JSON:
        shown.records("History", (), found.rows)
        return
    columns = [Column(str(i), name) for i, name in enumerate(found.columns)]
    lines = [{str(i): _cell(row[name]) for i, name in enumerate(found.columns)} for row in found.rows]
    shown.records(f"History of {table}", columns, lines)
    if not found.rows:
        shown.remark("There are no versions of that key.")


def _cell(value: Any) -> str:  # noqa: ANN401 - any value of a lake table
    """A value as it is, and not as `Column` rounds figures for people."""
    if value is None:
        return "null"
    return json.dumps(value) if isinstance(value, (bool, int, float)) else str(value)
