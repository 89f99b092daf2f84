"""`cdclake local feed`: made-up DMS files, and what a table must hold after them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from cdclake.cli.json_file import json_object
from cdclake.cli.options import with_target
from cdclake.cli.output import Column, OutputFormat, OutputOption, output_for, progress
from cdclake.cli.target import Target
from cdclake.devkit.dms.settings import DmsSettings, settings_from
from cdclake.devkit.feed.options import DEFAULT_COLUMNS, DeleteImage, Fault, FeedOptions, OperationShares
from cdclake.errors import ConfigurationError
from cdclake.model.table import TableName

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore

_COLUMNS = (
    Column("table", "Table"),
    Column("files", "Raw files", number=True),
    Column("rows", "Rows", number=True),
    Column("bytes", "Bytes", number=True),
    Column("expected_rows", "Rows expected", number=True),
    Column("expected_versions", "Versions expected", number=True),
    Column("faults", "Faults", number=True),
    Column("expected", "Expectation in"),
)
_ROWS, _OPERATIONS, _FILES, _WRONG = "Rows", "Changes", "Files", "What goes wrong"


def _option(panel: str, what: str, **more: Any) -> Any:  # noqa: ANN401 - Typer's own type for an option
    return typer.Option(help=what, rich_help_panel=panel, **more)


@with_target
def feed(
    destination: Annotated[
        str, typer.Argument(metavar="FOLDER|s3://BUCKET/PREFIX", help="Where DMS would write; made if it is not there.")
    ],
    *,
    expected: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for the expectation; SCHEMA.TABLE-expected if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same options and seed give the same bytes.")] = 7,
    table: Annotated[str, typer.Option(metavar="SCHEMA.TABLE", help="Name of the table.")] = "shop.orders",
    rows: Annotated[int, _option(_ROWS, "Rows of the full load.")] = 10_000,
    columns: Annotated[str | None, _option(_ROWS, 'Columns, as "id bigint, name string".')] = None,
    schema: Annotated[
        Path | None, _option(_ROWS, "File with the columns, written likewise.", exists=True, dir_okay=False)
    ] = None,
    draw_columns: Annotated[int | None, _option(_ROWS, "Draw so many columns beside the key id.", min=0)] = None,
    primary_key: Annotated[str, _option(_ROWS, "Key columns; the last one tells rows apart.")] = "id",
    partition_key: Annotated[str, _option(_ROWS, "Partition columns of the lake table.")] = "",
    history: Annotated[bool, _option(_ROWS, "Expect a history, too.")] = False,
    soft_delete: Annotated[bool, _option(_ROWS, "Expect deleted rows to stay, see DeleteMode.")] = False,
    changes: Annotated[int, _option(_OPERATIONS, "Change rows.")] = 2_000,
    insert: Annotated[float, _option(_OPERATIONS, "Share of inserts.")] = 0.3,
    update: Annotated[float, _option(_OPERATIONS, "Share of updates.")] = 0.5,
    delete: Annotated[float, _option(_OPERATIONS, "Share of deletes.")] = 0.2,
    move: Annotated[float, _option(_OPERATIONS, "Share of updates of the key.")] = 0.0,
    untidy: Annotated[
        float, _option(_OPERATIONS, "Share of inserts of keys that are there, and deletes of keys that are not.")
    ] = 0.0,
    hot_keys: Annotated[int, _option(_OPERATIONS, "Keys that many updates are of.")] = 10,
    hot_share: Annotated[float, _option(_OPERATIONS, "Share of updates that are of hot keys.")] = 0.2,
    transaction_rows: Annotated[int, _option(_OPERATIONS, "Rows of a transaction, on average.")] = 5,
    delete_image: Annotated[DeleteImage, _option(_OPERATIONS, "What a delete tells of the row.")] = DeleteImage.FULL,
    schema_changes: Annotated[
        int, _option(_OPERATIONS, "How often columns change: one is added, widened, dropped, added, ...")
    ] = 0,
    files: Annotated[int, _option(_FILES, "Change files.")] = 10,
    load_files: Annotated[int, _option(_FILES, "Full-load files; 0: as many as the rows need.")] = 0,
    start: Annotated[datetime, _option(_FILES, "When the full load is written, in UTC.")] = datetime(2024, 3, 5),  # noqa: DTZ001 - Typer has no zones
    settings: Annotated[
        Path | None,
        _option(_FILES, "JSON file with settings of DMS by their own names.", exists=True, dir_okay=False),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of DMS; may be repeated.", rich_help_panel=_FILES),
    ] = None,
    rounds: Annotated[int, _option(_FILES, "Times at which files come.")] = 1,
    only_round: Annotated[int | None, _option(_FILES, "Write the files of this round alone.", min=1)] = None,
    late: Annotated[int, _option(_WRONG, "Change files that come a round late.")] = 0,
    repeated: Annotated[int, _option(_WRONG, "Change files that come again in the next round.")] = 0,
    resumed: Annotated[int, _option(_WRONG, "Change files whose rows come again in another file.")] = 0,
    fault: Annotated[list[Fault] | None, _option(_WRONG, "A fault to plant; may be repeated.")] = None,
    bad_rows: Annotated[int, _option(_WRONG, "How many rows --fault bad-rows plants.", min=1)] = 5,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Make up the files that DMS would write of a table, without a database, and what the lake must hold after them.

    Files are Parquet unless DataFormat is set. The expectation is Parquet as well; with it come the table's attributes
    (for cdclake tables set --from) and a list of the files and of the faults in them.

    Example: cdclake local feed raw --rows 100000 --changes 20000 --set TimestampColumnName=ts
    """
    asked = FeedOptions(
        table=TableName.parse(table),
        columns=_columns_text(columns, schema, draw_columns, seed),
        primary_key=_names(primary_key),
        partition_key=_names(partition_key),
        settings=_dms_settings(settings, set_ or []),
        seed=seed,
        start_utc=start.replace(tzinfo=timezone.utc),
        rows=rows,
        load_files=load_files,
        changes=changes,
        change_files=files,
        shares=OperationShares(insert, update, delete, move, untidy),
        hot_keys=hot_keys,
        hot_share=hot_share,
        transaction_rows=transaction_rows,
        delete_image=delete_image,
        schema_changes=schema_changes,
        late_files=late,
        repeated_files=repeated,
        resumed_files=resumed,
        rounds=rounds,
        faults=frozenset(fault or ()),
        bad_rows=bad_rows,
        history=history,
        soft_delete=soft_delete,
    )
    _write(asked, destination, expected or Path(f"{asked.table}-expected"), only_round, output, target)


