"""Reads rows of any database that SQLAlchemy knows, in one transaction on one connection."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cdclake.errors import ConfigurationError, similar_names
from cdclake.model.table.name import TableName
from cdclake_cli.sources.inspected.catalog import as_stored
from cdclake_cli.sources.inspected.columns import SENT_BY_DMS, inspected_column
from cdclake_cli.sources.source import BATCH_ROWS
from cdclake_cli.sources.tables import SourceTable, check_folder_name, selected_rows

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa
    import sqlalchemy
    from sqlalchemy.engine import Connection

    from cdclake_cli.sources.inspected.connection import Login

_LEVELS = {
    "mysql": "REPEATABLE READ",
    "mariadb": "REPEATABLE READ",
    "postgresql": "REPEATABLE READ",
    "cockroachdb": "SERIALIZABLE",
}
"""Isolation levels at which a transaction sees one moment, and hinders no other. SQL Server's would lock rows."""
_BEGINNINGS = {
    "mysql": "start transaction with consistent snapshot, read only",
    "mariadb": "start transaction with consistent snapshot, read only",
    "oracle": "set transaction read only",
    "sqlite": "begin",
}
"""Statements that begin a transaction that sees one moment, where queries alone do not."""
_LIMITS = {
    "mysql": "set session max_execution_time = {milliseconds}",
    "mariadb": "set session max_statement_time = {seconds}",
    "postgresql": "set statement_timeout = {milliseconds}",
}
"""Statements that bound the time of those that follow."""


class InspectedSnapshot:
    """Open tables. `ComparedSnapshot` describes the methods.

    Attributes:
        tables: The tables, ordered by name.
    """

    def __init__(
        self,
        login: Login,
        connection: Connection,
        reflected: Sequence[sqlalchemy.Table],
        *,
        is_consistent: bool,
    ) -> None:
        self._login, self._connection = login, connection
        self._dialect = _name_of(connection)
        self.is_consistent = is_consistent
        stored = as_stored(connection.dialect)
        self._reflected = {TableName(stored(str(one.schema)), stored(one.name)): one for one in reflected}
        self._stored = stored
        self.tables = tuple(self._table(name) for name in sorted(self._reflected))

    @property
    def integers_alike(self) -> bool:
        """Whether integer types do not tell which one the raw files have."""
        return self._dialect not in SENT_BY_DMS

    def count(self, table: SourceTable) -> int:
        """The number of rows of a table."""
        from sqlalchemy import func, select

        with self._login.reading():
            counted = self._connection.execute(select(func.count()).select_from(self._reflected[table.name]))
            return int(counted.scalar_one())

    def rows(self, table: SourceTable, batch_rows: int = BATCH_ROWS) -> Generator[pa.Table, None, None]:
        """All rows of a table, in no order, in batches; one empty batch if there are none."""
        from sqlalchemy import select, type_coerce
        from sqlalchemy.types import NullType

        names = [column.name for column in table.columns]
        columns: list[Any] = [
            column for column in self._reflected[table.name].columns if self._stored(column.name) in names
        ]
        if self._dialect not in SENT_BY_DMS:  # as the driver returns values: SQLAlchemy rounds decimals, for example
            columns = [type_coerce(column, NullType()).label(column.name) for column in columns]
        with self._login.reading():
            result = self._connection.execute(
                select(*columns).select_from(self._reflected[table.name]),
                execution_options={"stream_results": True, "max_row_buffer": batch_rows},
            )
            batch = [tuple(row) for row in result.fetchmany(batch_rows)]
            yield selected_rows(table.columns, batch)
            while len(batch) == batch_rows and (batch := [tuple(row) for row in result.fetchmany(batch_rows)]):
                yield selected_rows(table.columns, batch)

    def limit_statements(self, seconds: int) -> None:
        """Let the server stop each statement that takes longer."""
        statement = _LIMITS.get(self._dialect)
        if statement is None:
            message = f"No limit of the time of a statement is known for {self._dialect}"
            raise ConfigurationError(message, remedy="Leave --statement-seconds out, or bound --max-rows-per-second")
        with self._login.reading():
            self._connection.exec_driver_sql(statement.format(seconds=seconds, milliseconds=seconds * 1000))

    def _table(self, name: TableName) -> SourceTable:
        check_folder_name(name)
        reflected, stored = self._reflected[name], self._stored
        columns = tuple(inspected_column(stored(one.name), one.type, self._dialect) for one in reflected.columns)
        key = tuple(stored(one.name) for one in reflected.primary_key.columns)
        return SourceTable(name, columns, key, "", ("",) * len(columns), "")


@contextmanager
def reading_snapshot(login: Login, names: Sequence[TableName]) -> Iterator[InspectedSnapshot]:
    """Open tables for the duration of the `with` block; without names, those of the user's default schema."""
    with login.connection() as connection:
        from sqlalchemy import inspect

        is_consistent = _begin(connection)
        inspector = inspect(connection)
        if names:
            spelled = getattr(connection.dialect, "normalize_name", None) or str
            needed = getattr(connection.dialect, "requires_name_normalize", False)
            places = [(spelled(one.schema), spelled(one.table)) if needed else (one.schema, one.table) for one in names]
        else:
            default = str(inspector.default_schema_name or "")
            places = [(default, table) for table in inspector.get_table_names(default)]
        reflected = [_reflected(connection, inspector, *place) for place in places]
        yield InspectedSnapshot(login, connection, reflected, is_consistent=is_consistent)
        connection.rollback()


def _begin(connection: Connection) -> bool:
    """Begin a transaction that only reads. Returns whether it sees one moment."""
    dialect = _name_of(connection)
    level, beginning = _LEVELS.get(dialect), _BEGINNINGS.get(dialect)
    options: dict[str, Any] = {"isolation_level": level} if level else {}
    connection.execution_options(**options, **({"postgresql_readonly": True} if dialect == "postgresql" else {}))
    if beginning:
        connection.exec_driver_sql(beginning)
    return bool(level or beginning)


def _reflected(connection: Connection, inspector: sqlalchemy.Inspector, schema: str, table: str) -> sqlalchemy.Table:
    import sqlalchemy

    try:
        return sqlalchemy.Table(
            table, sqlalchemy.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False
        )
    except sqlalchemy.exc.NoSuchTableError:
        similar = similar_names(table, inspector.get_table_names(schema))
        remedy = f"{similar}Check the name, and that the user may select from the table"
        raise ConfigurationError("The source has no such table", remedy=remedy, table=f"{schema}.{table}") from None


def _name_of(connection: Connection) -> str:
    """The kind of database; MariaDB's own, also by a URL of MySQL."""
    return "mariadb" if getattr(connection.dialect, "is_mariadb", False) else str(connection.dialect.name)
