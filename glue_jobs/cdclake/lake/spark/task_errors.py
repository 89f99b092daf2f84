"""Carries cdclake's errors from Spark tasks to the driver.

Spark passes a task's exception to the driver as text inside a Java exception. A task writes its error into that text as
one line of JSON, and the driver builds the error again from it. So a bad raw file ends a job with one clear error,
whether the driver or a task reads the file.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdclake import errors
from cdclake.lake.memory_errors import does_not_fit, too_large
from cdclake.lake.spark.worker import start_tasks_quickly
from cdclake.lake.spark.workers_python import error_of_python

_MARK = "cdclake-error:"
_NO_ROOM = os.strerror(errno.ENOSPC)
_FULL_FILE = re.compile(rf"(/[^\s():]+) \({re.escape(_NO_ROOM)}\)")
"""So Java names a file that it cannot create."""
_ENCODED = re.compile(re.escape(_MARK) + r"(\{.*\})$", re.MULTILINE)


class TaskError(Exception):
    """An error of a task as text: a `CdclakeError`, encoded, or the traceback of an unexpected one, without values."""


@dataclass(frozen=True)
class SparkTask:
    """A function to run in Spark tasks. Its `CdclakeError`s reach the driver, also from the iterator it returns."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - whatever the function takes and returns
        """Call the function."""
        start_tasks_quickly()
        with _encoding_errors():
            result = self.function(*arguments)
        return _iterate(result) if isinstance(result, Iterator) else result


@contextmanager
def raising_task_errors() -> Iterator[None]:
    """Raise the `CdclakeError` of a task on the driver."""
    try:
        yield
    except Exception as error:
        # Py4J would ask the JVM for its text, which ends with the Python traceback.
        text = str(getattr(error, "java_exception", error))
        encoded = _ENCODED.search(text)
        if encoded is None and _NO_ROOM in text:  # Spark itself writes what it shuffles
            found = _FULL_FILE.search(text)
            raise errors.disk_full_error(_NO_ROOM, file=found and found[1]) from error
        if encoded is None:
            wrong_python = error_of_python(text)
            if wrong_python:
                raise wrong_python from error
            raise
        data = json.loads(encoded[1])
        kind: type[errors.CdclakeError] = getattr(errors, data["kind"])
        raise kind(data["message"], remedy=data["remedy"], **data["details"]) from None


def _iterate(items: Iterator[Any]) -> Iterator[Any]:
    while True:
        with _encoding_errors():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


@contextmanager
def _encoding_errors() -> Iterator[None]:
    try:
        yield
    except (errors.CdclakeError, OSError, MemoryError, pa.ArrowException) as caught:
        error: errors.CdclakeError | None = None
        if isinstance(caught, errors.CdclakeError):
            error = caught
        elif isinstance(caught, OSError):
            error = errors.disk_full(caught)
        elif does_not_fit(caught):
            error = too_large(caught)
        if error is None:
            raise TaskError(errors.traceback_to_store(caught)) from None
        data = {
            "kind": type(error).__name__,
            "message": error.message,
            "remedy": error.remedy,
            "details": {name: _json_value(value) for name, value in error.details.items()},
        }
        raise TaskError(_MARK + json.dumps(data)) from None  # Spark logs the texts of causes, too
    except TaskError:  # of a task within this one
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, its text may quote values of rows
        raise TaskError(errors.traceback_to_store(error)) from None


def _json_value(value: object) -> object:
    return value if isinstance(value, (int, float)) or value is None else str(value)
