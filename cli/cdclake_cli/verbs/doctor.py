"""`cdclake doctor`: check tables' raw files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import AttentionError, CdclakeError, ConfigurationError
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.name import TableName
from cdclake_cli.doctor.findings import agreeing, counted
from cdclake_cli.errors import print_error
from cdclake_cli.options import FromFileOption, TablesArgument, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.settings import parse_settings, read_settings
from cdclake_cli.several import for_each, matching_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.adapters.dms import DmsTask
    from cdclake.model.schema import Schema
    from cdclake.model.table.state import TableState
    from cdclake_cli.doctor.diagnose import Diagnosis
    from cdclake_cli.doctor.findings import Finding

_DEFAULT_FILES = 30
_SUMMARY = (
    OutputColumn("table", "Table"),
    OutputColumn("files", "Files", number=True),
    OutputColumn("error", "Errors", number=True),
    OutputColumn("warning", "Warnings", number=True),
    OutputColumn("note", "Notes", number=True),
)
_SETTINGS = (
    OutputColumn("setting", "DMS setting"),
    OutputColumn("value", "Value"),
    OutputColumn("certainty", "Certainty"),
    OutputColumn("told_by", "Evidence"),
)


@with_target
def doctor(
    tables: TablesArgument,
    *,
    primary_key: Annotated[
        str | None, typer.Option(help="Use these key columns, comma-separated, instead of the table's.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Use these columns for CSV files.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="ATTRIBUTE=VALUE", help="Use this setting. Repeatable."),
    ] = None,
    from_file: FromFileOption = None,
    files: Annotated[
        int, typer.Option(min=0, help="Open at most this many LOAD files and as many change files; 0: all.")
    ] = _DEFAULT_FILES,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Also show the most frequent bad values, on the terminal only.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Check this folder instead of the raw bucket, without AWS."),
    ] = None,
    unregistered: Annotated[
        bool, typer.Option("--unregistered", help="Do not read the table's settings from the state table.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Check raw files of tables for problems, and show how to fix them.

    Also infers the DMS settings. Reads listings, the oldest and newest files and some in between, and changes nothing.
    Works before a table is registered, too. Exit status 6 if there are errors.

    Example: cdclake doctor shop.orders --primary-key id
    """
    from cdclake.adapters.aws import server_clock  # slow to import, and --help does not need it
    from cdclake_cli.aws.environment import aws_environment
    from cdclake_cli.doctor.diagnose import RawBucket, diagnose

    attributes = {**read_settings(from_file), **parse_settings(settings or [])}
    attributes |= {
        name: value
        for name, value in ((Attribute.PRIMARY_KEY, primary_key), (Attribute.SCHEMA, schema))
        if value is not None
    }
    summaries: list[dict[str, object]] = []

    def check(name: TableName) -> None:
        with aws_environment(target), progress(f"Checking {name}") as bar:
            registered = None if unregistered or folder else _registered(target, name)
            state = (registered or target.installation.new_state(name)).with_attributes(**attributes)
            task = state.settings.dms_task
            raw = RawBucket.at(folder.resolve().as_uri() if folder else target.raw_bucket)
            raw = raw._replace(task=_task(target, task) if task and not folder else None)
            known = registered is not None
            lake = _lake_columns(target, registered) if registered else None
            report = diagnose(
                raw, state, server_clock(), registered=known, lake=lake, max_files=files, progress=bar.describe
            )
        show(report, output, show_values=show_values)
        severities = Counter(finding.kind.severity.value for finding in report.findings)
        summaries.append({"table": str(name), "files": report.files, **severities})
        if not (registered or unregistered or folder):
            out.remark("The table is not registered yet: cdclake run registers it.")
        if report.has_errors:
            errors = severities["error"]
            are = agreeing(errors, "is an error", "are errors")
            message = f"{errors:,} of {counted(len(report.findings), 'finding')} {are}"
            raise AttentionError(message, remedy="Fix them as shown, then check again", table=name)

    out = output_for(output)
    names = [TableName.parse(text) for text in tables] if folder else matching_names(target, tables)
    try:
        for_each(names, check)
    finally:
        if len(names) > 1 and output is OutputFormat.TABLE:
            out.records("Tables", _SUMMARY, summaries)


def _registered(target: Target, name: TableName) -> TableState | None:
    from cdclake_cli.aws.services import connect

    return connect(target).state.get(target.installation.new_state(name).path)


def _lake_columns(target: Target, state: TableState) -> Schema | None:
    """Columns of the lake table; None if it is not loaded, or cannot be read: then prints why."""
    from cdclake_cli.aws.services import connect

    if not state.last_change:
        return None
    log = connect(target).log(state.name)
    try:
        lake = log.snapshot(log.head())
    except CdclakeError as error:
        print_error(error)
        return None
    return lake.schema if lake.exists else None


def _task(target: Target, arn: str) -> DmsTask | None:
    """The DMS task. If it or its endpoints cannot be read, prints why, and returns None or the task without them."""
    from cdclake_cli.aws.services import connect

    statistics, task = connect(target).statistics, None
    try:
        task = statistics.settings(arn)
        return statistics.with_endpoints(task)
    except ConfigurationError as error:
        print_error(error)
        return task


def show(report: Diagnosis, output: OutputFormat, *, show_values: bool = False) -> None:
    """Print a report: settings and findings, or one JSON object, which never has bad values."""
    out = output_for(output)
    inferred = [setting.to_json() for setting in report.inferred]
    if output is OutputFormat.JSON:
        result = {
            "table": report.table,
            "registered": report.registered,
            "files": report.files,
            "looked_into": report.files_opened,
            "rows": report.rows,
            "inferred": inferred,
            "findings": [finding.to_json() for finding in report.findings],
        }
        out.json_record(result)
        return
    out.records(f"DMS settings of {report.table}, inferred from its files", _SETTINGS, inferred)
    for finding in report.findings:
        for line in _lines(finding, show_values=show_values):
            out.remark(line)
        out.verbatim(f"{finding.paste}\n" if finding.paste else "")
    files, rows = counted(report.files, "file"), counted(report.rows, "row")
    summary = f"Checked {report.files_opened:,} of {files}, {rows}."
    out.remark(summary if report.findings else f"{summary} No findings.")


def _lines(finding: Finding, *, show_values: bool) -> list[str]:
    """The lines of a finding, without what to paste."""
    row, column = finding.row, finding.column
    where = [finding.file, f"row {row + 1:,}" if row is not None else "", f"column {column}" if column else ""]
    lines = [
        f"{finding.kind.severity.value.upper()} {finding.code.value}: {finding.kind.title}",
        f"  Seen: {finding.seen}",
        *(f"    {detail}" for detail in (*finding.details, *(finding.values if show_values else ()))),
        f"  Where: {', '.join(part for part in where if part)}" if any(where) else "",
        f"  Why it matters: {finding.kind.why}",
        f"  Fix: {finding.fix}",
    ]
    return [line for line in lines if line]
