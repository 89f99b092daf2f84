"""A table with every kind of stored object, erasures of its rows, and a search of everything that is stored.

Only erasures search all stored bytes for values.
"""

from __future__ import annotations

import gzip
import shutil
import zlib
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pyarrow_fs

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.stores import open_store
from cdclake.lake.operations.erase.erase import Erasure, ErasureResult, erase
from cdclake.lake.operations.erase.progress import Progress
from cdclake.lake.operations.erase.raw_files import RawLocation
from cdclake.lake.read.as_of import TableLocation, table_as_of
from cdclake.lake.read.key_filter import RowKeys
from cdclake.lake.read.retained_files import RetainedFileReader
from cdclake.lake.storage import tombstones, writer
from cdclake.model.table.settings import TableSettings
from tests.cdclake.lake.over_time import TABLE, TableOverTime
from tests.cdclake.lake.table import NAME, RAW_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

SECRET_ID = 0x5EC1A1D0C0FFEE
SECRET_NAME = "Wilhelmina Rumpelstein"
COLUMNS = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("name", pa.string()), ("amount", pa.decimal128(10, 2))]
)


def row(number: int, city: str | None = "Ulm", name: str = "", amount: str = "1.50") -> dict[str, Any]:
    return {
        "id": number,
        "city": city,
        "name": name or f"name {number}",
        "amount": pa.scalar(amount).cast(pa.decimal128(10, 2)).as_py(),
    }


def secret(city: str | None = "Ulm", what: str = "") -> dict[str, Any]:
    return row(SECRET_ID, city, SECRET_NAME + what)


