"""Simulates S3 and DynamoDB for a planning pass, behind real botocore: requests, pages, latency and throttling.

Keys and items are computed from a table's number instead of stored, so that the measured memory is the product's. The
simulation answers requests right before botocore would send them; botocore still signs, parses and retries.
"""

from __future__ import annotations

import io
import json
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from cdclake.model.table.attributes import Attribute
from cdclake.model.table.seen import Seen
from cdclake.model.table.state import TableState
from cdclake.model.times import iso_utc

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

BUCKET, PREFIX, SCHEMAS = "raw", "dms/", 10
PAGE_KEYS = 1000
PAGE_BYTES = 1 << 20
NEWEST = datetime(2024, 3, 5, 9, tzinfo=timezone.utc)
"""Time of the last change file of every table."""
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class FormattedTime(NamedTuple):
    """A time in the formats of keys, listings and items."""

    key: str
    listing: str
    item: str


@cache
def formatted_time(age_minutes: int) -> FormattedTime:
    """A time before `NEWEST`. It is cached, because formatting would distort the measurement."""
    at = NEWEST - timedelta(minutes=age_minutes)
    return FormattedTime(f"{at:%Y%m%d-%H%M%S}", f"{at:%Y-%m-%dT%H:%M:%S}.000Z", at.strftime(TableState.DATE_FORMAT))


class TableKeys(Sequence[str]):
    """The keys of a table's raw folder in order: a change file per minute up to `NEWEST`, then a LOAD file."""

    def __init__(self, folder: str, objects: int) -> None:
        self._folder, self._changes = folder, objects - 1

    def __len__(self) -> int:
        return self._changes + 1

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - the type in Sequence
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index == self._changes:
            return f"{self._folder}LOAD00000001.parquet"
        return f"{self._folder}{formatted_time(self.age_minutes(index)).key}000.parquet"

    def age_minutes(self, index: int) -> int:
        """Minutes from the writing of an object to `NEWEST`; the full load is older than all changes."""
        return self._changes if index == self._changes else self._changes - 1 - index


@dataclass(frozen=True)
class Lake:
    """Tables in `SCHEMAS` schemas.

    Attributes:
        objects: Number of raw objects of each table.
        with_work: Number of tables, from the first, whose last change file is not applied yet.
    """

    objects: Sequence[int]
    with_work: int

    def folder(self, table: int) -> str:
        """Key prefix of a table's raw files."""
        return f"{PREFIX}s{table % SCHEMAS}/t{table:06d}/"

    def keys(self, table: int) -> TableKeys:
        """Keys of a table's raw files, in order."""
        return TableKeys(self.folder(table), self.objects[table])

    def state(self, table: int) -> TableState:
        """A table's item, with the attributes of a table in regular use."""
        schema, _, name = self.folder(table).rstrip("/").rpartition("/")
        keys = self.keys(table)
        return TableState.new(BUCKET, f"{schema}/", f"{name}/").with_attributes(
            **{
                Attribute.PRIMARY_KEY: "id",
                Attribute.ACTIVE_FLAG: "true",
                Attribute.LAST_FULL_LOAD_DATE: formatted_time(keys.age_minutes(len(keys) - 1)).item,
                Attribute.LAST_INCREMENTAL_FILE: f"{BUCKET}/{keys[len(keys) - 2 - (table < self.with_work)]}",
                Attribute.LAST_CHANGE_ID: "42",
                Attribute.LAST_RUN_STATE: "SUCCEEDED",
                Attribute.LAST_RUN_ID: "jr_" + "0" * 64,
                Attribute.LAST_RUN_UTC: iso_utc(NEWEST),
                Attribute.LAST_SEEN: str(Seen(NEWEST + timedelta(minutes=1))),
                Attribute.LAST_ERROR: "",
                Attribute.LAST_PENDING: "",
                Attribute.LAST_RETIRED_SINCE_UTC: "",
                Attribute.LAST_REPEATED_SINCE_UTC: "",
                Attribute.FENCING_TOKEN: "42",
            }
        )


