"""An S3 bucket as an object store."""

from __future__ import annotations

import time
import uuid
from datetime import timezone
from typing import TYPE_CHECKING, Callable

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from cdclake.adapters.aws import (
    NO_ANSWER,
    Remedies,
    error_code,
    http_status,
    is_transient,
    translated_errors,
)
from cdclake.adapters.kept import not_kept
from cdclake.adapters.s3_versions import (
    NULL_VERSION,
    ObjectVersions,
    delete_markers,
    hidden_versions,
    versions_of,
)
from cdclake.errors import CdclakeError, CommitStateUnknownError, ConfigurationError, IntegrityError, RetryableError
from cdclake.model.rawfiles import ListedObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CopySourceTypeDef,
        DeleteObjectsOutputTypeDef,
        HeadObjectOutputTypeDef,
        ListObjectsV2RequestPaginateTypeDef,
        ObjectIdentifierTypeDef,
    )

DELETE_BATCH_KEYS = 1000
"""DeleteObjects takes no more keys at once."""
WRITER_METADATA = "cdclake-writer"
"""User metadata of what `put_if_absent` wrote: an id of the call, which tells a caller whose answer was lost."""

# CopyObject takes objects up to 5 GB; above that, parts are copied and appear as one object when the last is there.
# From 1 GiB on, parts are faster anyway, as they are copied side by side.
_COPY = TransferConfig(multipart_threshold=1024**3, multipart_chunksize=256 * 1024**2)
_PUT_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0)
_CONFLICT, _PRECONDITION_FAILED = 409, 412
_ABSENT_KEY = frozenset({"NoSuchKey", "NoSuchVersion", "404"})
_COPY_TRIES = 3


