"""Puts the pages together, and says what went wrong where something did."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import jinja2
from flask import Flask, render_template
from werkzeug.exceptions import HTTPException

from cdclake.console import changes, tables, undo
from cdclake.console.context import console
from cdclake.console.security import Gate, Secrets
from cdclake.console.text import add_filters
from cdclake.errors import (
    CdclakeError,
    ConfigurationError,
    PastRetentionError,
    RefusedChangeError,
    RetryableError,
    UnknownTableError,
)

if TYPE_CHECKING:
    from cdclake.console.context import Console

logger = logging.getLogger(__name__)

_STATUSES = (
    (UnknownTableError, 404),
    (PastRetentionError, 410),
    (ConfigurationError, 400),
    (RefusedChangeError, 409),
    (RetryableError, 409),
)
"""The first that fits counts."""
_FROM_BELOW = 502
_TITLES = {
    400: "That cannot be done",
    401: "Not let in",
    403: "Not allowed",
    404: "Not found",
    405: "Not found",
    409: "Not now",
    410: "No longer kept",
    413: "Too much at once",
    502: "AWS cannot be used as it is",
}
_TITLE = "Something is wrong"


def create_app(about: Console, secrets: Secrets, port: int) -> Flask:
    """The console as a WSGI application.

    Args:
        about: What it works on.
        secrets: Those of this start.
        port: Where it is served.
    """
    app = Flask(__name__)
    app.jinja_env.undefined = jinja2.StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    about.attach(app)
    add_filters(app)
    Gate(secrets, port, allow_changes=about.allow_changes).guard(app)
    app.context_processor(_everywhere)
    for room in (tables, changes, undo):
        app.register_blueprint(room.pages)
    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(Exception, _failed)
    return app


def _everywhere() -> dict[str, object]:
    about = console()
    return {"console": about, "installation": about.lake.installation, "now": about.clock()}


def _refused(error: HTTPException) -> tuple[str, int]:
    status = error.code or 500
    return _page(status, error.description or error.name, "", {}), status


def _failed(error: Exception) -> tuple[str, int]:
    known = console().explain(error)
    if known is None:
        logger.error("A page of the console could not be made", exc_info=error)
        text = "The console itself failed. What went wrong is in the terminal that it runs in"
        return _page(500, text, "Report it with what the terminal says", {}), 500
    status = _status(known) if known is error else _FROM_BELOW
    where = {name: value for name, value in known.details.items() if value not in (None, "")}
    return _page(status, known.message, known.remedy, where), status


def _status(error: CdclakeError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _page(status: int, message: str, remedy: str, where: dict[str, object]) -> str:
    title = _TITLES.get(status, _TITLE)
    return render_template("error.html", title=title, status=status, message=message, remedy=remedy, where=where)
