"""The Lambda function that computes small changes, so that they need no Spark run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Duration, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_

from cdclake.model.names import FUNCTION_SMALL_CHANGES
from cdclake_infra import job_permissions
from cdclake_infra.event_function import EventFunction
from cdclake_infra.jobs import run_arguments
from cdclake_infra.library import build_small_changes

if TYPE_CHECKING:
    from constructs import Construct

    from cdclake_infra.network import Network
    from cdclake_infra.resource_names import ResourceNames
    from cdclake_infra.settings import Settings

TIMEOUT = Duration.minutes(5)
MEMORY_MB = 1769
"""One processor: https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html. The limits of
`lambdas/small_changes` need half of it."""
RETRIED_FOR = Duration.hours(1)
"""How long an event may wait. By then the hourly Controller does the work."""
RETRIES = 2
"""The first one goes on where the function died; after the second death Spark does the work."""


class SmallChanges(EventFunction):
    """The function, which the function of raw files calls with a table. It does what ProcessTable does, and loads rows.

    Args:
        name: Construct id.
        settings: Settings of the deployment.
        names: Buckets and tables of the deployment.
        network: The jobs' network, because rows pass through it; None: Lambda's.
    """

    def __init__(
        self, scope: Construct, name: str, *, settings: Settings, names: ResourceNames, network: Network | None
    ) -> None:
        function_name = f"{names.prefix}{FUNCTION_SMALL_CHANGES}"
        super().__init__(scope, name, function_name=function_name)
        join = network.function_statements() if network else []
        with TemporaryDirectory() as folder:
            self.function = lambda_.Function(
                self,
                "Function",
                function_name=function_name,
                description="cdclake: applies the small changes of a table, and starts a Spark job for others",
                runtime=lambda_.Runtime.PYTHON_3_13,
                architecture=lambda_.Architecture.ARM_64,
                handler="handler.handler",
                code=lambda_.Code.from_asset(str(build_small_changes(Path(folder)).path)),
                environment={name.upper(): value for name, value in run_arguments(settings, names).items()},
                role=self.create_role(
                    [
                        job_permissions.read_raw(names),
                        *job_permissions.read_hash_secret(settings.hash_secret),
                        *job_permissions.decide_for_tables(names),
                        *join,
                    ]
                ),
                log_group=self.log,
                dead_letter_queue=self.undelivered,
                timeout=TIMEOUT,
                memory_size=MEMORY_MB,
                reserved_concurrent_executions=settings.small_changes_at_once or None,
                max_event_age=RETRIED_FOR,
                retry_attempts=RETRIES,
                vpc=network.vpc if network else None,
                vpc_subnets=ec2.SubnetSelection(subnets=[network.subnet]) if network else None,
                security_groups=[network.group] if network else None,
            )
        Validations.of(self.function).acknowledge(
            Acknowledgment(id="AwsSolutions-L1", reason="The function's libraries are locked for Python 3.13")
        )
