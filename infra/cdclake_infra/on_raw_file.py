"""The Lambda function behind the raw bucket's events."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_notifications as notifications
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdclake.model.names import JOB_PROCESS_TABLE
from cdclake_infra import grants
from cdclake_infra.grants import Grant
from cdclake_infra.library import build_function
from cdclake_infra.places import bucket_arn, regional_arn

if TYPE_CHECKING:
    from aws_cdk import aws_iam as iam

    from cdclake_infra.places import Places

LAMBDA = "lambda.amazonaws.com"
FUNCTION = "cdclake-on-raw-file"
TIMEOUT = Duration.seconds(60)
MEMORY_MB = 256
UNDELIVERED_KEPT = Duration.days(14)


class OnRawFile(Construct):
    """A function that gets a table looked at when a raw file arrives, and a queue of events that it could not take.

    Args:
        scope: Where it belongs.
        name: Its name in the construct tree.
        places: Where things are.
        told: Whether the raw bucket tells it of new files.

    Attributes:
        function: The function.
        undelivered: The queue.
    """

    def __init__(self, scope: Construct, name: str, *, places: Places, told: bool) -> None:
        super().__init__(scope, name)
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=UNDELIVERED_KEPT,
        )
        log = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{FUNCTION}",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.function = self._function(places, self.undelivered, log)
        if told:
            self._notify(self.function, places)

    def _function(self, places: Places, undelivered: sqs.Queue, log: logs.LogGroup) -> lambda_.Function:
        role = grants.role(
            self,
            "Role",
            service=LAMBDA,
            grants=[
                Grant("WriteLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), (log.log_group_arn,)),
                Grant("KeepUndelivered", ("sqs:SendMessage",), (undelivered.queue_arn,)),
                grants.use_state(places, "GetItem", "PutItem", "UpdateItem", "Scan"),
                grants.start_jobs(JOB_PROCESS_TABLE),
            ],
        )
        with TemporaryDirectory() as folder:
            build_function(Path(folder))
            function = lambda_.Function(
                self,
                "Function",
                function_name=FUNCTION,
                description="cdclake: starts the work for a table when a raw file arrives",
                runtime=lambda_.Runtime.PYTHON_3_11,
                handler="handler.handler",
                code=lambda_.Code.from_asset(folder),
                environment={
                    "RAW_PREFIX": places.raw_prefix,
                    "STATE_TABLE": places.state_table,
                    "PROCESS_TABLE_JOB": JOB_PROCESS_TABLE,
                },
                role=role,
                log_group=log,
                dead_letter_queue=undelivered,
                timeout=TIMEOUT,
                memory_size=MEMORY_MB,
            )
        Validations.of(function).acknowledge(
            Acknowledgment(id="AwsSolutions-L1", reason="3.11 is the Python that all tests run on, and that Glue runs")
        )
        return function

    def _notify(self, function: lambda_.IFunction, places: Places) -> None:
        """Tell the function of new raw files.

        The bucket is another stack's, or was there before. So the CDK sets its notifications through a function of its
        own, which adds ours to those that the bucket has, and takes it away with this stack.
        """
        bucket = s3.Bucket.from_bucket_attributes(
            self, "RawBucket", bucket_name=places.raw_bucket, notifications_handler_role=self._notifier_role(places)
        )
        only = [s3.NotificationKeyFilter(prefix=places.raw_prefix)] if places.raw_prefix else []
        bucket.add_event_notification(s3.EventType.OBJECT_CREATED, notifications.LambdaDestination(function), *only)

    def _notifier_role(self, places: Places) -> iam.IRole:
        return grants.role(
            self,
            "NotifierRole",
            service=LAMBDA,
            grants=[
                Grant(
                    "WriteLogs",
                    ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
                    (regional_arn("logs", f"log-group:/aws/lambda/{Stack.of(self).stack_name}-BucketNotif*"),),
                    "CloudFormation makes up the end of the function's name",
                ),
                Grant(
                    "SetNotifications",
                    ("s3:GetBucketNotification", "s3:PutBucketNotification"),
                    (bucket_arn(places.raw_bucket),),
                ),
            ],
        )
