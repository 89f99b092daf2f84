"""Alarms, their notification topic, and a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from cdclake.model.metrics import Dimension, Measure, namespace
from cdclake_infra.resource_names import regional_arn

if TYPE_CHECKING:
    from cdclake_infra.event_function import EventFunction
    from cdclake_infra.resource_names import ResourceNames
    from cdclake_infra.settings import Settings

TOPIC, DASHBOARD = "cdclake-alarms", "cdclake"
FIVE_MINUTES, QUARTER_HOUR, HOUR = Duration.minutes(5), Duration.minutes(15), Duration.hours(1)
OUTCOMES = ("Started", "Collapsed", "Busy", "Seen", "Registered", "Inactive", "Failed")
"""Outcomes per table of an event, as the function's metrics name them."""
_WIDE, _HALF = 24, 12


class Monitoring(Construct):
    """Alarms and a dashboard on the jobs' metrics. Alarms use the metrics over all tables.

    Attributes:
        topic: Receives the alarms.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        settings: Settings,
        names: ResourceNames,
        on_raw_file: EventFunction,
        small_changes: EventFunction | None,
    ) -> None:
        super().__init__(scope, name)
        self._prefix = names.prefix
        self._namespace = namespace(names.prefix)
        self.topic = self._topic()
        self._action = actions.SnsAction(self.topic)
        failures = self._metric(Measure.FAILURES, "Sum", QUARTER_HOUR)
        lag = self._metric(Measure.LAG_SECONDS, "Maximum", HOUR)
        frozen = self._metric(Measure.FROZEN_TABLES, "Maximum", HOUR)
        quarantined = self._metric(Measure.QUARANTINED_ROWS, "Sum", QUARTER_HOUR)
        errors = on_raw_file.function.metric_errors(statistic="Sum", period=QUARTER_HOUR)
        self._alarm(
            "TableFailed",
            failures,
            1,
            "A table failed, or is later than its MaxDelayMinutes: cdclake status shows which one and what to do",
        )
        self._alarm(
            "TableFrozen",
            frozen,
            1,
            "Raw files disappeared before they were applied, so their table is frozen: cdclake status shows which one. "
            "Put the files back, reload the table, or continue without them with cdclake tables unfreeze",
        )
        self._alarm(
            "RowsPutAside",
            quarantined,
            1,
            "A change quarantined rows that it could not read: cdclake quarantine list shows the table and the reason",
        )
        self._alarm(
            "FunctionErrors",
            errors,
            1,
            "The function has been failing for half an hour: its log shows why. The Controller still starts the work",
            periods=2,
        )
        self._alarm(
            "EventNotDelivered",
            _undelivered(on_raw_file),
            1,
            "The function could not process the event of a raw file or of a failed Spark run: its log shows why. The "
            "Controller still starts the work; delete the message from the queue, or send it to the function again",
        )
        if small_changes:
            self._alarm(
                "SmallChangeNotDelivered",
                _undelivered(small_changes),
                1,
                "The function of small changes could not bring a table up to date: its log shows why. The Controller "
                "still starts the work; delete the message from the queue, or send it to the function again",
            )
        if settings.lag_alarm_minutes:
            text = f"Raw files have been waiting for more than {settings.lag_alarm_minutes} minutes: see cdclake status"
            self._alarm("TableLate", lag, settings.lag_alarm_minutes * 60, text)
        if settings.silence_alarm_hours and settings.schedule_enabled:
            self._controller_silent(settings.silence_alarm_hours)
        functions = [one for one in (on_raw_file, small_changes) if one]
        self._dashboard(functions, [failures, *map(_undelivered, functions)], frozen)

    def _topic(self) -> sns.Topic:
        """The topic for operators. `enforce_ssl` gives it a policy, so CloudWatch needs explicit permission."""
        topic = sns.Topic(self, "Topic", topic_name=f"{self._prefix}{TOPIC}", enforce_ssl=True)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                actions=["sns:Publish"],
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                resources=[topic.topic_arn],
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnLike": {"aws:SourceArn": regional_arn("cloudwatch", f"alarm:{self._prefix}cdclake-*")},
                },
            )
        )
        return topic

    def _alarm(self, name: str, metric: cloudwatch.IMetric, threshold: float, text: str, *, periods: int = 1) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._prefix}cdclake-{name}",
            alarm_description=text,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)

    def _controller_silent(self, hours: int) -> None:
        """Every Controller run reports how many tables it planned, so a missing metric means a missing run."""
        alarm = cloudwatch.Alarm(
            self,
            "ControllerSilent",
            alarm_name=f"{self._prefix}cdclake-ControllerSilent",
            alarm_description=f"No Controller run has succeeded for {hours} hours: check its runs and its schedule",
            metric=self._metric(Measure.TABLES, "SampleCount", HOUR),
            threshold=1,
            evaluation_periods=hours,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
        alarm.add_alarm_action(self._action)

    def _dashboard(
        self, functions: list[EventFunction], failures: list[cloudwatch.IMetric], frozen: cloudwatch.IMetric
    ) -> None:
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=f"{self._prefix}{DASHBOARD}")
        dashboard.add_widgets(_graph("Failures and undelivered events", failures, _WIDE))
        dashboard.add_widgets(
            _graph("Age of the oldest waiting raw file", [self._metric(Measure.LAG_SECONDS, "Maximum", HOUR)]),
            _graph("Waiting raw files, maximum per table", [self._metric(Measure.LAG_FILES, "Maximum", HOUR)]),
        )
        delays = [self._metric(Measure.DELAY_SECONDS, statistic, HOUR) for statistic in ("Average", "Maximum")]
        dashboard.add_widgets(_graph("Delay from raw file to visible row", delays, _WIDE))
        dashboard.add_widgets(
            _graph("Rows read", [self._rows("I", "inserts"), self._rows("U", "updates"), self._rows("D", "deletes")]),
            _graph("Quarantined rows and frozen tables", [self._metric(Measure.QUARANTINED_ROWS, "Sum", HOUR), frozen]),
        )
        durations = [self._metric(Measure.DURATION_SECONDS, statistic, HOUR) for statistic in ("Average", "Maximum")]
        counted = (Measure.FILES_REWRITTEN, Measure.NOT_STARTED, Measure.COLUMN_CHANGES)
        dashboard.add_widgets(
            _graph("Processing time per table", durations),
            _graph(
                "Rewritten data files, tables whose run could not start, changed columns",
                [self._metric(measure, "Sum", HOUR) for measure in counted],
            ),
        )
        differing = [self._metric(each, "Sum", HOUR) for each in (Measure.DIFFERING_TABLES, Measure.DIFFERING_ROWS)]
        dashboard.add_widgets(_graph("Differences that cdclake verify --metrics found", differing, _WIDE))
        dashboard.add_widgets(
            _graph("Outcomes of events", [self._outcome(name) for name in OUTCOMES]),
            _graph(
                "Function errors and throttles",
                [
                    metric
                    for one in functions
                    for metric in (one.function.metric_errors(), one.function.metric_throttles())
                ],
            ),
        )

    def _metric(self, measure: Measure, statistic: str, period: Duration) -> cloudwatch.Metric:
        """A metric over all tables."""
        return cloudwatch.Metric(
            namespace=self._namespace, metric_name=measure.title, statistic=statistic, period=period
        )

    def _rows(self, op: str, label: str) -> cloudwatch.Metric:
        return self._metric(Measure.ROWS, "Sum", HOUR).with_(dimensions_map={Dimension.OP: op}, label=label)

    def _outcome(self, name: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=self._namespace,
            metric_name=name,
            dimensions_map={"service": "on_raw_file"},
            statistic="Sum",
            period=FIVE_MINUTES,
        )


def _undelivered(function: EventFunction) -> cloudwatch.Metric:
    return function.undelivered.metric_approximate_number_of_messages_visible(statistic="Maximum", period=FIVE_MINUTES)


def _graph(title: str, metrics: list[cloudwatch.IMetric], width: int = _HALF) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=width)
