"""Refuses unknown tables in verbs that read the lake alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.table.name import TableName

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake_cli.target import Target


def require_known(target: Target, table: str, log: ChangeLog) -> None:
    """Refuse a table that has no changes and is not registered. Only without changes is the state table read.

    Next to a lake in a folder there is no state table.

    Raises:
        UnknownTableError: There is no such table.
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    if not log.head() and "://" not in target.lake_bucket:
        target.installation.find_table(connect(target).state, TableName.parse(table))


def known_log(target: Target, table: str) -> ChangeLog:
    """The change log of a table in S3; see `require_known`.

    Raises:
        ConfigurationError: The text is not a table name.
        UnknownTableError: There is no such table.
    """
    from cdclake_cli.aws.services import connect

    log = connect(target).log(TableName.parse(table))
    require_known(target, table, log)
    return log
