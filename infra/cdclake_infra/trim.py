"""Which files of the wheels the function of small changes gets: Lambda unpacks at most 250 MiB.

Everything else stays, also `libarrow_substrait`, `libarrow_dataset` and `libarrow_acero`, which `pyarrow.lib` loads. No
binary is changed: numpy's OpenBLAS breaks when it is stripped.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

SERVICES = ("dms", "dynamodb", "glue", "s3", "secretsmanager")
"""The AWS services whose descriptions stay, which are most of botocore's bytes."""
_FOR_DEVELOPERS = frozenset({"include", "src", "tests"})
"""Folders: headers, sources, tests."""
_NEVER_READ = frozenset({".a", ".css", ".js", ".pxd", ".pxi", ".pyi", ".pyx"})
"""Suffixes: for compilers, for checkers of types, for browsers."""
_UNUSED = re.compile(
    r"pyarrow/[^/]*flight[^/]*"  # a protocol between servers
    r"|zstandard/_cffi\..*"  # for other interpreters than CPython
    r"|(hive_metastore|markdown_it|pygments|rich)/.*"  # pyiceberg's catalog in Hive, and its command line
)
_ANOTHER_NAME = re.compile(r"pyarrow/lib\w+\.so(\.\d+\.\d+\.\d+)?")
"""Wheels have no links, so libraries are there three times. Others load `libarrow_python.so.2600`."""
_SERVICE = re.compile(r"boto(?:core|3)/data/([^/]+)/.*")


def is_needed(path: str) -> bool:
    """Whether the function gets a file.

    Args:
        path: Path in a wheel.
    """
    file = PurePosixPath(path)
    service = _SERVICE.fullmatch(path)
    return not (
        _FOR_DEVELOPERS & set(file.parts[:-1])
        or file.suffix in _NEVER_READ
        or _UNUSED.fullmatch(path)
        or _ANOTHER_NAME.fullmatch(path)
        or (service and service[1] not in SERVICES)
    )
