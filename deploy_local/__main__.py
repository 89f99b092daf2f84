"""`make deploy-local`: deploys on a local CloudFormation, inspects the deployment, and runs it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from cdclake.control.jobs.entry import error_line
from cdclake.errors import CdclakeError
from cdclake_infra.build import build_app
from cdclake_infra.gate import synthesize
from cdclake_infra.settings import Settings
from deploy_local import checks
from deploy_local.assembly import Account, stacks_in_order
from deploy_local.deploy import bootstrap, deploy
from deploy_local.deployment import Deployment
from deploy_local.emulator import running_emulator
from deploy_local.rebuild import rebuild
from deploy_local.scenario import JOBS, Scenario
from deploy_local.this_machine import for_this_machine, glue_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from deploy_local.assembly import StackToDeploy
    from deploy_local.emulator import Emulator

CONTEXT = {"cdclake:raw_prefix": "dms", "cdclake:lake_prefix": "tables", "cdclake:small_changes": "lambda"}
"""Settings of the deployment, as with `--context`; all others but the version of Glue are defaults. Prefixes are set,
because a wrong prefix shows only if it is not empty."""
ACCOUNT = Account("123456789012", "eu-central-1")
CALLERS = ("events.amazonaws.com", "s3.amazonaws.com")
"""The services that may call the function of raw files."""
NOT_CHECKED = (
    "bucket lifecycle rules and access logs, point-in-time recovery of the table, concurrent runs of a job and of "
    "a function, the rule's retries: ministack does not keep them. tests/infra checks them in the templates"
)

_EXPECTED = (CdclakeError, ClientError, BotoCoreError, LookupError, ValueError)
"""Errors of a failed check. LookupError and ValueError: an AWS response lacks items, or has more than expected."""

Check = tuple[str, "Callable[[], str]"]


class _Failure(Exception):
    """A check failed and was reported."""


def main() -> int:
    """Run all checks; returns the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="cdclake-deploy-"))
    started = time.monotonic()
    try:
        _verify(folder)
    except _Failure:
        sys.stdout.write(f"\nFAILED. The logs of ministack, the function and the jobs are in {folder}\n")
        return 1
    except CdclakeError as error:
        sys.stdout.write(f"\nFAILED: {error}\nThe logs are in {folder}\n")
        return error.exit_code
    shutil.rmtree(folder)
    sys.stdout.write(f"\nAll checks passed ({time.monotonic() - started:.0f} s).\n")
    return 0


def _verify(folder: Path) -> None:
    context = {**CONTEXT, "cdclake:glue_version": glue_version()}
    settings = Settings.from_context(context)
    _title(f"Synthesizing, as `cdk deploy` does, for Glue {settings.glue_version}")
    synthesize(build_app(context, folder / "cdk.out"))
    stacks = for_this_machine(stacks_in_order(folder / "cdk.out", ACCOUNT), folder)
    with running_emulator(ACCOUNT, folder) as emulator:
        _title("Deploying on ministack, with IAM and TLS")
        _run_all([("cdk bootstrap", lambda: bootstrap(emulator, stacks))])
        _run_all((stack.name, partial(_deploy, emulator, stack)) for stack in stacks)
        deployment = Deployment(emulator)
        _title("Inspecting the deployed resources")
        _run_all(_inspections(deployment, settings), keep_going=True)
        _report("note", "not checked", NOT_CHECKED)
        _title("Running the deployed code with the deployed roles")
        _run_all(_scenario(deployment, settings))
        _run_all([("rebuild", lambda: rebuild(emulator, stacks))])


def _deploy(emulator: Emulator, stack: StackToDeploy) -> str:
    removed = deploy(emulator, stack)
    created = len(stack.template["Resources"]) - len(removed)
    notes = "".join(f"; {resource.type.name} {resource.type.replacement}" for resource in removed)
    return f"{len(stack.assets)} files uploaded, {created} resources created{notes}"


def _inspections(deployment: Deployment, settings: Settings) -> list[Check]:
    return [
        ("raw bucket", lambda: checks.bucket(deployment, deployment.raw_bucket, versioned=False)),
        ("lake bucket", lambda: checks.bucket(deployment, deployment.lake_bucket, versioned=True)),
        ("notification", lambda: checks.notification(deployment, settings.raw_prefix)),
        ("state table", lambda: checks.state_table(deployment)),
        *((job.partition("_")[2], partial(checks.job, deployment, job)) for job in JOBS),
        ("schedule", lambda: checks.schedule(deployment)),
        ("function", lambda: checks.function(deployment, deployment.function, CALLERS)),
        ("small changes", lambda: checks.function(deployment, deployment.small_changes, ())),
        ("failed runs", lambda: checks.rule(deployment)),
        ("alarms", lambda: checks.alarms(deployment, (deployment.function, deployment.small_changes))),
    ]


def _scenario(deployment: Deployment, settings: Settings) -> list[Check]:
    scenario = Scenario(deployment, settings)
    return [
        ("new tables", scenario.register),
        ("schedule", scenario.load),
        ("file events", scenario.change),
        ("metrics", lambda: checks.metrics(deployment)),
        ("dead letters", scenario.undeliverable),
        ("broken file", scenario.fail),
    ]


def _run_all(named_checks: Iterable[Check], *, keep_going: bool = False) -> None:
    """Run checks and report their results; stop at a failure unless `keep_going`.

    Raises:
        _Failure: A check failed.
    """
    failed = False
    for name, check in named_checks:
        try:
            result = check()
        except _EXPECTED as error:
            failed = True
            _report("FAILED", name, error_line(error))
            if not keep_going:
                break
        else:
            _report("ok", name, result)
    if failed:
        raise _Failure


def _title(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def _report(outcome: str, name: str, text: str) -> None:
    sys.stdout.write(f"  {outcome:<6} {name:<15} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
