"""Who is let in: the one browser that was given the address, and no page but our own.

The server can be reached by every program of this machine, and by every web page in a browser of it. So:

* the address with the secret is printed once, in the terminal; opening it gives the browser a cookie, and nothing is
  answered without it. The cookie is not sent along from other sites (`SameSite=Strict`), nor readable by scripts.
* a request must name this machine and port as its host. A page of another site whose name was made to lead here
  (DNS rebinding) names its own.
* what changes something must come from a form of ours: by its `Origin`, and by a second secret that is in the form.
* a browser is told to run and load nothing but our own files, to show the pages in no frame, and to keep no copy.
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
MOST_FORM_BYTES = 64 * 1024

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer` a browser would send `Origin: null` with our own forms:
    # https://fetch.spec.whatwg.org/#append-a-request-origin-header
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Secrets:
    """Made up anew each time the console starts.

    Attributes:
        address: In the address that is printed.
        cookie: What the browser is given for it.
        form: In every form.
    """

    address: str = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)
    form: str = field(default_factory=_secret)


class Gate:
    """Looks at every request before a page does, and at every answer after.

    Args:
        secrets: Those of this start.
        port: What is listened on.
        allow_changes: Whether anything may be changed.
    """

    def __init__(self, secrets: Secrets, port: int, *, allow_changes: bool) -> None:
        self._secrets = secrets
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie_name = f"cdclake-console-{port}"
        self._allow_changes = allow_changes

    def guard(self, app: Flask) -> None:
        """Stand before an application."""
        app.config["MAX_CONTENT_LENGTH"] = MOST_FORM_BYTES
        app.before_request(self.check)
        app.after_request(self.seal)
        app.add_url_rule("/enter/<given>", ENTER, self.enter)
        app.context_processor(self._for_pages)

    def check(self) -> None:
        """Refuse what is not for us, or not from us.

        Raises:
            HTTPException: 401 without the cookie, 403 for everything else.
        """
        host = request.headers.get("Host", "")
        if host not in self._hosts:
            abort(403, f"The console answers at http://{self._hosts[0]} alone.")
        if request.endpoint in {ENTER, "static"} and request.method == "GET":
            return
        if not _equal(request.cookies.get(self._cookie_name, ""), self._secrets.cookie):
            abort(401, "Open the address that cdclake console printed when it started.")
        g.let_in = True
        if request.method in {"GET", "HEAD"}:
            return
        if request.headers.get("Origin") != f"http://{host}":
            abort(403, "This did not come from a page of the console.")
        if not _equal(request.form.get(FORM_FIELD, ""), self._secrets.form):
            abort(403, "This did not come from a form of the console as it runs now. Load the page again.")
        if not self._allow_changes:
            abort(403, "The console is read-only. To change anything, start it with --allow-changes.")

    def _for_pages(self) -> dict[str, object]:
        """What templates may use: nothing of ours for who was not let in."""
        let_in = g.get("let_in", default=False)
        return {"let_in": let_in, "form_field": FORM_FIELD, "form_secret": self._secrets.form if let_in else ""}

    def enter(self, given: str) -> Response:
        """Give the cookie to the browser that brings the address's secret, and take the secret out of its sight."""
        if not _equal(given, self._secrets.address):
            abort(401, "Open the address that cdclake console printed when it started last.")
        answer = redirect(url_for("tables.index"), 303)
        answer.set_cookie(self._cookie_name, self._secrets.cookie, httponly=True, samesite="Strict")
        return answer

    def seal(self, answer: Response) -> Response:
        """Tell the browser what it may do with an answer."""
        answer.headers.update(HEADERS)
        return answer


def _equal(given: str, secret: str) -> bool:
    """Compared in a time that does not tell how much of it was right."""
    return hmac.compare_digest(given.encode(), secret.encode())
