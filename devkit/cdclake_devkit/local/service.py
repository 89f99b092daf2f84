"""Runs the embedded AWS with cdclake deployed: as a service until it receives a signal, or for one command."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError
from cdclake.signals import handle_stop_signals, stop_signals
from cdclake_devkit.local.deploy import DEFAULT_DEPLOYMENT, deploy
from cdclake_devkit.local.environment import shell_environment
from cdclake_devkit.local.server import EmbeddedAws

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)


def serve(port: int = 0, data_dir: Path | None = None) -> None:
    """Run the embedded AWS with cdclake until SIGINT, SIGTERM or SIGHUP. Must be called from the main thread.

    When ready, it prints one line of JSON: `endpoint`, `raw_bucket`, `lake_bucket`, `state_table`. All other output
    goes to standard error.

    Args:
        port: Loopback port; 0 for any free one.
        data_dir: Folder for logs; None for a temporary one, which is deleted at the end.

    Raises:
        ConfigurationError: The port is in use, or the jobs' scripts are missing.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("cdclake_devkit").setLevel(logging.INFO)
    with stop_signals() as wait, EmbeddedAws(port, data_dir) as aws:
        deploy(aws)
        ready = {
            "endpoint": aws.endpoint,
            "raw_bucket": DEFAULT_DEPLOYMENT.raw_bucket,
            "lake_bucket": DEFAULT_DEPLOYMENT.lake_bucket,
            "state_table": DEFAULT_DEPLOYMENT.state_table,
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        logger.info("Region %s; logs of jobs and functions in %s; stop with Ctrl-C", aws.region, aws.logs_dir)
        wait()
        logger.info("Stopping")


def run(command: Sequence[str], data_dir: Path | None = None) -> int:
    """Run a command whose AWS clients use the embedded AWS with cdclake. Must be called from the main thread.

    Args:
        command: Program and arguments, with the standard input and output of this process.
        data_dir: Folder for logs; None for a temporary one, which is deleted at the end.

    Returns:
        As `run_in_terminal`.

    Raises:
        ConfigurationError: The program or the jobs' scripts are missing.
    """
    with EmbeddedAws(0, data_dir) as aws:
        deploy(aws)
        return run_in_terminal(command, shell_environment(os.environ, aws.endpoint, aws.region))


def run_in_terminal(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command in this process's terminal. Must be called from the main thread.

    Ctrl-C is the command's. If another signal ends this function, the command gets SIGHUP, as from a closed terminal.

    Returns:
        Its exit code, or 128 + n if signal n ended it.

    Raises:
        ConfigurationError: There is no such program.
    """
    restore = handle_stop_signals(lambda _: None, [signal.SIGINT])
    try:
        with subprocess.Popen(command, env=environment) as process:
            try:
                code = process.wait()
            except BaseException:
                process.send_signal(signal.SIGHUP)
                raise
    except FileNotFoundError as error:
        message = f"There is no program {command[0]}"
        raise ConfigurationError(message, remedy="Name one that is on PATH, or set SHELL to a shell") from error
    finally:
        restore()
    return code if code >= 0 else 128 - code