def disable_compression(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn compression off, so that values can be found in the bytes of files."""

    def uncompressed(write: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: write(*arguments, **{**options, "compression": "none"})

    parquet = SimpleNamespace(ParquetWriter=uncompressed(pq.ParquetWriter), write_table=uncompressed(pq.write_table))
    for module in (writer, tombstones):
        monkeypatch.setattr(module, "pq", parquet)


@dataclass
class ErasableTable(TableOverTime):
    """A table whose rows can be erased."""

    item: dict[str, str] = field(default_factory=lambda: {"PrimaryKey": "id", "History": "true"})

    def erasure(self, *keys: str, raw: bool = False, reason: str = "request 17") -> Erasure:
        run = self.run()
        lake = run.log.snapshot(run.log.head())
        settings, raw_fs = TableSettings.from_item(self.item), lake_filesystem(self.raw.as_uri())
        raw_location = RawLocation(open_store(self.raw.as_uri()), raw_fs, RAW_PREFIX, NAME, settings)
        return Erasure(
            location=TableLocation.at(self.location, TABLE),
            log=run.log,
            keys=RowKeys.parse(keys, lake.primary_key, lake.schema),
            raw=raw_location if raw else None,
            run_id=run.run_id,
            reason=reason,
            made_by="the officer",
            clock=run.clock,
            progress=Progress(),
        )

    def erase(self, *keys: str, raw: bool = False) -> ErasureResult:
        erasure = self.erasure(*keys, raw=raw)
        return erase(erasure, self.runs)

    def rows_as_of(self, change: int) -> list[dict[str, Any]]:
        """Rows of the table as of a change, ordered by key, including repeated keys."""
        location = TableLocation.at(self.location, TABLE)
        reader, as_of = RetainedFileReader(location), table_as_of(self.log, change)
        rows = [
            {
                **values,
                "city": dict(zip(as_of.snapshot.partition_key, file.file.partition, strict=True)).get(
                    "city", values.get("city")
                ),
            }
            for file in as_of.files
            for group in reader.row_groups(file)
            for values in group.to_pylist()
        ]
        return sorted(rows, key=lambda values: (values.get("id", 0), str(values)))


def all_objects(table: ErasableTable) -> Iterator[tuple[str, bytes]]:
    """All bytes of the lake by name, including noncurrent versions and deleted objects, decompressed."""
    if table.bucket:
        pages = aws_clients.client("s3").get_paginator("list_object_versions").paginate(Bucket=table.bucket)
        for one in (version for page in pages for version in page.get("Versions", [])):
            yield f"{one['Key']} ({one['VersionId']})", _version(table.bucket, one["Key"], one["VersionId"])
    else:
        for path in sorted(table.lake.rglob("*")):
            if path.is_file():
                yield path.relative_to(table.lake).as_posix(), _decompressed(path.name, path.read_bytes())


@cache
def _version(bucket: str, key: str, version: str) -> bytes:
    """The decompressed bytes of a version, which never change."""
    content = aws_clients.client("s3").get_object(Bucket=bucket, Key=key, VersionId=version)
    return _decompressed(key, content["Body"].read())


def _decompressed(name: str, content: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.decompress(content)
    if name.endswith(".avro") and b"deflate" in content:
        return content + _inflated(content)
    if name.endswith(".parquet") and content.startswith(b"PAR1"):
        return content + str(pq.read_table(pa.BufferReader(content)).to_pylist()).encode()
    return content


def _inflated(avro: bytes) -> bytes:
    """The blocks of an Avro file, see https://avro.apache.org/docs/1.11.1/specification/#object-container-files."""
    _, *blocks, _ = avro.split(avro[-16:])  # each ends with the marker that ends the file's header
    return b"".join(zlib.decompress(_after_numbers(block, 2), -15) for block in blocks)


def _after_numbers(content: bytes, count: int) -> bytes:
    for _ in range(count):
        end = next(i for i, byte in enumerate(content) if byte < 0x80)
        content = content[end + 1 :]
    return content


def _avro_number(number: int) -> bytes:
    rest, encoded = number << 1, bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def objects_containing(table: ErasableTable, *texts: str | int) -> dict[str, list[str | int]]:
    """Names of all objects in the lake that contain one of some values, with these values."""
    encodings = {text: [str(text).encode()] for text in texts}
    for text in texts:
        if isinstance(text, int):
            encodings[text] += [text.to_bytes(8, "little"), _avro_number(text)]
    objects = {}
    for name, content in all_objects(table):
        contained = [
            text for text, forms in encodings.items() if any(form in content or form in name.encode() for form in forms)
        ]
        if contained:
            objects[name] = contained
    return objects


def fill_with_changes(table: ErasableTable, partition_key: str = "city") -> dict[int, list[dict[str, Any]]]:
    """Give a table loads, changes, a direct change, tombstones, bad rows, copies, and files of a crashed run.

    Returns:
        The rows as of each retained change.
    """
    table.item |= {"PartitionKey": partition_key, "MaxQuarantinedRows": "5"}
    table.load([row(1), row(2, "Bonn"), secret(), *(row(n) for n in range(10, 20))])
    table.apply(("U", secret("Bonn", " the second")), ("U", row(1, "Ulm", "changed")), ("I", row(3, "Kiel")))
    table.apply(("D", secret("Bonn")), ("D", row(10)))
    table.apply(("I", secret("Kiel", " is back")), ("X", secret(what=" is bad")), ("X", row(11, name="bad")))
    table.direct("U", [pa.table({"id": [SECRET_ID], "name": [SECRET_NAME + " by hand"]})])
    table.roll_back(to=2)
    table.roll_back(to=5)
    table.apply(("D", secret("Kiel")), ("U", row(2, "Bonn", "newest")))
    table.apply(("I", secret("Ulm", " for the last time")), ("D", row(12)))
    head = table.log.head()
    states = {change: table.rows_as_of(change) for change in range(1, head + 1)}  # makes copies of retired files
    fs, layout = lake_filesystem(table.location).open(), table.layout
    for key in (
        layout.staging_prefix(head + 1, "dead") + "1.parquet",
        layout.tombstones_key(head + 1, "dead") + "-1.parquet",
        layout.retired_key("000000000003-00099.parquet"),
    ):
        base = fs.base_fs if isinstance(fs, pyarrow_fs.SubTreeFileSystem) else fs
        if isinstance(base, pyarrow_fs.LocalFileSystem):
            fs.create_dir(key.rpartition("/")[0], recursive=True)
        pq.write_table(pa.table({"name": [SECRET_NAME]}), key, filesystem=fs, compression="none")
    return states


def without(rows: list[dict[str, Any]], *ids: int) -> list[dict[str, Any]]:
    return [values for values in rows if values["id"] not in ids]


def copied(table: ErasableTable, root: Path) -> ErasableTable:
    """The same table in another folder."""
    copy = ErasableTable(root, table.columns, dict(table.item))
    shutil.copytree(table.root, root, dirs_exist_ok=True)
    copy.runs = table.runs
    return copy