class SimulatedAws:
    """Answers the requests of boto3 clients.

    Args:
        throttled_every: Every n-th S3 request is answered with 503 SlowDown.

    Attributes:
        requests: Number of requests by operation, including throttled ones.
        listings: Number of listings by prefix, without throttled ones.
        throttled: Number of 503 responses.
        listed: Indices of the listed keys, by folder of more than a page.
    """

    def __init__(self, lake: Lake, request_seconds: float, throttled_every: int) -> None:
        self._lake, self._request_seconds, self._throttled_every = lake, request_seconds, throttled_every
        self._lock = Lock()
        self.requests: Counter[str] = Counter()
        self.listings: Counter[str] = Counter()
        self.throttled = 0
        self.listed: dict[str, set[int]] = {}
        self._written: dict[str, dict[str, Any]] = {}

    def connect(self, client: Any) -> None:  # noqa: ANN401 - any boto3 client
        """Answer all requests of a client."""
        client.meta.events.register("before-send", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        target = request.headers.get("X-Amz-Target", b"ListObjectsV2")
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        with self._lock:
            self.requests[operation] += 1
            slow = operation == "ListObjectsV2" and self.requests[operation] % self._throttled_every == 0
            self.throttled += slow
        time.sleep(self._request_seconds)
        if slow:
            return _response(request, SLOW_DOWN, 503)
        answers = {"Scan": self._scan, "UpdateItem": self._update, "ListObjectsV2": self._list}
        return _response(request, answers[operation](request))

    def _list(self, request: AWSPreparedRequest) -> bytes:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}
        prefix, after = query["prefix"], query.get("continuation-token", query.get("start-after", ""))
        with self._lock:
            self.listings[prefix] += 1
        if "delimiter" in query:
            folders = self._folders(prefix)
            begin = bisect_right(folders, after)
            page = folders[begin : begin + PAGE_KEYS]
            more = begin + PAGE_KEYS < len(folders)
            text = "".join(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in page)
            return _page(text, page[-1] if more else "")
        keys = self._lake.keys(int(prefix[-7:-1]))
        begin = bisect_right(keys, after)
        end = min(begin + PAGE_KEYS, len(keys))
        if len(keys) > PAGE_KEYS:
            with self._lock:
                self.listed.setdefault(prefix, set()).update(range(begin, end))
        text = "".join(
            f"<Contents><Key>{keys[i]}</Key><LastModified>{formatted_time(keys.age_minutes(i)).listing}"
            '</LastModified><ETag>"d41d8cd98f00b204e9800998ecf8427e"</ETag><Size>20480</Size>'
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for i in range(begin, end)
        )
        return _page(text, keys[end - 1] if end < len(keys) else "")

    def _folders(self, prefix: str) -> list[str]:
        if prefix == PREFIX:
            return [f"{PREFIX}s{schema}/" for schema in range(SCHEMAS)]
        schema = int(prefix[-2])
        return [self._lake.folder(table) for table in range(schema, len(self._lake.objects), SCHEMAS)]

    def _scan(self, request: AWSPreparedRequest) -> bytes:
        body = json.loads(cast("bytes", request.body))
        begin = body.get("ExclusiveStartKey", {}).get(Attribute.PATH, {}).get("S")
        table = int(begin[-7:-1]) + 1 if begin else 0
        items, size_bytes = [], 0
        while table < len(self._lake.objects) and size_bytes < PAGE_BYTES:
            item = dict(self._lake.state(table).item)
            item.update(self._written.get(item[Attribute.PATH], {}))
            items.append({name: {"S": value} for name, value in item.items()})
            # The size of an item includes its names: Amazon DynamoDB developer guide, "Item sizes".
            size_bytes += sum(len(name) + len(value) for name, value in item.items())
            table += 1
        more = table < len(self._lake.objects)
        page = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
        return json.dumps(
            {**page, "LastEvaluatedKey": {Attribute.PATH: items[-1][Attribute.PATH]}} if more else page
        ).encode()

    def _update(self, request: AWSPreparedRequest) -> bytes:
        """Set text attributes, as `record_run` does; every condition succeeds."""
        body = json.loads(cast("bytes", request.body))
        action, _, assignments = body["UpdateExpression"].partition(" ")
        assert action == "SET", body
        names, values = body["ExpressionAttributeNames"], body["ExpressionAttributeValues"]
        pairs = (assignment.split(" = ") for assignment in assignments.split(", "))
        changed = {names[name]: values[value]["S"] for name, value in pairs}
        path = body["Key"][Attribute.PATH]["S"]
        with self._lock:
            self._written.setdefault(path, {}).update(changed)
        return json.dumps({"Attributes": {name: {"S": value} for name, value in changed.items()}}).encode()


class _Body(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        """Botocore reads the body with it."""
        yield self.read()


def _response(request: AWSPreparedRequest, body: bytes, status: int = 200) -> AWSResponse:
    headers = HTTPHeaders()
    headers["Content-Length"] = str(len(body))
    return AWSResponse(request.url, status, headers, _Body(body))


def _page(content: str, continue_after: str) -> bytes:
    token = f"<NextContinuationToken>{continue_after}</NextContinuationToken>" if continue_after else ""
    truncated = "true" if continue_after else "false"
    return f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{token}{content}</ListBucketResult>".encode()
