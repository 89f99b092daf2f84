"""A text is the table whose name it is, if there is one, else a pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.patterns import matches, name_of, parse_pattern, pattern_of, tables_of

PARTS = st.text("ab1.*?[]!-", min_size=1, max_size=4)
NAMES = st.builds(TableName, PARTS, PARTS)
T1, BRACKETS, OTHER = TableName("hr", "t1"), TableName("hr", "t[1]"), TableName("hr", "u")


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("hr.t1", {T1, BRACKETS}, [T1]),
        ("hr.t1", {BRACKETS}, []),
        ("hr.t[1]", {T1, OTHER}, [T1]),
        ("hr.t[1]", {BRACKETS, OTHER}, [BRACKETS]),
        ("hr.t[[]1]", {T1, BRACKETS}, [BRACKETS]),
        ("hr.t[[]1]", {T1}, []),
        ("*", {T1}, [T1]),
        ("hr.*", {TableName("hr", "*"), TableName("it", "t")}, [TableName("hr", "*")]),
    ],
)
def test_a_text_is_a_name_if_there_is_such_a_table(text: str, names: set[TableName], expected: list[TableName]) -> None:
    assert tables_of(parse_pattern(text), names) == expected


def test_what_could_be_either_is_refused_with_both_ways_to_write_it() -> None:
    with pytest.raises(ConfigurationError, match=r"'hr.t\[1\]' is the name of a table.* matches hr.t1") as error:
        tables_of(BRACKETS, {T1, BRACKETS, OTHER})
    assert error.value.remedy == "Write 'hr.t[[]1]' for the one, and hr.t1 for the other"


@given(NAMES, st.sets(NAMES))
def test_every_name_can_be_written_as_a_pattern_of_it_alone(name: TableName, others: set[TableName]) -> None:
    pattern = pattern_of(name)
    assert name_of(pattern) == name
    assert tables_of(pattern, {name, *others}) == [name]
    assert name_of(parse_pattern(str(pattern))) == name or "/" not in str(pattern)


@given(NAMES, st.sets(NAMES))
def test_a_text_stands_for_what_it_matches_or_for_the_table_of_that_name(
    text: TableName, names: set[TableName]
) -> None:
    matched = {name for name in names if matches(name, text)}
    try:
        found = set(tables_of(text, names))
    except ConfigurationError:
        assert text in names
        assert matched
        assert text not in matched
        return
    assert found == (matched or (set() if name_of(text) else {text} & names))
