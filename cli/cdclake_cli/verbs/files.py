"""`cdclake files`: show the fate of each raw file of tables."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cdclake.control.plan.fates import Fate, FileFate
from cdclake.errors import ConfigurationError
from cdclake_cli.options import TablesArgument, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import for_each, matching_names, refuse_several
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from cdclake.model.change.record import RawFileRows
    from cdclake.model.table.name import TableName
    from cdclake_cli.printing.output import Output

_DEFAULT_LIMIT = 50
_COLUMNS = (
    OutputColumn("file", "Raw file"),
    OutputColumn("fate", "Fate"),
    OutputColumn("change", "Change", number=True),
    OutputColumn("rows", "Rows read", number=True),
    OutputColumn("quarantined", "Bad rows", number=True),
    OutputColumn("written", "Written", time=True),
    OutputColumn("reason", "Reason"),
)

_ROWS_FOUND = OutputColumn("rows_found", "Rows")


@with_target
def files(
    tables: TablesArgument,
    *,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Only this file: its key in the table's folder, or its name.")
    ] = None,
    fate: Annotated[list[Fate] | None, typer.Option(help="Only files with this fate. Repeatable.")] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE|JSON",
            help="Only the files whose changes made the rows of one table with this key, as for cdclake history."
            " Repeatable.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only files written at this time (ISO 8601, UTC) or later.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Show at most this many files of each table, the last ones.")
    ] = _DEFAULT_LIMIT,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Show what became of each raw file of tables: applied, due, waiting, late or unread, and why.

    Files that are no longer in the raw bucket are shown only with --fate gone, by name, or with --row. With --row, a
    column names the rows; values that a row's last change did not send come from earlier files.

    Example: cdclake files shop.orders --fate late
    """
    from cdclake.lake.read.as_of import parse_time  # slow to import, and --help does not need it

    names = matching_names(target, tables)
    refuse_several(names, row=row)
    which = _Which(file, frozenset(fate or ()), tuple(row or ()), parse_time(since) if since else None, limit)
    for_each(names, lambda name: _show(target, name, which, output_for(output)))


class _Which(NamedTuple):
    """The files to show, as the options say."""

    file: str | None
    fates: frozenset[Fate]
    rows: tuple[str, ...]
    since_utc: datetime | None
    limit: int


def _show(target: Target, name: TableName, which: _Which, out: Output) -> None:
    """Show the files of one table."""
    from cdclake.control.raw_fates import raw_fates, rows_read
    from cdclake_cli.aws.services import connect

    services = connect(target)
    log = services.log(name)
    state = services.installation.find_table(services.state, name)
    with progress(f"Listing the raw files of {name}"):
        found = raw_fates(services.raw, state, log, services.clock(), services.statistics)
    rows_of = _rows_by_file(target, name, which.rows) if which.rows else {}
    if which.rows:
        shown = [one for one in found if one.file in rows_of]
        loaded = len(rows_of.pop("", ()))
        if loaded:
            out.remark(f"Rows that are as the full load had them: {loaded:,}")
        elif not rows_of:
            out.remark("The table has no such row.")
        missing = rows_of.keys() - {one.file for one in shown}
        shown += [FileFate(gone, Fate.GONE) for gone in sorted(missing)]
    elif which.file is not None:
        shown = [one for one in found if which.file in (one.file, one.file.rpartition("/")[2])]
        if not shown:
            message = (
                f"{name} has no raw file {which.file}: it is not in the raw bucket, and the table does not contain it"
            )
            raise ConfigurationError(message, remedy=f"cdclake files {name.typed} lists the files")
    else:
        shown = [one for one in found if one.fate in (which.fates or set(Fate) - {Fate.GONE})]
    if which.since_utc:
        shown = [one for one in shown if one.modified_utc and one.modified_utc >= which.since_utc]
    last = shown[-which.limit :]
    rows = rows_read(log, last)
    records = [{**_record(name, one, rows), "rows_found": rows_of.get(one.file)} for one in last]
    columns = (*_COLUMNS, _ROWS_FOUND) if which.rows else _COLUMNS
    out.records(f"Raw files of {name}", columns, records)
    if len(shown) > len(last):
        out.remark(f"Files not shown: {len(shown) - len(last):,}; --limit shows more")
    out.remark(_summary(found))


def _rows_by_file(target: Target, name: TableName, keys: Sequence[str]) -> dict[str, list[str]]:
    """The rows with some keys, as texts, by the raw file of their last change."""
    from cdclake.hash_secret import hash_secret
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.row_origin import row_origins
    from cdclake_cli.aws.environment import aws_environment

    with aws_environment(target), progress(f"Looking for rows of {name}"):
        location = TableLocation.at(target.lake_bucket, str(name), target.lake_prefix)
        origins = row_origins(location, list(keys), hash_secret())
    by_file: dict[str, list[str]] = {}
    for origin in origins:
        number = "" if origin.row is None else f" (row {origin.row + 1})"
        by_file.setdefault(origin.file, []).append(f"{json.dumps(origin.key)}{number}")
    return by_file


def _record(table: TableName, file: FileFate, rows: Mapping[str, RawFileRows]) -> dict[str, Any]:
    read = rows.get(file.file)
    return {
        "table": str(table),
        "file": file.file,
        "fate": file.fate.value,
        "change": file.change,
        "rows": read.rows if read else None,
        "quarantined": read.quarantined if read else None,
        "bytes": file.size_bytes,
        "written": file.written or None,
        "reason": file.reason,
    }


def _summary(found: Sequence[FileFate]) -> str:
    counts = Counter(one.fate for one in found)
    return f"Files: {len(found):,}" + "".join(f", {fate.value}: {counts[fate]:,}" for fate in Fate if counts[fate])
