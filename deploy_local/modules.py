"""Puts installed Python modules, and what they need, in a folder of their own: a path with these and nothing else."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable


def link_modules(requirements: Iterable[str], folder: Path) -> None:
    """Link what pip would install.

    Args:
        requirements: As pip takes them, e.g. `boto3==1.42.97`.
        folder: Where the links go; made.

    Raises:
        ConfigurationError: One cannot be read, or is not what is installed here.
    """
    folder.mkdir()
    for found in _with_needs(requirements):
        for top in {file.parts[0] for file in found.files or [] if ".." not in file.parts}:
            source = Path(str(found.locate_file(top)))
            if source.exists() and not (folder / top).exists():  # no compiled file of a module that is left out
                (folder / top).symlink_to(source)


def _with_needs(requirements: Iterable[str]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    waiting = [_read(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        if wanted.name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found[wanted.name] = _installed(wanted)
        waiting += [Requirement(text) for text in found[wanted.name].requires or []]
    return list(found.values())


def _read(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        message = f"'{text}' is not a module as pip takes it"
        raise ConfigurationError(message, remedy="Correct --additional-python-modules") from error


def _installed(wanted: Requirement) -> Distribution:
    try:
        found = distribution(wanted.name)
    except PackageNotFoundError as error:
        message = f"The job wants {wanted}, and that is not what the tests run with"
        raise ConfigurationError(message, remedy="Add it to pyproject.toml, and run `make lock`") from error
    if found.version not in wanted.specifier:
        message = f"The job wants {wanted}, and the tests run with {found.version}"
        raise ConfigurationError(message, remedy="Pin both alike")
    return found
