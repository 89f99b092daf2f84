"""The deployed resources, found as an operator finds them: through the stack's outputs and the services' APIs."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from cdclake.errors import ConfigurationError
from cdclake.model.names import FUNCTION_SMALL_CHANGES
from cdclake_infra.build import PIPELINE
from cdclake_infra.on_raw_file import FUNCTION
from cdclake_infra.schedule import TRIGGER

if TYPE_CHECKING:
    from pathlib import Path

_ERROR_LINES = 3


class Services(Protocol):
    """The AWS services of an account: the emulator's, or real ones.

    Attributes:
        folder: Folder for logs.
    """

    folder: Path

    def client(self, service: str) -> Any:  # noqa: ANN401 - boto3 creates client classes at run time
        """A boto3 client, shared between calls."""
        ...

    def new_client(self, service: str) -> Any:  # noqa: ANN401 - as above
        """A new boto3 client, which the caller closes."""
        ...


class Deployment:
    """A deployment.

    Args:
        services: Where it is.
        name_prefix: The setting of that name.
    """

    def __init__(self, services: Services, name_prefix: str = "") -> None:
        self.client = services.client
        self.new_client = services.new_client
        self.logs = services.folder
        self.name_prefix = name_prefix
        self.function = f"{name_prefix}{FUNCTION}"
        self.small_changes = f"{name_prefix}{FUNCTION_SMALL_CHANGES}"

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The outputs of the pipeline stack."""
        (stack,) = self.client("cloudformation").describe_stacks(StackName=f"{self.name_prefix}{PIPELINE}")["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    @property
    def raw_bucket(self) -> str:
        """The bucket that DMS writes to."""
        return self.outputs["RawBucket"]

    @property
    def lake_bucket(self) -> str:
        """The bucket of the lake."""
        return self.outputs["LakeBucket"]

    @property
    def state_table(self) -> str:
        """The DynamoDB table."""
        return self.outputs["StateTable"]

    @property
    def catalog_database(self) -> str:
        """The database of the Glue Data Catalog."""
        return self.outputs["CatalogDatabase"]

    def trigger(self) -> dict[str, Any]:
        """The schedule's trigger."""
        response: dict[str, Any] = self.client("glue").get_trigger(Name=f"{self.name_prefix}{TRIGGER}")["Trigger"]
        return response

    def scheduled_job(self) -> str:
        """The job that the schedule starts.

        Raises:
            ConfigurationError: The schedule starts no job, or several.
        """
        jobs = [action.get("JobName", "") for action in self.trigger()["Actions"]]
        if len(jobs) != 1:
            message = f"The trigger {TRIGGER} should start one job, but starts {jobs}"
            raise ConfigurationError(message, remedy="Correct infra/cdclake_infra/schedule.py")
        return str(jobs[0])

    def undelivered_queue(self, function: str) -> str:
        """URL of a function's dead-letter queue.

        Raises:
            ConfigurationError: The function has none.
        """
        configuration = self.client("lambda").get_function_configuration(FunctionName=function)
        arn = configuration.get("DeadLetterConfig", {}).get("TargetArn", "")
        if not arn:
            message = f"The function {function} has no dead-letter queue"
            raise ConfigurationError(message, remedy="Correct event_function.py")
        url: str = self.client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"]
        return url

    def undelivered(self, function: str) -> int:
        """The number of events that a function could not process."""
        name, queue = "ApproximateNumberOfMessages", self.undelivered_queue(function)
        response = self.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=[name])
        return int(response["Attributes"][name])

    def function_error(self, function: str) -> str:
        """The last lines of a function's log, which contain an error."""
        return " | ".join(self.function_log(function)[-_ERROR_LINES:])

    def function_log(self, function: str) -> list[str]:
        """The lines of a function's log."""
        pages = self.client("logs").get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/{function}")
        return [event["message"].strip() for page in pages for event in page["events"]]

    def subscribe_to_alarms(self) -> str:
        """Subscribe a queue to the alarm topic; returns the queue's URL."""
        sqs, topic = self.client("sqs"), self.outputs["AlarmTopic"]
        url: str = sqs.create_queue(QueueName="operator")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        may_send = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [may_send]})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        self.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
        return url

    def received_alarms(self, url: str) -> list[str]:
        """Names of the alarms that went off since the last call, from a subscribed queue."""
        sqs = self.client("sqs")
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        events = [json.loads(json.loads(message["Body"])["Message"]) for message in messages]
        return [event["AlarmName"] for event in events if event["NewStateValue"] == "ALARM"]
