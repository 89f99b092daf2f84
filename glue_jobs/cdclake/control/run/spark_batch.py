"""Runs one Spark job for several tables: ProcessTable writes the batch, and the job writes its progress.

Both are objects next to the control folders of the lake tables. Job arguments could not hold them: Glue's limit is not
documented, some 180 KB for a whole request, and less for the command line (awsdocs/aws-glue-developer-guide#55)::

    <lake prefix>_cdclake/batch-<id>.json            the arguments of each table, as in a run of its own
    <lake prefix>_cdclake/batch-<id>-progress.json   the result of each table so far, and the current table

If a table cannot be loaded, the progress holds its error, and the job continues with the next table. If the job dies,
the progress shows at which table. A run of a single table writes its progress only if it fails: Glue reports errors as
text, and the progress keeps their kinds. If an earlier run died at the table, the run reads each raw file alone first,
and its progress shows at which file (see `file_note`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from cdclake import logs
from cdclake.control.jobs.entry import StoppedError, error_line, failures_line
from cdclake.errors import CdclakeError, ConfigurationError, error_from_json
from cdclake.model.layout import batches_prefix
from cdclake.model.names import Argument
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.ports import ObjectStore

Arguments = Mapping[str, str]
"""Arguments of one table's run, by name without dashes."""


class BatchProgress(NamedTuple):
    """Progress of a run.

    Attributes:
        done: The error of each finished table by its path, on one line; empty if it succeeded.
        at: Path of the current table; empty if there is none.
        errors: Those errors that are a `CdclakeError`, as its JSON data, by path.
        file: The current raw file, relative; empty if it is not known.
    """

    done: dict[str, str]
    at: str = ""
    errors: Mapping[str, Mapping[str, Any]] = {}
    file: str = ""

    def error_of(self, path: str) -> CdclakeError | None:
        """The error of a table, with its kind; None if it is not known."""
        return error_from_json(self.errors[path]) if path in self.errors else None


def batch_key(lake_prefix: str, batch_id: str) -> str:
    """Key of a batch in the lake bucket."""
    return f"{batches_prefix(lake_prefix)}{batch_id}.json"


def progress_key(key: str) -> str:
    """Key of the progress of a run, given the key of its batch."""
    return f"{key[: -len('.json')]}-progress.json"


def table_path(arguments: Arguments) -> str:
    """Path of the table of a run's arguments."""
    return f"{arguments[Argument.BUCKET]}/{arguments[Argument.PREFIX]}"


def write_batch(store: ObjectStore, key: str, tables: Sequence[Arguments]) -> None:
    """Write the batch of a run."""
    store.put(key, json.dumps([dict(one) for one in tables]).encode())


def read_progress(store: ObjectStore, key: str) -> BatchProgress | None:
    """Read the progress of a batch's run; None if it never began with a table."""
    data = store.get(progress_key(key))
    if data is None:
        return None
    return BatchProgress(**json.loads(data))


def delete_batch(store: ObjectStore, key: str) -> None:
    """Delete a batch and its progress."""
    store.remove(key[: -len(".json")], lambda other: other not in (key, progress_key(key)))


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
    failed: dict[str, Exception] = {}
    for arguments in json.loads(data):
        path = table_path(arguments)
        log = logs.bind(__name__, table=str(TableState({Attribute.PATH: path}).name))
        _write_progress(store, progress_key(key), done, failed, at=path)
        try:
            summaries.append(load(arguments))
        except StoppedError:
            raise
        except CdclakeError as problem:
            failed[path] = problem
            log.error("failed", extra={"error": error_line(problem)})
        except Exception as problem:
            if not can_continue():
                raise
            failed[path] = problem
            log.exception("failed")
        done[path] = error_line(failed[path]) if path in failed else ""
        if path in failed:
            summaries.append({"table": path, "error": done[path]})
    _write_progress(store, progress_key(key), done, failed)
    return {"tables": summaries, "error": failures_line(failed, len(done))}


def file_note(store: ObjectStore, key: str, arguments: Arguments) -> Callable[[str], None]:
    """The function to call with each raw file before the run of a single table reads it, and with "" afterwards.

    Args:
        key: From `progress_key`.
        arguments: The table's arguments.
    """
    path = table_path(arguments)
    return lambda file: _write_progress(store, key, {}, {}, at=path, file=file)


def report_failure(store: ObjectStore, key: str, arguments: Arguments, error: Exception) -> None:
    """Write the error of the run of a single table.

    Args:
        key: From `progress_key`.
        arguments: The table's arguments.
    """
    path = table_path(arguments)
    _write_progress(store, key, {path: error_line(error)}, {path: error})


def _write_progress(
    store: ObjectStore, key: str, done: Mapping[str, str], failed: Mapping[str, Exception], at: str = "", file: str = ""
) -> None:
    errors = {path: error.to_json() for path, error in failed.items() if isinstance(error, CdclakeError)}
    store.put(key, json.dumps({"done": done, "at": at, "file": file, "errors": errors}).encode())
