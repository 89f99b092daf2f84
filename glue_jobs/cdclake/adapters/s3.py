"""An S3 bucket as an object store."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from datetime import timezone
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Callable, TypeVar

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, IncompleteReadError, ResponseStreamingError

from cdclake.adapters.aws import NO_ANSWER, Remedies, error_code, http_status, is_transient, translated_errors
from cdclake.adapters.s3_versions import (
    NULL_VERSION,
    ObjectVersions,
    batches,
    delete_objects,
    hidden_versions,
    identified,
    version_pages,
    versions_of,
)
from cdclake.concurrency import CALLS_AT_ONCE, in_parallel
from cdclake.errors import (
    CdclakeError,
    CommitStateUnknownError,
    ConfigurationError,
    IntegrityError,
    RetryableError,
    file_not_retained,
)
from cdclake.model.layout import FileKeys, s3_key_fault
from cdclake.model.raw.files import ListedObject
from cdclake.ports import OldVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CopySourceTypeDef,
        ErrorTypeDef,
        GetObjectRequestTypeDef,
        HeadObjectOutputTypeDef,
        ListObjectsV2RequestPaginateTypeDef,
        ObjectIdentifierTypeDef,
    )

DELETE_BATCH_KEYS = 1000
"""Maximum number of keys per DeleteObjects request."""
WRITER_METADATA = "cdclake-writer"
"""User metadata in which `put_if_absent` stores an id of the call, so that a caller recognizes its own object."""

# CopyObject takes objects up to 5 GB. Larger ones are copied in parts, and appear when the last part is complete. From
# 1 GiB on, parts are faster anyway, because they are copied in parallel.
COPYING = TransferConfig(multipart_threshold=1024**3, multipart_chunksize=256 * 1024**2)
_PUT_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0)
_CONFLICT, _PRECONDITION_FAILED = 409, 412
_ABSENT_KEY = frozenset({"NoSuchKey", "NoSuchVersion", "404"})
_COPY_TRIES = _GET_TRIES = 3
LISTED_FILES = 250
"""From so many files on, their versions are listed, instead of asking for each."""
Result = TypeVar("Result")
_Moves = list[Callable[[], None]]  # `S3Store.list` is another


class S3Store:
    """An `ObjectStore` on one S3 bucket. The bucket's versioning may be on or off, and may change at any time.

    Args:
        client: S3 client, see `cdclake.adapters.aws.client`.
        new_id: Returns a unique id.
        sleep: Waits for a number of seconds.
        copying: From which size on, and in which parts, objects are copied in parts.
        delete_batch_keys: Keys per request that deletes, at most `DELETE_BATCH_KEYS`.
    """

    calls_at_once = CALLS_AT_ONCE

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], None] = time.sleep,
        copying: TransferConfig = COPYING,
        delete_batch_keys: int = DELETE_BATCH_KEYS,
    ) -> None:
        self.bucket = bucket
        self._copying, self._delete_batch_keys = copying, delete_batch_keys
        self._client = client
        self._new_id = new_id
        self._sleep = sleep

    def list(self, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
        """All objects whose keys begin with `prefix` and sort after `start_after`, sorted by UTF-8 bytes."""
        if self.key_fault(prefix):
            return  # no key has such a prefix
        request: ListObjectsV2RequestPaginateTypeDef = {"Bucket": self.bucket, "Prefix": prefix}
        if start_after:
            request["StartAfter"] = start_after
        with self._errors(prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(**request):
                for entry in page.get("Contents", ()):
                    modified_utc = entry["LastModified"].astimezone(timezone.utc)
                    yield ListedObject(entry["Key"], entry["Size"], modified_utc, entry["ETag"].strip('"'))

    def list_level(self, prefix: str) -> Iterator[str]:
        """Distinct folders `prefix` + `<name>/`, and keys `prefix` + `<name>` without another slash, in any order.

        It takes one request per 1,000 folders and objects.
        """
        if self.key_fault(prefix):
            return  # no key has such a prefix
        pages = self._client.get_paginator("list_objects_v2")
        with self._errors(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix, Delimiter="/"):
                for folder in page.get("CommonPrefixes", ()):
                    yield folder["Prefix"]
                for entry in page.get("Contents", ()):
                    if not entry["Key"].endswith("/"):  # the marker of the folder itself
                        yield entry["Key"]

    def keeps_versions(self) -> bool | None:
        """Whether the bucket's versioning is on; None if the caller may not ask."""
        with self._errors(""):
            try:
                return self._client.get_bucket_versioning(Bucket=self.bucket).get("Status") == "Enabled"
            except ClientError as error:
                if error_code(error) == "AccessDenied":
                    return None
                raise

    def url(self, key: str) -> str:
        """The URL by which readers find an object."""
        return f"s3://{self.bucket}/{key}"

    def key_fault(self, key: str) -> str:
        """Why the store can hold no object of that key; empty if it can. Such an object counts as absent."""
        return s3_key_fault(key)

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        if self.key_fault(key):
            return None
        return self._get_repeatedly({"Bucket": self.bucket, "Key": key})

    def get_first(self, key: str, size_bytes: int) -> bytes:
        """The first bytes of an object that is not empty; none if it does not exist.

        Raises:
            As `get`.
        """
        return self._get_repeatedly({"Bucket": self.bucket, "Key": key, "Range": f"bytes=0-{size_bytes - 1}"}) or b""

    def _get_repeatedly(self, request: GetObjectRequestTypeDef) -> bytes | None:
        """Repeat a request whose response breaks off; botocore repeats only one without a response."""
        with self._errors(request["Key"]):
            for _ in range(_GET_TRIES - 1):
                with suppress(IncompleteReadError, ResponseStreamingError):
                    return self._get(request)
            return self._get(request)

    def _get(self, request: GetObjectRequestTypeDef) -> bytes | None:
        try:
            return self._client.get_object(**request)["Body"].read()
        except ClientError as error:
            if error_code(error) in _ABSENT_KEY:
                return None
            raise

    def put(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one."""
        with self._errors(key):
            self._client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object if none exists, and return whether this call wrote it.

        S3 responds 412 if the object exists, and 409 if another write is in progress. Neither identifies the writer:
        botocore repeats a request whose response was lost, and then meets its own object. So each call stores its own
        id in the object, and reads the id back unless the response was a success.
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
                actual_writer = self._writer_of(key)
                if actual_writer is not None:
                    return actual_writer == writer
                self._sleep(pause_seconds)
        raise _unknown_outcome(self.bucket, key)

    def put_if_unchanged(self, key: str, data: bytes, old: bytes) -> bool:
        """Replace an object whose content is still `old`, and return whether it has the new content.

        S3 responds 412 if the object has another ETag, also to a repeated request whose first response was lost. It
        responds 409 if another operation on the object is in progress: the object may still be the same.
        """
        with self._errors(key):
            for pause_seconds in _PUT_PAUSES_SECONDS:
                try:
                    found = self._client.get_object(Bucket=self.bucket, Key=key)
                    if found["Body"].read() != old:
                        break
                    self._client.put_object(Bucket=self.bucket, Key=key, Body=data, IfMatch=found["ETag"])
                except ClientError as error:
                    if http_status(error) == _CONFLICT:
                        self._sleep(pause_seconds)
                    elif error_code(error) in _ABSENT_KEY or http_status(error) == _PRECONDITION_FAILED:
                        break
                    else:
                        raise
                else:
                    return True
            else:
                message = "S3 did not replace an object, because other operations on it are in progress"
                raise RetryableError(message, remedy="Run again", bucket=self.bucket, file=key)
        return self.get(key) == data

    def copy(self, source: str, target: str, size_bytes: int | None = None) -> None:
        """Copy an object of any size within the store. The target appears complete or not at all."""
        self._copy({"Bucket": self.bucket, "Key": source}, target, size_bytes)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; an absent object is no error."""
        self._delete([{"Key": key} for key in keys])

    def remove(self, prefix: str, is_protected: Callable[[str], bool]) -> None:
        """Permanently delete objects and their earlier versions, by as many requests as listing and deleting takes."""
        for move in self.begin_removing(prefix, is_protected):
            move()

    def begin_removing(self, prefix: str, is_protected: Callable[[str], bool]) -> Sequence[Callable[[], None]]:
        """Find out what to `remove`, which changes nothing. Each returned function removes some of it."""
        with self._errors(prefix):
            pages = list(version_pages(self._client, self.bucket, prefix))
        entries = (chain(page.get("Versions", []), page.get("DeleteMarkers", [])) for page in pages)  # markers last
        found = ([one for one in identified(of_page) if not is_protected(one["Key"])] for of_page in entries)
        return [partial(self._delete, ids) for ids in found if ids]

    def retire(self, key: str, retired_key: str) -> None:
        """Retire a data file; no error if it is retired already."""
        for move in self.begin_retiring([FileKeys(key, retired_key)]):
            move()

    def begin_retiring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Find out how to `retire` data files, which changes nothing. Each returned function retires some of them.

        A delete marker hides an object's version; without one, it is copied first. A DELETE never removes a version
        with its own id, whatever the state of the bucket's versioning. It removes the version `null` unless versioning
        is on at that moment. So the object's version id decides, not the bucket's state.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeletingObjectsfromVersioningSuspendedBuckets.html
        """
        found = self._newest([file for file in files if not self.key_fault(file.key)])
        moves: _Moves = []
        for batch in batches((file for file in files if file.key in found), self.calls_at_once):
            hidden = [file.key for file in batch if found[file.key].id != NULL_VERSION]
            moves += [partial(self.delete, hidden)] if hidden else []
            without_id = (file for file in batch if found[file.key].id == NULL_VERSION)
            moves += [partial(self._retire, file, found[file.key].size_bytes) for file in without_id]
        return moves

    def _newest(self, files: Sequence[FileKeys]) -> dict[str, OldVersion]:
        """The version that readers see of each object that exists, by key.

        A listing costs twelve times as much as a HEAD, and replaces many if there are many files.
        """
        if len(files) >= LISTED_FILES:
            versions = self._in_batches(lambda batch: self._versions(file.key for file in batch).values(), files)
            return {one.key: OldVersion(one.key, one.data[0], one.sizes_bytes[0]) for one in versions if one.live}
        heads = in_parallel(lambda file: self._head(file.key), files, self.calls_at_once)
        if None in heads:
            next(self.list(files[0].key), None)  # raises if the bucket is missing, which HEAD cannot distinguish
        found = ((file.key, head) for file, head in zip(files, heads) if head is not None)
        return {key: OldVersion(key, head.get("VersionId", NULL_VERSION), head["ContentLength"]) for key, head in found}

    def _retire(self, file: FileKeys, size_bytes: int) -> None:
        """Move an object without a version id."""
        try:
            self.copy(file.key, file.retired_key, size_bytes)
        except IntegrityError:
            if self._head(file.key) is None:
                return  # another caller just retired it
            raise
        self.delete([file.key])

    def restore(self, key: str, retired_key: str) -> None:
        """Make a retired data file live again, byte for byte; no error if it is live already."""
        for move in self.begin_restoring([FileKeys(key, retired_key)]):
            move()

    def begin_restoring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Find out how to `restore` data files, which changes nothing. Each returned function restores some of them.

        Finds the delete markers that hide the newest versions. A marker that another caller adds later is not among
        them, so the version stays hidden.
        """
        return self._in_batches(self._begin_restoring, files)

    def _begin_restoring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        versions = self._versions(file.key for file in files)
        copies = self._versions(file.retired_key for file in files)
        moves: _Moves = []
        hidden = []
        for file in files:
            of_file, of_copy = versions[file.key], copies[file.retired_key]
            if of_copy.exists or not of_file.data:
                moves.append(partial(self._restore, file, of_file, of_copy))
            elif not of_file.live:
                hidden.append(of_file)
        return [partial(self._uncover, hidden), *moves] if hidden else moves

    def is_retained(self, key: str, retired_key: str) -> bool:
        """Whether a data file is live, or retired so that `restore` would succeed."""
        return not self.key_fault(key) and self._find(key, retired_key) is not None

    def not_retained(self, files: Sequence[FileKeys]) -> Sequence[FileKeys]:
        """The data files that are neither live, nor retired so that `restore` would succeed."""
        return self._in_batches(self._not_retained, files)

    def _not_retained(self, files: Sequence[FileKeys]) -> Sequence[FileKeys]:
        versions = self._versions(file.key for file in files)
        left = [file for file in files if not versions[file.key].data]
        copies = self._versions(file.retired_key for file in left)
        left = [file for file in left if not copies[file.retired_key].live]
        return [file for file in left if not self.is_retained(file.key, file.retired_key)]

    def copy_retained(self, key: str, retired_key: str, target: str) -> None:
        """Copy a live or retired data file of any size. The target appears complete or not at all."""
        for tries_left in reversed(range(_COPY_TRIES)):
            source = self._find(key, retired_key)
            if source is None:
                raise file_not_retained(key, bucket=self.bucket)
            try:
                return self._copy(source, target)
            except IntegrityError:  # another caller retired or restored it meanwhile
                if not tries_left:
                    raise
        return None

    def discard(self, key: str, retired_key: str) -> None:
        """Permanently delete a retired data file. A live one is left alone; an absent one is no error."""
        self._discard([FileKeys(key, retired_key)])

    def begin_discarding(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Prepare to `discard` data files, which changes nothing. Each returned function discards some of them."""
        return [partial(self._discard, batch) for batch in batches(files, self.calls_at_once)]

    def _discard(self, files: Sequence[FileKeys]) -> None:
        versions = self._versions(file.key for file in files)
        retired = [file for file in files if not versions[file.key].live]
        self._delete_all([versions[file.key] for file in retired])
        self._delete_all(self._versions(file.retired_key for file in retired).values())

    def purge(self, prefix: str, is_protected: Callable[[str], bool]) -> int:
        """Permanently delete what readers do not see: earlier versions of objects, and deleted objects.

        Deletes markers after the data that they hide, so that no old data reappears.
        """
        hidden: list[OldVersion] = []
        markers: list[ObjectIdentifierTypeDef] = []
        with self._errors(prefix):
            for page in version_pages(self._client, self.bucket, prefix):
                hidden += (one for one in hidden_versions(page) if not is_protected(one.key))
                markers += (one for one in identified(page.get("DeleteMarkers", [])) if not is_protected(one["Key"]))
        self.delete_versions(hidden)
        self._delete(markers)
        return len(hidden)

    def old_versions(self, prefix: str) -> Iterator[OldVersion]:
        """What `purge` would delete, through all pages; nothing in a store without versions."""
        with self._errors(prefix):
            for page in version_pages(self._client, self.bucket, prefix):
                yield from hidden_versions(page)

    def get_version(self, version: OldVersion) -> bytes | None:
        """The content of an old version; None if it does not exist."""
        return self._get_repeatedly({"Bucket": self.bucket, "Key": version.key, "VersionId": version.id})

    def delete_versions(self, versions: Sequence[OldVersion]) -> None:
        """Permanently delete old versions; an absent one is no error."""
        self._delete([{"Key": version.key, "VersionId": version.id} for version in versions])

    def remove_leftovers(self) -> None:
        """Delete nothing, because a rule of the bucket removes the parts of incomplete uploads."""

    def _in_batches(
        self, call: Callable[[Sequence[FileKeys]], Iterable[Result]], files: Sequence[FileKeys]
    ) -> Sequence[Result]:
        return list(chain.from_iterable(in_parallel(call, batches(files, self.calls_at_once), self.calls_at_once)))

    def _restore(self, file: FileKeys, versions: ObjectVersions, copies: ObjectVersions) -> None:
        """Uncover the newest version, or copy the retired copy back.

        A copy without a version id may be a new one, if another caller has retired the file again.

        Args:
            versions: The object's versions.
            copies: The retired copy's versions.
        """
        if not versions.data:
            self._copy_back(file)
        elif not versions.live:
            self._uncover([versions])
        if NULL_VERSION not in copies.data or self._head(file.key) is not None:
            self._delete_all([copies])

    def _uncover(self, hidden: Sequence[ObjectVersions]) -> None:
        """Delete the markers that hide the newest versions of objects."""
        self._delete([{"Key": one.key, "VersionId": marker} for one in hidden for marker in one.markers])
        now = self._versions(one.key for one in hidden)
        gone = [one.key for one in now.values() if not one.live]
        if gone:
            message = f"Data files were restored, but are not in the table's folder ({len(gone)})"
            remedy = "No data is lost. Find out what else deletes the table's files, then run again"
            raise IntegrityError(message, remedy=remedy, bucket=self.bucket, file=gone[0])

    def _copy_back(self, file: FileKeys) -> None:
        try:
            self.copy(file.retired_key, file.key)
        except IntegrityError as error:
            if self._head(file.key) is None:  # otherwise another caller just restored it
                raise file_not_retained(file.key, bucket=self.bucket) from error

    def _find(self, key: str, retired_key: str) -> CopySourceTypeDef | None:
        """Where a live or retired data file's bytes are; None if it is not retained."""
        live: CopySourceTypeDef = {"Bucket": self.bucket, "Key": key}
        if self._head(key) is not None:
            return live
        versions = self._versions([key])[key]
        if versions.live:
            return live
        if versions.data:
            return {"Bucket": self.bucket, "Key": key, "VersionId": versions.data[0]}
        if self._head(retired_key) is not None:
            return {"Bucket": self.bucket, "Key": retired_key}
        return None if self._head(key) is None else live  # another caller may have restored it meanwhile

    def _copy(self, source: CopySourceTypeDef, target: str, size_bytes: int | None = None) -> None:
        """Copy an object; boto3's own `copy` asks for its size first."""
        with self._errors(source["Key"]):
            try:
                if size_bytes is None or size_bytes >= self._copying.multipart_threshold:
                    self._client.copy(source, self.bucket, target, Config=self._copying)
                else:
                    self._client.copy_object(CopySource=source, Bucket=self.bucket, Key=target)
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    message = "An object to copy is missing"
                    raise IntegrityError(message, bucket=self.bucket, file=source["Key"]) from error
                raise

    def _head(self, key: str) -> HeadObjectOutputTypeDef | None:
        """The metadata of an object; None if it does not exist."""
        with self._errors(key):
            try:
                return self._client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as error:
                if error_code(error) in _ABSENT_KEY:
                    return None
                raise

    def _versions(self, keys: Iterable[str]) -> dict[str, ObjectVersions]:
        """The versions of objects, by key."""
        wanted = sorted(keys)
        with self._errors(next(iter(wanted), "")):
            found = versions_of(self._client, self.bucket, (key for key in wanted if not self.key_fault(key)))
        return {key: found.get(key, ObjectVersions(key)) for key in wanted}

    def _delete_all(self, objects: Collection[ObjectVersions]) -> None:
        """Delete all versions and markers of objects. The markers go last, because they hide the other versions."""
        self._delete([{"Key": one.key, "VersionId": version_id} for one in objects for version_id in one.data])
        self._delete([{"Key": one.key, "VersionId": marker} for one in objects for marker in one.markers])

    def _delete(self, objects: Sequence[ObjectIdentifierTypeDef]) -> None:
        for start in range(0, len(objects), self._delete_batch_keys):
            batch = objects[start : start + self._delete_batch_keys]
            with self._errors(batch[0]["Key"]):
                failed = delete_objects(self._client, self.bucket, batch, self._sleep)
            self._check_deleted(failed)

    def _writer_of(self, key: str) -> str | None:
        """Id of the call that wrote an object, empty if it has none; None if the object does not exist."""
        try:
            head = self._head(key)
        except CdclakeError as error:
            raise _unknown_outcome(self.bucket, key) from error
        return None if head is None else head["Metadata"].get(WRITER_METADATA, "")

    def _check_deleted(self, failed: Sequence[ErrorTypeDef]) -> None:
        if not failed:
            return
        first = failed[0]
        message = f"S3 did not delete objects ({len(failed)}): {first.get('Code')}: {first.get('Message')}"
        if any(error.get("Code") == "AccessDenied" for error in failed):
            remedy = f"Grant s3:DeleteObject and s3:DeleteObjectVersion on arn:aws:s3:::{self.bucket}/*"
            raise ConfigurationError(message, remedy=remedy, bucket=self.bucket, file=first.get("Key"))
        raise RetryableError(message, remedy="Run again", bucket=self.bucket, file=first.get("Key"))

    def _errors(self, key: str) -> AbstractContextManager[None]:
        return translated_errors(bucket_remedies(self.bucket), bucket=self.bucket, file=key or None)


def bucket_remedies(bucket: str) -> Remedies:
    """Remedies for the errors of a bucket."""
    return Remedies(
        missing=f"Create the bucket {bucket}, or correct its name in the job arguments",
        denied=f"Grant the caller s3:ListBucket and s3:ListBucketVersions on arn:aws:s3:::{bucket}, and"
        " s3:GetObject, s3:GetObjectVersion, s3:PutObject, s3:DeleteObject and s3:DeleteObjectVersion on"
        f" arn:aws:s3:::{bucket}/*, and the use of its KMS key",
    )


def _is_refusal(error: ClientError) -> bool:
    """Whether a response proves that nothing was written: it refuses the first attempt for a permanent reason."""
    sent_once = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0) == 0
    return sent_once and not is_transient(error) and http_status(error) not in (_CONFLICT, _PRECONDITION_FAILED)


def _unknown_outcome(bucket: str, key: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        "The response to a write was lost: the object may have been written or not",
        remedy="Run again once S3 responds; the run first reads the change log",
        bucket=bucket,
        file=key,
    )
