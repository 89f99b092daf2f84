"""Which source database a command works with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Union

import typer

if TYPE_CHECKING:
    from cdclake.devkit.replicate.connection import ConnectionOptions

PASSWORD_VARIABLE = "CDCLAKE_SOURCE_PASSWORD"
_SOURCE = "Source"

UserOption = Annotated[Union[str, None], typer.Option(help="User of the database.", rich_help_panel=_SOURCE)]
HostOption = Annotated[Union[str, None], typer.Option(help="Its host; this one if not given.", rich_help_panel=_SOURCE)]
PortOption = Annotated[
    Union[int, None], typer.Option(min=1, max=65535, help="Its port; 3306 if not given.", rich_help_panel=_SOURCE)
]
SocketOption = Annotated[str, typer.Option(help="Its Unix socket, in place of host and port.", rich_help_panel=_SOURCE)]
OptionFileOption = Annotated[
    Union[Path, None],
    typer.Option(
        exists=True,
        dir_okay=False,
        rich_help_panel=_SOURCE,
        help=f"MySQL option file with the password; {PASSWORD_VARIABLE} is the other way to give one.",
    ),
]


def connection_options(
    user: str | None, host: str | None, port: int | None, socket: str, option_file: Path | None
) -> ConnectionOptions:
    """The connection options of the command line, with the password of the environment."""
    from cdclake.devkit.replicate.connection import ConnectionOptions  # heavy, and --help needs none of it

    return ConnectionOptions(
        user=user,
        password=os.environ.get(PASSWORD_VARIABLE),
        host=host,
        port=port,
        socket=socket,
        option_file=str(option_file or ""),
    )
