"""Runs one Spark job for several tables: ProcessTable writes the batch, and the job writes its progress.

Both are objects next to the control folders of the lake tables. Job arguments could not hold them: Glue's limit is not
documented, some 180 KB for a whole request, and less for the command line (awsdocs/aws-glue-developer-guide#55)::

    <lake prefix>_cdclake/batch-<id>.json            the arguments of each table, as in a run of its own
    <lake prefix>_cdclake/batch-<id>-progress.json   the result of each table so far, and the current table

If a table cannot be loaded, the progress holds its error, and the job continues with the next table. If the job dies,
the progress shows at which table.
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


class BatchProgress(NamedTuple):
    """Progress of a run.

    Attributes:
        done: The error of each finished table by its path; empty if it succeeded.
        at: Path of the current table; empty if there is none.
    """

    done: dict[str, str]
    at: str = ""


def batch_key(lake_prefix: str, batch_id: str) -> str:
    """Key of a batch in the lake bucket."""
    return f"{batches_prefix(lake_prefix)}{batch_id}.json"


def table_path(arguments: Arguments) -> str:
    """Path of the table of a run's arguments."""
    return f"{arguments[Argument.BUCKET]}/{arguments[Argument.PREFIX]}"


def write_batch(store: ObjectStore, key: str, tables: Sequence[Arguments]) -> None:
    """Write the batch of a run."""
    store.put(key, json.dumps([dict(one) for one in tables]).encode())


def read_progress(store: ObjectStore, key: str) -> BatchProgress | None:
    """Read the progress of a batch's run; None if it never began with a table."""
    data = store.get(_progress_key(key))
    if data is None:
        return None
    progress = json.loads(data)
    return BatchProgress(progress["done"], progress["at"])


def delete_batch(store: ObjectStore, key: str) -> None:
    """Delete a batch and its progress."""
    store.delete([key, _progress_key(key)])


def run_batch(
    store: ObjectStore, key: str, load: Callable[[Arguments], Mapping[str, object]], can_continue: Callable[[], bool]
) -> dict[str, object]:
    """Load the tables of a batch one after the other, and write the progress after each.

    Args:
        load: Does the work of one table; returns its summary.
        can_continue: Whether the job can go on; called after an error that is not a `CdclakeError`.

    Returns:
        `tables` with the summary of each table, and `error`, which names the failed tables and is empty if none failed.

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
        _write_progress(store, key, BatchProgress(done, at=path))
        error = ""
        try:
            summaries.append(load(arguments))
        except StoppedError:
            raise
        except CdclakeError as problem:
            error = error_line(problem)
            log.error("failed", extra={"error": error})
        except Exception as problem:
            if not can_continue():
                raise
            error = error_line(problem)
            log.exception("failed")
        if error:
            summaries.append({"table": path, "error": error})
        done[path] = error
    _write_progress(store, key, BatchProgress(done))
    failed = {path: error for path, error in done.items() if error}
    return {"tables": summaries, "error": failures_line(failed, len(done))}


def _progress_key(key: str) -> str:
    return f"{key[: -len('.json')]}-progress.json"


def _write_progress(store: ObjectStore, key: str, progress: BatchProgress) -> None:
    store.put(_progress_key(key), json.dumps(progress._asdict()).encode())
