"""Makes moto quicker, with the same responses: much that it computes anew for each request or value is computed once.

A listing of 200 objects takes 70 instead of 104 ms of CPU, with the client's part; 50 if that reads times quickly, too.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from moto.core import serialize
from moto.core.base_backend import BaseBackend
from moto.core.serialize import AttributePicker, AttributePickerContext, XFormedAttributePicker

from cdclake.adapters.aws import read_time
from cdclake_devkit.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from moto.core.model import Shape


@contextmanager
def quick_moto() -> Iterator[None]:
    """Let moto remember its URLs and the names of values, and read its own times quickly."""
    with (
        replaced(BaseBackend, "urls", property(lru_cache(vars(BaseBackend)["urls"].fget))),
        replaced(AttributePicker, "__call__", _picking(AttributePicker.__call__)),
        replaced(serialize, "parse_to_aware_datetime", _reading(vars(serialize)["parse_to_aware_datetime"])),
    ):
        yield


def _picking(pick: Any) -> Any:  # noqa: ANN401 - moto has no types
    """Finds the value of a member of a response: moto looks for the same names in all plain dicts."""

    def picked(self: AttributePicker, context: AttributePickerContext) -> object:
        values = context.obj
        if type(values) is not dict or self.response_transformers or type(self) is not XFormedAttributePicker:
            return pick(self, context)
        for name in _names(context.shape, context.key):
            if name in values:
                return values[name]
        return None

    return picked


@cache
def _names(shape: Shape, key: str) -> tuple[str, ...]:
    """The names under which moto looks for a member in a dict, in order."""
    return tuple(XFormedAttributePicker().get_possible_keys(AttributePickerContext({}, key, shape)))


def _reading(parse: Any) -> Any:  # noqa: ANN401 - botocore has no types
    def read(value: object) -> datetime:
        return read_time(value) if isinstance(value, str) and value.endswith("Z") else parse(value)

    return read
