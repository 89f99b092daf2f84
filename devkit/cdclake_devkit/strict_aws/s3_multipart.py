"""S3 dates an object that was uploaded in parts by the begin of its upload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.core.utils import utcnow
from moto.s3.models import FakeMultipart, S3Backend

from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from moto.s3.models import FakeKey

_BEGAN = "began_utc"
"""An attribute that moto's uploads do not have."""


def _dated(begin: Callable[..., None]) -> Callable[..., None]:
    def begin_now(upload: FakeMultipart, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  moto's
        begin(upload, *args, **kwargs)
        setattr(upload, _BEGAN, utcnow())

    return begin_now


def _dates_object(complete: Callable[..., FakeKey | None]) -> Callable[..., FakeKey | None]:
    def complete_upload(backend: S3Backend, bucket_name: str, *args: Any) -> FakeKey | None:  # noqa: ANN401  moto's
        key = complete(backend, bucket_name, *args)
        if key is not None and key.multipart is not None:
            key.last_modified = getattr(key.multipart, _BEGAN)
            bucket = backend.get_bucket(bucket_name)
            if bucket.is_versioned:
                bucket.keys.getlist(key.name).sort(key=lambda version: version.last_modified)
        return key

    return complete_upload


UPLOAD_TIMES = Rule(
    name="S3: times of uploads in parts",
    aws="Last-Modified of an object uploaded in parts is the time when the upload began. In a versioned bucket, the "
    "current version is the one that was begun last, even if another upload is completed later. Documented for "
    "several uploads in parts; here it holds for other writes and deletes too.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html, "
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html",
    measured=NOT_MEASURED,
    patches=(
        Patch(FakeMultipart, "__init__", _dated),
        Patch(S3Backend, "complete_multipart_upload", _dates_object),
    ),
)
