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
from cdclake.errors import CdclakeError, CommitStateUnknownError, ConfigurationError, IntegrityError, RetryableError
from cdclake.model.rawfiles import ListedObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteObjectsOutputTypeDef, ListObjectsV2RequestPaginateTypeDef

DELETE_BATCH_KEYS = 1000
"""DeleteObjects takes no more keys at once."""
WRITER_METADATA = "cdclake-writer"
"""User metadata of what `put_if_absent` wrote: an id of the call, which tells a caller whose answer was lost."""

# CopyObject takes objects up to 5 GB; above that, parts are copied and appear as one object when the last is there.
# From 1 GiB on, parts are faster anyway, as they are copied side by side.
_COPY = TransferConfig(multipart_threshold=1024**3, multipart_chunksize=256 * 1024**2)
_PUT_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0)
_CONFLICT, _PRECONDITION_FAILED = 409, 412
_ABSENT_KEY = frozenset({"NoSuchKey", "404"})


class S3Store:
    """An `ObjectStore` on one S3 bucket, with or without versioning.

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
        self._versioned: bool | None = None

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
        with self._errors(source):
            try:
                self._client.copy({"Bucket": self.bucket, "Key": source}, self.bucket, target, Config=_COPY)
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    raise IntegrityError("An object to copy is not there", bucket=self.bucket, file=source) from error
                raise

    def delete(self, keys: Sequence[str]) -> None:
        """See `ObjectStore.delete`."""
        for start in range(0, len(keys), DELETE_BATCH_KEYS):
            batch = keys[start : start + DELETE_BATCH_KEYS]
            with self._errors(batch[0]):
                answer = self._client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
                )
            self._check_deleted(answer)

    def retire(self, key: str, keep_as: str) -> None:
        """See `ObjectStore.retire`: a versioned bucket keeps what is deleted, in another a copy is made first."""
        versioned = self._keeps_versions()
        if self._head(key) is None:
            return
        if not versioned:
            self.copy(key, keep_as)
        with self._errors(key):
            self._client.delete_object(Bucket=self.bucket, Key=key)

    def _keeps_versions(self) -> bool:
        if self._versioned is None:
            with self._errors(""):
                self._versioned = self._client.get_bucket_versioning(Bucket=self.bucket).get("Status") == "Enabled"
        return self._versioned

    def _head(self, key: str) -> dict[str, str] | None:
        """User metadata of an object; None if there is no object."""
        with self._errors(key):
            try:
                return self._client.head_object(Bucket=self.bucket, Key=key)["Metadata"]
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    return None
                raise

    def _writer_of(self, key: str) -> str | None:
        """Id of the call that wrote an object, empty if it left none; None if there is no object."""
        try:
            metadata = self._head(key)
        except CdclakeError as error:
            raise _unknown_outcome(self.bucket, key) from error
        return None if metadata is None else metadata.get(WRITER_METADATA, "")

    def _check_deleted(self, answer: DeleteObjectsOutputTypeDef) -> None:
        failed = answer.get("Errors", [])
        if not failed:
            return
        first = failed[0]
        message = f"S3 did not delete {len(failed)} objects: {first.get('Code')}: {first.get('Message')}"
        if any(error.get("Code") == "AccessDenied" for error in failed):
            remedy = f"Grant s3:DeleteObject on arn:aws:s3:::{self.bucket}/*"
            raise ConfigurationError(message, remedy=remedy, bucket=self.bucket, file=first.get("Key"))
        raise RetryableError(message, remedy="Run again", bucket=self.bucket, file=first.get("Key"))

    def _errors(self, key: str) -> AbstractContextManager[None]:
        remedies = Remedies(
            missing=f"Create the bucket {self.bucket}, or correct its name in the job's arguments",
            denied=f"Grant the caller s3:ListBucket and s3:GetBucketVersioning on arn:aws:s3:::{self.bucket}, and"
            f" s3:GetObject, s3:PutObject and s3:DeleteObject on arn:aws:s3:::{self.bucket}/* (and its KMS key's use)",
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
