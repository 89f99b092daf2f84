"""Runs ministack for `make deploy-local`, in ministack's own environment.

It imports nothing else of this project, because the environment lacks the project's dependencies.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

HOST = "127.0.0.1"


def main() -> None:
    """Serve on a free local port; print the port as the only line of output."""
    del os.environ["PYTHONPATH"]  # functions inherit the environment and must see only their own code
    listening = socket.socket()
    listening.bind((HOST, 0))
    port = listening.getsockname()[1]
    os.environ["GATEWAY_PORT"] = str(port)  # ministack reads it on import

    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app
    from ministack.core.tls import resolve_tls_material

    from deploy_local.ministack_patches.catalog import leave_out_empty_owners
    from deploy_local.ministack_patches.functions import keep_request_ids
    from deploy_local.ministack_patches.jobs import run_jobs
    from deploy_local.ministack_patches.permissions import correct_authorization

    keep_request_ids()
    run_jobs(f"https://{HOST}:{port}")
    correct_authorization()
    leave_out_empty_owners()
    config = Config()
    config.bind = [f"fd://{listening.detach()}"]
    config.certfile, config.keyfile = resolve_tls_material()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a full pipe without a reader would block the server
    asyncio.run(serve(app, config))


if __name__ == "__main__":
    main()
