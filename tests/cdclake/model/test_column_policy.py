"""What the attribute `ColumnPolicy` accepts, and what it makes of values."""

from __future__ import annotations

import hmac
import pickle
from dataclasses import replace

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.schema import parse_columns
from cdclake.model.snapshot import LakeKeys
from cdclake.model.table.column_policy import AppliedPolicy, ColumnPolicy
from cdclake.model.table.name import TableName
from cdclake.model.table.settings import TableSettings

SECRET = b"a secret of thirty-two bytes....."
TEXT = "exclude email, hash ssn, redact my note, truncate name 3"


def settings(**item: str) -> TableSettings:
    return TableSettings.from_item({"PrimaryKey": "id", **item})


def test_equal_policies_have_the_same_text() -> None:
    policy = ColumnPolicy.parse(TEXT)
    assert str(policy) == "exclude email, redact my note, truncate name 3, hash ssn"
    assert ColumnPolicy.parse(" HASH  ssn,truncate name 3 ,redact my note, Exclude email") == policy
    assert ColumnPolicy.parse(str(policy)) == policy
    assert (
        ColumnPolicy.parse("")
        == ColumnPolicy()
        == settings().column_policy
        == settings(ColumnPolicy="null").column_policy
    )


@pytest.mark.parametrize(
    "text",
    [
        "email",
        "mask email",
        "exclude",
        "exclude email,",
        "exclude email hash ssn, hash SSN, redact ssn",
        "truncate name",
        "truncate name 0",
        "truncate name -1",
        "truncate 3",
        "hash ssn, redact SSN",
        "hash Op",
        "hash BI_ssn",
        "redact AR_H_CHANGE_SEQ",
    ],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="ColumnPolicy"):
        settings(ColumnPolicy=text)


@pytest.mark.parametrize(
    "item",
    [
        {"ColumnPolicy": "exclude ID"},
        {"ColumnPolicy": "redact id"},
        {"ColumnPolicy": "truncate id 3"},
        {"ColumnPolicy": "exclude city", "PartitionKey": "City"},
        {"ColumnPolicy": "hash at", "OrderColumn": "at"},
        {"ColumnPolicy": "truncate at 9", "HistoryTimeColumn": "at"},
        {"ColumnPolicy": "exclude note", "NullMeansUnsent": "note"},
        {"ColumnPolicy": "redact note", "CsvNoSupValue": "#"},
        {"ColumnPolicy": "truncate note 1", "CsvNoSupValue": "#"},
    ],
)
def test_a_rule_for_a_column_whose_values_are_needed_is_refused(item: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="ColumnPolicy has '"):
        settings(**item)


def test_other_rules_for_such_columns_are_accepted() -> None:
    item = {"PartitionKey": "city", "NullMeansUnsent": "note", "CsvNoSupValue": "#sent"}
    assert settings(ColumnPolicy="hash id, truncate city 2, truncate note 1", **item).column_policy.hashes


def test_the_lake_has_texts_in_place_of_values_and_no_excluded_columns() -> None:
    columns = parse_columns("id int, Email string, ssn bigint, name string")
    policy = ColumnPolicy.parse("exclude email, hash SSN")
    assert policy.lake_columns(columns) == parse_columns("id int, ssn string, name string")


def test_a_value_becomes_its_keyed_hash_or_its_beginning_or_the_same_text_for_all() -> None:
    policy = replace(ColumnPolicy.parse(TEXT), secret=SECRET)
    changed = {rule.column: policy.changed("Zoë Müller", rule) for rule in policy.rules if rule.column != "email"}
    expected = hmac.new(SECRET, "Zoë Müller".encode(), "sha256").hexdigest()
    assert changed == {"ssn": expected, "my note": "***", "name": "Zoë"}


def test_nothing_is_hashed_without_a_secret() -> None:
    policy = ColumnPolicy.parse("hash ssn")
    with pytest.raises(ConfigurationError, match=r"the secret is missing. Set CDCLAKE_HASH_SECRET"):
        policy.changed("1", policy.rules[0])
    assert ColumnPolicy.parse("redact ssn").secret_id == ""


def test_the_secret_is_in_no_text_and_tasks_get_it() -> None:
    policy = replace(ColumnPolicy.parse("hash ssn"), secret=SECRET)
    bound = replace(settings(), column_policy=policy)
    assert SECRET.decode() not in f"{bound!r} {policy} {policy.secret_id}"
    assert pickle.loads(pickle.dumps(bound)).column_policy.secret == SECRET


def test_only_the_secret_of_the_table_finds_its_values() -> None:
    policy = replace(ColumnPolicy.parse("hash ssn"), secret=SECRET)
    applied = policy.applied(AppliedPolicy(), 7)
    assert applied == AppliedPolicy("hash ssn", policy.secret_id, 7)
    assert policy.applied(applied, 8) is applied
    assert applied.with_secret(SECRET) == policy
    with pytest.raises(ConfigurationError, match="another secret"):
        applied.with_secret(SECRET + b"!")
    with pytest.raises(ConfigurationError, match="the secret is missing"):
        applied.with_secret(b"")
    assert AppliedPolicy().with_secret(b"") == ColumnPolicy()


def test_another_policy_than_the_lake_tables_needs_a_reload() -> None:
    keys = LakeKeys("id", "", "", "hash ssn")
    keys.check(settings(ColumnPolicy=" Hash SSN"), TableName("shop", "orders"))
    with pytest.raises(ConfigurationError, match=r"created with ColumnPolicy .hash ssn.*--set .LastFullLoadDate=1900"):
        keys.check(settings(), TableName("shop", "orders"))
    assert LakeKeys.parse('["id", "", ""]') == LakeKeys("id", "", "")
