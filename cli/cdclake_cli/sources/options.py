"""Options that name a source database."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Union

import typer

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.sources.mysql.source import MysqlSource
    from cdclake_cli.sources.postgres.source import PostgresSource

PASSWORD_VARIABLE = "CDCLAKE_SOURCE_PASSWORD"
_SOURCE = "Source"


class Engine(str, Enum):
    """A kind of source database, by DMS's engine name."""

    MYSQL = "mysql"
    POSTGRES = "postgres"


SourceOption = Annotated[
    Union[str, None],
    typer.Option(
        metavar="URL",
        rich_help_panel=_SOURCE,
        help="Database, such as mysql://reader@db.example.com/shop or postgresql://reader@db.example.com/shop;"
        " others as SQLAlchemy writes them. Without a password.",
    ),
]
EngineOption = Annotated[
    Engine, typer.Option(help="Kind of database; mysql also for MariaDB.", rich_help_panel=_SOURCE)
]
UserOption = Annotated[Union[str, None], typer.Option(help="Database user.", rich_help_panel=_SOURCE)]
HostOption = Annotated[
    Union[str, None], typer.Option(help="Database host. Default: this machine.", rich_help_panel=_SOURCE)
]
PortOption = Annotated[
    Union[int, None],
    typer.Option(min=1, max=65535, help="Database port. Default: 3306, PostgreSQL 5432.", rich_help_panel=_SOURCE),
]
SocketOption = Annotated[
    str,
    typer.Option(help="Unix socket, instead of a host; for PostgreSQL its folder.", rich_help_panel=_SOURCE),
]
OptionFileOption = Annotated[
    Union[Path, None],
    typer.Option(
        exists=True,
        dir_okay=False,
        rich_help_panel=_SOURCE,
        help=f"MySQL option file with the password. Alternatives: the environment variable {PASSWORD_VARIABLE}, and for"
        " PostgreSQL ~/.pgpass.",
    ),
]


def named_settings(settings: Iterable[str]) -> dict[str, str]:
    """Parse `NAME=VALUE` texts; without `=`, the value is empty."""
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


def source(
    engine: Engine,
    database: str,
    settings: DmsSettings | None = None,
    *,
    user: str | None,
    host: str | None,
    port: int | None,
    socket: str,
    option_file: Path | None,
) -> MysqlSource | PostgresSource:
    """The database that these options describe, with the password from the environment.

    Args:
        settings: Settings of the DMS task, some of which change PostgreSQL's types.

    Raises:
        ConfigurationError: An option is not for this kind of database.
    """
    password = os.environ.get(PASSWORD_VARIABLE)
    # slow to import, and --help does not need them
    if engine is Engine.MYSQL:
        from cdclake_cli.sources.mysql.connection import ConnectionOptions as MysqlOptions
        from cdclake_cli.sources.mysql.source import MysqlSource

        return MysqlSource(MysqlOptions(user, password, host, port, socket, str(option_file or "")), database)
    from cdclake_cli.sources.postgres.connection import ConnectionOptions as PostgresOptions
    from cdclake_cli.sources.postgres.source import PostgresSource
    from cdclake_cli.sources.postgres.types import DEFAULT_MAPPING, TypeMapping

    if option_file is not None:
        remedy = f"Put the password into {PASSWORD_VARIABLE} or ~/.pgpass"
        raise ConfigurationError("--option-file is a file of MySQL", remedy=remedy)
    mapping = TypeMapping.from_settings(settings) if settings else DEFAULT_MAPPING
    return PostgresSource(PostgresOptions(user, password, host, port, socket), database, mapping)
