"""Options that name a source database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Union

import typer

if TYPE_CHECKING:
    from cdclake.devkit.replicate.mysql.connection import ConnectionOptions

PASSWORD_VARIABLE = "CDCLAKE_SOURCE_PASSWORD"
_SOURCE = "Source"

UserOption = Annotated[Union[str, None], typer.Option(help="Database user.", rich_help_panel=_SOURCE)]
HostOption = Annotated[
    Union[str, None], typer.Option(help="Database host. Default: this machine.", rich_help_panel=_SOURCE)
]
PortOption = Annotated[
    Union[int, None], typer.Option(min=1, max=65535, help="Database port. Default: 3306.", rich_help_panel=_SOURCE)
]
SocketOption = Annotated[str, typer.Option(help="Unix socket, instead of host and port.", rich_help_panel=_SOURCE)]
OptionFileOption = Annotated[
    Union[Path, None],
    typer.Option(
        exists=True,
        dir_okay=False,
        rich_help_panel=_SOURCE,
        help=f"MySQL option file with the password. Alternative: the environment variable {PASSWORD_VARIABLE}.",
    ),
]


def connection_options(
    user: str | None, host: str | None, port: int | None, socket: str, option_file: Path | None
) -> ConnectionOptions:
    """The connection that these options describe, with the password from the environment."""
    from cdclake.devkit.replicate.mysql.connection import (
        ConnectionOptions,  # slow to import, and --help does not need it
    )

    return ConnectionOptions(
        user=user,
        password=os.environ.get(PASSWORD_VARIABLE),
        host=host,
        port=port,
        socket=socket,
        option_file=str(option_file or ""),
    )
