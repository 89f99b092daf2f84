"""Runs ministack for `make deploy-local`, with the Python of ministack's own environment.

Of this project nothing but this package is imported: the environment has none of what the rest needs.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

HOST = "127.0.0.1"


def main() -> None:
    """Serve on any free port of this machine alone; the port is the one line on the output."""
    del os.environ["PYTHONPATH"]  # functions inherit the environment, and must find nothing but their own code
    listening = socket.socket()
    listening.bind((HOST, 0))
    port = listening.getsockname()[1]
    os.environ["GATEWAY_PORT"] = str(port)  # read as ministack is imported, for the URLs that it makes

    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app
    from ministack.core.tls import resolve_tls_material

    from deploy_local.ministack_side.catalog import leave_out_empty_owners
    from deploy_local.ministack_side.jobs import run_jobs
    from deploy_local.ministack_side.permissions import read_requests_as_iam_does

    run_jobs(f"https://{HOST}:{port}")
    read_requests_as_iam_does()
    leave_out_empty_owners()
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.certfile, config.keyfile = resolve_tls_material()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads on, and a pipe that is full would stop us
    asyncio.run(serve(app, config))


if __name__ == "__main__":
    main()
