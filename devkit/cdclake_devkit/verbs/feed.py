"""`cdclake local feed`: generate DMS files, and the table expected from them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.dms.settings import DmsSettings, settings_from
from cdclake_cli.named_files import json_object
from cdclake_cli.options import with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.target import Target
from cdclake_devkit.feed.options import DEFAULT_COLUMNS, DeleteImage, Fault, FeedOptions, OperationShares

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore

_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("files", "Raw files", number=True),
    OutputColumn("rows", "Rows", number=True),
    OutputColumn("bytes", "Bytes", number=True),
    OutputColumn("expected_rows", "Rows expected", number=True),
    OutputColumn("expected_versions", "Versions expected", number=True),
    OutputColumn("faults", "Faults", number=True),
    OutputColumn("expected", "Expectation in"),
)
_ROWS, _OPERATIONS, _FILES, _FAULTS = "Rows", "Changes", "Files", "Disorder and faults"


def _option(panel: str, what: str, **more: Any) -> Any:  # noqa: ANN401 - Typer's own type for an option
    return typer.Option(help=what, rich_help_panel=panel, **more)


@with_target
def feed(
    destination: Annotated[
        str, typer.Argument(metavar="FOLDER|s3://BUCKET/PREFIX", help="Where DMS would write; created if missing.")
    ],
    *,
    expected: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for the expected table. Default: SCHEMA.TABLE-expected."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same options and seed generate the same bytes.")] = 7,
    table: Annotated[str, typer.Option(metavar="SCHEMA.TABLE", help="Name of the table.")] = "shop.orders",
    rows: Annotated[int, _option(_ROWS, "Rows of the full load.")] = 10_000,
    columns: Annotated[str | None, _option(_ROWS, 'Columns, such as "id bigint, name string".')] = None,
    schema: Annotated[
        Path | None, _option(_ROWS, "File with the columns, in the same form.", exists=True, dir_okay=False)
    ] = None,
    draw_columns: Annotated[
        int | None, _option(_ROWS, "Generate this many random columns in addition to the key id.", min=0)
    ] = None,
    primary_key: Annotated[str, _option(_ROWS, "Key columns; the last one is unique.")] = "id",
    partition_key: Annotated[str, _option(_ROWS, "Partition columns of the lake table.")] = "",
    history: Annotated[bool, _option(_ROWS, "Also expect a history.")] = False,
    soft_delete: Annotated[bool, _option(_ROWS, "Expect soft-deleted rows; see DeleteMode.")] = False,
    changes: Annotated[int, _option(_OPERATIONS, "Change rows.")] = 2_000,
    insert: Annotated[float, _option(_OPERATIONS, "Share of inserts.")] = 0.3,
    update: Annotated[float, _option(_OPERATIONS, "Share of updates.")] = 0.5,
    delete: Annotated[float, _option(_OPERATIONS, "Share of deletes.")] = 0.2,
    move: Annotated[float, _option(_OPERATIONS, "Share of updates that change the key.")] = 0.0,
    untidy: Annotated[
        float, _option(_OPERATIONS, "Share of inserts of existing keys and deletes of missing keys.")
    ] = 0.0,
    hot_keys: Annotated[int, _option(_OPERATIONS, "Number of keys with many updates.")] = 10,
    hot_share: Annotated[float, _option(_OPERATIONS, "Share of updates that change hot keys.")] = 0.2,
    transaction_rows: Annotated[int, _option(_OPERATIONS, "Average rows per transaction.")] = 5,
    delete_image: Annotated[DeleteImage, _option(_OPERATIONS, "Columns in delete rows.")] = DeleteImage.FULL,
    schema_changes: Annotated[int, _option(_OPERATIONS, "Number of column changes: add, widen, drop, add, ...")] = 0,
    files: Annotated[int, _option(_FILES, "Change files.")] = 10,
    load_files: Annotated[int, _option(_FILES, "Full-load files; 0: as many as the rows need.")] = 0,
    start: Annotated[datetime, _option(_FILES, "Time of the full load, in UTC.")] = datetime(2024, 3, 5),  # noqa: DTZ001 - Typer has no zones
    settings: Annotated[
        Path | None,
        _option(_FILES, "Read DMS settings from this JSON file.", exists=True, dir_okay=False),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="DMS setting. Repeatable.", rich_help_panel=_FILES),
    ] = None,
    rounds: Annotated[int, _option(_FILES, "Number of rounds in which files arrive.")] = 1,
    only_round: Annotated[int | None, _option(_FILES, "Write the files of this round only.", min=1)] = None,
    late: Annotated[int, _option(_FAULTS, "Change files that arrive one round late.")] = 0,
    repeated: Annotated[int, _option(_FAULTS, "Change files that arrive again in the next round.")] = 0,
    resumed: Annotated[int, _option(_FAULTS, "Change files whose rows arrive again in another file.")] = 0,
    fault: Annotated[list[Fault] | None, _option(_FAULTS, "Fault to add. Repeatable.")] = None,
    bad_rows: Annotated[int, _option(_FAULTS, "Bad rows that --fault bad-rows adds.", min=1)] = 5,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Generate the raw files of a table, without a database, and the expected lake table.

    Files are Parquet unless DataFormat is set. The expected table is Parquet too. Beside it are the table's attributes
    (for cdclake tables set --from) and a list of the files and their faults.

    Example: cdclake local feed raw --rows 100000 --changes 20000 --set TimestampColumnName=ts
    """
    feed_options = FeedOptions(
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
    _write(feed_options, destination, expected or Path(f"{feed_options.table}-expected"), only_round, output, target)


def _write(
    feed_options: FeedOptions,
    destination: str,
    expected: Path,
    only_round: int | None,
    output: OutputFormat,
    target: Target,
) -> None:
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it
    from cdclake_devkit.feed.feed import Feed
    from cdclake_devkit.feed.write import write_feed

    if only_round is not None and only_round > feed_options.rounds:
        message = f"There is no round {only_round} of {feed_options.rounds}"
        raise ConfigurationError(message, remedy="Use the same --rounds for every round")
    generated = Feed(feed_options)
    with aws_environment(target), progress(f"Generating {feed_options.table}") as bar:
        raw, prefix = _location(destination)
        report = write_feed(generated, raw, prefix, expected, only_round, bar.describe)
    record = {"table": str(feed_options.table), **asdict(report), "expected": str(expected)}
    out = output_for(output)
    if output is OutputFormat.JSON:
        out.json_record({**record, "attributes": generated.attributes})
    else:
        out.records("Feed", _COLUMNS, [{**record, "faults": len(report.faults)}])


def _location(destination: str) -> tuple[ObjectStore, str]:
    """The store to write to, and its key prefix."""
    from cdclake.adapters.stores import S3, open_store

    url = urlsplit(destination)
    if url.scheme == S3:
        prefix = url.path.strip("/")
        return open_store(f"{S3}://{url.netloc}"), f"{prefix}/" if prefix else ""
    folder = Path(destination).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return open_store(folder.as_uri()), ""


def _columns_text(columns: str | None, schema: Path | None, random_count: int | None, seed: int) -> str:
    """The columns of the feed as text.

    Raises:
        ConfigurationError: More than one option sets them, or their file is not text.
    """
    if sum(one is not None for one in (columns, schema, random_count)) > 1:
        remedy = "Use one of --columns, --schema and --draw-columns"
        raise ConfigurationError("The columns are set more than once", remedy=remedy)
    if random_count is not None:
        from cdclake_devkit.feed.columns import random_columns

        return random_columns(random_count, seed)
    if schema is None:
        return columns or DEFAULT_COLUMNS
    try:
        return schema.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{schema} cannot be read as text: {error}"
        raise ConfigurationError(message, remedy="Write the columns in the form of --columns") from error


def _dms_settings(file: Path | None, options: list[str]) -> DmsSettings:
    """Read DMS settings from a file and from options, which override it. The default format is Parquet.

    Raises:
        ConfigurationError: The file is not a JSON object, an option has no `=`, or DMS has no such setting or value.
    """
    settings: dict[str, object] = {"DataFormat": "parquet", **(json_object(file) if file else {})}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            message = f"'{option}' is not a setting"
            raise ConfigurationError(message, remedy="Write it as NAME=VALUE")
        settings[name] = value
    return settings_from(settings)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