class S3Store:
    """An `ObjectStore` on one S3 bucket, with or without versioning, which may also change at any time.

    Args:
        client: S3 client, see `cdclake.adapters.aws.client`.
        bucket: Bucket name.
        new_id: Gives an id that no other call gets.
        sleep: Waits a number of seconds.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bucket = bucket
        self._client = client
        self._new_id = new_id
        self._sleep = sleep

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """See `ObjectReader.list`; S3 lists keys in the order of their UTF-8 bytes."""
        request: ListObjectsV2RequestPaginateTypeDef = {"Bucket": self.bucket, "Prefix": prefix}
        if start_after:
            request["StartAfter"] = start_after
        with self._errors(prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(**request):
                for found in page.get("Contents", ()):
                    modified_utc = found["LastModified"].astimezone(timezone.utc)
                    yield ListedObject(found["Key"], found["Size"], modified_utc)

    def list_folders(self, prefix: str) -> Iterator[str]:
        """See `ObjectReader.list_folders`."""
        pages = self._client.get_paginator("list_objects_v2")
        with self._errors(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/"):
                for folder in page.get("CommonPrefixes", ()):
                    yield folder["Prefix"]

    def keeps_versions(self) -> bool | None:
        """Whether the bucket's versioning is on; None if the caller may not ask."""
        with self._errors(""):
            try:
                return self._client.get_bucket_versioning(Bucket=self.bucket).get("Status") == "Enabled"
            except ClientError as error:
                if error_code(error) == "AccessDenied":
                    return None
                raise

    def get(self, key: str) -> bytes | None:
        """See `ObjectStore.get`."""
        with self._errors(key):
            try:
                return self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    return None
                raise

    def put(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put`."""
        with self._errors(key):
            self._client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See `ObjectStore.put_if_absent`.

        S3 answers 412 if the object is there, and 409 if another write of it is under way. Neither says whose: botocore
        sends a request again when the answer to the first got lost, and then meets its own object. So each call leaves
        an id of its own in the object, and a call that was not told plainly that it won reads the id back.
        """
        writer = self._new_id()
        with self._errors(key):
            for attempt, pause_seconds in enumerate(_PUT_PAUSES_SECONDS):
                try:
                    self._client.put_object(
                        Bucket=self.bucket, Key=key, Body=data, IfNoneMatch="*", Metadata={WRITER_METADATA: writer}
                    )
                except (ClientError, *NO_ANSWER) as error:
                    if attempt == 0 and isinstance(error, ClientError) and _is_refusal(error):
                        raise
                else:
                    return True
                found = self._writer_of(key)
                if found is not None:
                    return found == writer
                self._sleep(pause_seconds)
        raise _unknown_outcome(self.bucket, key)

    def copy(self, source: str, target: str) -> None:
        """See `ObjectStore.copy`."""
        self._copy({"Bucket": self.bucket, "Key": source}, target)

    def delete(self, keys: Sequence[str]) -> None:
        """See `ObjectStore.delete`."""
        self._delete([{"Key": key} for key in keys])

    def retire(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.retire`: a delete marker hides the object's version; if it has none, a copy is made first.

        A DELETE never removes a version that has an id of its own, in whatever state the bucket's versioning is. The
        version `null` it does remove, unless versioning is on at that very moment. So the object is asked, and not the
        bucket. https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectsfromVersioningSuspendedBuckets.html
        """
        found = self._head(key)
        if found is None:
            next(self.list(key), None)  # a missing bucket is an error, and HEAD does not tell it from a missing object
            return
        if found.get("VersionId", NULL_VERSION) == NULL_VERSION:
            try:
                self.copy(key, keep_as)
            except IntegrityError:
                if self._head(key) is None:
                    return  # another caller has just retired it
                raise
        with self._errors(key):
            self._client.delete_object(Bucket=self.bucket, Key=key)

    def restore(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.restore`: uncovers the newest version, or copies back what was copied."""
        if self._head(key) is None:
            self._bring_back(key, keep_as)
        self._purge(self._versions(keep_as))

    def is_kept(self, key: str, keep_as: str) -> bool:
        """See `ObjectStore.is_kept`."""
        return self._find(key, keep_as) is not None

    def copy_kept(self, key: str, keep_as: str, target: str) -> None:
        """See `ObjectStore.copy_kept`."""
        for tries_left in reversed(range(_COPY_TRIES)):
            source = self._find(key, keep_as)
            if source is None:
                raise not_kept(key, bucket=self.bucket)
            try:
                return self._copy(source, target)
            except IntegrityError:  # another caller retired or restored it since it was found
                if not tries_left:
                    raise
        return None

    def discard(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.discard`."""
        found = self._versions(key)
        if not found.in_sight:
            self._purge(found)
            self._purge(self._versions(keep_as))

    def purge(self, prefix: str, spare: Callable[[str], bool]) -> int:
        """See `ObjectStore.purge`. Markers go when the data is gone that they hide, so that nothing comes to light."""
        with self._errors(prefix):
            hidden = [one for one in hidden_versions(self._client, self.bucket, prefix) if not spare(one["Key"])]
        self._delete(hidden)
        with self._errors(prefix):
            markers = [one for one in delete_markers(self._client, self.bucket, prefix) if not spare(one["Key"])]
        self._delete(markers)
        return len(hidden)

    def _bring_back(self, key: str, keep_as: str) -> None:
        found = self._versions(key)
        if found.data:
            # Those that lie under the data hide nothing, and go as well.
            self._delete([{"Key": key, "VersionId": marker} for marker in found.markers])
            if self._head(key) is None:
                raise IntegrityError(
                    "A data file was restored, and is out of sight again or still",
                    remedy="Look what else deletes the table's files, then run again; nothing of it is lost",
                    bucket=self.bucket,
                    file=key,
                )
            return
        try:
            self.copy(keep_as, key)
        except IntegrityError as error:
            if self._head(key) is None:  # otherwise another caller has just restored it
                raise not_kept(key, bucket=self.bucket) from error

    def _find(self, key: str, keep_as: str) -> CopySourceTypeDef | None:
        """Where a data file's bytes are, in sight or kept; None if nowhere."""
        in_sight: CopySourceTypeDef = {"Bucket": self.bucket, "Key": key}
        if self._head(key) is not None:
            return in_sight
        found = self._versions(key)
        if found.in_sight:
            return in_sight
        if found.data:
            return {"Bucket": self.bucket, "Key": key, "VersionId": found.data[0]}
        if self._head(keep_as) is not None:
            return {"Bucket": self.bucket, "Key": keep_as}
        return None if self._head(key) is None else in_sight  # it may have been restored while it was looked for

    def _copy(self, source: CopySourceTypeDef, target: str) -> None:
        with self._errors(source["Key"]):
            try:
                self._client.copy(source, self.bucket, target, Config=_COPY)
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    message = "An object to copy is not there"
                    raise IntegrityError(message, bucket=self.bucket, file=source["Key"]) from error
                raise

    def _head(self, key: str) -> HeadObjectOutputTypeDef | None:
        """What S3 says of an object; None if there is no object."""
        with self._errors(key):
            try:
                return self._client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    return None
                raise

    def _versions(self, key: str) -> ObjectVersions:
        with self._errors(key):
            return versions_of(self._client, self.bucket, key)

    def _purge(self, found: ObjectVersions) -> None:
        """Delete all versions and markers of an object; the markers last, as they hide what is not deleted yet."""
        for version_ids in (found.data, found.markers):
            self._delete([{"Key": found.key, "VersionId": version_id} for version_id in version_ids])

    def _delete(self, objects: Sequence[ObjectIdentifierTypeDef]) -> None:
        for start in range(0, len(objects), DELETE_BATCH_KEYS):
            batch = objects[start : start + DELETE_BATCH_KEYS]
            with self._errors(batch[0]["Key"]):
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True})
            self._check_deleted(answer)

    def _writer_of(self, key: str) -> str | None:
        """Id of the call that wrote an object, empty if it left none; None if there is no object."""
        try:
            found = self._head(key)
        except CdclakeError as error:
            raise _unknown_outcome(self.bucket, key) from error
        return None if found is None else found["Metadata"].get(WRITER_METADATA, "")

    def _check_deleted(self, answer: DeleteObjectsOutputTypeDef) -> None:
        failed = answer.get("Errors", [])
        if not failed:
            return
        first = failed[0]
        message = f"S3 did not delete {len(failed)} objects: {first.get('Code')}: {first.get('Message')}"
        if any(error.get("Code") == "AccessDenied" for error in failed):
            remedy = f"Grant s3:DeleteObject and s3:DeleteObjectVersion on arn:aws:s3:::{self.bucket}/*"
            raise ConfigurationError(message, remedy=remedy, bucket=self.bucket, file=first.get("Key"))
        raise RetryableError(message, remedy="Run again", bucket=self.bucket, file=first.get("Key"))

    def _errors(self, key: str) -> AbstractContextManager[None]:
        remedies = Remedies(
            missing=f"Create the bucket {self.bucket}, or correct its name in the job's arguments",
            denied=f"Grant the caller s3:ListBucket and s3:ListBucketVersions on arn:aws:s3:::{self.bucket}, and"
            " s3:GetObject, s3:GetObjectVersion, s3:PutObject, s3:DeleteObject and s3:DeleteObjectVersion on"
            f" arn:aws:s3:::{self.bucket}/* (and its KMS key's use)",
        )
        return translated_errors(remedies, bucket=self.bucket, file=key or None)


def _is_refusal(error: ClientError) -> bool:
    """Whether an answer proves that nothing was written: refused at the first sending, for a reason that lasts."""
    sent_once = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0) == 0
    return sent_once and not is_transient(error) and http_status(error) not in (_CONFLICT, _PRECONDITION_FAILED)


def _unknown_outcome(bucket: str, key: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        "An object was sent and the answer lost: it may have been written or not",
        remedy="Run again once S3 answers; the run reads what is there before it does anything",
        bucket=bucket,
        file=key,
    )
