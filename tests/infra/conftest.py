"""The stacks, synthesized once per set of settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import ROOT

sys.path.append(str(ROOT / "infra"))

from cdclake_infra.build import build_app
from cdclake_infra.gate import synthesize
from tests.infra.stacks import CODE_KEY, KEY, TASK, Stacks

if TYPE_CHECKING:
    from cdclake_infra.gate import CheckedStacks

TAILORED = {
    "cdclake:raw_prefix": "dms/erp",
    "cdclake:lake_prefix": "tables/",
    "cdclake:existing_raw_bucket": "acme-raw",
    "cdclake:existing_catalog_database": "acme_lake",
    "cdclake:kms_key_arn": KEY,
    "cdclake:bootstrap_kms_key_arn": CODE_KEY,
    "cdclake:dms_task": TASK,
    "cdclake:vpc_id": "vpc-0123456789abcdef0",
    "cdclake:subnet_id": "subnet-0123456789abcdef0",
    "cdclake:availability_zone": "eu-central-1a",
    "cdclake:lake_retention_days": "7",
    "cdclake:delete_data_with_stacks": "true",
    "cdclake:schedule": "cron(30 2 * * ? *)",
    "cdclake:schedule_enabled": False,
    "cdclake:small_changes": "lambda",
    "cdclake:small_changes_at_once": 3,
    "cdclake:concurrent_tables": 7,
    "cdclake:glue_version": "5.1",
    "cdclake:worker_type": "G.2X",
    "cdclake:most_workers": 4,
    "cdclake:quick_tasks": False,
    "cdclake:load_initial_timeout_minutes": 600,
    "cdclake:load_incremental_timeout_minutes": 90,
    "cdclake:table_metrics": False,
    "cdclake:lineage_url": "http://marquez.internal:5000/api/v1/lineage",
    "cdclake:hash_secret": "acme/hashes",
    "cdclake:lag_alarm_minutes": 0,
    "cdclake:silence_alarm_hours": 24,
}


CERTIFICATE = Path(__file__).parent / "sample_certificate.pem"
SAMPLE = {"cdclake:sample_database": True, "cdclake:sample_certificate": str(CERTIFICATE)}
PREFIX = "acme-"
TAGS = {
    "CostCenter": "4711",
    "k" * 128: "v" * 256,
    "team/größe": "_.:/=+-@ 中",
    **{f"key-{number}": str(number) for number in range(44)},
}
"""As many as there may be, and as long."""
EVERYTHING = {
    **SAMPLE,
    "cdclake:raw_expiry_days": 400,
    "cdclake:small_changes": "lambda",
    "cdclake:small_changes_at_once": 0,
    **{name: TAILORED[name] for name in ("cdclake:vpc_id", "cdclake:subnet_id", "cdclake:availability_zone")},
}


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> CheckedStacks:
    """The stacks with default settings, after cdk-nag."""
    return synthesize(build_app({}, tmp_path_factory.mktemp("default")))


@pytest.fixture(scope="session")
def default(checked: CheckedStacks) -> Stacks:
    """The stacks with default settings, with references resolved."""
    return Stacks(checked)


@pytest.fixture(scope="session")
def checked_tailored(tmp_path_factory: pytest.TempPathFactory) -> CheckedStacks:
    """The stacks with other settings, including an existing raw bucket."""
    return synthesize(build_app(TAILORED, tmp_path_factory.mktemp("tailored")))


@pytest.fixture(scope="session")
def tailored(checked_tailored: CheckedStacks) -> Stacks:
    """The stacks with other settings, with references resolved."""
    return Stacks(checked_tailored)


@pytest.fixture(scope="session")
def checked_sample(tmp_path_factory: pytest.TempPathFactory) -> CheckedStacks:
    """All stacks including the sample, after cdk-nag. Raw files start nothing."""
    context = {
        **SAMPLE,
        "cdclake:existing_lake_bucket": "acme-lake",
        "cdclake:existing_raw_bucket": "acme-raw",
        "cdclake:existing_state_table": "acme_state",
        "cdclake:raw_prefix": "dms/erp",
        "cdclake:kms_key_arn": KEY,
        "cdclake:start_by_file": False,
    }
    return synthesize(build_app(context, tmp_path_factory.mktemp("sample")))


@pytest.fixture(scope="session")
def sample(checked_sample: CheckedStacks) -> Stacks:
    """All stacks including the sample, with references resolved."""
    return Stacks(checked_sample)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stacks, Stacks]:
    """All that can be deployed: without a prefix of names, and with one, tags and a boundary of permissions."""
    more = {
        "cdclake:name_prefix": PREFIX,
        "cdclake:tags": TAGS,
        "@aws-cdk/core:permissionsBoundary": {"name": "my-boundary"},
    }
    settings = (EVERYTHING, {**EVERYTHING, **more})
    without, with_prefix = (Stacks(synthesize(build_app(one, tmp_path_factory.mktemp("stacks")))) for one in settings)
    return without, with_prefix
