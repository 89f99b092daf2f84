"""Deployment settings: reading, defaults and validation."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cdclake.errors import ConfigurationError
from cdclake.model.table.settings import TableSettings
from cdclake_infra.settings import Settings
from tests import ROOT

DOCUMENT = ROOT / "docs" / "deploy.md"


def test_an_empty_context_gives_the_defaults():
    assert Settings.from_context({}) == Settings()


def test_foreign_context_keys_are_ignored():
    assert Settings.from_context({"aws:cdk:version-reporting": True, "@aws-cdk/flag": False}) == Settings()


@pytest.mark.parametrize("value", ["true", "True", True])
def test_a_flag_may_be_text_or_json(value: object):
    assert Settings.from_context({"cdclake:delete_data_with_stacks": value}).delete_data_with_stacks is True


@pytest.mark.parametrize("value", ["14", 14])
def test_a_number_may_be_text_or_json(value: object):
    assert Settings.from_context({"cdclake:lake_retention_days": value}).lake_retention_days == 14


@pytest.mark.parametrize("text", ["dms/erp", "/dms/erp/", "dms/erp/"])
def test_slashes_around_a_prefix_are_optional(text: str):
    assert Settings(raw_prefix=text).raw_prefix == "dms/erp/"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("raw_prefix", "dms*"),
        ("raw_prefix", "${aws:username}"),
        ("lake_prefix", "lake?"),
        ("existing_raw_bucket", "s3://acme-raw"),
        ("existing_lake_bucket", "Acme"),
        ("existing_state_table", "a table"),
        ("existing_catalog_database", "Acme.Lake"),
        ("catalog", "no"),
        ("kms_key_arn", "alias/lake"),
        ("kms_key_arn", "arn:aws:kms:eu-central-1:123456789012:alias/lake"),
        ("bootstrap_kms_key_arn", "alias/cdk"),
        ("dms_task", "cdclake-sample"),
        ("lineage_url", "marquez:5000"),
        ("lineage_url", "https://user:secret@marquez/"),
        ("lineage_url", "https://marquez/?token=secret"),
        ("hash_secret", "arn:aws:secretsmanager:eu-central-1:123456789012:secret:hashes-a1b2c3"),
        ("hash_secret", "every*"),
        ("lake_retention_days", "0"),
        ("lake_retention_days", "a month"),
        ("lake_retention_days", "1.5"),
        ("raw_expiry_days", "-1"),
        ("delete_data_with_stacks", "yes"),
        ("schedule", "rate(1 hour)"),
        ("schedule", "cron(0 * * * ?)"),
        ("small_changes", "glue"),
        ("small_changes_at_once", "1001"),
        ("concurrent_tables", "0"),
        ("glue_version", "5.0"),
        ("worker_type", "Standard"),
        ("name_prefix", "acme"),
        ("name_prefix", "Acme-"),
        ("name_prefix", "acme--"),
        ("name_prefix", "-"),
        ("name_prefix", "acme-department-"),
        ("name_prefix", "sthree-"),
        ("most_workers", "1"),
        ("load_initial_timeout_minutes", "0"),
        ("load_initial_timeout_minutes", 10_081),
        ("load_incremental_timeout_minutes", "10081"),
        ("lag_alarm_minutes", "10081"),
        ("silence_alarm_hours", "25"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_ones(name: str, value: str):
    with pytest.raises(ConfigurationError, match=f"cdclake:{name} is ") as refused:
        Settings.from_context({f"cdclake:{name}": value})
    assert "It must be " in str(refused.value)


@pytest.mark.parametrize("missing", ["vpc_id", "subnet_id", "availability_zone"])
def test_half_a_network_is_refused(missing: str):
    network = {"vpc_id": "vpc-01234567", "subnet_id": "subnet-01234567", "availability_zone": "us-east-1a"}
    assert Settings(**network).vpc_id  # type: ignore[arg-type]  # all three are str
    with pytest.raises(ConfigurationError, match=f"cdclake:{missing} is ''"):
        Settings(**{**network, missing: ""})  # type: ignore[arg-type]  # all three are str


@pytest.mark.parametrize("value", ["6.0", 6.0, 6, "6"])
def test_a_glue_version_may_be_a_number(value: object):
    assert Settings.from_context({"cdclake:glue_version": value}).glue_version == "6.0"


def test_the_function_of_small_changes_needs_the_events_of_raw_files():
    refused = r"cdclake:small_changes is 'lambda'.* It must be spark while start_by_file is false"
    with pytest.raises(ConfigurationError, match=refused):
        Settings(small_changes="lambda", start_by_file=False)
    assert Settings(small_changes="lambda").small_changes_on_lambda
    assert not Settings(start_by_file=False).small_changes_on_lambda


def test_an_unknown_setting_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigurationError, match=r"no setting cdclake:raw_prefx.*Did you mean raw_prefix\?"):
        Settings.from_context({"cdclake:raw_prefx": "dms"})


def test_raw_and_lake_must_be_different_buckets():
    with pytest.raises(ConfigurationError, match="another bucket"):
        Settings(existing_raw_bucket="acme", existing_lake_bucket="acme")


def test_the_lake_bucket_keeps_files_at_least_as_long_as_the_clean_up():
    assert Settings().lake_retention_days >= TableSettings.retention_days


def test_every_setting_is_documented_with_its_default():
    text = DOCUMENT.read_text(encoding="utf-8")
    for field in fields(Settings):
        default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        written = "none" if field.default in ("", ()) else f"`{default}`"
        assert f"| `{field.name}` | {written} |" in text, field.name
