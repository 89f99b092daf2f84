"""`cdclake local serve`: run the embedded AWS as a service on this machine."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer


def serve(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0 for any free port.")] = 5555,
    data_dir: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder for logs. Default: a temporary folder.")
    ] = None,
) -> None:
    """Start a local AWS and run it until Ctrl-C.

    Prints its endpoint and names as one line of JSON when it is ready.

    Example: cdclake local serve --port 5555
    """
    from cdclake_devkit.local.service import serve as serve_until_stopped  # slow to import, and --help does not need it

    serve_until_stopped(port, data_dir)
