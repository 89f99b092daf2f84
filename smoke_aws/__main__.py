"""`make smoke-aws`: an hour on the account whose credentials this shell has."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from deploy_local.deployment import Deployment
from deploy_local.scenario import JOBS, Patience, Scenario

from cdclake.control.jobs.entry import error_line
from cdclake.errors import CdclakeError, ConfigurationError
from cdclake_infra.build import context_of_cdk_json
from cdclake_infra.library import ROOT
from cdclake_infra.settings import CONTEXT_PREFIX, Settings
from cdclake_infra.settings_file import SETTINGS_FILE, with_settings_file
from smoke_aws.account import AwsAccount
from smoke_aws.measure import Measured, measure, table
from smoke_aws.removal import delete_logs, empty_bucket, stop_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CDK = ("npx", "--yes", "aws-cdk@2.1148.1")
NAME_PREFIX = "smoke-"
PATIENCE = Patience(event_seconds=300, job_seconds=1800, poll_seconds=5)
"""Glue may take minutes to start a worker."""
BUCKETS = ("raw", "lake", "access-logs")
REMOVAL_TRIES = 3
OWN_SETTINGS = {
    "name_prefix": NAME_PREFIX,
    "raw_prefix": "dms",
    "lake_prefix": "tables",
    "delete_data_with_stacks": "true",
    "schedule_enabled": "false",
    "start_by_file": "true",
    "catalog": "true",
    "sample_database": "false",
}
"""What the test relies on, whatever the settings say."""
_EXPECTED = (CdclakeError, BotoCoreError, ClientError)


class Smoke:
    """A deployment that lives for one test.

    Args:
        account: Where to deploy.
        settings: The deployment's settings, as context of the CDK.
        cdk: Runs the `cdk` command with these words.

    Raises:
        ConfigurationError: The deployment would not be one of its own.
    """

    def __init__(self, account: AwsAccount, settings: dict[str, str], cdk: Callable[[Sequence[str]], None]) -> None:
        self._account, self._cdk = account, cdk
        merged = with_settings_file({**context_of_cdk_json(), **settings}, SETTINGS_FILE)  # as the cdk command does
        self._settings = Settings.from_context(merged)
        existing = [name for name, value in merged.items() if name.startswith(f"{CONTEXT_PREFIX}existing_") and value]
        if existing:
            message = f"A smoke test writes raw files and tables, so it uses nothing that exists: {', '.join(existing)}"
            raise ConfigurationError(message, remedy="Leave it out of the settings")
        self._context = [word for name, value in settings.items() for word in ("--context", f"{name}={value}")]
        self.deployment = Deployment(account, self._settings.name_prefix)

    def run(self, report: Callable[[str, str], None]) -> list[Measured]:
        """Deploy, replicate the sample shop, and compare the lake with it. Returns what was measured.

        Raises:
            CdclakeError: A step failed.
        """
        self._cdk(["deploy", "--all", "--require-approval", "never", *self._context])
        scenario = Scenario(self.deployment, self._settings, PATIENCE)
        for name, step in (
            ("new tables", scenario.register),
            ("schedule", scenario.load),
            ("file events", scenario.change),
        ):
            report(name, step())
        logs = self._account.client("logs")
        return [measure(run, logs) for job in JOBS for run in reversed(scenario.runs(job))]

    def remove(self, report: Callable[[str, str], None]) -> None:
        """Stop all runs, delete the stacks with their data, then the logs of the runs. What is not there is no error.

        Raises:
            CdclakeError: The stacks could not be deleted.
        """
        runs = stop_runs(self._account.client("glue"), [f"{NAME_PREFIX}{job}" for job in JOBS], PATIENCE.poll_seconds)
        place, objects = f"{self._account.number}-{self._account.region}", 0
        s3 = self._account.client("s3")
        for tries_left in reversed(range(REMOVAL_TRIES)):  # S3 may deliver access logs after a bucket was emptied
            objects += sum(empty_bucket(s3, f"{NAME_PREFIX}cdclake-{bucket}-{place}") for bucket in BUCKETS)
            try:
                self._cdk(["destroy", "--all", "--force", *self._context])
                break
            except CdclakeError:
                if not tries_left:
                    raise
        report("removed", f"the stacks, and {objects} versions of objects")
        streams = delete_logs(self._account.client("logs"), runs)
        report("removed", f"{streams} log streams of {len(runs)} runs")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the test; returns the exit code."""
    options = _parser().parse_args(argv)
    folder = ROOT / "build" / "smoke-aws"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        account = AwsAccount(folder)
        smoke = Smoke(account, context_of(options.context), partial(_run_cdk, account.region))
        if not (options.yes or _agreed(account)):
            return 1
        return _test(smoke, account, keep=options.keep, only_remove=options.remove)
    except _EXPECTED as error:
        sys.stderr.write(f"FAILED: {error_line(error)}\n")
        return 1


def context_of(words: Sequence[str]) -> dict[str, str]:
    """The context of the CDK: that of the test, and `key=value` words that add to it.

    Raises:
        ConfigurationError: A word has no `=`, or names a setting of the test.
    """
    own = {f"{CONTEXT_PREFIX}{name}": value for name, value in OWN_SETTINGS.items()}
    wrong = [word for word in words if "=" not in word or word.partition("=")[0] in own]
    if wrong:
        message = f"'{wrong[0]}' is no setting that a smoke test can have"
        raise ConfigurationError(message, remedy="Write --context cdclake:worker_type=G.2X")
    return {**dict(word.split("=", 1) for word in words), **own}


def _test(smoke: Smoke, account: AwsAccount, *, keep: bool, only_remove: bool) -> int:
    measured: list[Measured] = []
    failed = False
    try:
        if not only_remove:
            measured = smoke.run(_report)
    except _EXPECTED as error:
        failed = True
        sys.stderr.write(f"FAILED: {error_line(error)}\n")  # before the removal, which may fail too
    finally:
        if keep:
            _report("kept", "remove it with --remove")
        else:
            smoke.remove(_report)
    if measured:
        results = account.folder / "results.json"
        results.write_text(json.dumps([run._asdict() for run in measured], indent=1), encoding="utf-8")
        sys.stdout.write(f"\n{table(measured)}\n\nAll steps passed; figures in {results}\n")
    return int(failed)


def _agreed(account: AwsAccount) -> bool:
    sys.stdout.write(
        f"This deploys cdclake to account {account.number} in {account.region} under names that begin with "
        f"{NAME_PREFIX}, runs it for about an hour, and removes it. It costs about a dollar.\nContinue? [y/N] "
    )
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _run_cdk(region: str, words: Sequence[str]) -> None:
    """Run the `cdk` command.

    Raises:
        ConfigurationError: It failed; its output says why.
    """
    environment = {**os.environ, "AWS_REGION": region, "CDK_DEFAULT_REGION": region}
    done = subprocess.run([*CDK, *words], cwd=ROOT, env=environment, check=False)
    if done.returncode:
        message = f"cdk {words[0]} failed"
        raise ConfigurationError(message, remedy="See above; bootstrap the account if it says so")


def _report(name: str, text: str) -> None:
    sys.stdout.write(f"  ok  {name:<12} {text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m smoke_aws", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--keep", action="store_true", help="keep the deployment")
    parser.add_argument("--remove", action="store_true", help="only remove what an earlier test left")
    parser.add_argument("--context", action="append", default=[], metavar="KEY=VALUE", help="a setting, as for cdk")
    return parser


if __name__ == "__main__":
    sys.exit(main())
