"""Tags of all resources, as AWS allows them.

https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

MOST_TAGS = 47
"""A resource has at most 50, and the CDK gives the sample's subnets three."""
_MARKS = frozenset("_.:/=+-@ ")
_OF_AWS = "aws:"

Tag = tuple[str, str]


def read_tags(value: object) -> tuple[Tag, ...]:
    """The tags of a mapping, or of `Key=Value,...`. No value contains a comma.

    Raises:
        ValueError: They are not written like this, or AWS refuses them; the message says what tags must be.
    """
    tags = _of_mapping(value) if isinstance(value, Mapping) else _of_text(value)
    if len(tags) > MOST_TAGS:
        meaning = f"at most {MOST_TAGS} tags, not {len(tags)}"
        raise ValueError(meaning)
    for key, content in tags:
        if not (1 <= len(key) <= 128 and 1 <= len(content) <= 256):  # alarms take no empty value, others do
            raise ValueError("keys of 1 to 128 characters, with values of 1 to 256")
        if not all(map(_is_allowed, key + content)):
            raise ValueError("keys and values of letters, digits, spaces and _.:/=+-@")
        if key.lower().startswith(_OF_AWS):
            meaning = f"keys that do not begin with {_OF_AWS}, which AWS keeps for itself"
            raise ValueError(meaning)
    if len({key.lower() for key, _ in tags}) < len(tags):
        raise ValueError("keys that differ in more than upper and lower case, which IAM ignores")
    return tuple(tags)


def _of_mapping(value: Mapping[str, object]) -> list[Tag]:
    tags = []
    for key, content in value.items():
        if isinstance(content, bool) or not isinstance(content, (str, int)):
            meaning = f"texts, also the value of {key}: write it in quotes"
            raise ValueError(meaning)
        tags.append((key.strip(), str(content).strip()))
    return tags


def _of_text(value: object) -> list[Tag]:
    if not isinstance(value, str):
        raise ValueError("a mapping, or Key=Value,...")
    tags = []
    for part in filter(None, map(str.strip, value.split(","))):
        key, equals, content = part.partition("=")
        if not equals:
            meaning = f"a mapping, or Key=Value,...: '{part}' has no ="
            raise ValueError(meaning)
        tags.append((key.strip(), content.strip()))
    return tags


def _is_allowed(char: str) -> bool:
    return char in _MARKS or unicodedata.category(char)[0] in "LN"
