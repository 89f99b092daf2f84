"""External table definitions of DMS become columns, types and keys."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cdclake.adapters.dms import DmsEndpoint, DmsTask
from cdclake.errors import ConfigurationError
from cdclake.model.table.name import TableName
from cdclake_cli.importing.definitions import read_definitions
from cdclake_cli.importing.propose import propose
from cdclake_cli.importing.task import table_definitions

EMPLOYEE: dict[str, Any] = {
    "TableCount": "1",
    "Tables": [
        {
            "TableName": "employee",
            "TablePath": "hr/employee/",
            "TableOwner": "hr",
            "TableColumns": [
                {"ColumnName": "Id", "ColumnType": "INT8", "ColumnNullable": "false", "ColumnIsPk": "true"},
                {"ColumnName": "LastName", "ColumnType": "STRING", "ColumnLength": "20"},
                {"ColumnName": "FirstName", "ColumnType": "STRING", "ColumnLength": "30"},
                {"ColumnName": "HireDate", "ColumnType": "DATETIME"},
                {"ColumnName": "OfficeLocation", "ColumnType": "STRING", "ColumnLength": "20"},
            ],
            "TableColumnsTotal": "5",
        }
    ],
}
"""The example of the DMS user guide."""


def changed(table: dict[str, Any] | None = None, **column: object) -> dict[str, Any]:
    """The example with other values of the table, or of its second column; None for none."""
    document = copy.deepcopy(EMPLOYEE)
    (definition,) = document["Tables"]
    for place, values in ((definition, table or {}), (definition["TableColumns"][1], column)):
        place.update(values)
        for name in [name for name, value in place.items() if value is None]:
            del place[name]
    return document


def test_the_example_of_the_guide_has_its_key_and_types() -> None:
    (table,) = read_definitions(EMPLOYEE)
    assert (table.name, table.key, table.notes) == (TableName("hr", "employee"), ("Id",), ())
    assert [(one.name, one.type, one.nullable) for one in table.columns] == [
        ("Id", "bigint", False),
        ("LastName", "string", True),
        ("FirstName", "string", True),
        ("HireDate", "timestamp", True),
        ("OfficeLocation", "string", True),
    ]
    (proposal,) = propose([table], None).tables
    assert proposal.attributes == {"PrimaryKey": "Id"}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ({"ColumnType": "NUMERIC", "ColumnPrecision": "12", "ColumnScale": "2"}, "decimal(12,2)"),
        ({"ColumnType": "numeric", "ColumnPrecision": 12}, "decimal(12,0)"),
        ({"ColumnType": "NUMERIC", "ColumnPrecision": "39"}, None),
        ({"ColumnType": "NUMERIC"}, None),
        ({"ColumnType": "UINT8"}, "decimal(20,0)"),
        ({"ColumnType": "BYTE"}, "binary"),
        ({"ColumnType": "TIME"}, "string"),
        ({"ColumnType": "BOOLEAN"}, "boolean"),
        ({"ColumnType": "GEOMETRY"}, None),
    ],
)
def test_types_are_those_that_dms_sends(column: dict[str, Any], kind: str | None) -> None:
    (table,) = read_definitions(changed(**column))
    assert table.columns[1].type == kind


def test_several_key_columns_keep_their_order_and_missing_columns_are_told() -> None:
    (table,) = read_definitions(changed({"TableOwner": None, "TableColumnsTotal": 6}, ColumnIsPk=True))
    assert (table.name.schema, table.key) == ("hr", ("Id", "LastName"))
    assert table.notes == ("TableColumnsTotal is 6, and 5 are defined: columns may be missing",)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "the document has no list Tables"),
        ({"Tables": [1]}, "the document has no list Tables"),
        ({"Tables": []}, "the document has no list Tables"),
        ({"Tables": EMPLOYEE["Tables"] * 2}, "hr.employee is defined twice"),
        (changed({"TableName": None}), "table 1 has no TableName"),
        (changed({"TableOwner": "", "TablePath": "employee/"}), "has no TableOwner"),
        (changed({"TableColumns": None}), "hr.employee has no list TableColumns"),
        (changed(ColumnType=None), "hr.employee, column 2 has no ColumnType"),
        (changed(ColumnName="ID"), "has the column id twice"),
    ],
)
def test_what_is_no_definition_is_refused_with_its_place(document: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_definitions(document)


def test_a_task_whose_source_is_s3_has_them() -> None:
    source = DmsEndpoint("s3", {"externaltabledefinition": '{"Tables": []}'})
    task = DmsTask({}, source_arn="source", endpoints={"source": source})
    assert table_definitions(task) == {"Tables": []}
    assert table_definitions(task._replace(endpoints={"source": source._replace(engine="mysql")})) == {}
    broken = source._replace(settings={"externaltabledefinition": "{"})
    with pytest.raises(ConfigurationError, match="ExternalTableDefinition of the task's source is not JSON"):
        table_definitions(task._replace(endpoints={"source": broken}))
