"""Makes a job run with the libraries that it was deployed with, and checks that it does.

Glue has libraries of its own, such as a botocore that lacks conditional writes. Even without a library set the Python
shell has botocore 1.23. https://docs.aws.amazon.com/glue/latest/dg/add-job-python.html
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import cdclake
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

PINS_FILE = "pins.json"
"""File of a deployed package: versions by library. A package that is not deployed has none, and is not checked."""
LIBRARIES = "cdclake_libraries"
"""Folder of the Python shell jobs' libraries. It is installed beside the package; nothing else has it."""


def use_deployed_libraries() -> None:
    """Import the libraries in `LIBRARIES`, if it is installed, even if others come first or are imported already.

    In Glue's Python shell its own libraries come first on the module path, and it imports boto3 before it runs the
    script in the same process. https://github.com/boto/boto3/issues/2566
    """
    found = find_spec(LIBRARIES)
    for folder in (found and found.submodule_search_locations) or ():
        if folder not in sys.path:
            sys.path.insert(0, folder)
            deployed = {path.name.partition(".")[0] for path in Path(folder).iterdir()}
            for name in [name for name in sys.modules if name.partition(".")[0] in deployed]:
                del sys.modules[name]


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
            message = f"The job runs with {name} {loaded}, but was deployed with {pinned}"
            remedy = "Deploy again: that uploads the libraries and sets the parameters with which Glue installs them"
            raise ConfigurationError(message, remedy=remedy, file=module.__file__)
