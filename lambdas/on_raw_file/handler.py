"""Lambda behind the raw bucket's object-created events: gets the tables that the new files belong to looked at.

A burst of events ends in one ProcessTable run for each table, see `cdclake.control.wake`. Events may come twice, late
and in any order, as S3 delivers them; what they say is only that a table is worth a look. A transaction file holds rows
of many tables, and its name does not tell which: every active table that reads its folder is looked at.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus

from cdclake import logs
from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.control.arguments import folder_prefix, parse_new_table
from cdclake.control.entry import error_line
from cdclake.control.wake import wake_table
from cdclake.errors import ConfigurationError, JobRunError
from cdclake.model.rawfiles import is_transactions_key, split_raw_key
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cdclake.ports import JobRunner, StateStore

RAW_PREFIX, STATE_TABLE, PROCESS_TABLE_JOB = "RAW_PREFIX", "STATE_TABLE", "PROCESS_TABLE_JOB"
"""Environment: prefix of the schemas' folders in the raw bucket (may be empty), the state table, the job to start."""
NEW_TABLE = "NEW_TABLE"
"""Environment, if there is more to say: settings that a table is registered with, as the Controller's argument."""


class Surroundings(NamedTuple):
    """What the function works with; made once for each container."""

    states: StateStore
    jobs: JobRunner
    raw_prefix: str
    process_table_job: str
    new_table: Mapping[str, str] = {}


def handler(event: Mapping[str, Any], context: object) -> dict[str, str]:  # noqa: ARG001 - Lambda passes both
    """What Lambda calls. Returns what became of each table, see `handle`."""
    return handle(event, _surroundings(), datetime.now(timezone.utc))


def handle(event: Mapping[str, Any], surroundings: Surroundings, now: datetime) -> dict[str, str]:
    """Get every table looked at that an event's files belong to.

    Args:
        event: S3's event.
        surroundings: State table, jobs, names.
        now: The time.

    Returns:
        For each table's path, what was done: `registered`, `inactive`, `started`, `collapsed` or `busy`.

    Raises:
        JobRunError: A table failed; raised after all were tried, so that Lambda delivers the event again, and at last
            to its dead-letter queue. To try again is safe: what went well collapses or finds nothing new.
    """
    done: dict[str, str] = {}
    failed: dict[str, str] = {}
    found = tables_of(event, surroundings.raw_prefix)
    sharing = readers_of_transactions(event, surroundings.states, surroundings.raw_prefix)
    for table in {table.path: table for table in [*found, *sharing]}.values():
        log = logs.bind(__name__, table=str(table.name))
        try:
            done[table.path] = _wake(table, surroundings, now)
            log.info(done[table.path])
        except Exception as error:
            log.exception("failed")
            failed[table.path] = error_line(error)
    if failed:
        message = (
            f"{len(failed)} of {len(done) + len(failed)} tables could not be seen to: {'; '.join(failed.values())}"
        )
        raise JobRunError(message, remedy="Lambda tries again by itself; the hourly Controller sees to what is left")
    return done


def tables_of(event: Mapping[str, Any], raw_prefix: str) -> list[TableState]:
    """The tables that an event's new objects belong to, each once, as the state of a table seen for the first time.

    Objects that are no raw data of a table are passed over, and so are events of other kinds (S3 sends an
    `s3:TestEvent` without records when the notification is set up).

    Args:
        event: S3's event. Keys in it are URL-encoded, a space as `+` (S3 user guide, "Event message structure").
        raw_prefix: Prefix of the schemas' folders, empty or with a trailing slash.
    """
    tables: dict[str, TableState] = {}
    for bucket, key in _created(event):
        parts = split_raw_key(key, raw_prefix)
        if parts:
            table = TableState.new(bucket, parts.schema_prefix, parts.folder)
            tables[table.path] = table
    return list(tables.values())


def readers_of_transactions(event: Mapping[str, Any], states: StateStore, raw_prefix: str) -> list[TableState]:
    """The active tables that read the folders of an event's new transaction files, each once.

    Args:
        event: S3's event.
        states: The state table; read only if there is a transaction file.
        raw_prefix: Prefix of the schemas' folders, empty or with a trailing slash.
    """
    folders: dict[str, set[str]] = {}
    for bucket, key in _created(event):
        if key.startswith(raw_prefix) and is_transactions_key(key):
            folders.setdefault(bucket, set()).add(f"{key.rpartition('/')[0]}/")
    return [
        state
        for bucket, written in folders.items()
        for state in states.all(f"{bucket}/{raw_prefix}")
        if state.active and state.transactions_folder in written
    ]


def _created(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Bucket and decoded key of each object that an event says was created."""
    for record in event.get("Records", ()):
        if record.get("eventName", "").startswith("ObjectCreated:"):
            yield record["s3"]["bucket"]["name"], unquote_plus(record["s3"]["object"]["key"])


def _wake(table: TableState, surroundings: Surroundings, now: datetime) -> str:
    states = surroundings.states
    state = states.get(table.path)
    if state is None:
        states.register(table.with_attributes(**surroundings.new_table))  # inactive: a person looks first
        return "registered"
    if not state.active:
        return "inactive"
    return wake_table(states, surroundings.jobs, table.path, now, job=surroundings.process_table_job).wake.value


@lru_cache(maxsize=1)
def _surroundings() -> Surroundings:
    logs.configure()
    missing = [name for name in (RAW_PREFIX, STATE_TABLE, PROCESS_TABLE_JOB) if name not in os.environ]
    if missing:
        message = f"The function's environment lacks {', '.join(missing)}"
        raise ConfigurationError(message, remedy="Set it in the function's configuration")
    return Surroundings(
        states=DynamoState(client("dynamodb"), os.environ[STATE_TABLE]),
        jobs=GlueJobs(client("glue")),
        raw_prefix=folder_prefix(os.environ[RAW_PREFIX]),
        process_table_job=os.environ[PROCESS_TABLE_JOB],
        new_table=parse_new_table(os.environ.get(NEW_TABLE, "")),
    )
