"""`cdclake quarantine`: list, show and release the bad rows that changes quarantined."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake.errors import ConfigurationError
from cdclake_cli.confirm import author, open_table, warn_of_catalog_error
from cdclake_cli.options import AnyTablesArgument, DryRunOption, ReasonOption, TablesArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import Step, change_each, for_each, matching_names, refuse_several
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake.commit.quarantine import QuarantinedFile
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.model.table.name import TableName
    from cdclake_cli.aws.services import Services

_DEFAULT_LIMIT = 50
_FILE_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("change", "Change", number=True),
    OutputColumn("time", "Time", time=True),
    OutputColumn("raw_file", "Raw file"),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("reason", "Most common reason"),
)
_ROW_COLUMNS = (
    OutputColumn("change", "Change", number=True),
    OutputColumn("file", "Raw file"),
    OutputColumn("row", "Row", number=True),
    OutputColumn("reason", "Reason"),
    OutputColumn("content", "Content"),
)
_NONE = "There are no quarantined rows."

app = typer.Typer(
    no_args_is_help=True,
    help="List, show and release quarantined rows.\n\nExample: cdclake quarantine list",
)

FileOption = Annotated[
    list[str] | None, typer.Option("--file", metavar="RAW-FILE", help="Only rows of this raw file. Repeatable.")
]


@app.command("list")
@with_target
def list_files(
    tables: AnyTablesArgument = None,
    *,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """List raw files with quarantined rows, newest first.

    Omits rows that a rollback undid, a full load replaced or a release applied.

    Example: cdclake quarantine list shop.orders
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    services, out = connect(target), output_for(output)
    records: list[dict[str, object]] = []

    def read(name: TableName) -> None:
        records.extend(_file_record(name, file) for file in _quarantined_files(services, name))

    states = () if tables else services.state.all(target.installation.state_prefix)
    names = matching_names(target, tables or ()) or sorted(state.name for state in states)
    try:
        for_each(names, read)
    finally:
        out.records("Quarantined rows", _FILE_COLUMNS, records)
    if not records:
        out.remark(_NONE)


@app.command("show")
@with_target
def show_rows(
    tables: TablesArgument,
    *,
    file: FileOption = None,
    change: Annotated[
        int | None, typer.Option(min=1, help="Only rows that this change of one table quarantined.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many rows of each table.")] = _DEFAULT_LIMIT,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show quarantined rows: raw file, row number, reason and values.

    Row numbers start at 1 in tables, and at 0 in JSON.

    Example: cdclake quarantine show shop.orders --limit 10
    """
    from cdclake_cli.aws.services import connect

    services, out = connect(target), output_for(output)
    names = matching_names(target, tables)
    refuse_several(names, change=change)

    def show(name: TableName) -> None:
        files = _of_files(_quarantined_files(services, name, change), file)
        records = [{"table": str(name), "change": group.change, **row} for group in files for row in group.rows]
        if output is OutputFormat.TABLE:
            records = [
                {**record, "row": _from_one(record["row"]), "content": _content(record["content"])}
                for record in records
            ]
        out.records(f"Quarantined rows of {name}", _ROW_COLUMNS, records[:limit])
        if len(records) > limit:
            out.remark(f"Rows of {name} not shown: {len(records) - limit:,}; --limit shows more")
        if not records:
            out.remark(_NONE)

    for_each(names, show)


@app.command("release")
@with_target
def release(
    tables: TablesArgument,
    *,
    file: FileOption = None,
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Apply quarantined rows to their tables.

    Reads them from their raw files again, with the current settings. Use it after you correct the settings or the raw
    files. Rows that are still bad are quarantined again.

    Example: cdclake quarantine release shop.orders --reason "prices are wider now"
    """

    def prepare(name: TableName) -> Step | None:
        return _prepare(target, name, file, reason, output)

    change_each(matching_names(target, tables), prepare, output, yes=yes, dry_run=dry_run)


def _prepare(target: Target, name: TableName, file: list[str] | None, reason: str, output: OutputFormat) -> Step | None:
    """Show what to release of one table; None if there is nothing."""
    from cdclake.commit.quarantine import quarantined_files
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it

    lake_table, out = open_table(target, name), output_for(output)
    log = lake_table.log
    files = _of_files(quarantined_files(log, log.head()), file)
    records = [_file_record(name, group) for group in files]
    if output is OutputFormat.TABLE:
        out.records(f"Quarantined rows of {name} to release", _FILE_COLUMNS, records)
    result: dict[str, Any] = {"table": str(name), "done": False, "files": records}
    if not records:
        out.json_record(result)
        out.remark(_NONE)
        return None

    def apply() -> None:
        with aws_environment(target), progress(f"Releasing quarantined rows to {name}"):
            summary = lake_table.change(lambda token: _release(target, lake_table, token, files, reason))
        books = summary["books"]
        if output is OutputFormat.JSON:
            out.json_record({**result, "done": True, "change": summary["change"], "books": books})
        else:
            out.remark(
                f"Done, as change {summary['change']} of {name}. Rows inserted: {books['inserted']:,},"
                f" updated: {books['updated']:,}, deleted: {books['deleted']:,},"
                f" superseded by later changes: {books['superseded']:,}, still bad: {books['quarantined']:,}."
            )
        warn_of_catalog_error(lake_table, out)

    return Step(f"Release these rows to {name}", apply, result)


def _release(
    target: Target, lake_table: RegisteredTable, token: int, files: Iterable[QuarantinedFile], reason: str
) -> dict[str, Any]:
    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake.hash_secret import with_hash_secret
    from cdclake.lake.operations.release import release as take
    from cdclake.lake.operations.table_run import TableRun
    from cdclake_cli.aws.services import connect

    state = lake_table.state
    run = TableRun(
        raw=connect(target).raw,
        raw_fs=lake_filesystem(target.raw_bucket),
        raw_prefix=state.raw_prefix,
        log=lake_table.log,
        lake_fs=lake_filesystem(target.lake_bucket),
        settings=with_hash_secret(state.settings),
        run_id=lake_table.run_id,
        fencing_token=token,
        clock=lake_table.clock,
    )
    return take(run, {group.raw_file for group in files}, reason, author(target))


def _quarantined_files(services: Services, name: TableName, change: int | None = None) -> list[QuarantinedFile]:
    from cdclake.commit.quarantine import quarantined_files

    log = services.log(name)
    head = log.head()
    if not head:
        services.installation.find_table(services.state, name)  # raises if the table is not registered
    return quarantined_files(log, head, change)


def _of_files(files: list[QuarantinedFile], names: list[str] | None) -> list[QuarantinedFile]:
    """Select raw files by their names in the table's raw folder.

    Raises:
        ConfigurationError: A file has no quarantined rows.
    """
    unknown = sorted(set(names or ()) - {group.raw_file for group in files})
    if unknown:
        message = f"{unknown[0]} has no quarantined rows"
        raise ConfigurationError(message, remedy="cdclake quarantine list shows the raw files")
    return [group for group in files if not names or group.raw_file in names]


def _file_record(name: TableName, file: QuarantinedFile) -> dict[str, object]:
    ((reason, _),) = Counter(row["reason"] for row in file.rows).most_common(1)
    return {
        "table": str(name),
        "change": file.change,
        "time": file.created_utc[:19].replace("T", " "),
        "raw_file": file.raw_file,
        "rows": len(file.rows),
        "reason": reason,
    }


def _from_one(row: int | None) -> int | None:
    return None if row is None else row + 1


def _content(content: dict[str, str | None] | str) -> str:
    if isinstance(content, str):
        return content
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in content.items())
