"""`make deploy-local`: deploys on a local CloudFormation, looks at what is there, and makes it work."""

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
from deploy_local.deployed import Deployed
from deploy_local.deployment import bootstrap, deploy
from deploy_local.emulator import running_emulator
from deploy_local.rebuild import rebuild
from deploy_local.scenario import JOBS, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from deploy_local.assembly import StackToDeploy
    from deploy_local.emulator import Emulator

CONTEXT = {"cdclake:raw_prefix": "dms", "cdclake:lake_prefix": "tables"}
"""Settings of the deployment, as `--context` gives them; all others are the defaults. With prefixes, as without them a
wrong one would not be seen."""
ACCOUNT = Account("123456789012", "eu-central-1")
NOT_KEPT = (
    "lifecycle rules and access logs of buckets, point-in-time recovery of the table, how many runs of a job may be "
    "there at once: ministack forgets them. tests/infra holds the template's"
)

_EXPECTED = (CdclakeError, ClientError, BotoCoreError, LookupError, ValueError)
"""What is wrong shows as one of these. The last two: an answer of AWS lacks what it should have, or has more of it."""

Check = tuple[str, "Callable[[], str]"]


class _Failure(Exception):
    """Something is wrong, and has been said."""


def main() -> int:
    """Do it all; 0 if nothing is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="cdclake-deploy-"))
    started = time.monotonic()
    try:
        _prove(folder)
    except _Failure:
        sys.stdout.write(f"\nFAILED. Logs of ministack, of the function and of the jobs are in {folder}\n")
        return 1
    except CdclakeError as error:
        sys.stdout.write(f"\nFAILED: {error}\nLogs are in {folder}\n")
        return error.exit_code
    shutil.rmtree(folder)
    sys.stdout.write(f"\nThe deployment works, as far as this machine can tell ({time.monotonic() - started:.0f} s).\n")
    return 0


def _prove(folder: Path) -> None:
    settings = Settings.from_context(CONTEXT)
    _title("Synthesizing, as `cdk deploy` does")
    synthesize(build_app(CONTEXT, folder / "cdk.out"))
    stacks = stacks_in_order(folder / "cdk.out", ACCOUNT)
    with running_emulator(ACCOUNT, folder) as emulator:
        _title("Deploying on ministack, with IAM and TLS")
        _run_all([("cdk bootstrap", lambda: bootstrap(emulator, stacks))])
        _run_all((stack.name, partial(_deploy, emulator, stack)) for stack in stacks)
        deployed = Deployed(emulator)
        _title("What is there")
        _run_all(_looks(deployed, settings), go_on=True)
        _say("note", "not looked at", NOT_KEPT)
        _title("Whether it works: the deployed code, with the roles it has there")
        _run_all(_works(deployed, settings))
        _run_all([("torn down", lambda: rebuild(emulator, stacks))])


def _deploy(emulator: Emulator, stack: StackToDeploy) -> str:
    taken_out = deploy(emulator, stack)
    there = len(stack.template["Resources"]) - len(taken_out)
    said = "".join(f", and {one.lacking.kind} {one.lacking.instead}" for one in taken_out)
    return f"{len(stack.assets)} files uploaded, {there} resources created{said}"


def _looks(deployed: Deployed, settings: Settings) -> list[Check]:
    return [
        ("raw bucket", lambda: checks.bucket(deployed, deployed.raw_bucket, versioned=False)),
        ("lake bucket", lambda: checks.bucket(deployed, deployed.lake_bucket, versioned=True)),
        ("notification", lambda: checks.notification(deployed, settings.raw_prefix)),
        ("state table", lambda: checks.state_table(deployed)),
        *((job.partition("_")[2], partial(checks.job, deployed, job)) for job in JOBS),
        ("schedule", lambda: checks.schedule(deployed)),
        ("function", lambda: checks.function(deployed)),
        ("alarms", lambda: checks.alarms(deployed)),
    ]


def _works(deployed: Deployed, settings: Settings) -> list[Check]:
    scenario = Scenario(deployed, settings.raw_prefix, settings.lake_prefix)
    return [
        ("new tables", scenario.register),
        ("by the clock", scenario.load),
        ("by the file", scenario.change),
        ("metrics", lambda: checks.measured(deployed)),
        ("dead letters", scenario.undeliverable),
        ("broken file", scenario.fail),
    ]


def _run_all(those: Iterable[Check], *, go_on: bool = False) -> None:
    """Run checks and say what each found. One that fails ends it at once, or at the end of all.

    Raises:
        _Failure: One failed.
    """
    wrong = False
    for what, check in those:
        try:
            found = check()
        except _EXPECTED as error:
            wrong = True
            _say("WRONG", what, error_line(error))
            if not go_on:
                break
        else:
            _say("ok", what, found)
    if wrong:
        raise _Failure


def _title(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def _say(how: str, what: str, text: str) -> None:
    sys.stdout.write(f"  {how:<6} {what:<15} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
