"""`cdclake plan`: show what a run would do now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.errors import AttentionError, ConfigurationError, RetryableError
from cdclake_cli.aws.untyped import untyped_columns
from cdclake_cli.options import AnyTablesArgument, with_target
from cdclake_cli.printing.cost import cents_text, function_cents, least_spark_cents
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.several import limited_to
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.control.plan.planned_table import PlannedTable
    from cdclake_cli.aws.function import SmallChanges

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("action", "Action"),
    OutputColumn("kind", "Work"),
    OutputColumn("files", "Raw files", number=True),
    OutputColumn("bytes", "Bytes", number=True),
    OutputColumn("place", "Place"),
    OutputColumn("reason", "Reason"),
    OutputColumn("to_do", "Action needed"),
)


@with_target
def plan(tables: AnyTablesArgument = None, *, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Show what a run would do now: work, reason and action needed for each table.

    Changes nothing. If the function for small changes is deployed, the place shows whether it or Spark does the work
    once a raw file starts it, why, and what that costs.

    Example: cdclake plan shop.orders
    """
    from cdclake.control import controller
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services = connect(target)
    planned = controller.plan(services.plan_inputs, services.clock(), limited_to(target, tables))
    untyped = untyped_columns(services.raw, [entry.state for entry in planned.tables])
    function, unknown = None, ""
    try:
        function = services.small_changes
    except ConfigurationError as error:  # the plan itself does not need it
        unknown = f"Whether the function for small changes is deployed is unknown: {error}"
    records = [
        {**entry.to_json(), "untyped": untyped[entry.state.path].columns, "place": _place(entry, function)}
        for entry in planned.tables
    ]
    out = output_for(output)
    columns = [column for column in _COLUMNS if function or column.key != "place"]
    out.records("Plan", columns, [{**record, "reason": record.get("reason") or record["error"]} for record in records])
    for entry in planned.tables:
        findings = entry.decision.findings if entry.decision else ()
        for text in filter(None, (*findings, untyped[entry.state.path].text)):
            out.remark(f"{entry.state.name}: {text}")
    for finding in filter(None, (unknown, *planned.findings)):
        out.remark(finding)
    failed = [entry for entry in planned.tables if entry.error]
    if failed:
        reasons = "; ".join(f"{entry.state.name}: {entry.error_text}" for entry in failed)
        message = f"{len(failed)} of {len(records)} tables cannot be planned: {reasons}"
        raise AttentionError(message)
    if planned.errors:
        message = f"{len(planned.errors)} folders of the raw bucket cannot be read: {'; '.join(planned.errors)}"
        raise RetryableError(message, remedy="Run again")


def _place(entry: PlannedTable, function: SmallChanges | None) -> str:
    """Where the work of a table is done once a raw file starts it; empty without work or without the function."""
    from cdclake.control.run.small_loads import why_spark

    decision = entry.decision
    if not function or not decision or not decision.due_job:
        return ""
    reason = why_spark(decision.due_job, decision.bytes, entry.state.deaths)
    if reason:
        return f"Spark, at least {cents_text(least_spark_cents())}: {reason}"
    return f"function, at most {cents_text(function_cents(function.memory_mb, function.timeout_seconds))}"
