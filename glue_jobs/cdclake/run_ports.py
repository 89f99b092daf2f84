"""Connects a run to AWS: its state table, jobs, buckets, metrics and catalog, and the secret of hashed columns."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cdclake.adapters.aws import Remedies, client, server_clock, translated_errors
from cdclake.adapters.catalog import open_catalog
from cdclake.adapters.cloudwatch import cloudwatch_metrics
from cdclake.adapters.dms import DmsStatistics
from cdclake.adapters.dynamodb import DynamoState
from cdclake.adapters.glue import GlueJobs
from cdclake.adapters.lineage import open_lineage
from cdclake.adapters.stores import open_store
from cdclake.errors import ConfigurationError
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.table.column_policy import MIN_SECRET_BYTES
from cdclake.ports import Ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.control.run.run_arguments import RunArguments
    from cdclake.model.table.settings import TableSettings
    from cdclake.ports import MetricSink

_REMEDIES = Remedies(
    missing="Create the secret, or correct the setting hash_secret and deploy again",
    denied="Create the secret, as AWS denies one that does not exist, or deploy again with its name as hash_secret",
)


def open_ports(arguments: RunArguments, open_metrics: Callable[[str, str], MetricSink] = cloudwatch_metrics) -> Ports:
    """What a run works with, by its arguments.

    Args:
        open_metrics: Returns what accepts metrics, for the arguments `table_metrics` and `name_prefix`.
    """
    return Ports(
        states=DynamoState(client("dynamodb"), arguments.state_table),
        jobs=GlueJobs(client("glue"), arguments.name_prefix),
        open_bucket=open_store,
        clock=server_clock,
        metrics=open_metrics(arguments.table_metrics, arguments.name_prefix),
        statistics=DmsStatistics(lambda: client("dms")),
        catalog=open_catalog(arguments.catalog_database),
        lineage=open_lineage(arguments.lineage_url),
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
