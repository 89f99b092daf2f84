"""`cdclake local replicate`: replicate a database into raw files, as a local stand-in for DMS."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.signals import handle_stop_signals
from cdclake_cli.confirm import confirm
from cdclake_cli.options import YesOption, with_target
from cdclake_cli.printing.output import OutputFormat, PrintableFormatter
from cdclake_cli.sources import options as source_database
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cdclake.ports import ObjectStore
    from cdclake_cli.sources.source import Source
    from cdclake_devkit.replicate.source import LoggedSource

SETTINGS = {
    "DataFormat": "parquet",
    "TimestampColumnName": "dms_timestamp",
    "HeaderColumns": "AR_H_CHANGE_SEQ",
    "BeforeImages": "pk-only",
    # in KB; each file is built in memory
    "MaxFileSize": "65536",
}
"""Defaults of `--set`. The first three equal the settings of the sample's DMS task; see docs/deploy.md."""


@with_target
def replicate(
    database: Annotated[
        str,
        typer.Argument(help="Database. Of MySQL, its name becomes the schema's folder; of PostgreSQL, all schemas."),
    ],
    *,
    engine: source_database.EngineOption = source_database.Engine.MYSQL,
    table: Annotated[
        list[str] | None, typer.Option(help="Only this table; of PostgreSQL also sales.orders. Repeatable.")
    ] = None,
    user: source_database.UserOption = None,
    host: source_database.HostOption = None,
    port: source_database.PortOption = None,
    socket: source_database.SocketOption = "",
    option_file: source_database.OptionFileOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of the DMS endpoints, such as DataFormat=csv; or BeforeImages, HeaderColumns. Repeatable.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Write to this folder instead of the raw bucket.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name for the saved position. Default: the database name.")] = "",
    anew: Annotated[bool, typer.Option("--anew", help="Delete the tables' raw files and load them again.")] = False,
    yes: YesOption = False,
    until_now: Annotated[
        bool, typer.Option("--until-now", help="Stop at the current end of the database's log instead of at Ctrl-C.")
    ] = False,
    target: Target,
) -> None:
    """Replicate a MySQL, MariaDB or PostgreSQL database to the raw bucket, instead of AWS DMS.

    Writes a full load, then changes. For trials without DMS. After a stop it continues from its saved position.

    Example: cdclake local replicate shop --user cdclake --socket /run/mysqld/mysqld.sock
    """
    from cdclake_cli.dms.settings import settings_from  # slow to import, and --help does not need it
    from cdclake_devkit.replicate.service import Replication, ReplicationTask

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("cdclake_devkit").setLevel(logging.INFO)
    all_settings = {
        **SETTINGS,
        **source_database.named_settings(settings or []),
        "BucketFolder": target.installation.raw_folder,
    }
    dms = settings_from(all_settings)
    source = source_database.source(
        engine, database, dms, user=user, host=host, port=port, socket=socket, option_file=option_file
    )
    if anew:
        confirm(
            f"Delete the raw files of {', '.join(table or ()) or 'all tables'} of {database}, and load them again?",
            yes=yes,
            output=OutputFormat.TABLE,
        )
    task = ReplicationTask(tuple(table or ()), dms, name)
    raw = _store(folder, target)
    with _stop_signal() as should_stop:
        Replication(task, _with_log(source), raw, lambda: datetime.now(timezone.utc)).run(
            should_stop, reload=anew, until_now=until_now
        )


def _with_log(source: Source) -> LoggedSource:
    from cdclake_cli.sources.mysql.source import MysqlSource  # slow to import, and --help does not need it

    if isinstance(source, MysqlSource):
        from cdclake_devkit.replicate.mysql.source import BinlogSource

        return BinlogSource(source.options, source.database)
    from cdclake_cli.sources.postgres.source import PostgresSource
    from cdclake_devkit.replicate.postgres.source import WalSource

    assert isinstance(source, PostgresSource)
    return WalSource(source.options, source.database, source.mapping)


def _store(folder: Path | None, target: Target) -> ObjectStore:
    if folder:
        from cdclake.adapters.folder import FolderStore

        return FolderStore(folder)
    from cdclake_cli.aws.services import connect

    return connect(target).raw


@contextmanager
def _stop_signal() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C, SIGTERM or SIGHUP asked this process to stop. It first writes what it has read.

    A second signal ends it at once.
    """
    stop = threading.Event()

    def request_stop(_: object) -> None:
        stop.set()
        restore()

    restore = handle_stop_signals(request_stop)
    try:
        yield stop.is_set
    finally:
        restore()
