"""Alarms, the topic that they speak to, and a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from cdclake.model.metrics import NAMESPACE, Dimension, Measure
from cdclake_infra.places import regional_arn

if TYPE_CHECKING:
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk import aws_sqs as sqs

    from cdclake_infra.settings import Settings

TOPIC, DASHBOARD = "cdclake-alarms", "cdclake"
EVERY_FEW_MINUTES, EVERY_QUARTER, EVERY_HOUR = Duration.minutes(5), Duration.minutes(15), Duration.hours(1)
OUTCOMES = ("Started", "Collapsed", "Busy", "Seen", "Registered", "Inactive", "Failed")
"""What becomes of the tables that events concern, as the function measures it."""
_WIDE, _HALF = 24, 12


class Monitoring(Construct):
    """Watches what the jobs measure. All alarms look at the metrics of all tables together.

    Attributes:
        topic: What the alarms speak to.
    """

    def __init__(
        self, scope: Construct, name: str, *, settings: Settings, function: lambda_.IFunction, undelivered: sqs.IQueue
    ) -> None:
        super().__init__(scope, name)
        self.topic = self._topic()
        self._action = actions.SnsAction(self.topic)
        waiting = undelivered.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=EVERY_FEW_MINUTES
        )
        failures = _metric(Measure.FAILURES, "Sum", EVERY_QUARTER)
        lag = _metric(Measure.LAG_SECONDS, "Maximum", EVERY_HOUR)
        frozen = _metric(Measure.FROZEN_TABLES, "Maximum", EVERY_HOUR)
        put_aside = _metric(Measure.QUARANTINED_ROWS, "Sum", EVERY_QUARTER)
        errors = function.metric_errors(statistic="Sum", period=EVERY_QUARTER)
        self._alarm("TableFailed", failures, 1, "Work on a table failed: cdclake status says on which, and what to do")
        self._alarm(
            "TableFrozen",
            frozen,
            1,
            "Raw files vanished before they were applied, and their table waits: cdclake status says which. Bring the "
            "files back, load the table anew, or go on without them with cdclake tables unfreeze",
        )
        self._alarm(
            "RowsPutAside",
            put_aside,
            1,
            "A change put rows aside that it could not read: cdclake quarantine list says of which table, and why",
        )
        self._alarm(
            "FunctionErrors",
            errors,
            1,
            "The function has been failing for half an hour: its log says why. The Controller sees to the tables",
            periods=2,
        )
        self._alarm(
            "EventNotDelivered",
            waiting,
            1,
            "The function could not take an event of a raw file: its log says why. The Controller sees to the table; "
            "take the message from the queue, or have the function take it again",
        )
        if settings.lag_alarm_minutes:
            text = f"Raw files have been due for more than {settings.lag_alarm_minutes} minutes: see cdclake status"
            self._alarm("TableLate", lag, settings.lag_alarm_minutes * 60, text)
        if settings.silence_alarm_hours and settings.schedule_enabled:
            self._controller_silent(settings.silence_alarm_hours)
        self._dashboard(function, [failures, waiting], frozen)

    def _topic(self) -> sns.Topic:
        """The topic that people subscribe to. Its policy refuses plain HTTP, and so must say that CloudWatch may."""
        topic = sns.Topic(self, "Topic", topic_name=TOPIC, enforce_ssl=True)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                actions=["sns:Publish"],
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                resources=[topic.topic_arn],
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnLike": {"aws:SourceArn": regional_arn("cloudwatch", "alarm:cdclake-*")},
                },
            )
        )
        return topic

    def _alarm(self, name: str, metric: cloudwatch.IMetric, threshold: float, text: str, *, periods: int = 1) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"cdclake-{name}",
            alarm_description=text,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)

    def _controller_silent(self, hours: int) -> None:
        """The Controller measures how many tables it looked at, each time; so no measurement means no run."""
        alarm = cloudwatch.Alarm(
            self,
            "ControllerSilent",
            alarm_name="cdclake-ControllerSilent",
            alarm_description=f"No Controller run ended well for {hours} hours: see its runs and its schedule",
            metric=_metric(Measure.TABLES, "SampleCount", EVERY_HOUR),
            threshold=1,
            evaluation_periods=hours,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
        alarm.add_alarm_action(self._action)

    def _dashboard(
        self, function: lambda_.IFunction, trouble: list[cloudwatch.IMetric], frozen: cloudwatch.IMetric
    ) -> None:
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=DASHBOARD)
        dashboard.add_widgets(_graph("Failures, and events that were not delivered", trouble, _WIDE))
        dashboard.add_widgets(
            _graph("Age of the oldest raw file that waits", [_metric(Measure.LAG_SECONDS, "Maximum", EVERY_HOUR)]),
            _graph("Raw files that wait, most of a table", [_metric(Measure.LAG_FILES, "Maximum", EVERY_HOUR)]),
        )
        dashboard.add_widgets(
            _graph("Rows read", [_rows("I", "inserts"), _rows("U", "updates"), _rows("D", "deletes")]),
            _graph("Rows put aside, and frozen tables", [_metric(Measure.QUARANTINED_ROWS, "Sum", EVERY_HOUR), frozen]),
        )
        durations = [_metric(Measure.DURATION_SECONDS, statistic, EVERY_HOUR) for statistic in ("Average", "Maximum")]
        dashboard.add_widgets(
            _graph("Duration of the work on a table", durations),
            _graph(
                "Data files rewritten, and tables whose run had no room",
                [_metric(measure, "Sum", EVERY_HOUR) for measure in (Measure.FILES_REWRITTEN, Measure.NOT_STARTED)],
            ),
        )
        dashboard.add_widgets(
            _graph("Tables that events concerned, and what became of them", [_outcome(one) for one in OUTCOMES]),
            _graph("The function's errors and throttles", [function.metric_errors(), function.metric_throttles()]),
        )


def _metric(measure: Measure, statistic: str, period: Duration) -> cloudwatch.Metric:
    """A metric of all tables together."""
    return cloudwatch.Metric(namespace=NAMESPACE, metric_name=measure.title, statistic=statistic, period=period)


def _rows(op: str, label: str) -> cloudwatch.Metric:
    return _metric(Measure.ROWS, "Sum", EVERY_HOUR).with_(dimensions_map={Dimension.OP: op}, label=label)


def _outcome(name: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": "on_raw_file"},
        statistic="Sum",
        period=EVERY_FEW_MINUTES,
    )


def _graph(title: str, metrics: list[cloudwatch.IMetric], width: int = _HALF) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=width)
