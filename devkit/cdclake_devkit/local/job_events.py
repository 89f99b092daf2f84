"""Amazon EventBridge: moto stores the rules, and functions get the events of job runs that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.events.models import events_backends

from cdclake_devkit.local.jobs import JobRunState, Run
from cdclake_devkit.local.notifications import sending

if TYPE_CHECKING:
    from cdclake_devkit.local.events import EventDelivery
    from cdclake_devkit.local.lambda_functions import LambdaFunctions

_ENDS = {
    JobRunState.SUCCEEDED: ("INFO", "Job run succeeded"),
    JobRunState.FAILED: (
        "ERROR",
        "JobName:{run.job} and JobRunId:{run.run_id} failed to execute with exception {run.error}",
    ),
    JobRunState.TIMEOUT: ("WARN", "Job run timed out"),
    JobRunState.STOPPED: ("INFO", "Job run stopped"),
}
"""Severity and message of each state of which Glue sends an event."""


class JobEvents:
    """Sends the event of each run that ended to the functions that are targets of matching rules.

    A target gets the whole event: its `Input`, `InputPath` and `InputTransformer` are ignored.

    Args:
        functions: Runs the functions.
        delivery: Calls them in the background.
        region: Region of the rules and functions.
    """

    def __init__(self, functions: LambdaFunctions, delivery: EventDelivery, region: str) -> None:
        self._functions = functions
        self._delivery = delivery
        self._region = region

    def ended(self, run: Run) -> None:
        """Accept the event of a run that ended, and return at once."""
        event = job_event(run, self._region)
        bus = events_backends[DEFAULT_ACCOUNT_ID][self._region].event_buses["default"]
        for rule in list(bus.rules.values()):
            # Moto's empty pattern, that of a schedule, matches every event.
            if rule.state != "ENABLED" or not rule.event_pattern.get_pattern():
                continue
            if rule.event_pattern.matches_event(event):  # type: ignore[arg-type]  # moto's TypedDict
                for target in list(rule.targets):
                    what = f"Event {run.state.value} of run {run.run_id} of job {run.job}"
                    send = sending(self._functions, target["Arn"], event, DEFAULT_ACCOUNT_ID, self._region)
                    self._delivery.deliver(what, send)


def job_event(run: Run, region: str) -> dict[str, Any]:
    """The event of a run that ended.

    Source: https://docs.aws.amazon.com/glue/latest/dg/automating-awsglue-with-cloudwatch-events.html
    """
    severity, message = _ENDS[run.state]
    assert run.completed_utc is not None
    return {
        "version": "0",
        "id": str(uuid4()),
        "detail-type": "Glue Job State Change",
        "source": "aws.glue",
        "account": DEFAULT_ACCOUNT_ID,
        "time": run.completed_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": [],
        "detail": {
            "jobName": run.job,
            "severity": severity,
            "state": run.state.value,
            "jobRunId": run.run_id,
            "message": message.format(run=run),
        },
    }
