"""Checks that a job runs with the libraries that it was deployed with.

Glue's Python shell has libraries of its own, such as a boto3 that lacks conditional writes. Which one is imported
depends on the order of the module path, so a job looks before it starts.
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

import cdclake
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

PINS_FILE = "pins.json"
"""File of a deployed package: versions by library. A package that is not deployed has none, and is not checked."""


def check_libraries() -> None:
    """Check the libraries of a deployed package.

    Raises:
        ConfigurationError: A library has another version.
    """
    pins = files(cdclake) / PINS_FILE
    if pins.is_file():
        require_versions(json.loads(pins.read_text(encoding="utf-8")))


def require_versions(pins: Mapping[str, str]) -> None:
    """Check versions of libraries.

    Args:
        pins: Version by library.

    Raises:
        ConfigurationError: A library has another version.
    """
    for name, pinned in pins.items():
        module = import_module(name)
        loaded = getattr(module, "__version__", None) or version(name)  # xxhash has only its package's version
        if loaded != pinned:
            modules = ",".join(f"{other}=={one}" for other, one in pins.items())
            message = f"The job runs with {name} {loaded}, but was deployed with {pinned}"
            remedy = f"Deploy again, or set the job's parameter --additional-python-modules to {modules}"
            raise ConfigurationError(message, remedy=remedy, file=module.__file__)
