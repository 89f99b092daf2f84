"""Links installed Python modules and their dependencies into a folder, so that a path can contain only these."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable


def link_modules(requirements: Iterable[str], folder: Path) -> None:
    """Link the modules that pip would install.

    Args:
        requirements: In pip's format, e.g. `boto3==1.42.97`.
        folder: Folder for the links; must not exist.

    Raises:
        ConfigurationError: A requirement is invalid, or another version is installed here.
    """
    folder.mkdir()
    for module in _with_dependencies(requirements):
        for top in {file.parts[0] for file in module.files or [] if ".." not in file.parts}:
            source = Path(str(module.locate_file(top)))
            if source.exists() and not (folder / top).exists():  # RECORD may list missing .pyc files
                (folder / top).symlink_to(source)


def _with_dependencies(requirements: Iterable[str]) -> list[Distribution]:
    modules: dict[str, Distribution] = {}
    queue = [_requirement(text) for text in requirements]
    while queue:
        required = queue.pop()
        if required.name in modules or (required.marker and not required.marker.evaluate({"extra": ""})):
            continue
        modules[required.name] = _installed(required)
        queue += [Requirement(text) for text in modules[required.name].requires or []]
    return list(modules.values())


def _requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        message = f"'{text}' is not a valid pip requirement"
        raise ConfigurationError(message, remedy="Correct --additional-python-modules") from error


def _installed(required: Requirement) -> Distribution:
    try:
        module = distribution(required.name)
    except PackageNotFoundError as error:
        message = f"The job requires {required}, which is not installed"
        raise ConfigurationError(message, remedy="Add it to pyproject.toml, and run `make lock`") from error
    if module.version not in required.specifier:
        message = f"The job requires {required}, but the tests use {module.version}"
        raise ConfigurationError(message, remedy="Pin the same version")
    return module
