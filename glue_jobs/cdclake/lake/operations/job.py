"""Starts table runs from a Spark job's command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdclake import logs
from cdclake.adapters.aws import server_clock
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.control.jobs.arguments import item_json, parse_arguments, parse_item, to_argv
from cdclake.control.jobs.entry import StoppedError, job_run_id
from cdclake.control.run.spark_batch import file_note, report_failure, run_batch
from cdclake.errors import CdclakeError, disk_full
from cdclake.lake.operations.table_run import TableRun
from cdclake.model.layout import LakeLayout
from cdclake.model.names import Argument, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from cdclake.lake.spark.backend import Backend

log = logs.bind(__name__)
_REQUIRED = (Argument.BUCKET, Argument.PREFIX, Argument.FOLDER, Argument.OUT_PATH)
_OPTIONAL = {Argument.PARTITION_KEY: Sentinel.NONE, Argument.PRIMARY_KEY: Sentinel.NONE, Argument.FENCING_TOKEN: "0"}


def load_tables(
    argv: Sequence[str], load: Callable[[Sequence[str]], dict[str, Any]], backend: Callable[[], Backend]
) -> dict[str, Any]:
    """Load the table that a Spark job's arguments name, or each table of the batch that they name.

    Args:
        argv: The job's command line.
        load: Loads one table, given the command line of a run of that table alone; returns its summary.
        backend: Returns the backend on Spark.

    Returns:
        The table's summary; for a batch, the result of `spark_batch.run_batch`.

    Raises:
        ConfigurationError: An argument is missing or wrong, or there is no such batch.
        CdclakeError: The single table cannot be loaded.
    """
    url = parse_arguments(argv, (), {Argument.BATCH: ""})[Argument.BATCH]
    if not url:
        return _load_single(load, argv, backend)
    bucket, key = _bucket_and_key(url)
    run_id = [f"--{Argument.JOB_RUN_ID}", job_run_id(argv)]

    def load_one(table: Mapping[str, str]) -> dict[str, Any]:
        return _load_and_log(load, [*to_argv(table), *run_id], backend)

    return run_batch(open_store(bucket), key, load_one, lambda: is_spark_alive(backend()))


def _load_single(
    load: Callable[[Sequence[str]], dict[str, Any]], argv: Sequence[str], backend: Callable[[], Backend]
) -> dict[str, Any]:
    """Load one table, and write its error where the caller looks for it.

    Only a run without an error counts as dead, see `spark_runs.batch_outcome`.
    """
    try:
        return _load_and_log(load, argv, backend)
    except StoppedError:
        raise
    except Exception as error:
        arguments = parse_arguments(argv, (Argument.BUCKET, Argument.PREFIX), {Argument.PROGRESS: ""})
        if arguments[Argument.PROGRESS] and (isinstance(error, CdclakeError) or is_spark_alive(backend())):
            bucket, key = _bucket_and_key(arguments[Argument.PROGRESS])
            report_failure(open_store(bucket), key, arguments, error)
        raise


def _bucket_and_key(url: str) -> tuple[str, str]:
    bucket, _, key = url.split("://", 1)[-1].partition("/")
    return bucket, key


def _load_and_log(
    load: Callable[[Sequence[str]], dict[str, Any]], argv: Sequence[str], backend: Callable[[], Backend]
) -> dict[str, Any]:
    """Load one table, and log when it starts and ends. All log lines in between name the table."""
    arguments = parse_arguments(argv, (Argument.OUT_PATH, Argument.FOLDER))
    layout = LakeLayout.from_arguments(arguments[Argument.OUT_PATH], arguments[Argument.FOLDER])
    with logs.context(table=str(layout.name)):
        log.info("began")
        try:
            summary = load(argv)
        except OSError as error:
            if full := disk_full(error):
                raise full from error
            raise
        change = summary.get("change") or summary.get("newest_change") or None
        reason = summary.get("kind") or summary.get("reason")
        books = {name: count for name, count in (summary.get("books") or {}).items() if count}
        outcome = {"change": change, "reason": reason, "books": books, "parallelism": backend().parallelism}
        log.info("ended", extra=outcome)
        return summary


def is_spark_alive(backend: Backend) -> bool:
    """Whether Spark still runs tasks. If its JVM has crashed, no further table can be loaded."""
    try:
        return backend.distribute([[0]]).collect() == [0]
    except Exception:
        log.exception("Spark has crashed")
        return False


def table_run(
    argv: Sequence[str], required: Collection[str] = (), optional: Mapping[str, str] | None = None
) -> tuple[TableRun, Mapping[str, str]]:
    """Parse a Spark job's arguments and connect to the raw and the lake bucket.

    The argument `item` contains the table's settings. Keys that it lacks come from `primaryKey` and `partitionKey`, the
    arguments of the walkthrough's jobs.

    Args:
        argv: The job's command line.
        required: Names of required arguments, besides those that both jobs require.
        optional: Names of further arguments, with their defaults.

    Returns:
        The run, and the values of the arguments by name.

    Raises:
        ConfigurationError: An argument is missing or wrong.
    """
    given = {
        **_OPTIONAL,
        **dict.fromkeys((Argument.ITEM, Argument.PROGRESS, Argument.NAME_FILES), ""),
        **(optional or {}),
    }
    arguments = parse_arguments(argv, (*_REQUIRED, *required), given)
    bucket, raw_prefix = arguments[Argument.BUCKET], arguments[Argument.PREFIX]
    item_text = arguments[Argument.ITEM] or item_json({Attribute.PATH: f"{bucket}/{raw_prefix}"})
    item = {
        Attribute.PRIMARY_KEY: arguments[Argument.PRIMARY_KEY],
        Attribute.PARTITION_KEY: arguments[Argument.PARTITION_KEY],
        **parse_item(item_text),
    }
    layout = LakeLayout.from_arguments(arguments[Argument.OUT_PATH], arguments[Argument.FOLDER])
    run = TableRun(
        raw=open_store(bucket),
        raw_fs=lake_filesystem(bucket),
        raw_prefix=raw_prefix,
        log=ChangeLog(open_store(layout.bucket), layout),
        lake_fs=lake_filesystem(layout.bucket),
        settings=TableSettings.from_item(item),
        run_id=job_run_id(argv),
        fencing_token=int(arguments[Argument.FENCING_TOKEN]),
        clock=server_clock,
        note_file=_file_note(arguments),
    )
    return run, arguments


def _file_note(arguments: Mapping[str, str]) -> Callable[[str], None] | None:
    """`TableRun.note_file`. It is called at once, as then it is known that the run has begun."""
    if not (arguments[Argument.PROGRESS] and arguments[Argument.NAME_FILES]):
        return None
    bucket, key = _bucket_and_key(arguments[Argument.PROGRESS])
    note = file_note(open_store(bucket), key, arguments)
    note("")
    return note


def relative_file(argument: str, bucket: str, raw_prefix: str) -> str:
    """Make the name `<bucket>/<key>` of a change file relative to the table's raw folder; empty for the sentinels.

    A transaction file is in another folder; for it, return only the file name.
    """
    own = f"{bucket}/{raw_prefix}"
    relative = argument[len(own) :] if argument.startswith(own) else argument.rpartition("/")[2]
    return "" if relative in {Sentinel.FIRST_FILE, Sentinel.NONE} else relative
