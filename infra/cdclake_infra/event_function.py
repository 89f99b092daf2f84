"""What each Lambda function has: a queue for events that it could not handle, a log, and a role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdclake_infra.roles import Statement, create_role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_lambda as lambda_

LAMBDA = "lambda.amazonaws.com"
UNDELIVERED_RETENTION = Duration.days(14)


class EventFunction(Construct):
    """A function that is called for each event.

    Args:
        name: Construct id.
        function_name: The function's name.

    Attributes:
        function: The function, which subclasses create.
        undelivered: The queue of events that failed.
        log: The function's log.
    """

    function: lambda_.Function

    def __init__(self, scope: Construct, name: str, *, function_name: str) -> None:
        super().__init__(scope, name)
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=UNDELIVERED_RETENTION,
        )
        self.log = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )

    def create_role(self, statements: Iterable[Statement]) -> iam.IRole:
        """Create the function's role: these statements, the log, the queue."""
        own = (
            Statement("WriteLogs", ("logs:CreateLogStream", "logs:PutLogEvents"), (self.log.log_group_arn,)),
            Statement("KeepUndelivered", ("sqs:SendMessage",), (self.undelivered.queue_arn,)),
        )
        return create_role(self, "Role", service=LAMBDA, statements=[*own, *statements])
