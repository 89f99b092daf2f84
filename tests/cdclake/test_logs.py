from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

from cdclake import logs
from cdclake.errors import CdclakeError

if TYPE_CHECKING:
    import pytest


def formatted(record: logging.LogRecord, **fields: object) -> dict[str, object]:
    text = logs.JsonFormatter(**fields).format(record)
    assert "\n" not in text
    read: dict[str, object] = json.loads(text)
    return read


def test_a_line_holds_the_fields_of_process_logger_and_call(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO):
        logs.bind("here", table="shop.orders", change=1).info("applied %d rows", 3, extra={"change": 2})
    entry = formatted(caplog.records[0], run_id="jr_1")
    time = str(entry.pop("time"))
    assert time.endswith("+00:00")
    assert entry == {
        "level": "INFO",
        "logger": "here",
        "message": "applied 3 rows",
        "run_id": "jr_1",
        "table": "shop.orders",
        "change": 2,
    }


def test_a_traceback_stays_on_the_line(caplog: pytest.LogCaptureFixture):
    try:
        raise CdclakeError("no\nway")
    except CdclakeError:
        logging.getLogger("here").exception("failed")
    assert "CdclakeError: no\nway" in str(formatted(caplog.records[0])["traceback"])


def test_a_traceback_has_the_places_of_unexpected_errors_but_not_their_texts(caplog: pytest.LogCaptureFixture):
    value = 5**30
    try:
        try:
            raise ValueError(value)
        except ValueError as error:
            raise KeyError(value) from error
    except KeyError:
        logging.getLogger("here").exception("failed")
    text = str(formatted(caplog.records[0])["traceback"])
    assert "ValueError: an unexpected error in test_logs.py, line " in text
    assert "KeyError: an unexpected error in test_logs.py, line " in text
    assert str(value) not in text


def test_configure_writes_json_to_stderr_and_quiets_libraries():
    script = (
        "import logging; from cdclake import logs; logs.configure(run_id='jr_1')\n"
        "logging.getLogger('botocore').info('each call'); logging.getLogger('mine').info('hello')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    (only,) = ended.stderr.splitlines()
    assert {"message": "hello", "run_id": "jr_1"}.items() <= json.loads(only).items()
