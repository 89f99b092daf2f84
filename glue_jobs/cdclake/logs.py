"""Logging for jobs and Lambda: one JSON object a line; those of a job go to stderr, as stdout is left to results.

Every line has `time`, `level`, `logger` and `message`, and `run_id`, `table` and `change`, which are null where there
is none: whose run it was, which table it is about, and the number of that table's newest change as far as is known.
They and any other fields come from `configure` (for the whole process), `about` (for a block of code and all that it
calls), `bind` (for a logger) and `extra=` (for a single call); the later in this list win.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter

_OWN_OF_A_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_IN_EVERY_LINE: Mapping[str, object] = {"run_id": None, "table": None, "change": None}
_about: ContextVar[Mapping[str, object]] = ContextVar("about", default={})  # noqa: B039 - never changed, but replaced
_CHATTY = ("boto3", "botocore", "urllib3", "py4j")


class JsonFormatter(logging.Formatter):
    """Writes a log record as one line of JSON.

    Args:
        fields: Fields of every line. Those of a single record win over them.
    """

    def __init__(self, **fields: object) -> None:
        super().__init__()
        self.fields = fields

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback, if any, is the field `traceback`."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_IN_EVERY_LINE,
            **self.fields,
            **_about.get(),
            **{name: value for name, value in vars(record).items() if name not in _OWN_OF_A_RECORD},
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class BoundLogger(_Adapter):
    """A logger whose lines all carry some fields."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Join the bound fields and those of the call; the call's win."""
        return msg, {**kwargs, "extra": {**(self.extra or {}), **kwargs.get("extra", {})}}


def configure(level: str = "INFO", stream: TextIO | None = None, **fields: object) -> None:
    """Send all logging of the process to one stream as JSON, in place of whatever handlers there were.

    Args:
        level: Least level that is written; libraries that log every call write warnings only.
        stream: Where to; stderr if not given.
        fields: Fields of every line.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(**fields))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Give fields to every line that this thread writes within the block. Blocks may lie within each other."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def bind(name: str, **fields: object) -> BoundLogger:
    """The logger of that name, with fields for every line."""
    return BoundLogger(logging.getLogger(name), fields)
