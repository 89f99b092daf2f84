"""Reads and writes files that options name."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from secrets import token_hex

from cdclake.errors import ConfigurationError


def json_object(file: Path) -> dict[str, object]:
    """Read the JSON object in a file.

    Raises:
        ConfigurationError: The file contains something else.
    """
    return object_of(file.read_bytes(), str(file))


def object_of(text: bytes, where: str) -> dict[str, object]:
    """Read a JSON object.

    Args:
        where: What contains it, for the error.

    Raises:
        ConfigurationError: It is something else.
    """
    try:
        content = json.loads(text.decode("utf-8-sig"))
    except ValueError as error:
        message = f"{where} is not JSON: {error}"
        raise ConfigurationError(message, remedy="Correct the file") from error
    if not isinstance(content, dict):
        message = f"{where} is not a JSON object"
        raise ConfigurationError(message, remedy='Write it as {"name": "value"}')
    return content


def check_writable(file: Path, *, force: bool) -> None:
    """Refuse a file that `write_text` could not write, before the work for it begins.

    Args:
        force: It may exist.

    Raises:
        ConfigurationError: It exists, or its folder does not.
    """
    if file.exists() and not force:
        raise ConfigurationError("The file exists", remedy="Name another one with --to, or use --force", file=file)
    if not file.absolute().parent.is_dir():
        raise ConfigurationError("There is no such folder", remedy="Create it, or name another file", file=file)


def write_text(file: Path, text: str, *, force: bool) -> None:
    """Write a file: it has the whole text, or stays as it was. A link stays a link, and permissions stay.

    Args:
        force: It may exist.

    Raises:
        ConfigurationError: It exists, or its folder does not.
        OSError: It cannot be written; see `cdclake_cli.errors.explain_file`.
    """
    check_writable(file, force=force)
    path = Path(os.path.realpath(file))
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        try:
            with temporary.open("xb") as sink:
                sink.write(text.encode())
                sink.flush()
                os.fsync(sink.fileno())
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        error.filename = str(file)  # instead of the temporary file, which nobody knows
        raise
