"""What a person gives a lake table, brought into one of two forms: Arrow tables held here, or a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa

from cdclake.errors import RefusedChangeError
from cdclake.lake.spark.backend import is_spark_dataframe

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyspark.sql import DataFrame

Rows = Union[Sequence[pa.Table], "DataFrame"]
"""Rows. Several tables may have different columns; none has rows of another kind of change."""


def is_empty_input(rows: Rows) -> bool:
    """Whether there is not even a column, as in an empty list or an empty DataFrame of pandas."""
    return not is_spark_dataframe(rows) and not any(table.num_columns for table in rows)


def input_rows(data: object) -> Rows:
    """Rows given as a Spark or pandas DataFrame, an Arrow table or batch, or a list of dicts.

    Raises:
        RefusedChangeError: It is none of these, or a column's values have no type in common.
    """
    if is_spark_dataframe(data):
        return data
    if isinstance(data, pa.RecordBatch):
        return [pa.Table.from_batches([data])]
    if isinstance(data, pa.Table):
        return [data]
    if _is_of_pandas(data, "DataFrame"):
        return [_converted(pa.Table.from_pandas, data, preserve_index=False)]
    if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
        names = list(dict.fromkeys(name for row in data for name in row))
        return [_columns({name: [row.get(name) for row in data] for name in names})]
    remedy = "Give a Spark or pandas DataFrame, an Arrow table, or a list of dicts"
    raise _not_understood(data, remedy)


def input_updates(data: object, key: Sequence[str]) -> Rows:
    """Rows to update: the key columns, and those to set.

    Args:
        data: As for `input_rows`, or values by key and column.
        key: Key columns of the table.

    Raises:
        RefusedChangeError: It is none of these.
    """
    if not isinstance(data, Mapping):
        return input_rows(data)
    by_columns: dict[tuple[Hashable, ...], list[dict[str, Any]]] = {}
    for identity, values in data.items():
        if not (isinstance(values, Mapping) and values):
            raise _not_understood(values, "Write it as {id: {column: value}}")
        if {name.lower() for name in values} & {name.lower() for name in key}:
            remedy = "Delete the row and insert it with the new key"
            raise RefusedChangeError("An update cannot set a key column", remedy=remedy, column=", ".join(key))
        row = {**dict(zip(key, _parts(identity, key), strict=True)), **values}
        by_columns.setdefault(tuple(row), []).append(row)
    return [_columns({str(name): [row[name] for row in rows] for name in rows[0]}) for rows in by_columns.values()]


def input_keys(data: object, key: Sequence[str]) -> Rows:
    """Keys of rows to delete.

    Args:
        data: As for `input_rows`, of which the key columns count, or ids: a list, set, range or the like, an Arrow
            array or a pandas Series; of a key of several columns each is a tuple.
        key: Key columns of the table.

    Raises:
        RefusedChangeError: It is none of these.
    """
    if is_spark_dataframe(data) or isinstance(data, (pa.Table, pa.RecordBatch)) or _is_of_pandas(data, "DataFrame"):
        return input_rows(data)
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        ids: Sequence[Any] = data.to_pylist() if len(key) > 1 else data
    elif isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        raise _not_understood(data, "Give ids in a list")
    else:
        ids = list(data)
    if len(key) == 1 and not any(isinstance(identity, (tuple, list)) for identity in ids):
        return [_columns({key[0]: ids})]
    parts = [_parts(identity, key) for identity in ids]
    return [_columns({name: [part[i] for part in parts] for i, name in enumerate(key)})]


def _parts(identity: object, key: Sequence[str]) -> tuple[Any, ...]:
    parts = tuple(identity) if isinstance(identity, (tuple, list)) else (identity,)
    if len(parts) != len(key):
        message = f"The key has {len(key)} columns, and an id has {len(parts)} values"
        remedy = "Write an id as one value, or as a tuple if the key has several columns"
        raise RefusedChangeError(message, remedy=remedy, column=", ".join(key))
    return parts


def _columns(values: Mapping[str, Any]) -> pa.Table:
    return pa.table({name: _converted(pa.array, column, column=name) for name, column in values.items()})


def _converted(convert: Callable[..., Any], values: object, *, column: str | None = None, **options: object) -> Any:  # noqa: ANN401 - an array or a table
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        return convert(values, **options)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        message = "The values of a column have no type in common that a table has"
        remedy = "Give each column values of one type"
        raise RefusedChangeError(message, remedy=remedy, column=column) from error


def _is_of_pandas(data: object, name: str) -> bool:
    """Whether it is one of pandas' classes, without importing pandas, which nothing else here needs."""
    return any(one.__module__.startswith("pandas.") and one.__name__ == name for one in type(data).__mro__)


def _not_understood(data: object, remedy: str) -> RefusedChangeError:
    message = f"What was given is not understood: {type(data).__name__}"
    return RefusedChangeError(message, remedy=f"{remedy}. Nothing was changed")
