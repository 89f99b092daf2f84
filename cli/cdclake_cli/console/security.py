"""Restricts access to the browser that opened the console's address, and to the console's own pages.

Every program on this machine, and every web page in its browsers, can reach the server. Therefore:

* The console prints an address with a secret once, in the terminal. Opening it sets a cookie, without which every
  request is refused. Browsers do not send the cookie from other sites (`SameSite=Strict`), and scripts cannot read it.
* A request must name this machine and port as its host. A page of another site whose name resolves to this machine (DNS
  rebinding) sends its own name.
* A request that changes something must come from one of the console's forms. Its `Origin` and a second secret in the
  form prove that.
* Response headers forbid the browser to run or load other files, to show the pages in a frame, and to keep copies.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flask import abort, g, redirect, request, url_for

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response

ENTER = "enter"
FORM_FIELD = "form_secret"
MAX_FORM_BYTES = 64 * 1024

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer`, browsers would send `Origin: null` with the console's own forms:
    # https://fetch.spec.whatwg.org/#append-a-request-origin-header
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Secrets:
    """The secrets of one console process.

    Attributes:
        address: Part of the printed address.
        cookie: Value of the cookie.
        form: Hidden field of every form.
    """

    address: str = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)
    form: str = field(default_factory=_secret)


class Gate:
    """Checks every request, and adds security headers to every response.

    Args:
        port: The port that serves the console.
        allow_changes: Whether requests may change anything.
    """

    def __init__(self, secrets: Secrets, port: int, *, allow_changes: bool) -> None:
        self._secrets = secrets
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie_name = f"cdclake-console-{port}"
        self._allow_changes = allow_changes

    def protect(self, app: Flask) -> None:
        """Install the checks in an application."""
        app.config["MAX_CONTENT_LENGTH"] = MAX_FORM_BYTES
        app.before_request(self.check)
        app.after_request(self.add_headers)
        app.add_url_rule("/enter/<secret>", ENTER, self.enter)
        app.context_processor(self._template_context)

    def check(self) -> None:
        """Refuse requests for other hosts, without the cookie, or from other sites.

        Raises:
            HTTPException: 401 without the cookie, 403 for everything else.
        """
        host = request.headers.get("Host", "")
        if host not in self._hosts:
            abort(403, f"Open the console at http://{self._hosts[0]}.")
        if request.endpoint in {ENTER, "static"} and request.method == "GET":
            return
        if not _equal(request.cookies.get(self._cookie_name, ""), self._secrets.cookie):
            abort(401, "Open the address that cdclake console printed when it started.")
        g.signed_in = True
        if request.method in {"GET", "HEAD"}:
            return
        if request.headers.get("Origin") != f"http://{host}":
            abort(403, "This request did not come from a page of the console.")
        if not _equal(request.form.get(FORM_FIELD, ""), self._secrets.form):
            abort(403, "The console was restarted after this page was loaded. Reload the page.")
        if not self._allow_changes:
            abort(403, "The console is read-only. To change anything, start it with --allow-changes.")

    def _template_context(self) -> dict[str, object]:
        signed_in = g.get("signed_in", default=False)
        return {
            "signed_in": signed_in,
            "form_field": FORM_FIELD,
            "form_secret": self._secrets.form if signed_in else "",
        }

    def enter(self, secret: str) -> Response:
        """Set the cookie if the address has the right secret, and redirect to an address without it."""
        if not _equal(secret, self._secrets.address):
            abort(401, "Open the address that cdclake console printed when it last started.")
        response = redirect(url_for("tables.index"), 303)
        response.set_cookie(self._cookie_name, self._secrets.cookie, httponly=True, samesite="Strict")
        return response

    def add_headers(self, response: Response) -> Response:
        """Add the security headers to a response."""
        response.headers.update(HEADERS)
        return response


def _equal(value: str, secret: str) -> bool:
    """Compare in constant time, so that timing reveals nothing about the secret."""
    return hmac.compare_digest(value.encode(), secret.encode())
