"""`cdclake erase`: rows are taken out of everything that is kept of a table, for good."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.confirm import ask, open_table, person, tell_of_catalog, warn_if_at_work
from cdclake.cli.options import DryRunOption, KeyOption, TableArgument, YesOption, with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from cdclake.cli.output import Output, ProgressBar
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.lake.operations.erase.erase import Erasure, ErasureCounts, ErasureResult

_COLUMNS = (
    Column("place", "Where"),
    Column("rows", "Rows", number=True),
    Column("files", "Files", number=True),
    Column("what", "What becomes of the files"),
)
_PLACES = (
    ("Table", "rows", "files", "written anew"),
    ("History", "versions", "version_files", "written anew"),
    ("Retired data files", "retired_rows", "retired_files", "written anew"),
    ("Remembered deletes", "tombstones", "tombstone_files", "written anew"),
    ("Bad rows put aside", "bad_rows", "bad_rows_files", "written anew"),
    ("Raw bucket: full load", "full_load_rows", "full_load_files", "deleted, the whole full load"),
    ("Raw bucket: changes", "change_rows", "change_files", "written anew"),
)
"""Of each place its name, what counts its rows and its files in `ErasureCounts`, and what becomes of these files."""


@with_target
def erase(
    table: TableArgument,
    *,
    key: KeyOption,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why: kept in the change log, so name no person.")],
    raw: Annotated[bool, typer.Option("--raw", help="Take the rows out of the raw bucket too.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Take rows out of a table, its history, and everything that was kept of them, for good.

    Nothing of it can be undone. Other rows, and what the table was for them, stay as they are.

    With --raw, change files are written anew without the rows, and a full load that holds one is deleted: it is in the
    lake. One can then go back to the last full load and no further.

    Example: cdclake erase shop.customers --key 1042 --reason "request 2024-17" --dry-run
    """
    from cdclake.cli.aws.environment import aws_environment  # Arrow takes a while, and --help needs none
    from cdclake.lake.operations.erase import erase as erasing

    if not reason.strip():
        raise ConfigurationError("An erasure needs a reason", remedy="Name the request that asked for it")
    lake_table, shown = open_table(target, table), output_for(output)
    name = lake_table.state.name
    warn_if_at_work(lake_table, shown)
    with aws_environment(target):
        with progress(f"Looking for the rows in {name}") as bar:
            erasure = _erasure(target, lake_table, key, reason, bar, raw=raw)
            touched, out_of_reach = erasing.inspect(erasure)
        facts = {"table": str(name), "done": False, "keys": len(erasure.keys.values), "change": None}
        if output is OutputFormat.TABLE:
            _show(shown, f"Rows of {len(erasure.keys.values):,} keys in {name}", touched, out_of_reach)
        if dry_run:
            if output is OutputFormat.JSON:
                shown.records("Erasure", (), [{**facts, **asdict(touched), "out_of_reach": list(out_of_reach)}])
            shown.remark("This is a dry run: nothing was done.")
            return
        if touched.anything:
            ask(f"Erase them from {name}, for good?", yes=yes, output=output)
        with progress(f"Erasing rows of {name}") as bar:
            erasure = _erasure(target, lake_table, key, reason, bar, raw=raw)
            done = lake_table.change(lambda token: erasing.erase(erasure, token))
    if output is OutputFormat.JSON:
        shown.records("Erasure", (), [{**facts, **_facts(done)}])
    elif done.change is None:
        shown.remark("There is nothing to erase.")
    else:
        _tell(shown, lake_table, done)
    tell_of_catalog(lake_table, shown)


def _erasure(
    target: Target, lake_table: RegisteredTable, key: list[str], reason: str, bar: ProgressBar, *, raw: bool
) -> Erasure:
    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake.cli.aws.services import connect
    from cdclake.lake.operations.erase.erase import Erasure
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.operations.erase.raw_files import RawLocation
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys

    state, log = lake_table.state, lake_table.log
    lake = log.snapshot(log.head())
    raw_location = None
    if raw:
        raw_location = RawLocation(
            connect(target).raw,
            lake_filesystem(target.raw_bucket),
            state.raw_prefix,
            state.name,
            state.settings,
            state.last_listed_utc,
        )
    return Erasure(
        location=TableLocation.at(target.lake_bucket, str(state.name), target.lake_prefix),
        log=log,
        keys=RowKeys.parse(key, lake.primary_key, lake.schema),
        raw=raw_location,
        run_id=lake_table.run_id,
        reason=reason,
        made_by=person(target),
        clock=lake_table.clock,
        progress=Progress(bar.show),
    )


def _show(shown: Output, title: str, touched: ErasureCounts, out_of_reach: tuple[str, ...]) -> None:
    counts = asdict(touched)
    lines = [
        {"place": place, "rows": counts[rows], "files": counts[files], "what": what if counts[files] else ""}
        for place, rows, files, what in _PLACES
    ]
    shown.records(title, _COLUMNS, lines)
    shown.remark("What an erasure does not reach:")
    for sentence in out_of_reach:
        shown.remark(f"- {sentence}")


def _facts(done: ErasureResult) -> dict[str, object]:
    counts = {"snapshots": done.snapshots, "object_versions": done.object_versions}
    return {
        "done": True,
        "change": done.change,
        **asdict(done.touched),
        **counts,
        "out_of_reach": list(done.out_of_reach),
    }


def _tell(shown: Output, lake_table: RegisteredTable, done: ErasureResult) -> None:
    layout = lake_table.log.layout
    shown.remark(
        f"Done, as change {done.change}: {done.touched.rows:,} rows of {layout.name} are erased, and all earlier states"
        f" of them. Versions of objects deleted: {done.object_versions:,}."
    )
    shown.remark(f"What was touched is kept in s3://{layout.bucket}/{layout.erasure_key(done.change or 0)}")
