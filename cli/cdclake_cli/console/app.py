"""Assembles the pages into a Flask application, and renders errors."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

import jinja2
from flask import Flask, render_template, request
from werkzeug.exceptions import HTTPException

from cdclake.errors import (
    CdclakeError,
    ConfigurationError,
    DiskFullError,
    PastRetentionError,
    RefusedChangeError,
    RetryableError,
    UnknownTableError,
)
from cdclake.model.times import display_utc
from cdclake_cli.console import changes, fleet, settings, tables, undo
from cdclake_cli.console.addresses import CONVERTER, TableConverter
from cdclake_cli.console.context import current_console
from cdclake_cli.console.overview import Overview, current_overview
from cdclake_cli.console.security import Gate, Secrets
from cdclake_cli.console.text import add_filters, shown

if TYPE_CHECKING:
    from flask import Response

    from cdclake_cli.console.context import Console

logger = logging.getLogger(__name__)

_STATUSES = (
    (UnknownTableError, 404),
    (PastRetentionError, 410),
    (ConfigurationError, 400),
    (RefusedChangeError, 409),
    (DiskFullError, 507),
    (RetryableError, 409),
)
"""The first match applies."""
_AWS_ERROR = 502
_TITLES = {
    400: "Invalid request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Not found",
    409: "Not possible now",
    410: "No longer retained",
    413: "Request too large",
    502: "AWS error",
    507: "A disk is full",
}
_TITLE = "Something went wrong"


def create_app(console: Console, secrets: Secrets, port: int) -> Flask:
    """Create the console as a WSGI application.

    Args:
        console: The lake that the pages show, and what they may change.
    """
    app = Flask(__name__)
    app.jinja_env.undefined = jinja2.StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    console.attach(app)
    Overview(console).attach(app)
    app.after_request(_expire)
    app.after_request(_close_unsent)
    add_filters(app)
    app.jinja_env.finalize = shown
    app.url_map.converters[CONVERTER] = TableConverter
    Gate(secrets, port, allow_changes=console.allow_changes).protect(app)
    app.context_processor(_template_context)
    for module in (tables, fleet, settings, changes, undo):
        app.register_blueprint(module.pages)
    app.register_error_handler(HTTPException, _http_error_page)
    app.register_error_handler(Exception, _error_page)
    return app


def _template_context() -> dict[str, object]:
    console = current_console()
    moment = console.clock()
    installation = console.lake.installation
    return {"console": console, "installation": installation, "moment": moment, "now": display_utc(moment)}


def _expire(response: Response) -> Response:
    """After a form, the next page reads the items again."""
    if request.method == "POST":
        current_overview().expire()
    return response


def _close_unsent(response: Response) -> Response:
    """Close a file that the browser has already: Werkzeug closes only what it sends."""
    if response.status_code == HTTPStatus.NOT_MODIFIED or request.method == "HEAD":
        response.close()
    return response


def _http_error_page(error: HTTPException) -> tuple[str, int]:
    status = error.code or 500
    return _render(status, error.description or error.name, "", {}), status


def _error_page(error: Exception) -> tuple[str, int]:
    known = current_console().explain(error)
    if known is None:
        logger.error("A page of the console could not be rendered", exc_info=error)
        text = "The console itself failed. The terminal that it runs in shows the error"
        return _render(500, text, "Report it with the terminal's output", {}), 500
    status = _status(known) if known is error or isinstance(known, DiskFullError) else _AWS_ERROR
    where = {name: value for name, value in known.details.items() if value not in (None, "")}
    return _render(status, known.message, known.remedy, where), status


def _status(error: CdclakeError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _render(status: int, message: str, remedy: str, where: dict[str, object]) -> str:
    title = _TITLES.get(status, _TITLE)
    return render_template("error.html", title=title, status=status, message=message, remedy=remedy, where=where)
