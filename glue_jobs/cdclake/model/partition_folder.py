"""Names the folder of a partition as Hive does, `column=value/`, and reads such names."""

from __future__ import annotations

import re

HIVE_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset({*map(chr, range(0x20)), "\x7f", *"\"#%'*/:=?\\{[]^"})
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")


def partition_folder(names: tuple[str, ...], values: tuple[str | None, ...]) -> str:
    """Folder of one partition below the table's folder, with a trailing slash; empty for no partition columns.

    Values are escaped like in Hive's `FileUtils.escapePathName`, which every reader reverses: control characters and
    those with a meaning in paths. Other characters must stay: Hive and Spark read each `%XX` as a character, not as a
    byte of UTF-8.

    Example:
        >>> partition_folder(("day", "shop"), ("2024-03-05", "a/b"))
        'day=2024-03-05/shop=a%2Fb/'
    """
    return "".join(f"{_escape(name)}={_escape_value(value)}/" for name, value in zip(names, values))


def parse_partition_folder(folder: str) -> tuple[str, str | None] | None:
    """Column and value in the name of a partition folder; None if the name is not `column=value`.

    Inverse of `partition_folder` for one column. Also reads folders of writers that escape more or less than Hive.
    """
    name, _, value = folder.partition("=")
    if not (name and value):
        return None
    return _unescape(name), None if value == HIVE_NULL_PARTITION else _unescape(value)


def _escape_value(value: str | None) -> str:
    return HIVE_NULL_PARTITION if value is None or value == "" else _escape(value)


def _escape(text: str) -> str:
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
