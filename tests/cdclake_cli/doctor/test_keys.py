"""Columns that are unique in a full load are found in files with types, too."""

from __future__ import annotations

import pyarrow as pa

from cdclake_cli.doctor.types.keys import KeyCandidate, KeyStatistics, likeliest


def found(*batches: dict[str, list[object]]) -> list[KeyCandidate]:
    statistics = KeyStatistics()
    for batch in batches:
        statistics.add({name: pa.array(values) for name, values in batch.items()}, len(next(iter(batch.values()))))
    return statistics.candidates(lambda _, values: values.combine_chunks())


def test_a_column_must_be_unique_in_all_batches_and_without_nulls() -> None:
    candidates = found({"a": [1, 2], "b": [1, 2], "c": [1, None]}, {"a": [3, 4], "b": [2, 5], "c": [3, 4]})
    assert candidates == [KeyCandidate(("a",), 4, 4)]


def test_a_pair_is_tried_if_no_column_is_unique() -> None:
    candidates = found({"nr": [1, 1, 2, 2], "line": [1, 2, 1, 2], "sum": [5.0, 5.0, 5.0, 5.0]})
    assert candidates == [KeyCandidate(("nr", "line"), 4, 4), KeyCandidate(("nr",), 2, 4)]
    assert [one.is_unique for one in candidates] == [True, False]


def test_values_of_several_types_are_no_key() -> None:
    assert found({"a": [1, 2]}, {"a": ["3", "4"]}) == []


def test_names_of_keys_come_before_other_names_and_single_columns_before_pairs() -> None:
    candidates = [KeyCandidate(names, 9, 9) for names in (("price",), ("nr", "line"), ("order_id",), ("name",))]
    ranked = likeliest(candidates, ["order_id", "name", "nr", "line"], ["name", "price", "order_id", "nr", "line"])
    assert [one.names for one in ranked] == [("order_id",), ("name",), ("price",)]
