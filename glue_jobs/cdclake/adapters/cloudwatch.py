"""Metrics in CloudWatch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cdclake import logs
from cdclake.adapters.aws import session
from cdclake.model.metrics import NAMESPACE
from cdclake.model.names import Sentinel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.model.metrics import Measure, Metric

MOST_IN_A_REQUEST = 1000
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html"""

# A run holds its table's lease meanwhile, and a network without a way to CloudWatch is no reason to keep it for long.
_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=2, read_timeout=5)
_logger = logs.bind(__name__)


class CloudWatchClient(Protocol):
    """What is used of boto3's client."""

    def put_metric_data(self, *, Namespace: str, MetricData: Sequence[Any]) -> Any:  # noqa: ANN401 - boto3's
        """PutMetricData."""
        ...


def cloudwatch_metrics(per_table: str) -> CloudWatchMetrics:
    """Metrics in the CloudWatch of this account and region.

    Args:
        per_table: As the job argument `table_metrics` says: `true`, or anything else for no.
    """
    client = session().client("cloudwatch", config=_CONFIG)
    return CloudWatchMetrics(client, per_table=per_table == Sentinel.ACTIVE)


class CloudWatchMetrics:
    """Sends metrics by PutMetricData. See `ports.MetricSink`.

    Args:
        client: Of CloudWatch.
        per_table: Whether to keep metrics for each table beside those of all tables.
    """

    def __init__(self, client: CloudWatchClient, *, per_table: bool) -> None:
        self._client = client
        self._per_table = per_table

    def put(self, metrics: Sequence[Metric]) -> None:
        """See `MetricSink.put`."""
        data = list(metric_data(metrics, per_table=self._per_table))
        for start in range(0, len(data), MOST_IN_A_REQUEST):
            try:
                self._client.put_metric_data(Namespace=NAMESPACE, MetricData=data[start : start + MOST_IN_A_REQUEST])
            except (BotoCoreError, ClientError):
                _logger.warning("metrics were not taken", exc_info=True)


def metric_data(metrics: Sequence[Metric], *, per_table: bool) -> Iterator[dict[str, Any]]:
    """Metrics as PutMetricData takes them: those of one name and dimensions in one entry.

    Args:
        metrics: Any order.
        per_table: Whether each metric of a table is there by the table's name as well.
    """
    values: dict[tuple[Measure, tuple[tuple[str, str], ...]], list[float]] = defaultdict(list)
    for metric in metrics:
        tables = (False, True) if per_table and metric.table else (False,)
        for with_table in tables:
            dimensions = tuple(metric.dimensions(with_table=with_table).items())
            values[metric.measure, dimensions].append(metric.value)
    for (measure, dimensions), measured in values.items():
        yield {
            "MetricName": measure.title,
            "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions],
            "Unit": measure.unit.value,
            "StatisticValues": {
                "SampleCount": len(measured),
                "Sum": sum(measured),
                "Minimum": min(measured),
                "Maximum": max(measured),
            },
        }
