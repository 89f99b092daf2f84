"""A private database server always ends with its data deleted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pymysql
import pytest

from cdclake_devkit.shop.mariadb import PrivateMariadb
from tests.builders import eventually

if TYPE_CHECKING:
    from cdclake_devkit.shop.postgresql import PrivatePostgresql

pytestmark = pytest.mark.database

START_SERVER = """
from {0.__module__} import {0.__name__}
with {0.__name__}() as server:
    print(server._folder, flush=True)
    input()
"""


@pytest.fixture(params=["mariadb", "postgresql"])
def running(request: pytest.FixtureRequest) -> PrivateMariadb | PrivatePostgresql:
    """A running server of each kind."""
    server: PrivateMariadb | PrivatePostgresql = request.getfixturevalue(request.param)
    return server


def test_an_error_in_the_block_stops_the_server_and_deletes_its_data(running: PrivateMariadb | PrivatePostgresql):
    def fail_inside() -> None:
        with type(running)() as server:
            used.append(server)
            raise KeyboardInterrupt

    used: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        fail_inside()
    assert not used[0]._folder.exists()
    port = used[0].connection_options.port
    assert port != running.connection_options.port
    library: Any = pymysql if isinstance(running, PrivateMariadb) else psycopg2
    with pytest.raises(library.OperationalError, match="refused"):
        library.connect(host="127.0.0.1", port=port, user="x")


def test_the_server_ends_with_the_process_that_started_it(running: PrivateMariadb | PrivatePostgresql):
    command = [sys.executable, "-c", START_SERVER.format(type(running))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        (pid_file,) = (*folder.glob("pid"), *folder.glob("data/postmaster.pid"))
        server = int(pid_file.read_text().split("\n", 1)[0])
        process.kill()
    assert eventually(lambda: not Path(f"/proc/{server}").exists())
    shutil.rmtree(folder)
