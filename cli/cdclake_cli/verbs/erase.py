"""`cdclake erase`: permanently remove rows from a lake table and from everything retained of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.confirm import DRY_RUN, author, confirm, open_table, warn_if_running, warn_of_catalog_error
from cdclake_cli.options import DryRunOption, KeyOption, TableArgument, YesOption, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.several import one_table
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake.control.admin.table_admin import RegisteredTable
    from cdclake.lake.operations.erase.erase import Erasure, ErasureResult
    from cdclake_cli.printing.output import Output, ProgressBar

_COLUMNS = (
    OutputColumn("location", "Location"),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("files", "Files", number=True),
    OutputColumn("effect", "Effect on the files"),
)
_LOCATIONS = (
    ("Table", "rows", "files", "rewritten"),
    ("History", "versions", "version_files", "rewritten"),
    ("Retired data files", "retired_rows", "retired_files", "rewritten"),
    ("Tombstones", "tombstones", "tombstone_files", "rewritten"),
    ("Statistics of removed files", "", "manifests", "rewritten"),
    ("Quarantined rows", "bad_rows", "bad_rows_files", "rewritten"),
    ("Files that a repair moved away", "foreign_rows", "foreign_files", "rewritten"),
    ("Raw bucket: full load", "full_load_rows", "full_load_files", "deleted, with the whole full load"),
    ("Raw bucket: changes", "change_rows", "change_files", "rewritten"),
    ("Raw bucket: earlier versions", "raw_version_rows", "raw_versions", "deleted"),
)
"""For each location: its name, its fields of `ErasureCounts` for rows (empty for none) and files, and the effect on the
files."""


@with_target
def erase(
    table: TableArgument,
    *,
    key: KeyOption,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, kept in the change log: do not put personal data in it.")
    ],
    raw: Annotated[bool, typer.Option("--raw", help="Also remove the rows from the raw bucket.")] = False,
    unread_rows: Annotated[
        bool, typer.Option("--unread-rows", help="Also remove bad rows whose key cannot be read.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Permanently remove rows from one table, its history, and everything retained of it.

    An erasure cannot be undone. Other rows keep their values, and their earlier states.

    With --raw, change files are rewritten without the rows. A full load that contains one is deleted, because the lake
    has its other rows. Afterwards you cannot roll back beyond the last full load.

    Example: cdclake erase shop.customers --key 1042 --reason "request 2024-17" --dry-run
    """
    from cdclake.lake.operations.erase import erase as erasing
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it

    if not reason.strip():
        raise ConfigurationError("An erasure needs a reason", remedy="Name the request for it")
    with one_table(table):
        lake_table, out = open_table(target, TableName.parse(table)), output_for(output)
    name = lake_table.state.name
    warn_if_running(lake_table, out)
    with aws_environment(target):
        with progress(f"Searching the rows in {name}") as bar:
            erasure = _erasure(target, lake_table, key, reason, bar, raw=raw, unread_rows=unread_rows)
            found = erasing.preview(erasure)
        table_and_keys = {"table": str(name), "keys": len(erasure.keys.values)}
        if output is OutputFormat.TABLE:
            _show(out, f"Rows of {name} to erase (keys: {len(erasure.keys.values):,})", found)
        if dry_run:
            out.json_record({**table_and_keys, **_to_json(found, done=False)})
            out.remark(DRY_RUN)
            return
        if found.touched.anything:
            confirm(f"Permanently erase these rows from {name}?", yes=yes, output=output)
        with progress(f"Erasing rows of {name}") as bar:
            erasure = _erasure(target, lake_table, key, reason, bar, raw=raw, unread_rows=unread_rows)
            done = lake_table.change(lambda token: erasing.erase(erasure, token, lake_table.update_catalog))
    if output is OutputFormat.JSON:
        out.json_record({**table_and_keys, **_to_json(done, done=True)})
    elif done.change is None:
        out.remark("There is nothing to erase.")
    else:
        _show_result(out, lake_table, done)
    warn_of_catalog_error(lake_table, out)


def _erasure(
    target: Target,
    lake_table: RegisteredTable,
    key: list[str],
    reason: str,
    bar: ProgressBar,
    *,
    raw: bool,
    unread_rows: bool,
) -> Erasure:
    from cdclake.adapters.filesystem import lake_filesystem
    from cdclake.hash_secret import hash_secret, with_hash_secret
    from cdclake.lake.operations.erase.erase import Erasure
    from cdclake.lake.operations.erase.progress import Progress
    from cdclake.lake.operations.erase.raw_files import RawLocation
    from cdclake.lake.read.as_of import TableLocation
    from cdclake.lake.read.key_filter import RowKeys
    from cdclake_cli.aws.services import connect

    state, log = lake_table.state, lake_table.log
    lake = log.snapshot(log.head())
    raw_location = None
    if raw:
        raw_location = RawLocation(
            connect(target).raw,
            lake_filesystem(target.raw_bucket),
            state.raw_prefix,
            state.name,
            with_hash_secret(state.settings),
        )
    return Erasure(
        location=TableLocation.at(target.lake_bucket, str(state.name), target.lake_prefix),
        log=log,
        keys=RowKeys.parse(key, lake.primary_key, lake.schema, lake.policy.with_secret(hash_secret())),
        raw=raw_location,
        run_id=lake_table.run_id,
        reason=reason,
        made_by=author(target),
        clock=lake_table.clock,
        progress=Progress(bar.count),
        unread_rows_too=unread_rows,
    )


def _show(out: Output, title: str, found: ErasureResult) -> None:
    counts = asdict(found.touched)
    records = [
        {
            "location": name,
            "rows": counts[rows] if rows else 0,
            "files": counts[files],
            "effect": effect if counts[files] else "",
        }
        for name, rows, files, effect in _LOCATIONS
    ]
    out.records(title, _COLUMNS, records)
    out.remark("An erasure does not reach:")
    for sentence in found.out_of_reach:
        out.remark(f"- {sentence}")


def _to_json(result: ErasureResult, *, done: bool) -> dict[str, object]:
    return {
        "done": done,
        "change": result.change,
        **asdict(result.touched),
        "snapshots": result.snapshots,
        "object_versions": result.object_versions,
        "out_of_reach": list(result.out_of_reach),
        "not_searched": {what: list(names) for what, names in result.not_searched.items()},
    }


def _show_result(out: Output, lake_table: RegisteredTable, done: ErasureResult) -> None:
    layout = lake_table.log.layout
    out.remark(
        f"Done, as change {done.change}. Rows of {layout.name} erased, with all earlier states: {done.touched.rows:,}."
        f" Object versions deleted: {done.object_versions:,}."
    )
    out.remark(f"Record of the erasure: s3://{layout.bucket}/{layout.erasure_key(done.change or 0)}")
