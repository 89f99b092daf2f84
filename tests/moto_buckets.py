"""Reads and writes whole buckets of moto, with all versions, without requests.

The crash tests restore a bucket before each fault, and tests of commands begin with the same lake.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import moto.s3.models as s3_models
from moto.core.models import DEFAULT_ACCOUNT_ID


class Version(NamedTuple):
    """One version of an object; `content` is None for a delete marker."""

    content: bytes | None
    metadata: dict[str, str]
    modified: Any


def s3_backend() -> Any:
    """The S3 of moto."""
    return s3_models.s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def versions_of(bucket: str) -> dict[str, list[Any]]:
    """Moto's versions of each key, the oldest first."""
    return dict(s3_backend().get_bucket(bucket).keys.iterlists())


def read_bucket(bucket: str) -> dict[str, list[Version]]:
    """The versions of each key, the oldest first."""
    return {key: [_version(found) for found in versions] for key, versions in versions_of(bucket).items()}


def _version(found: Any) -> Version:
    if isinstance(found, s3_models.FakeKey):
        return Version(found.value, dict(found.metadata), found.last_modified)
    return Version(None, {}, found.last_modified)


def write_bucket(bucket: str, saved: dict[str, list[Version]]) -> None:
    """Replace a bucket's content by these versions. `dispose` removes Moto's files of the old ones."""
    backend = s3_backend()
    target = backend.get_bucket(bucket)
    for versions in versions_of(bucket).values():
        for version in versions:
            if isinstance(version, s3_models.FakeKey):
                version.dispose()
    target.keys.clear()
    target.multiparts.clear()
    for key, versions in saved.items():
        for content, metadata, modified in versions:
            if content is None:
                backend.delete_object(bucket, key)
                target.keys.getlist(key)[-1].last_modified = modified
                continue
            written = backend.put_object(bucket, key, content)
            written.set_metadata(metadata, replace=True)
            written.last_modified = modified
