"""`cdclake doctor`: what DMS's settings seem to be, what is unsafe about a table's raw files, and what mends it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake.cli.errors import print_error
from cdclake.cli.options import TableArgument, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.settings import parse_settings, settings_of
from cdclake.cli.target import Target
from cdclake.errors import AttentionError, ConfigurationError
from cdclake.model.names import Attribute
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from cdclake.doctor.diagnose import RawBucket, Report
    from cdclake.doctor.findings import Finding
    from cdclake.model.table import TableState

_DEFAULT_FILES = 30
_SETTINGS = (
    Column("setting", "DMS setting"),
    Column("value", "Value"),
    Column("certainty", "Is"),
    Column("told_by", "Told by"),
)


@with_target
def doctor(
    table: TableArgument,
    *,
    primary_key: Annotated[
        str | None, typer.Option(help="Take this for the key columns, comma-separated, whatever is set.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Take these for the columns of CSV files.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="ATTRIBUTE=VALUE", help="Take any other setting for set; may be repeated."),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from", exists=True, dir_okay=False, help="Take for set what this JSON file says."),
    ] = None,
    files: Annotated[
        int, typer.Option(min=0, help="Open so many LOAD and so many change files at most; 0: all.")
    ] = _DEFAULT_FILES,
    folder: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Look at this folder in place of the raw bucket, and ask nothing of AWS."
        ),
    ] = None,
    unregistered: Annotated[
        bool, typer.Option("--unregistered", help="Do not ask the state table what is set about the table.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Look a table's raw files over: what DMS's settings seem to be, what is unsafe, and the setting that mends it.

    Reads listings, and the oldest, the newest and some files between. Changes nothing. Works before a table is
    registered, too. The exit status is 6 if something is wrong.

    Example: cdclake doctor shop.orders --primary-key id
    """
    from cdclake.cli.aws.environment import aws_environment  # Arrow takes a while, and --help needs none
    from cdclake.doctor.diagnose import diagnose

    given = {**settings_of(from_file), **parse_settings(settings or [])}
    given |= {
        name: value
        for name, value in ((Attribute.PRIMARY_KEY, primary_key), (Attribute.SCHEMA, schema))
        if value is not None
    }
    name = TableName.parse(table)
    with aws_environment(target), progress(f"Looking at {table}") as bar:
        found = None if unregistered or folder else _registered(target, name)
        state = (found or target.installation.new_state(name)).with_attributes(**given)
        task = state.settings.dms_task
        raw = _raw(target, folder)._replace(task=_task(target, task) if task and not folder else None)
        now = datetime.now(timezone.utc)
        report = diagnose(raw, state, now, registered=found is not None, max_files=files, progress=bar.say)
    show(report, output)
    if not (found or unregistered or folder):
        output_for(output).remark("The table is not registered yet: cdclake run registers it.")
    if report.has_errors:
        errors = [one for one in report.findings if one.kind.severity.value == "error"]
        message = f"{len(errors)} of {len(report.findings)} findings are errors"
        raise AttentionError(message, remedy="Mend them as shown, then look again", table=table)


def _registered(target: Target, name: TableName) -> TableState | None:
    from cdclake.cli.aws.services import connect

    return connect(target).state.get(target.installation.new_state(name).path)


def _raw(target: Target, folder: Path | None) -> RawBucket:
    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake.adapters.s3 import S3Store
    from cdclake.adapters.stores import store
    from cdclake.doctor.diagnose import RawBucket

    location = folder.resolve().as_uri() if folder else target.raw_bucket
    reader = store(location)
    versioned = reader.keeps_versions() if isinstance(reader, S3Store) else None
    return RawBucket(reader, lake_filesystem(location).open(), versioned)


def _task(target: Target, task: str) -> dict[str, Any] | None:
    """Settings of the DMS task; None, with a word about it, if it does not tell them: all else can be looked at."""
    from cdclake.cli.aws.services import connect

    try:
        return connect(target).statistics.settings(task)
    except ConfigurationError as error:
        print_error(error)
        return None


def show(report: Report, output: OutputFormat) -> None:
    """Print a report: settings and findings, or one JSON object."""
    shown = output_for(output)
    inferred = [one.to_json() for one in report.inferred]
    if output is OutputFormat.JSON:
        answer = {
            "table": report.table,
            "registered": report.registered,
            "files": report.files,
            "looked_into": report.files_opened,
            "rows": report.rows,
            "inferred": inferred,
            "findings": [one.to_json() for one in report.findings],
        }
        shown.records("Doctor", (), [answer])
        return
    shown.records(f"DMS settings of {report.table}, as its files tell them", _SETTINGS, inferred)
    for finding in report.findings:
        shown.remark(_paragraph(finding))
        shown.verbatim(f"{finding.paste}\n" if finding.paste else "")
    looked = f"Looked into {report.files_opened:,} of {report.files:,} files, {report.rows:,} rows."
    shown.remark(looked if report.findings else f"{looked} All is well.")


def _paragraph(finding: Finding) -> str:
    """The lines of a finding, without what to paste."""
    row, column = finding.row, finding.column
    where = [finding.file, f"row {row + 1:,}" if row is not None else "", f"column {column}" if column else ""]
    lines = [
        f"{finding.kind.severity.value.upper()} {finding.code.value}: {finding.kind.title}",
        f"  Seen: {finding.seen}",
        f"  Where: {', '.join(part for part in where if part)}" if any(where) else "",
        f"  Why it matters: {finding.kind.why}",
        f"  Fix: {finding.fix}",
    ]
    return "\n".join(line for line in lines if line)
