"""Logging for jobs and the Lambda: one JSON object per line. Jobs log to stderr and keep stdout for results.

Every line has `time`, `level`, `logger` and `message`, and also `run_id`, `table` and `change`: the run, the table, and
the number of the table's newest known change; null if there is none. These and other fields come from `configure` (for
the process), `context` (for a block of code and all that it calls), `bind` (for a logger) and `extra=` (for one call).
Later ones in this list win.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

from cdclake.errors import traceback_to_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_IN_EVERY_LINE: Mapping[str, object] = {"run_id": None, "table": None, "change": None}
_context: ContextVar[Mapping[str, object]] = ContextVar("context", default={})  # noqa: B039 - replaced, never changed
CHATTY = ("boto3", "botocore", "urllib3", "py4j")
"""Loggers of libraries that log every call."""


class JsonFormatter(logging.Formatter):
    """Writes a log record as one line of JSON.

    Args:
        fields: Fields of every line; fields of a record win.
    """

    def __init__(self, **fields: object) -> None:
        super().__init__()
        self.fields = fields

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback, if any, is the field `traceback`, without the texts of unexpected errors."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_IN_EVERY_LINE,
            **self.fields,
            **_context.get(),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES},
        }
        if record.exc_info:
            entry["traceback"] = traceback_to_store(record.exc_info[1])
        return json.dumps(entry, default=str)


class BoundLogger(_Adapter):
    """A logger that adds fields to all its lines."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Merge the bound fields with the call's fields, which win."""
        return msg, {**kwargs, "extra": {**(self.extra or {}), **kwargs.get("extra", {})}}


def configure(stream: TextIO | None = None, **fields: object) -> None:
    """Send all logs of the process to one stream as JSON, replacing existing handlers.

    The minimum level is INFO; for `CHATTY` libraries it is WARNING.

    Args:
        stream: Where to write; None: stderr.
        fields: Fields of every line.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(**fields))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def context(**fields: object) -> Iterator[None]:
    """Add fields to every line that this thread writes within the block. Blocks can be nested."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def bind(name: str, **fields: object) -> BoundLogger:
    """The logger with that name, with fields for all its lines."""
    return BoundLogger(logging.getLogger(name), fields)
