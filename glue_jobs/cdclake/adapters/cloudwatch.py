"""Sends metrics to CloudWatch: by requests, or in the log of a Lambda function."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from hashlib import sha256
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cdclake import logs
from cdclake.adapters.aws import session
from cdclake.model.metrics import namespace
from cdclake.model.names import Sentinel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cdclake.model.metrics import Measure, Metric

MAX_PER_REQUEST = 1000
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html"""
MAX_VALUES_IN_LOG = 100
"""Of a metric in a line of the log.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html"""

MOST_DELAY_SECONDS = 5.0

_MAX_VALUE = 1024
_HASH_DIGITS = 16
_PLAIN = "".join(character for character in map(chr, range(ord(" "), ord("~") + 1)) if character != "%")

# The run holds its table's lease meanwhile, so a network without access to CloudWatch must not cost much time.
_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=2, read_timeout=5)
_logger = logs.bind(__name__)


class CloudWatchClient(Protocol):
    """The part of boto3's client that is used."""

    def put_metric_data(self, *, Namespace: str, MetricData: Sequence[Any]) -> Any:  # noqa: ANN401 - boto3's
        """PutMetricData."""
        ...


def cloudwatch_metrics(per_table: str, name_prefix: str) -> GatheredMetrics:
    """A sink for the CloudWatch metrics of this account and region.

    Args:
        per_table: The job argument `table_metrics`: `true`, or anything else for no.
        name_prefix: The job argument of that name.
    """
    client = session().client("cloudwatch", config=_CONFIG)
    return GatheredMetrics(CloudWatchMetrics(client, namespace(name_prefix), per_table=per_table == Sentinel.ACTIVE))


def metrics_in_log(per_table: str, name_prefix: str) -> GatheredMetrics:
    """As `cloudwatch_metrics`, for a Lambda function: it needs no request and no permission."""
    return GatheredMetrics(MetricsInLog(namespace(name_prefix), per_table=per_table == Sentinel.ACTIVE))


