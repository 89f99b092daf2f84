"""Where the secret of hashed columns comes from."""

from __future__ import annotations

import boto3
import pytest

from cdclake.errors import ConfigurationError
from cdclake.hash_secret import hash_secret, with_hash_secret
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.table.settings import TableSettings

SECRET = "0123456789abcdef0123456789abcdef"
HASHES = TableSettings.from_item({"ColumnPolicy": "hash ssn"})


def test_a_table_without_hashes_needs_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, "short")
    settings = TableSettings.from_item({"ColumnPolicy": "exclude ssn"})
    assert with_hash_secret(settings) is settings


def test_the_environment_has_the_secret_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, SECRET)
    assert with_hash_secret(HASHES).column_policy.secret == SECRET.encode()


def test_a_missing_or_short_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HASH_SECRET_VARIABLE, raising=False)
    assert hash_secret() == b""
    with pytest.raises(ConfigurationError, match="the secret is missing"):
        with_hash_secret(HASHES)
    monkeypatch.setenv(HASH_SECRET_VARIABLE, SECRET[1:])
    with pytest.raises(ConfigurationError, match="less than 32 bytes"):
        with_hash_secret(HASHES)


@pytest.mark.usefixtures("moto")
def test_a_deployment_has_it_in_secrets_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HASH_SECRET_VARIABLE, raising=False)
    boto3.client("secretsmanager").create_secret(Name="acme/hashes", SecretString=SECRET)
    assert with_hash_secret(HASHES, "acme/hashes").column_policy.secret == SECRET.encode()
    with pytest.raises(ConfigurationError, match="Create the secret, or correct the setting hash_secret"):
        with_hash_secret(HASHES, "acme/others")
