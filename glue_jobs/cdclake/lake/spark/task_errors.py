"""Carries our errors from Spark's tasks to the driver.

Spark hands the driver a task's exception as text inside a Java one. The error is written into that text as one line of
JSON, and made anew from it on the driver, so that a bad raw file ends a job with one clear error wherever it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdclake import errors
from cdclake.lake.spark.worker import start_tasks_quickly

_MARK = "cdclake-error:"
_CARRIED = re.compile(re.escape(_MARK) + r"(\{.*\})$", re.MULTILINE)


class CarriedError(Exception):
    """What a task raises in place of one of our errors."""


@dataclass(frozen=True)
class Carried:
    """A function for a Spark task; its `CdclakeError`s reach the driver, those raised while iterating included."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - whatever the function takes and gives
        """Call the function."""
        start_tasks_quickly()
        with _carrying():
            result = self.function(*arguments)
        return _guarded(result) if isinstance(result, Iterator) else result


@contextmanager
def raising_ours() -> Iterator[None]:
    """Around Spark's work on the driver: raises a task's error as what it was."""
    try:
        yield
    except (Py4JJavaError, PySparkException, CarriedError) as error:
        found = _CARRIED.search(str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error))
        if found is None:
            raise
        data = json.loads(found[1])
        kind: type[errors.CdclakeError] = getattr(errors, data["kind"])
        raise kind(data["message"], remedy=data["remedy"], **data["details"]) from None


def _guarded(items: Iterator[Any]) -> Iterator[Any]:
    while True:
        with _carrying():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


@contextmanager
def _carrying() -> Iterator[None]:
    try:
        yield
    except errors.CdclakeError as error:
        data = {
            "kind": type(error).__name__,
            "message": error.message,
            "remedy": error.remedy,
            "details": {name: _plain(value) for name, value in error.details.items()},
        }
        raise CarriedError(_MARK + json.dumps(data)) from error


def _plain(value: object) -> object:
    return value if isinstance(value, (int, float)) or value is None else str(value)
