"""The Spark jobs: bring the tables up to date that ProcessTable hands over, or load one table for an operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cdclake import logs
from cdclake.adapters.aws import server_clock
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.commit.log import ChangeLog
from cdclake.concurrency import executor
from cdclake.control.jobs.arguments import parse_arguments, parse_item
from cdclake.control.jobs.entry import error_line, job_run_id
from cdclake.control.run.bring_up_to_date import Host, bring_up_to_date
from cdclake.control.run.run_arguments import RunArguments
from cdclake.errors import JobRunError, disk_full
from cdclake.hash_secret import with_hash_secret
from cdclake.lake.operations.load import apply_changes, load_incremental, load_initial, replace_table
from cdclake.lake.operations.table_run import TableRun
from cdclake.model.change.place import Place
from cdclake.model.due_files import begin_after
from cdclake.model.layout import LakeLayout
from cdclake.model.names import JOB_LOAD_INITIAL, Argument, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.settings import TableSettings
from cdclake.run_ports import open_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cdclake.control.run.planned_round import DueLoad
    from cdclake.lake.limits import EngineLimits
    from cdclake.lake.spark.backend import Backend
    from cdclake.lake.spark.in_process import InProcessBackend

log = logs.bind(__name__)
_REQUIRED = (Argument.BUCKET, Argument.PREFIX, Argument.FOLDER, Argument.OUT_PATH)


def run_spark_job(job: str, argv: Sequence[str], backend: Callable[[], Backend]) -> dict[str, Any]:
    """Do the work of a Spark job: for the tables of `paths`, or for the table of the walkthrough's arguments.

    Args:
        job: Name of the job.
        argv: The command line.
        backend: Returns the backend on Spark.

    Returns:
        What the run did, as JSON data; its `error` is empty if no table failed.

    Raises:
        ConfigurationError: An argument is missing or wrong.
        CdclakeError: The only table cannot be loaded.
    """
    if not parse_arguments(argv, (), {Argument.PATHS: ""})[Argument.PATHS]:
        return _load_by_hand(job, argv, backend())
    arguments, run_id = RunArguments.parse(argv), job_run_id(argv)
    lake = (arguments.out_bucket, arguments.out_prefix)
    with executor(2) as pool:
        spark = pool.submit(backend)  # Spark starts while the run lists and plans

        def load(due: DueLoad) -> None:
            if error := spark.exception():  # no table is to blame
                log.error("Spark could not start", exc_info=error)
                message = f"Spark could not start: {error_line(error)}"
                raise JobRunError(message, remedy="Read the job's error log") from error
            place = Place(job, spark_reason=due.spark_reason)
            load_planned(_run_of(due, run_id, place, arguments.hash_secret), due, spark.result())

        def can_continue() -> bool:
            return is_spark_alive(spark.result())

        host = Host(job, arguments.lease_holder, arguments.timeout_seconds, can_continue=can_continue)
        report = bring_up_to_date(arguments.paths, *lake, run_id, open_ports(arguments), load, host)
    return report.only.to_json() if len(arguments.paths) == 1 else report.to_json()


def load_small(
    due: DueLoad, *, run_id: str, place: Place, backend: InProcessBackend, limits: EngineLimits, hash_secret: str = ""
) -> None:
    """Commit what is due for a table as one change, in this process, which fetches small data files whole.

    Raises:
        NeedsSparkError: The change is larger than the limits.
    """
    run = _run_of(due, run_id, place, hash_secret)
    load_planned(replace(run, limits=limits, lake_fs=replace(run.lake_fs, fetches_whole=True)), due, backend)


def _run_of(due: DueLoad, run_id: str, place: Place, hash_secret: str) -> TableRun:
    state = due.state
    settings = with_hash_secret(state.settings, hash_secret)
    run = _table_run(state.bucket, state.raw_prefix, due.changes, settings, run_id, due.token)
    return replace(run, note_file=due.note_file, place=place)


def load_planned(run: TableRun, due: DueLoad, backend: Backend) -> None:
    """Commit what is due for a table as one change."""
    before, raw, seen, decision = due.planned.lake, due.planned.files, due.planned.recorded, due.planned.decision
    reloads = due.job == JOB_LOAD_INITIAL

    def load() -> dict[str, Any]:
        with executor(run.log.store.calls_at_once) as pool:  # while the raw files are read
            noting, checking = pool.submit(due.note_due), pool.submit(run.check, before, reloads=reloads)

            def check() -> None:
                noting.result()
                checking.result()

            if run.note_file:  # its notes go to the same item
                noting.result()
            if reloads:
                return replace_table(run, backend, before, raw, seen, decision.load_begin, check)
            base = before if before.exists else begin_after(before, due.state.watermark)
            end, up_to_date_utc = decision.new_watermark, due.state.seen.listed_utc
            summary = apply_changes(run, backend, before, base, raw, seen, end, check, up_to_date_utc)
            check()  # if there was nothing to apply
            return summary

    _logged(load, backend)


def _load_by_hand(job: str, argv: Sequence[str], backend: Backend) -> dict[str, Any]:
    """Load one table without a lease, as the jobs of the walkthrough do; returns the change's summary.

    The argument `item` contains the table's settings. Keys that it lacks come from `primaryKey` and `partitionKey`.
    """
    optional = {
        **dict.fromkeys((Argument.PARTITION_KEY, Argument.PRIMARY_KEY, Argument.LAST_INCREMENTAL_FILE), Sentinel.NONE),
        Argument.NEW_INCREMENTAL_FILE: Sentinel.NONE,
        Argument.ITEM: "",
        Argument.HASH_SECRET: "",
    }
    arguments = parse_arguments(argv, _REQUIRED, optional, may_be_empty=[Argument.HASH_SECRET])
    bucket, raw_prefix = arguments[Argument.BUCKET], arguments[Argument.PREFIX]
    item = {
        Attribute.PATH: f"{bucket}/{raw_prefix}",
        Attribute.PRIMARY_KEY: arguments[Argument.PRIMARY_KEY],
        Attribute.PARTITION_KEY: arguments[Argument.PARTITION_KEY],
        **(parse_item(arguments[Argument.ITEM]) if arguments[Argument.ITEM] else {}),
    }
    layout = LakeLayout.from_arguments(arguments[Argument.OUT_PATH], arguments[Argument.FOLDER])
    changes = ChangeLog(open_store(layout.bucket), layout)
    settings = with_hash_secret(TableSettings.from_item(item), arguments[Argument.HASH_SECRET])
    run = _table_run(bucket, raw_prefix, changes, settings, job_run_id(argv))
    run = replace(run, place=Place(job))
    last, new = (
        relative_file(arguments[name], bucket, raw_prefix)
        for name in (Argument.LAST_INCREMENTAL_FILE, Argument.NEW_INCREMENTAL_FILE)
    )
    with logs.context(table=str(layout.name)):
        if job == JOB_LOAD_INITIAL:
            return _logged(lambda: load_initial(run, backend, last), backend)
        return _logged(lambda: load_incremental(run, backend, last, new), backend)


def _table_run(
    bucket: str,
    raw_prefix: str,
    changes: ChangeLog,
    settings: TableSettings,
    run_id: str,
    fencing_token: int = 0,
) -> TableRun:
    return TableRun(
        raw=open_store(bucket),
        raw_fs=lake_filesystem(bucket),
        raw_prefix=raw_prefix,
        log=changes,
        lake_fs=lake_filesystem(changes.layout.bucket),
        settings=settings,
        run_id=run_id,
        fencing_token=fencing_token,
        clock=server_clock,
    )


def _logged(load: Callable[[], dict[str, Any]], backend: Backend) -> dict[str, Any]:
    """Load one table, and log when that starts and ends."""
    log.info("began")
    try:
        summary = load()
    except OSError as error:
        if full := disk_full(error):
            raise full from error
        raise
    log.info("ended", extra={**_outcome(summary), "parallelism": backend.parallelism})
    return summary


def _outcome(summary: Mapping[str, Any]) -> dict[str, Any]:
    change = summary.get("change") or summary.get("newest_change") or None
    reason = summary.get("kind") or summary.get("reason")
    books = {name: count for name, count in (summary.get("books") or {}).items() if count}
    return {"change": change, "reason": reason, "books": books}


def is_spark_alive(backend: Backend) -> bool:
    """Whether Spark still runs tasks. If its JVM has crashed, no further table can be loaded."""
    try:
        return backend.distribute([[0]]).collect() == [0]
    except Exception:
        log.exception("Spark has crashed")
        return False


def relative_file(argument: str, bucket: str, raw_prefix: str) -> str:
    """Make the name `<bucket>/<key>` of a change file relative to the table's raw folder; empty for the sentinels.

    A transaction file is in another folder; for it, return only the file name.
    """
    own = f"{bucket}/{raw_prefix}"
    relative = argument[len(own) :] if argument.startswith(own) else argument.rpartition("/")[2]
    return "" if relative in {Sentinel.FIRST_FILE, Sentinel.NONE} else relative
