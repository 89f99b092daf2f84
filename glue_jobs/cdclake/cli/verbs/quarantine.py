"""`cdclake quarantine`: the bad rows that were put aside, and what to do with them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake.cli.confirm import ask, open_table, person, tell_of_catalog
from cdclake.cli.options import DryRunOption, ReasonOption, TableArgument, YesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target
from cdclake.errors import ConfigurationError
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.cli.aws.services import Services
    from cdclake.commit.put_aside import PutAside
    from cdclake.control.admin.table_admin import RegisteredTable

_DEFAULT_LIMIT = 50
_FILE_COLUMNS = (
    Column("table", "Table"),
    Column("change", "Change", number=True),
    Column("time", "Time (UTC)"),
    Column("raw_file", "Raw file"),
    Column("rows", "Rows", number=True),
    Column("reason", "Most common reason"),
)
_ROW_COLUMNS = (
    Column("change", "Change", number=True),
    Column("file", "Raw file"),
    Column("row", "Row", number=True),
    Column("reason", "Reason"),
    Column("content", "Content"),
)

app = typer.Typer(
    no_args_is_help=True,
    help="List bad rows that were put aside, show them, take them after all. Example: cdclake quarantine list",
)

FileOption = Annotated[
    list[str] | None, typer.Option("--file", metavar="RAW-FILE", help="Only of this raw file; may be repeated.")
]


@app.command("list")
@with_target
def list_files(
    table: Annotated[
        str | None, typer.Argument(metavar="SCHEMA.TABLE", help="The table; all of them if left out.")
    ] = None,
    *,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """List the raw files with bad rows that a table lacks, the newest first.

    What a rollback undid, a reload replaced or a release took is left out.

    Example: cdclake quarantine list shop.orders
    """
    from cdclake.cli.aws.services import connect  # boto3 takes a while, and --help needs none

    services, shown = connect(target), output_for(output)
    lines = [_file_line(name, one) for name in _names(services, target, table) for one in _put_aside(services, name)]
    shown.records("Bad rows put aside", _FILE_COLUMNS, lines)
    if not lines:
        shown.remark("No bad rows are put aside.")


@app.command("show")
@with_target
def show_rows(
    table: TableArgument,
    *,
    file: FileOption = None,
    change: Annotated[int | None, typer.Option(min=1, help="Only those that this change put aside.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show this many rows at most.")] = _DEFAULT_LIMIT,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show bad rows: raw file, number in it, what is wrong, and the values as they came.

    Example: cdclake quarantine show shop.orders --limit 10
    """
    from cdclake.cli.aws.services import connect

    services, shown = connect(target), output_for(output)
    found = _of_files(_put_aside(services, TableName.parse(table), change), file)
    lines = [{"change": one.change, **row} for one in found for row in one.rows]
    if output is OutputFormat.TABLE:
        lines = [{**line, "content": _content(line["content"])} for line in lines]
    shown.records(f"Bad rows of {table}", _ROW_COLUMNS, lines[:limit])
    if len(lines) > limit:
        shown.remark(f"{len(lines) - limit:,} more rows; --limit shows more")
    if not lines:
        shown.remark("No bad rows are put aside.")


@app.command("release")
@with_target
def release(
    table: TableArgument,
    *,
    file: FileOption = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Read bad rows from their raw files once more, by the settings as they are now, and take them into the table.

    For when the settings were wrong, or the raw files were mended. Rows that are bad still are put aside again.

    Example: cdclake quarantine release shop.orders --reason "prices are wider now"
    """
    from cdclake.cli.aws.environment import aws_environment  # Arrow takes a while, and --help needs none
    from cdclake.commit.put_aside import put_aside

    lake_table, shown = open_table(target, table), output_for(output)
    name, log = lake_table.state.name, lake_table.log
    found = _of_files(put_aside(log, log.head()), file)
    lines = [_file_line(name, one) for one in found]
    if output is OutputFormat.TABLE:
        shown.records(f"Bad rows of {name} to take", _FILE_COLUMNS, lines)
    facts: dict[str, Any] = {"table": str(name), "done": False, "files": lines}
    if dry_run or not lines:
        if output is OutputFormat.JSON:
            shown.records("Release", (), [facts])
        shown.remark("This is a dry run: nothing was done." if lines else "There are no such bad rows.")
        return
    ask(f"Take them into {name}?", yes=yes, output=output)
    with aws_environment(target), progress(f"Taking bad rows into {name}"):
        summary = lake_table.change(lambda token: _release(target, lake_table, token, found, reason))
    if output is OutputFormat.JSON:
        shown.records("Release", (), [{**facts, "done": True, "change": summary["change"], "books": summary["books"]}])
    else:
        books = summary["books"]
        shown.remark(
            f"Done, as change {summary['change']}: {books['inserted']:,} rows inserted, {books['updated']:,} updated,"
            f" {books['deleted']:,} deleted, {books['superseded']:,} overtaken by later changes,"
            f" {books['quarantined']:,} bad still."
        )
    tell_of_catalog(lake_table, shown)


def _release(
    target: Target, lake_table: RegisteredTable, token: int, found: Iterable[PutAside], reason: str
) -> dict[str, Any]:
    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake.cli.aws.services import connect
    from cdclake.lake.operations.release import release as take
    from cdclake.lake.operations.table_run import TableRun

    state = lake_table.state
    run = TableRun(
        raw=connect(target).raw,
        raw_fs=lake_filesystem(target.raw_bucket),
        raw_prefix=state.raw_prefix,
        log=lake_table.log,
        lake_fs=lake_filesystem(target.lake_bucket),
        settings=state.settings,
        run_id=lake_table.run_id,
        fencing_token=token,
        clock=lake_table.clock,
    )
    return take(run, {one.raw_file for one in found}, reason, person(target))


def _names(services: Services, target: Target, table: str | None) -> list[TableName]:
    if table is not None:
        return [TableName.parse(table)]
    return sorted(state.name for state in services.state.all(target.installation.state_prefix))


def _put_aside(services: Services, name: TableName, change: int | None = None) -> list[PutAside]:
    from cdclake.commit.put_aside import put_aside

    log = services.log(name)
    head = log.head()
    if not head:
        services.installation.find_table(services.state, name)  # a name that nobody knows is no table without bad rows
    return put_aside(log, head, change)


def _of_files(found: list[PutAside], names: list[str] | None) -> list[PutAside]:
    """Those of some raw files, by their names in the table's raw folder.

    Raises:
        ConfigurationError: One has no bad rows.
    """
    unknown = sorted(set(names or ()) - {one.raw_file for one in found})
    if unknown:
        message = f"No bad rows of {unknown[0]} are put aside"
        raise ConfigurationError(message, remedy="cdclake quarantine list names the raw files")
    return [one for one in found if not names or one.raw_file in names]


def _file_line(name: TableName, one: PutAside) -> dict[str, object]:
    ((reason, _),) = Counter(row["reason"] for row in one.rows).most_common(1)
    return {
        "table": str(name),
        "change": one.change,
        "time": one.created_utc[:19].replace("T", " "),
        "raw_file": one.raw_file,
        "rows": len(one.rows),
        "reason": reason,
    }


def _content(content: dict[str, str | None] | str) -> str:
    if isinstance(content, str):
        return content
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in content.items())
