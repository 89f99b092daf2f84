"""Starts the Controller on a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_glue as glue
from constructs import Construct

if TYPE_CHECKING:
    from cdclake_infra.resource_names import ResourceNames
    from cdclake_infra.settings import Settings

WORKFLOW = "DMSCDC"
TRIGGER = "DMSCDC_Schedule"


class Schedule(Construct):
    """A Glue workflow whose trigger starts a job."""

    def __init__(
        self, scope: Construct, name: str, *, settings: Settings, names: ResourceNames, job: glue.IJob
    ) -> None:
        super().__init__(scope, name)
        workflow = glue.Workflow(
            self,
            "Workflow",
            workflow_name=f"{names.prefix}{WORKFLOW}",
            description="cdclake: runs the Controller, which plans every table",
            max_concurrent_runs=1,
        )
        workflow.add_scheduled_trigger(
            "Trigger",
            name=f"{names.prefix}{TRIGGER}",
            schedule=glue.TriggerSchedule.expression(settings.schedule),
            start_on_creation=settings.schedule_enabled,
            actions=[glue.Action.job(job)],
        )
