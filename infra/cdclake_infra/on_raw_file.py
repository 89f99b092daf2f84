"""The Lambda function that handles events: of new raw files, and of Spark runs that failed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Duration, Stack, Validations
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_notifications as notifications

from cdclake.model.names import FUNCTION_SMALL_CHANGES, JOB_PROCESS_TABLE
from cdclake_infra import job_permissions
from cdclake_infra.event_function import LAMBDA, EventFunction
from cdclake_infra.library import build_function
from cdclake_infra.resource_names import SPARK_JOBS, bucket_arn, new_table, regional_arn
from cdclake_infra.roles import Statement, create_role

if TYPE_CHECKING:
    from aws_cdk import aws_iam as iam
    from constructs import Construct

    from cdclake_infra.resource_names import ResourceNames

FUNCTION, RULE = "cdclake-on-raw-file", "cdclake-spark-run-failed"
FAILED_STATES = ("FAILED", "TIMEOUT", "STOPPED")
"""States of a run that Glue reports, except success.
https://docs.aws.amazon.com/glue/latest/dg/automating-awsglue-with-cloudwatch-events.html
"""
TIMEOUT = Duration.seconds(60)
MEMORY_MB = 256
RETRIED_FOR = Duration.hours(1)
"""How long EventBridge tries to hand over an event. By then the hourly Controller does the work."""


class OnRawFile(EventFunction):
    """The function, which starts the processing of tables.

    Glue's events of failed Spark runs reach it in any case. Glue sends them on a best effort basis: if one is lost, the
    Controller's next run does the work. https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-glue.html

    Args:
        name: Construct id.
        names: Buckets and tables of the deployment.
        notified: Whether the raw bucket sends events to the function, too.
        small_changes: Whether it calls the function of small changes, and starts no run of ProcessTable.
    """

    def __init__(
        self, scope: Construct, name: str, *, names: ResourceNames, notified: bool, small_changes: bool
    ) -> None:
        super().__init__(scope, name, function_name=f"{names.prefix}{FUNCTION}")
        self.function = self._function(names, small_changes=small_changes)
        self._follow_spark_runs(names)
        if notified:
            self._notify(self.function, names)

    def _function(self, names: ResourceNames, *, small_changes: bool) -> lambda_.Function:
        called = f"{names.prefix}{FUNCTION_SMALL_CHANGES}"
        granted = [
            job_permissions.use_state(names, "GetItem", "PutItem", "UpdateItem", "Scan"),
            job_permissions.follow_jobs(names, *SPARK_JOBS),
            _call(called) if small_changes else job_permissions.start_jobs(names, JOB_PROCESS_TABLE),
        ]
        environment = {
            "RAW_PREFIX": names.raw_prefix,
            "STATE_TABLE": names.state_table,
            **({"NAME_PREFIX": names.prefix} if names.prefix else {}),
            **({"NEW_TABLE": settings} if (settings := new_table(names)) else {}),
            **({"SMALL_CHANGES_FUNCTION": called} if small_changes else {}),
        }
        with TemporaryDirectory() as folder:
            build_function(Path(folder))
            function = lambda_.Function(
                self,
                "Function",
                function_name=f"{names.prefix}{FUNCTION}",
                description="cdclake: starts the processing of tables when a raw file arrives or a Spark run fails",
                runtime=lambda_.Runtime.PYTHON_3_11,
                handler="handler.handler",
                code=lambda_.Code.from_asset(folder),
                environment=environment,
                role=self.create_role(granted),
                log_group=self.log,
                dead_letter_queue=self.undelivered,
                timeout=TIMEOUT,
                memory_size=MEMORY_MB,
            )
        Validations.of(function).acknowledge(
            Acknowledgment(id="AwsSolutions-L1", reason="All tests run on Python 3.11; those of the lake also on 3.13")
        )
        return function

    def _follow_spark_runs(self, names: ResourceNames) -> None:
        """Send events of failed Spark runs to the function."""
        jobs = [f"{names.prefix}{job}" for job in SPARK_JOBS]
        target = targets.LambdaFunction(self.function, dead_letter_queue=self.undelivered, max_event_age=RETRIED_FOR)
        events.Rule(
            self,
            "SparkRunFailed",
            rule_name=f"{names.prefix}{RULE}",
            description="cdclake: a Spark run failed, so another one goes on with its tables",
            event_pattern=events.EventPattern(
                source=["aws.glue"],
                detail_type=["Glue Job State Change"],
                detail={"jobName": jobs, "state": list(FAILED_STATES)},
            ),
            targets=[target],
        )

    def _notify(self, function: lambda_.IFunction, names: ResourceNames) -> None:
        """Send events of new raw files to the function.

        The bucket belongs to another stack or existed before. So the CDK deploys a function that adds the notification
        to the bucket's others, and removes it with this stack.
        """
        bucket = s3.Bucket.from_bucket_attributes(
            self, "RawBucket", bucket_name=names.raw_bucket, notifications_handler_role=self._notifier_role(names)
        )
        filters = [s3.NotificationKeyFilter(prefix=names.raw_prefix)] if names.raw_prefix else []
        bucket.add_event_notification(s3.EventType.OBJECT_CREATED, notifications.LambdaDestination(function), *filters)

    def _notifier_role(self, names: ResourceNames) -> iam.IRole:
        return create_role(
            self,
            "NotifierRole",
            service=LAMBDA,
            statements=[
                Statement(
                    "WriteLogs",
                    ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
                    (regional_arn("logs", f"log-group:/aws/lambda/{Stack.of(self).stack_name}-BucketNotif*"),),
                    "CloudFormation chooses the end of the function's name",
                ),
                Statement(
                    "SetNotifications",
                    ("s3:GetBucketNotification", "s3:PutBucketNotification"),
                    (bucket_arn(names.raw_bucket),),
                ),
            ],
        )


def _call(function: str) -> Statement:
    return Statement("CallSmallChanges", ("lambda:InvokeFunction",), (regional_arn("lambda", f"function:{function}"),))
