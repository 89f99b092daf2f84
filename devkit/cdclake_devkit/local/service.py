"""Runs the embedded AWS with cdclake deployed as a service, until it receives a signal."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING

from cdclake.signals import stop_signals
from cdclake_devkit.local.deploy import DEFAULT_DEPLOYMENT, LocalDeployment, deploy
from cdclake_devkit.local.server import EmbeddedAws

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


def serve(port: int = 0, data_dir: Path | None = None, deployment: LocalDeployment = DEFAULT_DEPLOYMENT) -> None:
    """Run the embedded AWS with cdclake until SIGINT, SIGTERM or SIGHUP. Must be called from the main thread.

    When ready, it prints one line of JSON: `endpoint`, `raw_bucket`, `lake_bucket`, `state_table`. All other output
    goes to standard error.

    Args:
        port: Loopback port; 0 for any free one.
        data_dir: Folder for logs; None for a temporary one, which is deleted at the end.
        deployment: Names of the deployed resources.

    Raises:
        ConfigurationError: The port is in use, or the jobs' scripts are missing.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("cdclake_devkit").setLevel(logging.INFO)
    with stop_signals() as wait, EmbeddedAws(port, data_dir) as aws:
        deploy(aws, deployment)
        ready = {
            "endpoint": aws.endpoint,
            "raw_bucket": deployment.raw_bucket,
            "lake_bucket": deployment.lake_bucket,
            "state_table": deployment.state_table,
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        logger.info("Region %s; logs of jobs and functions in %s; stop with Ctrl-C", aws.region, aws.logs_dir)
        wait()
        logger.info("Stopping")
