"""`cdclake migrate-walkthrough`: check the tables of the walkthrough's jobs, and adopt those that are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import AttentionError, RetryableError
from cdclake_cli.confirm import open_table
from cdclake_cli.options import AnyTablesArgument, DryRunOption, YesOption, with_target
from cdclake_cli.patterns import EVERY
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import Step, change_each, first_names, matching_names
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.model.table.name import TableName
    from cdclake_cli.printing.output import Output
    from cdclake_cli.walkthrough.findings import TableCheck

_TABLES = (
    OutputColumn("table", "Table"),
    OutputColumn("files", "Files", number=True),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("rows_compared", "Rows\ncompared"),
    OutputColumn("next_change", "Files of the\nnext change", number=True),
    OutputColumn("found", "Found"),
)
_FINDINGS = (
    OutputColumn("code", "Finding"),
    OutputColumn("text", "What is wrong", folds=True),
    OutputColumn("remedy", "What to do", folds=True),
)


@with_target
def migrate_walkthrough(
    tables: AnyTablesArgument = None,
    *,
    no_rebuild: Annotated[
        bool,
        typer.Option(
            "--no-rebuild", help="Do not build tables from their raw files on this machine, so compare no rows."
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Check what the jobs of AWS's walkthrough keep, and make the tables that are sound lake tables.

    Looks at each table of the state table: half-written and left-behind files, repeated and null keys, a wrong key or
    watermark. Builds the table from its raw files beside the lake, on this machine, and compares the rows; applies what
    is due to the files of the lake, beside it, and compares again. Then it asks, and adopts the tables in place, as
    cdclake adopt does. Nothing else is changed.

    Exit status 6 if something is wrong with a table.

    Example: cdclake migrate-walkthrough --dry-run
    """
    names = matching_names(target, tables or [EVERY])
    _check_jobs(target, output_for(output), dry_run=dry_run)
    checks: list[TableCheck] = []

    def prepare(name: TableName) -> Step | None:
        step, checked = _prepare(target, name, output, rebuilds=not no_rebuild)
        checks.append(checked)
        _show_table(checked, output)
        return step

    try:
        change_each(names, prepare, output, yes=yes, dry_run=dry_run)
    finally:
        _show_all(checks, output)
    wrong = [checked.table for checked in checks if checked.findings]
    if wrong:
        message = f"Something is wrong with {len(wrong)} of {len(names)} tables: {first_names(wrong)}"
        raise AttentionError(message, remedy="Do what the findings say, or reload these tables; then run it again")


def _check_jobs(target: Target, out: Output, *, dry_run: bool) -> None:
    from cdclake_cli.aws.session import CLIENT_CONFIG, endpoint_of, session_of  # slow to import
    from cdclake_cli.walkthrough.jobs import jobs_at_work

    found = jobs_at_work(session_of(target).client("glue", endpoint_url=endpoint_of(target), config=CLIENT_CONFIG))
    if found.triggers:
        out.remark(f"Turn these triggers off if they start the old jobs: {', '.join(found.triggers)}")
    if found.running and not dry_run:
        message = f"Jobs are running that may write to the lake: {', '.join(found.running)}"
        raise RetryableError(message, remedy="Turn off their trigger, wait until they have ended, and run it again")
    if found.running:
        out.remark(f"Jobs are running, so what is found may change: {', '.join(found.running)}")


def _prepare(
    target: Target, name: TableName, output: OutputFormat, *, rebuilds: bool
) -> tuple[Step | None, TableCheck]:
    """Check one table, and prepare its adoption if it is sound."""
    from cdclake.adapters.filesystem import lake_filesystem  # slow to import, and --help does not need it
    from cdclake.adapters.stores import open_store
    from cdclake_cli.aws.environment import aws_environment
    from cdclake_cli.walkthrough.beside import RawBucket
    from cdclake_cli.walkthrough.check import WalkthroughTable

    out, lake_table = output_for(output), open_table(target, name)
    with aws_environment(target), progress(f"Checking {name}") as bar:
        raw = RawBucket(open_store(target.raw_bucket), lake_filesystem(target.raw_bucket))
        lake_fs = lake_filesystem(target.lake_bucket).open()
        table = WalkthroughTable(lake_table.state, lake_table.log, lake_fs, raw, lake_table.clock)
        checked = table.check(rebuilds=rebuilds, describe=bar.describe)
    adoption = checked.adoption
    if adoption is None:
        return None, checked

    def adopt() -> None:
        with progress(f"Adopting {name}"):
            record = lake_table.adopt(adoption.table)
        back = f"cdclake tables pause {name.typed} && cdclake rollback {name.typed} --to {record.change}"
        out.remark(f"{name} is a lake table, as change {record.change}. The way back: {back}")

    return Step(f"Adopt the {checked.files:,} files of {name} as a lake table, as they are", adopt), checked


def _show_table(checked: TableCheck, output: OutputFormat) -> None:
    """Print what was found of a table."""
    out, record = output_for(output), checked.to_json()
    out.json_record(record)
    if output is OutputFormat.TABLE:
        if checked.findings:
            out.records(f"What is wrong with {checked.table}", _FINDINGS, record["findings"])
        for note in checked.notes:
            out.remark(f"{checked.table}: {note}")


def _show_all(checks: list[TableCheck], output: OutputFormat) -> None:
    """Print what was found of all tables, for people."""
    if checks and output is OutputFormat.TABLE:
        records = [{**checked.to_json(), "found": _found(checked)} for checked in checks]
        output_for(output).records("Tables of the walkthrough", _TABLES, records)


def _found(checked: TableCheck) -> str:
    codes = dict.fromkeys(finding.code.value for finding in checked.findings)
    return ", ".join(codes) or ("sound" if checked.is_sound else "nothing to adopt")
