"""The roles of the local AWS have the statements of the stacks' roles; `make local-roles` writes them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from cdclake_devkit.local.roles import FILE, ON_RAW_FILE, Place, policies
from cdclake_infra.build import build_app
from cdclake_infra.gate import synthesize
from tests.infra.reasons import FUNCTION, JOBS
from tests.infra.stacks import ACCOUNT, REGION, Stacks

if TYPE_CHECKING:
    from pathlib import Path

ONLY_ON_AWS = {"ReadCode", "DecryptCode", "WriteLogs", "PutGlueMetrics", "KeepUndelivered"}
"""Statements for what Glue and Lambda do with a role."""
WITHOUT_PREFIX = Place(ACCOUNT, REGION, "the-raw-bucket", "", "the-lake-bucket", "", "the-state-table", "the_database")
WITH_PREFIXES = Place(**{**vars(WITHOUT_PREFIX), "raw_prefix": "raw/of/erp/", "lake_prefix": "lake/of/erp/"})


def of_the_stacks(place: Place, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The statements of the roles that the stacks synthesize."""
    settings = {
        "existing_raw_bucket": place.raw_bucket,
        "raw_prefix": place.raw_prefix,
        "existing_lake_bucket": place.lake_bucket,
        "lake_prefix": place.lake_prefix,
        "existing_state_table": place.state_table,
        "existing_catalog_database": place.catalog_database,
    }
    stacks = Stacks(synthesize(build_app({f"cdclake:{name}": value for name, value in settings.items()}, folder)))
    deployed = {name: stacks.one("AWS::Glue::Job", Name=name) for name in JOBS}
    deployed[ON_RAW_FILE] = stacks.one("AWS::Lambda::Function", FunctionName=FUNCTION)
    return {
        name: [
            {"Sid": sid, "Effect": "Allow", **statement}
            for sid, statement in stacks.role_of(one).items()
            if sid not in ONLY_ON_AWS
        ]
        for name, one in deployed.items()
    }


@pytest.mark.deployment
@pytest.mark.slow
@pytest.mark.parametrize("place", [WITH_PREFIXES, WITHOUT_PREFIX], ids=["prefixes", "no prefix"])
def test_the_local_roles_are_those_of_the_stacks(place: Place, tmp_path: Path) -> None:
    expected = of_the_stacks(place, tmp_path)
    if place is WITH_PREFIXES and os.environ.get("CDCLAKE_WRITE_LOCAL_ROLES"):
        text = json.dumps(expected, indent=2)
        for name, value in vars(place).items():
            text = text.replace(value, f"<{name}>")
        FILE.write_text(f"{text}\n", encoding="utf-8")
    assert policies(place) == expected, "run `make local-roles`"


def test_every_job_and_the_function_have_a_role() -> None:
    assert {name for name, statements in policies(WITH_PREFIXES).items() if statements} == {*JOBS, ON_RAW_FILE}
