"""One run of a Spark job for several tables: what ProcessTable tells it, and what it tells of each table.

Both are objects beside the control folders of the lake's tables, as what Glue takes as arguments is little and not
documented: some 180 KB for a whole request, and less where the job's own command line ends
(awsdocs/aws-glue-developer-guide#55)::

    <lake prefix>_cdclake/batch-<id>.json            the arguments of each table's run, as it would get them alone
    <lake prefix>_cdclake/batch-<id>-progress.json   what came of each table so far, and which one is worked on

A table that cannot be loaded is told of, and the next one begins. If the run dies, the progress says at which table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable, NamedTuple

from cdclake import logs
from cdclake.control.jobs.entry import StoppedError, error_line, failures_line
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake.model.layout import batches_prefix
from cdclake.model.names import Argument, Attribute
from cdclake.model.table import TableState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.ports import ObjectStore

Arguments = Mapping[str, str]
"""Arguments of one table's run, by name without dashes."""


class Progress(NamedTuple):
    """How far a run is.

    Attributes:
        done: For the path of each table that is dealt with, what went wrong; empty if nothing did.
        at: Path of the table that is worked on; empty if none is.
    """

    done: dict[str, str]
    at: str = ""


def batch_key(lake_prefix: str, batch_id: str) -> str:
    """Key of a batch in the lake bucket."""
    return f"{batches_prefix(lake_prefix)}{batch_id}.json"


def table_path(arguments: Arguments) -> str:
    """Path of the table that a run's arguments are for."""
    return f"{arguments[Argument.BUCKET]}/{arguments[Argument.PREFIX]}"


def write_batch(store: ObjectStore, key: str, tables: Sequence[Arguments]) -> None:
    """Write down which tables a run is for."""
    store.put(key, json.dumps([dict(one) for one in tables]).encode())


def read_progress(store: ObjectStore, key: str) -> Progress | None:
    """How far the run of a batch is or came; None if it never began with a table."""
    data = store.get(_progress_key(key))
    if data is None:
        return None
    told = json.loads(data)
    return Progress(told["done"], told["at"])


def delete_batch(store: ObjectStore, key: str) -> None:
    """Delete a batch and its progress."""
    store.delete([key, _progress_key(key)])


def run_batch(
    store: ObjectStore,
    key: str,
    load: Callable[[Arguments], Mapping[str, object]],
    can_go_on: Callable[[], bool],
) -> dict[str, object]:
    """Load one table after the other, and tell of each.

    Args:
        store: The lake bucket.
        key: Key of the batch.
        load: Does one table's work; returns its summary.
        can_go_on: Whether anything works yet; asked after an error that is none of ours.

    Returns:
        `tables`, with each table's summary, and `error`, which names those that failed and is empty if none did.

    Raises:
        ConfigurationError: There is no such batch.
    """
    data = store.get(key)
    if data is None:
        remedy = "Start ProcessTable, which writes it and starts this job"
        raise ConfigurationError("There is no such batch of tables", remedy=remedy, file=key)
    summaries: list[Mapping[str, object]] = []
    done: dict[str, str] = {}
    for arguments in json.loads(data):
        path = table_path(arguments)
        log = logs.bind(__name__, table=str(TableState({Attribute.PATH: path}).name))
        _write_progress(store, key, Progress(done, at=path))
        error = ""
        try:
            summaries.append(load(arguments))
        except StoppedError:
            raise
        except CdclakeError as problem:
            error = error_line(problem)
            log.error("failed", extra={"error": error})
        except Exception as problem:
            if not can_go_on():
                raise
            error = error_line(problem)
            log.exception("failed")
        if error:
            summaries.append({"table": path, "error": error})
        done[path] = error
    _write_progress(store, key, Progress(done))
    failed = {path: error for path, error in done.items() if error}
    return {"tables": summaries, "error": failures_line(failed, len(done))}


def _progress_key(key: str) -> str:
    return f"{key[: -len('.json')]}-progress.json"


def _write_progress(store: ObjectStore, key: str, progress: Progress) -> None:
    store.put(_progress_key(key), json.dumps(progress._asdict()).encode())
