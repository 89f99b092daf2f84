"""`cdclake local shell`: a shell whose AWS is an embedded one."""

from __future__ import annotations

import os
import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

_DEFAULT_SHELL = "/bin/sh"


def shell(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND...]", help="Run this instead of a shell, with its options.")
    ] = None,
    *,
    data_dir: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder for logs. Default: a temporary folder.")
    ] = None,
) -> None:
    """Start a local AWS, and a shell that uses it.

    In the shell, `cdclake` and all other AWS clients reach the local AWS, and no account. Both end together, and the
    local AWS loses everything.

    Example: cdclake local shell
    """
    from cdclake_devkit.local import run  # slow to import, and --help does not need it

    if not command and sys.stdin.isatty():
        typer.echo("A local AWS runs until you leave this shell with `exit`. Begin with `cdclake local put`", err=True)
    raise typer.Exit(run(command or [os.environ.get("SHELL") or _DEFAULT_SHELL], data_dir))
