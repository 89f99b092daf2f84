"""The roles of the local AWS have the statements of the stacks' roles; `make local-roles` writes them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cdclake_devkit.local.roles import FILE, ON_RAW_FILE, SMALL_CHANGES, Place, policies
from cdclake_infra.build import build_app
from cdclake_infra.gate import synthesize
from tests.infra.reasons import FUNCTIONS, JOBS
from tests.infra.stacks import ACCOUNT, REGION, Stacks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ONLY_ON_AWS = {"ReadCode", "DecryptCode", "WriteLogs", "PutGlueMetrics", "KeepUndelivered"}
"""Statements for what Glue and Lambda do with a role."""
WITHOUT_PREFIX = Place(ACCOUNT, REGION, "the-raw-bucket", "", "the-lake-bucket", "", "the-state-table", "the_database")
WITH_PREFIXES = replace(
    WITHOUT_PREFIX, raw_prefix="raw/of/erp/", lake_prefix="lake/of/erp/", hash_secret="the/secret/of/hashes"
)


def of_the_stacks(place: Place, folder: Path, small_changes: str) -> dict[str, list[dict[str, Any]]]:
    """The statements of the roles that the stacks synthesize."""
    settings = {
        "existing_raw_bucket": place.raw_bucket,
        "raw_prefix": place.raw_prefix,
        "existing_lake_bucket": place.lake_bucket,
        "lake_prefix": place.lake_prefix,
        "existing_state_table": place.state_table,
        "existing_catalog_database": place.catalog_database,
        "small_changes": small_changes,
        "hash_secret": place.hash_secret,
    }
    stacks = Stacks(synthesize(build_app({f"cdclake:{name}": value for name, value in settings.items()}, folder)))
    deployed = {name: stacks.one("AWS::Glue::Job", Name=name) for name in JOBS}
    functions = FUNCTIONS if small_changes == "lambda" else {ON_RAW_FILE: FUNCTIONS[ON_RAW_FILE]}
    deployed |= {name: stacks.one("AWS::Lambda::Function", FunctionName=own) for name, own in functions.items()}
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
@pytest.mark.parametrize(
    ("place", "kinds"),
    [(WITH_PREFIXES, ("spark", "lambda")), (WITHOUT_PREFIX, ("lambda",))],
    ids=["prefixes", "no prefix"],
)
def test_the_local_roles_are_those_of_the_stacks(place: Place, kinds: Sequence[str], tmp_path: Path) -> None:
    expected = {kind: of_the_stacks(place, tmp_path / kind, kind) for kind in kinds}
    if place is WITH_PREFIXES and os.environ.get("CDCLAKE_WRITE_LOCAL_ROLES"):
        without, roles = expected["spark"], expected["lambda"]
        started = [one for one in without[ON_RAW_FILE] if one not in roles[ON_RAW_FILE]]
        text = json.dumps({**roles, ON_RAW_FILE: [*roles[ON_RAW_FILE], *started]}, indent=2)
        for name, value in vars(place).items():
            text = text.replace(value, f"<{name}>")
        FILE.write_text(f"{text}\n", encoding="utf-8")
    for kind, roles in expected.items():
        assert policies(place, small_changes=kind == "lambda") == roles, "run `make local-roles`"


def test_every_job_and_function_has_a_role() -> None:
    roles = policies(WITH_PREFIXES, small_changes=True)
    assert {name for name, statements in roles.items() if statements} == {*JOBS, ON_RAW_FILE, SMALL_CHANGES}
    assert roles.keys() - policies(WITH_PREFIXES).keys() == {SMALL_CHANGES}
