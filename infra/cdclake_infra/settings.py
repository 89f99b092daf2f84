"""Everything about a deployment that can be chosen, read from the CDK's context.

A setting is the context key `cdclake:<name>`, in cdk.json or as `--context cdclake:<name>=<value>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTEXT_PREFIX = "cdclake:"
WORKER_TYPES = ("G.1X", "G.2X", "G.4X", "G.8X", "G.12X", "G.16X", "R.1X", "R.2X", "R.4X", "R.8X")
"""https://docs.aws.amazon.com/glue/latest/dg/worker-types.html"""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_DATABASE = re.compile(r"[a-z0-9_-]{1,255}")
"""As Athena takes it. No other character can stand for something else in a policy or in `<database>.<table>`."""
_PREFIX = re.compile(r"[A-Za-z0-9!_.'()/=-]*")
"""No `*`, `?` or `$`: a prefix becomes part of patterns in policies, where these stand for something else."""
_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
_VPC, _SUBNET = re.compile(r"vpc-[0-9a-f]{8,17}"), re.compile(r"subnet-[0-9a-f]{8,17}")
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+([a-z]|-[a-z0-9-]+)")
_SCHEDULE = re.compile(r"cron\(\S+( \S+){5}\)")
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class Settings:
    """The choices, and what is deployed if nothing is chosen.

    Attributes:
        raw_prefix: Prefix of the schemas' folders in the raw bucket: the BucketFolder of the DMS endpoint.
        lake_prefix: Prefix of the schemas' folders in the lake bucket.
        existing_raw_bucket: Bucket that DMS writes to already; empty: one is created.
        existing_lake_bucket: Bucket for the lake that is there already; empty: one is created.
        existing_state_table: State table that is there already; empty: `DMSCDC_Controller` is created.
        catalog: Whether the Glue Data Catalog shows the lake tables.
        existing_catalog_database: Its database that is there already; empty: `cdclake` is created.
        kms_key_arn: Key that encrypts the objects of the raw bucket and of the lake; empty: S3's own. The key is there
            already.
        vpc_id: VPC that the jobs run in; empty: none, they run in Glue's network.
        subnet_id: Private subnet of it, with a way out to AWS's APIs and to PyPI.
        availability_zone: Where that subnet is.
        lake_retention_days: How long a lake bucket that is created keeps what a change replaced or deleted.
        raw_expiry_days: After how long a raw bucket that is created deletes raw files; 0: never.
        delete_data_with_stacks: Whether data goes when the storage stack is deleted. A bucket must be empty even then.
        schedule: When the workflow starts the Controller, as Glue writes it, in UTC.
        schedule_enabled: Whether the workflow starts by itself.
        start_by_file: Whether a new raw file starts the work for its table at once.
        concurrent_tables: How many tables are worked on at a time.
        worker_type: Glue's worker type for the Spark jobs.
        most_workers: Up to how many workers a run of a Spark job grows.
        load_initial_timeout_minutes: After how long Glue stops a full load.
        load_incremental_timeout_minutes: After how long Glue stops an incremental load.
        table_metrics: Whether there are metrics of each table beside those of all.
        lag_alarm_minutes: After how long a raw file that waits raises an alarm; 0: never.
        silence_alarm_hours: After how long without a Controller run there is an alarm; 0: never.
        sample_database: Whether there is a sample database, too, with its replication by DMS.
        create_dms_roles: Whether that stack makes the two roles that DMS takes by their names, one each for an account.
    """

    raw_prefix: str = ""
    lake_prefix: str = ""
    existing_raw_bucket: str = ""
    existing_lake_bucket: str = ""
    existing_state_table: str = ""
    catalog: bool = True
    existing_catalog_database: str = ""
    kms_key_arn: str = ""
    vpc_id: str = ""
    subnet_id: str = ""
    availability_zone: str = ""
    lake_retention_days: int = 30
    raw_expiry_days: int = 0
    delete_data_with_stacks: bool = False
    schedule: str = "cron(0 * * * ? *)"
    schedule_enabled: bool = True
    start_by_file: bool = True
    concurrent_tables: int = 50
    worker_type: str = "G.1X"
    most_workers: int = 10
    load_initial_timeout_minutes: int = 480
    load_incremental_timeout_minutes: int = 120
    table_metrics: bool = True
    lag_alarm_minutes: int = 180
    silence_alarm_hours: int = 3
    sample_database: bool = False
    create_dms_roles: bool = True

    def __post_init__(self) -> None:
        """Refuse values that cannot be deployed.

        Raises:
            ConfigurationError: A value is wrong; says which, and what it may be.
        """
        for name in ("raw_prefix", "lake_prefix"):
            self._require(name, _PREFIX, "letters, digits, / and !_.'()=-")
            object.__setattr__(self, name, folder_prefix(getattr(self, name)))
        for name in ("existing_raw_bucket", "existing_lake_bucket"):
            self._require(name, _BUCKET, "the name of a bucket, without s3://", may_be_empty=True)
        self._require("existing_state_table", _TABLE, "the name of a DynamoDB table", may_be_empty=True)
        self._require("existing_catalog_database", _DATABASE, "1 to 255 of a-z, 0-9, _ and -", may_be_empty=True)
        self._require("kms_key_arn", _KEY, "the ARN of a key, not of an alias", may_be_empty=True)
        network = {"vpc_id": _VPC, "subnet_id": _SUBNET, "availability_zone": _ZONE}
        for name, pattern in network.items():
            wanted = f"given, as {', '.join(network)} go together: vpc-..., subnet-..., and a zone as eu-central-1a"
            self._require(name, pattern, wanted, may_be_empty=not any(getattr(self, other) for other in network))
        self._require("schedule", _SCHEDULE, "a Glue schedule of six fields, as cron(0 * * * ? *)")
        if self.worker_type not in WORKER_TYPES:
            raise _refused("worker_type", self.worker_type, f"one of {', '.join(WORKER_TYPES)}")
        self._require_between("lake_retention_days", 1, 36500)
        self._require_between("raw_expiry_days", 0, 36500)
        self._require_between("concurrent_tables", 1, 1000)
        self._require_between("most_workers", 2, 299)  # Glue: a Spark job has a driver and at least one other worker
        self._require_between("load_initial_timeout_minutes", 1, 10080)  # Glue: seven days
        self._require_between("load_incremental_timeout_minutes", 1, 10080)
        self._require_between("lag_alarm_minutes", 0, 10080)
        self._require_between("silence_alarm_hours", 0, 24)  # CloudWatch: an alarm looks back a day at most
        if self.existing_raw_bucket and self.existing_raw_bucket == self.existing_lake_bucket:
            raise _refused("existing_lake_bucket", self.existing_lake_bucket, "another bucket than the raw bucket")

    @classmethod
    def from_context(cls, context: Mapping[str, object]) -> Settings:
        """Read the settings; keys of the context that do not begin with `cdclake:` are the CDK's.

        Args:
            context: The whole context. Values of the command line are texts, those of cdk.json may be typed.

        Raises:
            ConfigurationError: There is no such setting, or its value is wrong.
        """
        kinds = {field.name: type(field.default) for field in fields(cls)}
        given = {key[len(CONTEXT_PREFIX) :]: value for key, value in context.items() if key.startswith(CONTEXT_PREFIX)}
        for name in given:
            if name not in kinds:
                near = get_close_matches(name, kinds, n=1) or sorted(kinds)
                message = f"There is no setting {CONTEXT_PREFIX}{name}"
                raise ConfigurationError(message, remedy=f"Did you mean {', '.join(near)}?")
        values: dict[str, Any] = {name: _read(name, value, kinds[name]) for name, value in given.items()}
        return cls(**values)

    @property
    def creates_storage(self) -> bool:
        """Whether anything that holds data is not there already."""
        existing = [self.existing_raw_bucket, self.existing_lake_bucket, self.existing_state_table]
        if self.catalog:
            existing.append(self.existing_catalog_database)
        return not all(existing)

    def _require(self, name: str, pattern: re.Pattern[str], meaning: str, *, may_be_empty: bool = False) -> None:
        value = getattr(self, name)
        if not (pattern.fullmatch(value) or (may_be_empty and not value)):
            raise _refused(name, value, meaning)

    def _require_between(self, name: str, least: int, most: int) -> None:
        if not least <= getattr(self, name) <= most:
            raise _refused(name, getattr(self, name), f"a number from {least} to {most}")


def _read(name: str, value: object, kind: type) -> str | int | bool:
    text = str(value).strip()
    if kind is bool:
        if text.lower() not in _FLAGS:
            raise _refused(name, value, "true or false")
        return _FLAGS[text.lower()]
    if kind is int:
        if not re.fullmatch(r"\d+", text):
            raise _refused(name, value, "a whole number")
        return int(text)
    return text


def _refused(name: str, value: object, meaning: str) -> ConfigurationError:
    message = f"The setting {CONTEXT_PREFIX}{name} is '{value}'"
    return ConfigurationError(message, remedy=f"It must be {meaning}: correct it in cdk.json or in --context")
