"""Connects to a database by SQLAlchemy, and says what its errors mean. No error contains the password."""

from __future__ import annotations

import warnings
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cdclake.errors import ConfigurationError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL, Connection

_DRIVERS = "pip install 'cdclake-cli[sqlalchemy]', and the driver: oracledb for Oracle, pymssql for SQL Server"
_IN_MEMORY = ("", ":memory:")


@dataclass(frozen=True)
class Login:
    """How to connect. The representation does not contain the password.

    Attributes:
        url: SQLAlchemy's URL of the database, without a password: `oracle+oracledb://reader@db/?service_name=shop`.
    """

    url: str
    password: str | None = field(default=None, repr=False)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Open a connection for the duration of the `with` block. Errors of the database in the block are translated.

        Raises:
            ConfigurationError: SQLAlchemy or the driver is missing, or the database refuses access.
        """
        try:
            import sqlalchemy
        except ImportError as error:
            raise ConfigurationError("This kind of source needs SQLAlchemy", remedy=f"Run {_DRIVERS}") from error
        try:
            url = _read_only(sqlalchemy.engine.make_url(self.url))
            engine = sqlalchemy.create_engine(url.set(password=self.password) if self.password else url)
            with warnings.catch_warnings(), closing(engine.connect()) as connection:
                warnings.simplefilter("ignore", sqlalchemy.exc.SAWarning)  # of what it skips, which has no type here
                yield connection
        except (ImportError, sqlalchemy.exc.NoSuchModuleError) as error:
            message = f"The driver for this kind of source is missing: {error}"
            raise ConfigurationError(message, remedy=f"Run {_DRIVERS}") from error
        except sqlalchemy.exc.SQLAlchemyError as error:
            message = f"The source database refuses: {self._text(error)}"
            raise ConfigurationError(message, remedy="Check its URL, the user and its grants") from None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Translate errors of statements in the block.

        Raises:
            RetryableError: The database returned an error.
        """
        import sqlalchemy

        try:
            yield
        except sqlalchemy.exc.SQLAlchemyError as error:
            message = f"The source database returned an error: {self._text(error)}"
            raise RetryableError(message, remedy="Check that it is running, and run again") from None

    def _text(self, error: Exception) -> str:
        """What the database says; the whole text of SQLAlchemy's error may have the password."""
        text = " ".join(str(getattr(error, "orig", None) or error).split())
        return text.replace(self.password, "***") if self.password else text


def _read_only(url: URL) -> URL:
    """Have SQLite open its file to read, and not create one that does not exist."""
    if url.get_backend_name() != "sqlite" or url.database is None or url.database in _IN_MEMORY or "uri" in url.query:
        return url
    query: dict[str, Any] = {**url.query, "mode": "ro", "uri": "true"}
    return url.set(database=f"file:{quote(str(Path(url.database).absolute()))}", query=query)