def _write(
    asked: FeedOptions,
    destination: str,
    expected: Path,
    only_round: int | None,
    output: OutputFormat,
    target: Target,
) -> None:
    from cdclake.cli.aws.environment import aws_environment  # Arrow takes a while, and --help needs none
    from cdclake.devkit.feed.feed import Feed
    from cdclake.devkit.feed.write import write_feed

    if only_round is not None and only_round > asked.rounds:
        message = f"There is no round {only_round} in {asked.rounds}"
        raise ConfigurationError(message, remedy="Give --rounds as in the calls before")
    made = Feed(asked)
    _make_folder(expected)
    with aws_environment(target), progress(f"Making up {asked.table}") as bar:
        raw, prefix = _place(destination)
        report = write_feed(made, raw, prefix, expected, only_round, bar.say)
    record = {"table": str(asked.table), **asdict(report), "expected": str(expected)}
    shown = output_for(output)
    if output is OutputFormat.JSON:
        shown.records("Feed", (), [{**record, "attributes": made.attributes}])
    else:
        shown.records("Feed", _COLUMNS, [{**record, "faults": len(report.faults)}])


def _place(destination: str) -> tuple[ObjectStore, str]:
    """The store to write to, and the key prefix there."""
    from cdclake.adapters.stores import S3, store

    url = urlsplit(destination)
    if url.scheme == S3:
        prefix = url.path.strip("/")
        return store(f"{S3}://{url.netloc}"), f"{prefix}/" if prefix else ""
    folder = Path(destination).absolute()
    _make_folder(folder)
    return store(folder.as_uri()), ""


def _make_folder(folder: Path) -> None:
    """Make a folder that is not there yet.

    Raises:
        ConfigurationError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder {folder} cannot be made: {error.strerror}"
        raise ConfigurationError(message, remedy="Name another one") from error


def _columns_text(columns: str | None, schema: Path | None, drawn: int | None, seed: int) -> str:
    """The feed's columns as text.

    Raises:
        ConfigurationError: They are given in more than one way, or in a file that is no text.
    """
    if sum(one is not None for one in (columns, schema, drawn)) > 1:
        remedy = "Give one of --columns, --schema and --draw-columns"
        raise ConfigurationError("The columns are given more than once", remedy=remedy)
    if drawn is not None:
        from cdclake.devkit.feed.columns import random_columns

        return random_columns(drawn, seed)
    if schema is None:
        return columns or DEFAULT_COLUMNS
    try:
        return schema.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{schema} cannot be read as text: {error}"
        raise ConfigurationError(message, remedy="Write the columns in it as for --columns") from error


def _dms_settings(file: Path | None, named: list[str]) -> DmsSettings:
    """Settings of a file, and those named one by one in their place; Parquet if nothing else is said.

    Raises:
        ConfigurationError: The file is no JSON object, a setting has no `=`, or DMS has no such setting or value.
    """
    settings: dict[str, object] = {"DataFormat": "parquet", **(json_object(file) if file else {})}
    for one in named:
        name, equals, value = one.partition("=")
        if not equals:
            message = f"'{one}' does not set anything"
            raise ConfigurationError(message, remedy="Write it as NAME=VALUE")
        settings[name] = value
    return settings_from(settings)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
