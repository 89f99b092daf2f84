"""DuckDB reads a table over S3 while a change is published between two of its requests."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from tests import ROOT
from tests.cdclake.lake.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
COLUMNS = pa.schema([("id", pa.int64())])
SCAN = "SELECT count(*) FROM iceberg_scan('s3://lake/_iceberg/shop/orders')"
FROM_9_TO_10, FROM_8_TO_9 = (b"9", b"10"), (b"8", b"9")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that has as many rows after a change as the change's number."""
    table = Table(tmp_path_factory.mktemp("table"), COLUMNS, {"PrimaryKey": "id", "Readers": "iceberg"})
    table.load([{"id": 1}])
    for number in range(2, 11):
        table.apply_file(f"20240305-1015{number:02}000.parquet", [("I", {"id": number})])
    return table.lake


def connection(endpoint: str) -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("httpfs", "avro", "iceberg"):
        folders = [Path(one) / f"duckdb_extension_{name}" for one in sys.path]
        found = [file for folder in folders if folder.is_dir() for file in folder.rglob("*.duckdb_extension")]
        if not found:
            pytest.skip(f"duckdb-extension-{name} of requirements-dev.txt is not installed")
        opened.execute(f"LOAD '{found[0]}'")
    secret = f"TYPE s3, KEY_ID 'a', SECRET 'b', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false"
    opened.execute(f"CREATE SECRET ({secret})")
    return opened


@contextmanager
def served(lake: Path, hints: tuple[bytes, bytes]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Serve a lake as S3 does. The version hint is replaced after the first request for it."""
    left = list(hints)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].removeprefix("/lake/")
            content = (lake / path).read_bytes()
            if path.endswith("version-hint.text"):
                content = left.pop(0) if len(left) > 1 else left[0]
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = content[int(first) : int(last) + 1 if last else None]
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
            self.send_header("ETag", f'"{md5(content, usedforsecurity=False).hexdigest()}"')
            second = int(content) if content.isdigit() else 0  # of each hint another
            self.send_header("Last-Modified", f"Tue, 05 Mar 2024 10:15:{second:02} GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with connection(f"127.0.0.1:{server.server_port}") as opened:
            yield opened
    finally:
        server.shutdown()
        server.server_close()


def documented() -> list[str]:
    """The statements of the document that read the hint with one request."""
    text = (ROOT / "docs" / "iceberg.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    (block,) = (one for one in blocks if "force_download" in one)
    return [one.replace("s3://cdclake-lake/", "s3://lake/") for one in block.split(";") if one.strip()]


@pytest.mark.parametrize("hints", [FROM_9_TO_10, FROM_8_TO_9])
def test_a_hint_that_is_replaced_between_two_requests_fails_the_query_which_can_be_repeated(
    lake: Path, hints: tuple[bytes, bytes]
) -> None:
    with served(lake, hints) as opened:
        opened.execute("SET http_retries = 0")
        with pytest.raises(duckdb.Error, match=r"ETag on reading file .*version-hint\.text"):
            opened.execute(SCAN)
        assert opened.execute(SCAN).fetchall() == [(int(hints[1]),)]


@pytest.mark.parametrize("hints", [FROM_9_TO_10, FROM_8_TO_9])
def test_a_query_as_the_document_writes_it_never_fails(lake: Path, hints: tuple[bytes, bytes]) -> None:
    with served(lake, hints) as opened:
        opened.execute("SET http_retries = 0")
        for number in (*hints, hints[1]):
            for statement in documented():
                found = opened.execute(statement).fetchall()
            assert found == [(int(number),)]


def test_without_the_check_that_the_document_advises_to_keep_a_wrong_version_is_read(lake: Path) -> None:
    with served(lake, FROM_9_TO_10) as opened:
        opened.execute("SET unsafe_disable_etag_checks = true")
        assert opened.execute(SCAN).fetchall() == [(1,)]
