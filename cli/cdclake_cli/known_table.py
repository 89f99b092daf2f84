"""Refuses unknown tables in verbs that read the lake alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdclake.commit.log import ChangeLog
    from cdclake.model.table.name import TableName
    from cdclake_cli.target import Target


def require_known(target: Target, name: TableName, log: ChangeLog) -> None:
    """Refuse a table that has no changes and is not registered. Only without changes is the state table read.

    Next to a lake in a folder there is no state table.

    Raises:
        UnknownTableError: There is no such table.
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    if not log.head() and "://" not in target.lake_bucket:
        target.installation.find_table(connect(target).state, name)


def known_log(target: Target, name: TableName) -> ChangeLog:
    """The change log of a table in S3; see `require_known`.

    Raises:
        UnknownTableError: There is no such table.
    """
    from cdclake_cli.aws.services import connect

    log = connect(target).log(name)
    require_known(target, name, log)
    return log
