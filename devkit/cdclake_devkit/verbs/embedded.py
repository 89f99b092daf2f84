"""Shared by the verbs that run the whole pipeline on an embedded AWS."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from cdclake.errors import CdclakeError, ConfigurationError
from cdclake_cli.loopback import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cdclake_cli.target import Target
    from cdclake_devkit.local import EmbeddedAws, LocalDeployment


@contextmanager
def kept_on_failure(prefix: str) -> Iterator[Path]:
    """A folder for logs, deleted at the end unless the block raises an error."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    failed = False
    try:
        yield folder
    except Exception:
        failed = True
        raise
    finally:  # also after Ctrl-C
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)  # leftovers in the temporary folder do no harm


def require_local(target: Target) -> str:
    """The URL of the local AWS that a target names.

    Raises:
        ConfigurationError: It names an account, or another machine.
    """
    from cdclake_cli.aws.session import endpoint_of  # slow to import, and --help does not need it

    endpoint = endpoint_of(target)
    if not endpoint or urlsplit(endpoint).hostname != HOST:
        raise ConfigurationError("This works on a local AWS alone", remedy="Run it in `cdclake local shell`")
    return endpoint


def hourly_run(aws: EmbeddedAws, deployment: LocalDeployment) -> Callable[[], None]:
    """A function that runs the pipeline like the hourly workflow and waits. It raises `JobRunError` if a run fails."""
    from cdclake_cli.aws.services import Services
    from cdclake_cli.pipeline import Pipeline
    from cdclake_cli.target import Target

    target = Target(
        endpoint_url=aws.endpoint,
        region=aws.region,
        raw_bucket=deployment.raw_bucket,
        raw_prefix=deployment.raw_prefix,
        lake_bucket=deployment.lake_bucket,
        lake_prefix=deployment.lake_prefix,
        state_table=deployment.state_table,
    )
    pipeline = Pipeline(Services(target, aws.client), target)

    def run_hourly() -> None:
        outcome = pipeline.run()
        if outcome.failed:
            raise outcome.error()

    return run_hourly


@contextmanager
def log_named_on_failure(aws: EmbeddedAws) -> Iterator[None]:
    """If the block raises an error, print the last log lines of the failed job, and name its log as the remedy."""
    try:
        yield
    except CdclakeError as error:
        raise _with_log(error, aws) from error


def _with_log(error: CdclakeError, aws: EmbeddedAws) -> CdclakeError:
    from cdclake_devkit.shop.job_logs import failed_runs

    runs = failed_runs(aws)
    if not runs:
        return type(error)(error.message, remedy=error.remedy or f"Check the logs in {aws.logs_dir}", **error.details)
    first = runs[0]
    typer.echo("\n".join((f"Last lines of {first.job}, run {first.run_id}:", *first.last_lines)), err=True)
    return type(error)(error.message, remedy=f"The log of {first.job} is {first.log}", **error.details)
