"""`cdclake local replicate`: what stands in for DMS where there is none."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.cli.confirm import ask
from cdclake.cli.options import YesOption, with_target
from cdclake.cli.output import OutputFormat
from cdclake.cli.source_database import (
    HostOption,
    OptionFileOption,
    PortOption,
    SocketOption,
    UserOption,
    connection_options,
)
from cdclake.cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cdclake.ports import ObjectStore

SETTINGS = {
    "DataFormat": "parquet",
    "TimestampColumnName": "dms_timestamp",
    "HeaderColumns": "AR_H_CHANGE_SEQ",
    "BeforeImages": "pk-only",
    # A whole file is made in memory.
    "MaxFileSize": "65536",
}
"""What `--set` need not say. The first three are those of the sample's DMS task; see docs/deploy.md."""


@with_target
def replicate(
    database: Annotated[str, typer.Argument(help="The database, which becomes the schema's folder.")],
    *,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; may be repeated.")] = None,
    user: UserOption = None,
    host: HostOption = None,
    port: PortOption = None,
    socket: SocketOption = "",
    option_file: OptionFileOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of DMS's S3 endpoint, such as DataFormat=csv; or BeforeImages, HeaderColumns. Repeatable.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Write to this folder, not to the raw bucket.")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name that its position is remembered by; that of the database if not given.")
    ] = "",
    anew: Annotated[bool, typer.Option("--anew", help="Remove the tables' raw files and load them again.")] = False,
    yes: YesOption = False,
    until_now: Annotated[
        bool, typer.Option("--until-now", help="Stop at the present end of the binlog, not at Ctrl-C.")
    ] = False,
    target: Target,
) -> None:
    """Replicate a MySQL or MariaDB database to the raw bucket, in AWS DMS's place: full load, then changes.

    A stand-in to try things with where there is no DMS. It goes on from where it was stopped.

    Example: cdclake local replicate shop --user cdclake --socket /run/mysqld/mysqld.sock
    """
    from cdclake.devkit.dms.settings import settings_from  # heavy, and --help needs none of it
    from cdclake.devkit.replicate.service import Replication, ReplicationTask

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("cdclake").setLevel(logging.INFO)
    given = {**SETTINGS, **_named(settings or []), "BucketFolder": target.installation.raw_folder}
    options = connection_options(user, host, port, socket, option_file)
    if anew:
        ask(
            f"Remove the raw files of {', '.join(table or ()) or 'all tables'} of {database}, and load them again?",
            yes=yes,
            output=OutputFormat.TABLE,
        )
    task = ReplicationTask(database, tuple(table or ()), settings_from(given), name)
    raw = _store(folder, target)
    with _told_to_stop() as should_stop:
        Replication(task, options, raw, lambda: datetime.now(timezone.utc)).run(
            should_stop, anew=anew, until_now=until_now
        )


def _named(settings: list[str]) -> dict[str, str]:
    """Names and values of `NAME=VALUE`; a name without value has the empty one."""
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


def _store(folder: Path | None, target: Target) -> ObjectStore:
    if folder:
        from cdclake.adapters.folder import FolderStore

        return FolderStore(folder)
    from cdclake.cli.aws.services import connect

    return connect(target).raw


@contextmanager
def _told_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether somebody asked this process to end, by Ctrl-C or SIGTERM: it then writes first what it has read.

    Who asks again does not want to wait for that.
    """
    stop = threading.Event()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(*_: object) -> None:
        stop.set()
        restore()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop.is_set
    finally:
        restore()
