"""`cdclake local put`: upload one's own files as AWS DMS would write them."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.errors import ConfigurationError
from cdclake.model.raw.files import ListedObject, parse_raw_file
from cdclake.model.table.name import TableName
from cdclake_cli.dms.names import ChangeFileTimes, change_path, full_load_path, table_folder
from cdclake_cli.dms.settings import DmsSettings, settings_from
from cdclake_cli.options import TableArgument, with_target
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for
from cdclake_cli.target import Target
from cdclake_devkit.verbs.embedded import require_local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdclake.ports import Clock

_COLUMNS = (
    OutputColumn("file", "File"),
    OutputColumn("bytes", "Bytes", number=True),
    OutputColumn("key", "Key in the raw bucket"),
)
_SETTINGS = (settings_from({"DataFormat": "parquet"}), DmsSettings(), settings_from({"CompressionType": "gzip"}))
"""How DMS writes each format."""


@with_target
def put(
    table: TableArgument,
    files: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="CSV, gzipped CSV or Parquet files, in order.")
    ],
    *,
    changes: Annotated[bool, typer.Option("--changes", help="Files of changes, with a first column Op.")] = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Upload files to the local AWS, under names of AWS DMS.

    They are the table's full load, from LOAD00000001 on, or with --changes changes, named after the time. A file that
    has such a name keeps it.

    Example: cdclake local put my.rides march.csv april.csv
    """
    require_local(target)
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    names = dms_names(files, lambda: datetime.now(timezone.utc), changes=changes)
    folder = target.installation.raw_folder + table_folder(DmsSettings(), TableName.parse(table))
    raw, uploaded = connect(target).raw, []
    for file, name in zip(files, names, strict=True):
        data = file.read_bytes()
        raw.put(folder + name, data)
        uploaded.append({"file": str(file), "bytes": len(data), "key": folder + name})
    output_for(output).records("Uploaded", _COLUMNS, uploaded)


def dms_names(files: Sequence[Path], clock: Clock, *, changes: bool) -> list[str]:
    """The names with which DMS would write files into a table's folder.

    Args:
        changes: Whether they are change files instead of the full load.

    Raises:
        ConfigurationError: DMS writes no files of such a format, or two files would have one name.
    """
    times = ChangeFileTimes(clock)
    names: dict[str, Path] = {}
    for number, file in enumerate(files, 1):
        settings = _settings(file)
        own = change_path(settings, times.next()) if changes else full_load_path(settings, number)
        is_named = parse_raw_file(ListedObject(file.name, 0, clock()), "") is not None
        name = file.name if is_named else own
        if name in names:
            message = f"{names[name]} and {file} would both be {name}"
            raise ConfigurationError(message, remedy="Rename one of them")
        names[name] = file
    return list(names)


def _settings(file: Path) -> DmsSettings:
    endings = {f".{settings.raw_format.value}": settings for settings in _SETTINGS}
    for ending, settings in endings.items():
        if file.name.endswith(ending):
            return settings
    message = f"DMS writes no files such as {file.name}"
    raise ConfigurationError(message, remedy=f"End the name with {', '.join(endings)}")
