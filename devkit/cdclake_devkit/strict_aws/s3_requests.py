"""Reads S3 requests as moto holds them, and answers them with errors."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from moto.s3.responses import S3Response


def refusal(response: S3Response, status: int, code: str, message: str) -> tuple[int, dict[str, str], str]:
    """An error of S3, as moto's functions return responses. A HEAD request has no body, and so no code."""
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    body = "" if response.method == "HEAD" else f'<?xml version="1.0" encoding="UTF-8"?>\n{error}'
    return status, {"content-type": "application/xml"}, body


def access_key(response: S3Response) -> str:
    """Access key that signed a request; empty for an unsigned one.

    moto's own function recognizes only keys of the form of real ones.
    """
    authorization: str = response.headers.get("Authorization", "")
    return authorization.partition("Credential=")[2].partition("/")[0]
