"""CloudWatch refuses a whole request for one wrong metric."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from moto.cloudwatch.exceptions import InvalidParameterValue
from moto.cloudwatch.responses import CloudWatchResponse

from cdclake_devkit.strict_aws.model_limits import violations
from cdclake_devkit.strict_aws.rule import NOT_MEASURED, Patch, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MAX_METRICS = 1000
_MAX_VALUES = 150
_MAX_VALUE = 2.0**360
_RESERVED = "AWS/"


def _checked(put: Callable[..., Any]) -> Callable[..., Any]:
    def put_metric_data(response: CloudWatchResponse) -> Any:  # noqa: ANN401  moto's
        parameters = {
            "Namespace": response._get_param("Namespace"),
            "MetricData": response._get_param("MetricData", []),
        }
        faults = [*violations("cloudwatch", "PutMetricData", parameters), *_faults(**parameters)]
        if faults:
            raise InvalidParameterValue("; ".join(faults))
        return put(response)

    return put_metric_data


def _faults(Namespace: str, MetricData: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the documentation refuses beyond the API's model."""
    if Namespace.startswith(_RESERVED) or not _is_plain(Namespace):
        yield f"The namespace {Namespace!r} must be plain ASCII and not start with {_RESERVED}"
    if len(MetricData) > _MAX_METRICS:
        yield f"The collection MetricData must not have a size greater than {_MAX_METRICS}"
    for number, metric in enumerate(MetricData, 1):
        path = f"MetricData.member.{number}"
        for dimension in metric.get("Dimensions", ()):
            name, value = dimension["Name"], dimension["Value"]
            if not _is_plain(name) or name.startswith(":"):
                yield f"The dimension name {name!r} in {path} must be plain ASCII and not start with a colon"
            if not _is_plain(value):
                yield f"The dimension value {value!r} in {path} must be plain ASCII"
        values = metric.get("Values", ())
        if len(values) > _MAX_VALUES:
            yield f"{path}.Values must not have more than {_MAX_VALUES} items"
        statistics = metric.get("StatisticValues", {})
        numbers = [*values, *statistics.values(), *([metric["Value"]] if metric.get("Value") is not None else [])]
        if any(not math.isfinite(value) or abs(value) > _MAX_VALUE for value in map(float, numbers)):
            yield f"The values of {path} must be numbers from -2^360 to 2^360"


def _is_plain(text: str) -> bool:
    """Whether a text has only ASCII characters, no control characters, and not only spaces."""
    return text.isascii() and text.isprintable() and not text.isspace()


METRICS = Rule(
    name="CloudWatch: metrics",
    aws="PutMetricData refuses the whole request with InvalidParameterValue for a dimension's name or value that is "
    "not plain ASCII, a name that starts with a colon, more than 30 dimensions, 1,000 metrics or 150 values, values "
    "that are not between -2^360 and 2^360, and namespaces that start with AWS/.",
    source="https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html, "
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_Dimension.html",
    measured=NOT_MEASURED,
    patches=(Patch(CloudWatchResponse, "put_metric_data", _checked),),
)
