"""The secret of hashed columns, from the environment or AWS Secrets Manager."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cdclake.adapters.aws import Remedies, client, translated_errors
from cdclake.errors import ConfigurationError
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.table.column_policy import MIN_SECRET_BYTES

if TYPE_CHECKING:
    from cdclake.model.table.settings import TableSettings

_REMEDIES = Remedies(
    missing="Create the secret, or correct the setting hash_secret and deploy again",
    denied="Create the secret, as AWS denies one that does not exist, or deploy again with its name as hash_secret",
)


def hash_secret(name: str = "") -> bytes:
    """The secret of hashed columns: of the environment, else of AWS Secrets Manager; empty if there is none.

    Args:
        name: Name of the secret in AWS Secrets Manager; empty for none.

    Raises:
        ConfigurationError: It is too short, or cannot be read.
    """
    text = os.environ.get(HASH_SECRET_VARIABLE, "") or (_stored_secret(name) if name else "")
    if 0 < len(text.encode()) < MIN_SECRET_BYTES:
        message = f"The secret of hashed columns has less than {MIN_SECRET_BYTES} bytes, so it could be guessed"
        raise ConfigurationError(message, remedy="Make another one: openssl rand -hex 32")
    return text.encode()


def with_hash_secret(settings: TableSettings, name: str = "") -> TableSettings:
    """The same settings, with the secret if a column is hashed; see `hash_secret`.

    Raises:
        ConfigurationError: As `hash_secret`, or there is none.
    """
    if not settings.column_policy.hashes:
        return settings
    policy = replace(settings.column_policy, secret=hash_secret(name))
    _ = policy.secret_id  # raises without a secret, before anything is read
    return replace(settings, column_policy=policy)


@lru_cache(maxsize=1)
def _stored_secret(name: str) -> str:
    """Read once per process: a secret with another value needs a reload of the tables."""
    secrets: Any = client("secretsmanager")
    with translated_errors(_REMEDIES, secret=name):
        return str(secrets.get_secret_value(SecretId=name).get("SecretString", ""))
