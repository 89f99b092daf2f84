"""Converts a user's input to one of two forms: Arrow tables in this process, or a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa

from cdclake.errors import RefusedChangeError
from cdclake.lake.spark.backend import is_spark_dataframe

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyspark.sql import DataFrame
    from typing_extensions import TypeGuard

InputRows = Union[Sequence[pa.Table], "DataFrame"]
"""Input rows of one change. The Arrow tables may have different columns."""


def is_empty_input(rows: InputRows) -> bool:
    """Whether the input has no columns, like an empty list or an empty pandas DataFrame."""
    return not is_spark_dataframe(rows) and not any(table.num_columns for table in rows)


def input_rows(data: object) -> InputRows:
    """Convert a Spark or pandas DataFrame, an Arrow table or batch, or a list of dicts.

    Raises:
        RefusedChangeError: The input is none of these, or a column's values have no common type.
    """
    if is_spark_dataframe(data):
        return data
    if isinstance(data, pa.RecordBatch):
        return [pa.Table.from_batches([data])]
    if isinstance(data, pa.Table):
        return [data]
    if _is_pandas(data, "DataFrame"):
        names = getattr(data, "columns")  # noqa: B009 - pandas is optional, so its types are unknown
        twice = next((str(name) for name in names[names.duplicated()]), None)
        if twice is not None:
            raise RefusedChangeError("A column occurs twice", remedy="Give each column once", column=twice)
        return [_converted(pa.Table.from_pandas, data, preserve_index=False)]
    if _are_dicts(data):
        names = list(dict.fromkeys(name for row in data for name in row))
        return [_columns({name: [row.get(name) for row in data] for name in names})]
    raise _unsupported(data, "Pass a Spark or pandas DataFrame, an Arrow table, or a list of dicts")


def input_updates(data: object, key: Sequence[str]) -> InputRows:
    """Convert rows to update, which consist of the key columns and the columns to set.

    Args:
        data: As for `input_rows`, or a mapping `{key: {column: value}}`. A dict sets only the columns that it has.

    Raises:
        RefusedChangeError: The input is none of these.
    """
    if _are_dicts(data):
        return _by_columns(data)
    if not isinstance(data, Mapping):
        return input_rows(data)
    rows = []
    for row_key, values in data.items():
        if not (isinstance(values, Mapping) and values):
            raise _unsupported(values, "Write it as {key: {column: value}}")
        if {name.lower() for name in values} & {name.lower() for name in key}:
            remedy = "Delete the row and insert it with the new key"
            raise RefusedChangeError("An update cannot set a key column", remedy=remedy, column=", ".join(key))
        rows.append({**dict(zip(key, _key_values(row_key, key), strict=True)), **values})
    return _by_columns(rows)


def _by_columns(rows: Sequence[Mapping[Any, Any]]) -> list[pa.Table]:
    """A table for each set of columns."""
    by_columns: dict[tuple[Hashable, ...], list[Mapping[Any, Any]]] = {}
    for row in rows:
        by_columns.setdefault(tuple(row), []).append(row)
    return [_columns({name: [row[name] for row in same] for name in names}) for names, same in by_columns.items()]


def input_keys(data: object, key: Sequence[str]) -> InputRows:
    """Convert keys of rows to delete.

    Args:
        data: As for `input_rows`, of which only the key columns are used; or keys: an iterable such as a list, set or
            range, an Arrow array or a pandas Series. If the key has several columns, each key is a tuple.

    Raises:
        RefusedChangeError: The input is none of these.
    """
    if is_spark_dataframe(data) or isinstance(data, (pa.Table, pa.RecordBatch)) or _is_pandas(data, "DataFrame"):
        return input_rows(data)
    if _are_dicts(data) and data:
        return input_rows(data)
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        keys: Sequence[Any] = data.to_pylist() if len(key) > 1 else data
    elif isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        raise _unsupported(data, "Pass the keys in a list")
    else:
        keys = list(data)
    if len(key) == 1 and not any(isinstance(row_key, (tuple, list)) for row_key in keys):
        return [_columns({key[0]: keys})]
    values = [_key_values(row_key, key) for row_key in keys]
    return [_columns({name: [value[i] for value in values] for i, name in enumerate(key)})]


def _key_values(row_key: object, key: Sequence[str]) -> tuple[Any, ...]:
    values = tuple(row_key) if isinstance(row_key, (tuple, list)) else (row_key,)
    if len(values) != len(key):
        message = f"The table's key has {len(key)} columns, but a key in the input has {len(values)} values"
        remedy = "Write a key as one value, or as a tuple if it has several columns"
        raise RefusedChangeError(message, remedy=remedy, column=", ".join(key))
    return values


def _are_dicts(data: object) -> TypeGuard[list[Mapping[Any, Any]]]:
    return isinstance(data, list) and all(isinstance(row, Mapping) for row in data)


def _columns(values: Mapping[Any, Any]) -> pa.Table:
    return pa.table({str(name): _converted(pa.array, column, column=str(name)) for name, column in values.items()})


def _converted(convert: Callable[..., Any], values: object, *, column: str | None = None, **options: object) -> Any:  # noqa: ANN401 - an array or a table
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        return convert(values, **options)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        message = "The values of a column have no common type that a lake table supports"
        remedy = "Use values of one type in each column, finite numbers and text that UTF-8 can hold"
        raise RefusedChangeError(message, remedy=remedy, column=column) from error


def _is_pandas(data: object, name: str) -> bool:
    """Whether the data is of this pandas class. Does not import pandas, which is optional."""
    return any(one.__module__.startswith("pandas.") and one.__name__ == name for one in type(data).__mro__)


def _unsupported(data: object, remedy: str) -> RefusedChangeError:
    message = f"The type of the input is not supported: {type(data).__name__}"
    return RefusedChangeError(message, remedy=f"{remedy}. Nothing was changed")
