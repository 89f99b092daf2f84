"""Links installed Python modules and their dependencies into a folder, so that a path can contain only these."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable


def link_modules(names: Iterable[str], folder: Path) -> None:
    """Link the modules that pip would install.

    Args:
        names: Such as `pandas`.
        folder: Folder for the links; must not exist.

    Raises:
        ConfigurationError: A module is not installed here.
    """
    folder.mkdir()
    for module in _with_dependencies(names):
        for top in {file.parts[0] for file in module.files or [] if ".." not in file.parts}:
            source = Path(str(module.locate_file(top)))
            if source.exists() and not (folder / top).exists():  # RECORD may list missing .pyc files
                (folder / top).symlink_to(source)


def _with_dependencies(names: Iterable[str]) -> list[Distribution]:
    modules: dict[str, Distribution] = {}
    queue = [Requirement(name) for name in names]
    while queue:
        required = queue.pop()
        if required.name in modules or (required.marker and not required.marker.evaluate({"extra": ""})):
            continue
        modules[required.name] = _installed(required.name)
        queue += [Requirement(text) for text in modules[required.name].requires or []]
    return list(modules.values())


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        message = f"The Spark jobs use {name}, which is not installed"
        raise ConfigurationError(message, remedy="Add it to pyproject.toml, and run `make lock`") from error
