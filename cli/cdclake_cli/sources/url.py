"""Opens the source database that a URL names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from cdclake.errors import ConfigurationError
from cdclake_cli.sources.inspected.connection import Login
from cdclake_cli.sources.inspected.source import InspectedSource
from cdclake_cli.sources.mysql.source import MysqlSource
from cdclake_cli.sources.options import PASSWORD_VARIABLE, Engine, source

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.sources.catalog import Catalog
    from cdclake_cli.sources.postgres.source import PostgresSource
    from cdclake_cli.sources.source import ComparedSource

_ENGINES = {
    "mysql": Engine.MYSQL,
    "mariadb": Engine.MYSQL,
    "postgresql": Engine.POSTGRES,
    "postgres": Engine.POSTGRES,
}
_WRITTEN = (
    "Write mysql://reader@db.example.com/shop, postgresql://reader@db.example.com/shop, or a URL of SQLAlchemy, such as"
    " oracle+oracledb://reader@db.example.com/?service_name=shop"
)


def open_catalog(url: str, settings: DmsSettings | None = None, *, socket: str, option_file: Path | None) -> Catalog:
    """The catalog of the database at a URL, with the password from the environment.

    Args:
        url: `mysql://reader@db.example.com/shop`; of MySQL without a database, all of the server's. Other kinds than
            MySQL and PostgreSQL as SQLAlchemy writes them. Errors do not contain it.
        settings: Settings of the DMS task, some of which change PostgreSQL's types.
        socket: As in `SocketOption`.
        option_file: As in `OptionFileOption`.

    Raises:
        ConfigurationError: It is no URL, has a password, or an option is not for this kind of database.
    """
    return _opened(url, settings, socket, option_file).catalog


def open_source(url: str, settings: DmsSettings, *, socket: str, option_file: Path | None) -> ComparedSource:
    """The database at a URL, to compare lake tables with. Arguments and errors are as of `open_catalog`.

    Raises:
        ConfigurationError: Also: it names no database.
    """
    opened = _opened(url, settings, socket, option_file)
    if isinstance(opened, MysqlSource) and not opened.database:
        raise ConfigurationError("The URL of --source names no database", remedy=_WRITTEN)
    return opened


def _opened(
    url: str, settings: DmsSettings | None, socket: str, option_file: Path | None
) -> MysqlSource | PostgresSource | InspectedSource:
    parts, port = _split(url)
    engine = _ENGINES.get(parts.scheme)
    if engine is None:
        if socket or option_file:
            message = "--socket and --option-file are for MySQL and PostgreSQL"
            raise ConfigurationError(message, remedy="Write what the driver needs into the URL")
        return InspectedSource(Login(url, os.environ.get(PASSWORD_VARIABLE)))
    user, database = unquote(parts.username or "") or None, unquote(parts.path.removeprefix("/"))
    if engine is Engine.POSTGRES and not database:
        raise ConfigurationError("The URL of --source names no database", remedy=_WRITTEN)
    return source(
        engine,
        database,
        settings,
        user=user,
        host=parts.hostname,
        port=port,
        socket=socket,
        option_file=option_file,
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError("--source is not a URL", remedy=_WRITTEN) from None  # its text may have a password
    if not parts.scheme or "://" not in url:
        raise ConfigurationError("--source is not a URL", remedy=_WRITTEN)
    if parts.password is not None:
        remedy = f"Remove it, and set {PASSWORD_VARIABLE}, or use --option-file (MySQL) or ~/.pgpass (PostgreSQL)"
        raise ConfigurationError("--source has a password, which others on this machine can see", remedy=remedy)
    return parts, port
