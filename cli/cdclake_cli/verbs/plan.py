"""`cdclake plan`: show what a run would do now."""

from __future__ import annotations

from cdclake.errors import AttentionError, RetryableError
from cdclake_cli.aws.untyped import untyped_columns
from cdclake_cli.options import TablesOption, table_names, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.target import Target

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("action", "Action"),
    OutputColumn("kind", "Work"),
    OutputColumn("files", "Raw files", number=True),
    OutputColumn("bytes", "Bytes", number=True),
    OutputColumn("reason", "Reason"),
    OutputColumn("to_do", "Action needed"),
)


@with_target
def plan(*, table: TablesOption = None, output: OutputOption = OutputFormat.TABLE, target: Target) -> None:
    """Show what a run would do now: work, reason and action needed for each table.

    Changes nothing.

    Example: cdclake plan --table shop.orders
    """
    from cdclake.control import controller
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services = connect(target)
    planned = controller.plan(services.plan_inputs, services.clock(), table_names(table))
    untyped = untyped_columns(services.raw, [entry.state for entry in planned.tables])
    records = [{**entry.to_json(), "untyped": untyped[entry.state.path].columns} for entry in planned.tables]
    out = output_for(output)
    out.records("Plan", _COLUMNS, [{**record, "reason": record.get("reason") or record["error"]} for record in records])
    for entry in planned.tables:
        findings = entry.decision.findings if entry.decision else ()
        for text in filter(None, (*findings, untyped[entry.state.path].text)):
            out.remark(f"{entry.state.name}: {text}")
    for finding in planned.findings:
        out.remark(finding)
    failed = [entry for entry in planned.tables if entry.error]
    if failed:
        message = f"{len(failed)} of {len(records)} tables cannot be planned: {failed[0].error_text}"
        raise AttentionError(message)
    if planned.errors:
        message = f"{len(planned.errors)} folders of the raw bucket cannot be read: {planned.errors[0]}"
        raise RetryableError(message, remedy="Run again")
