"""The roles of the Spark jobs and of small changes may read the secret of hashed columns, and no other secret."""

from __future__ import annotations

import json
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.errors import ConfigurationError
from cdclake.hash_secret import hash_secret
from cdclake.model.names import HASH_SECRET_VARIABLE, JOB_LOAD_INCREMENTAL, JOB_LOAD_INITIAL
from cdclake_devkit.local.roles import SMALL_CHANGES, Place, policies
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.test_roles import PLACE, needed, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cdclake_devkit.strict_aws.test_roles import Account

SECRET = "0123456789abcdef0123456789abcdef"
NAME, OTHERS = "acme/hashes", ("acme/hashes-2", "acme/hashes-abcdef", "acme/hashes2", "other/acme/hashes")
REGION, ACCOUNT_ID = PLACE.split(":")
ROLES = policies(
    Place(ACCOUNT_ID, REGION, "raw", "", "lake", "", "state", "catalog", hash_secret=NAME), small_changes=True
)
READERS = {JOB_LOAD_INITIAL, JOB_LOAD_INCREMENTAL, SMALL_CHANGES}

pytestmark = pytest.mark.aws


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    """A strict AWS with the secret and some others."""
    for found in served():
        for name in (NAME, *OTHERS):
            found.client("secretsmanager").create_secret(Name=name, SecretString=SECRET)
        yield found


def credentials(account: Account, role: str) -> dict[str, str]:
    """Of a role that the stacks deploy."""
    return account.credentials_of(*ROLES[role], name=token_hex(4))


@pytest.mark.parametrize("role", ROLES)
def test_only_the_roles_that_hash_may_read_the_secret_and_none_may_read_others(account: Account, role: str) -> None:
    secrets = account.client("secretsmanager", **credentials(account, role))
    expected = (200, "") if role in READERS else (400, "AccessDeniedException")
    assert answer(secrets, "get_secret_value", SecretId=NAME) == expected
    for other in (*OTHERS, "acme/missing"):
        assert answer(secrets, "get_secret_value", SecretId=other) == (400, "AccessDeniedException")
    for operation in ("describe_secret", "delete_secret"):
        assert answer(secrets, operation, SecretId=NAME) == (400, "AccessDeniedException")


def test_who_may_not_read_it_gets_an_error_that_names_it_and_the_remedy(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = credentials(account, JOB_LOAD_INCREMENTAL)
    variables = {name.upper(): value for name, value in keys.items()}
    for name, value in {**variables, "AWS_ENDPOINT_URL": account.endpoint, "AWS_DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(HASH_SECRET_VARIABLE, raising=False)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # an earlier test may have left one with other credentials
    assert hash_secret(NAME) == SECRET.encode()
    with pytest.raises(ConfigurationError, match="AccessDenied") as denied:
        hash_secret("acme/missing")
    assert denied.value.details["secret"] == "acme/missing"
    assert "deploy again with its name as hash_secret" in denied.value.remedy


def test_a_secret_is_asked_for_by_name_or_arn(account: Account) -> None:
    arn = account.client("secretsmanager").describe_secret(SecretId=NAME)["ARN"]
    for secret_id, resource in ((NAME, arn), (arn, arn), ("none", f"arn:aws:secretsmanager:{PLACE}:secret:none")):
        body = json.dumps({"SecretId": secret_id}).encode()
        found: Any = needed("secretsmanager", "POST", "/", body=body, x_amz_target="secretsmanager.GetSecretValue")
        assert found == {("secretsmanager:GetSecretValue", resource)}