class GatheredMetrics:
    """A `MetricSink` that gathers metrics for one request: no work waits for it, and each request is billed.

    Args:
        metrics: Where they are stored.
        delay_seconds: How long they may wait for others, or for `flush`.
    """

    def __init__(self, metrics: CloudWatchMetrics | MetricsInLog, delay_seconds: float = MOST_DELAY_SECONDS) -> None:
        self._metrics, self._delay_seconds = metrics, delay_seconds
        self._lock, self._sending = Lock(), Lock()
        self._waiting: list[Metric] = []
        self._timer: Timer | None = None

    def put(self, metrics: Sequence[Metric]) -> None:
        """Store any number of metrics soon."""
        with self._lock:
            self._waiting += metrics
            if self._timer is None:
                self._timer = Timer(self._delay_seconds, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Store what waits, and return when all is stored, or logged as refused."""
        with self._sending:
            with self._lock:
                waiting, self._waiting = self._waiting, []
                if self._timer:
                    self._timer.cancel()
                self._timer = None
            if waiting:
                self._metrics.put(waiting)


class CloudWatchMetrics:
    """Stores metrics with CloudWatch's PutMetricData.

    Args:
        namespace: The metrics' namespace.
        per_table: Whether to send metrics per table, in addition to metrics of all tables together.
    """

    def __init__(self, client: CloudWatchClient, namespace: str, *, per_table: bool) -> None:
        self._client = client
        self._namespace = namespace
        self._per_table = per_table

    def put(self, metrics: Sequence[Metric]) -> None:
        """Store any number of metrics, in any order. Never raises; logs what could not be stored."""
        data = list(metric_data(metrics, per_table=self._per_table))
        for start in range(0, len(data), MAX_PER_REQUEST):
            try:
                self._client.put_metric_data(
                    Namespace=self._namespace, MetricData=data[start : start + MAX_PER_REQUEST]
                )
            except (BotoCoreError, ClientError):
                _logger.warning("CloudWatch did not accept metrics", exc_info=True)


class MetricsInLog:
    """Writes metrics to stdout in CloudWatch's embedded metric format, which it reads in a Lambda function's log.

    Args:
        namespace: The metrics' namespace.
        per_table: As for `CloudWatchMetrics`.
    """

    def __init__(self, namespace: str, *, per_table: bool) -> None:
        self._namespace = namespace
        self._per_table = per_table

    def put(self, metrics: Sequence[Metric]) -> None:
        """Write any number of metrics, in any order: a line for those with the same dimensions."""
        by_dimensions: dict[tuple[tuple[str, str], ...], dict[Measure, list[float]]] = defaultdict(dict)
        for (measure, dimensions), samples in samples_of(metrics, per_table=self._per_table).items():
            by_dimensions[dimensions][measure] = samples
        for dimensions, values in by_dimensions.items():
            for start in range(0, max(map(len, values.values())), MAX_VALUES_IN_LOG):
                some = {measure: samples[start : start + MAX_VALUES_IN_LOG] for measure, samples in values.items()}
                self._write(dict(dimensions), {measure: samples for measure, samples in some.items() if samples})

    def _write(self, dimensions: Mapping[str, str], values: Mapping[Measure, Sequence[float]]) -> None:
        described = {
            "Namespace": self._namespace,
            "Dimensions": [list(dimensions)],
            "Metrics": [{"Name": measure.title, "Unit": measure.unit.value} for measure in values],
        }
        line = {
            "_aws": {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [described]},
            **{name: dimension_value(value) for name, value in dimensions.items()},
            **{measure.title: samples for measure, samples in values.items()},
        }
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")  # one write, so one event of the log
        sys.stdout.flush()


def dimension_value(text: str) -> str:
    """A text as CloudWatch takes it: at most 1,024 printable ASCII characters, of which the first is no colon.

    CloudWatch refuses a whole request for one wrong value
    (https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_Dimension.html). Other characters, and percent
    signs, are percent-encoded as UTF-8, so that different names stay different. A name too long ends with a hash.

    Example:
        >>> dimension_value("shop.größe")
        'shop.gr%C3%B6%C3%9Fe'
    """
    value = quote(text, safe=_PLAIN)
    value = f"%3A{value[1:]}" if value.startswith(":") else value
    if len(value) <= _MAX_VALUE:
        return value
    digest = sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{value[: _MAX_VALUE - _HASH_DIGITS - 1]}~{digest}"


def samples_of(
    metrics: Sequence[Metric], *, per_table: bool
) -> Mapping[tuple[Measure, tuple[tuple[str, str], ...]], list[float]]:
    """The values of metrics by name and dimensions, in order.

    Args:
        metrics: In any order.
        per_table: Whether to add an entry with the table's name for each metric of a table.
    """
    values: dict[tuple[Measure, tuple[tuple[str, str], ...]], list[float]] = defaultdict(list)
    for metric in metrics:
        tables = (False, True) if per_table and metric.table else (False,)
        for with_table in tables:
            dimensions = tuple(metric.dimensions(with_table=with_table).items())
            values[metric.measure, dimensions].append(metric.value)
    return values


def metric_data(metrics: Sequence[Metric], *, per_table: bool) -> Iterator[dict[str, Any]]:
    """Entries for PutMetricData, one for the samples of each name with the same dimensions; see `samples_of`."""
    for (measure, dimensions), samples in samples_of(metrics, per_table=per_table).items():
        yield {
            "MetricName": measure.title,
            "Dimensions": [{"Name": name, "Value": dimension_value(value)} for name, value in dimensions],
            "Unit": measure.unit.value,
            "StatisticValues": {
                "SampleCount": len(samples),
                "Sum": sum(samples),
                "Minimum": min(samples),
                "Maximum": max(samples),
            },
        }
