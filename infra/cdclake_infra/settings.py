"""The settings of a deployment, read from the CDK's context.

A setting is the context key `cdclake:<name>`, in cdk.json or as `--context cdclake:<name>=<value>`. `settings_file.py`
reads more of them from a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import ConfigurationError
from cdclake_infra.tags import Tag, read_tags
from cdclake_infra.wheels import GLUE_VERSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTEXT_PREFIX = "cdclake:"
WORKER_TYPES = ("G.1X", "G.2X", "G.4X", "G.8X", "G.12X", "G.16X", "R.1X", "R.2X", "R.4X", "R.8X")
"""https://docs.aws.amazon.com/glue/latest/dg/worker-types.html"""

ON_SPARK, ON_LAMBDA = "spark", "lambda"
"""Where a change that a raw file starts is computed if it is small."""
MOST_TIMEOUT_MINUTES = 7 * 24 * 60
"""https://docs.aws.amazon.com/glue/latest/dg/aws-glue-api-jobs-job.html"""

_NAME_PREFIX = re.compile(r"(?!sthree-|amzn-s3-demo-)(?=.{2,15}$)[a-z][a-z0-9]*(-[a-z0-9]+)*-")
"""A bucket's name with account and region may have 63 characters, and a DMS task's no two hyphens together. S3 keeps
some prefixes for itself: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
"""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_DATABASE = re.compile(r"[a-z0-9_-]{1,255}")
"""Names that Athena accepts, without characters that have a meaning in policies or in `<database>.<table>`."""
_PREFIX = re.compile(r"[A-Za-z0-9!_.'()/=-]*")
"""No `*`, `?` or `$`: a prefix becomes part of patterns in policies, where they have a meaning."""
_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
_TASK = re.compile(r"arn:aws[a-z-]*:dms:[a-z0-9-]+:\d{12}:task:[A-Za-z0-9-]+")
_VPC, _SUBNET = re.compile(r"vpc-[0-9a-f]{8,17}"), re.compile(r"subnet-[0-9a-f]{8,17}")
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+([a-z]|-[a-z0-9-]+)")
_SCHEDULE = re.compile(r"cron\(\S+( \S+){5}\)")
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~/-]*)?")
"""Nothing in which a password or a token is passed: settings are no place for secrets."""
_SECRET = re.compile(r"[A-Za-z0-9/_+=.@-]{1,256}")
_FLAGS = {"true": True, "false": False}


class InvalidSettingError(ConfigurationError):
    """A setting has a value that cannot be deployed.

    Args:
        name: The setting.
        value: What it is.
        meaning: What it must be.
    """

    def __init__(self, name: str, value: object, meaning: str) -> None:
        self.key = f"{CONTEXT_PREFIX}{name}"
        super().__init__(f"The setting {self.key} is '{value}'", remedy=f"It must be {meaning}")


@dataclass(frozen=True)
class Settings:
    """The settings with their defaults. A field's name is the name of the context key.

    Attributes:
        name_prefix: What precedes the names of stacks and of all that they create, for several deployments per account.
        tags: Tags of all that is created, by key.
        raw_prefix: Prefix of the schema folders in the raw bucket: the BucketFolder of the DMS endpoint.
        lake_prefix: Prefix of the schema folders in the lake bucket.
        existing_raw_bucket: Existing bucket that DMS writes to; empty: create one.
        existing_lake_bucket: Existing bucket for the lake; empty: create one.
        existing_state_table: Existing state table; empty: create `DMSCDC_Controller`.
        catalog: Whether the Glue Data Catalog contains the lake tables.
        existing_catalog_database: Existing database in the catalog; empty: create `cdclake`.
        kms_key_arn: Existing key that encrypts the objects of the raw and lake buckets; empty: S3's key.
        bootstrap_kms_key_arn: Key of the bucket that the CDK uploads code to; empty: S3's key.
        vpc_id: VPC that the jobs run in; empty: they run in Glue's network.
        subnet_id: Private subnet of the VPC, with access to the AWS APIs.
        availability_zone: Availability zone of the subnet.
        lake_retention_days: How long a created lake bucket keeps replaced and deleted files.
        raw_expiry_days: When a created raw bucket deletes raw files; 0: never.
        delete_data_with_stacks: Whether deleting the storage stack deletes data. Buckets must be empty even then.
        schedule: When the workflow starts the Controller: a Glue cron expression in UTC.
        schedule_enabled: Whether the schedule is active.
        start_by_file: Whether a new raw file starts the processing of its table at once.
        small_changes: Whether small changes run in a Lambda function, or on Spark as all others.
        small_changes_at_once: Concurrency that is reserved for this function; 0: none.
        concurrent_tables: How many tables are processed at the same time.
        glue_version: Glue version of the Spark jobs.
        worker_type: Glue's worker type for the Spark jobs.
        most_workers: The maximum number of workers of a Spark run.
        quick_tasks: Whether Spark's Python workers start tasks faster than PySpark does.
        load_initial_timeout_minutes: When Glue stops a run of LoadInitial.
        load_incremental_timeout_minutes: When Glue stops a run of LoadIncremental.
        table_metrics: Whether to publish metrics per table in addition to those over all tables.
        lineage_url: Where runs send OpenLineage events; empty: they only log them.
        hash_secret: Name of the secret in AWS Secrets Manager that hashes columns, as text; empty: no column is hashed.
        lag_alarm_minutes: How long a raw file may wait before an alarm; 0: no alarm.
        silence_alarm_hours: How long the Controller may be silent before an alarm; 0: no alarm.
        dms_task: ARN of the DMS task that new tables get as `DmsTask`; empty: the sample database's task, if any.
        sample_database: Whether to deploy a sample database and its replication with DMS.
        sample_certificate: Path of a PEM file with RDS's certificates of the region, for DMS to verify the database.
        create_dms_roles: Whether the sample stack creates the two roles that DMS looks up by name, once per account.
    """

    name_prefix: str = ""
    tags: tuple[Tag, ...] = ()
    raw_prefix: str = ""
    lake_prefix: str = ""
    existing_raw_bucket: str = ""
    existing_lake_bucket: str = ""
    existing_state_table: str = ""
    catalog: bool = True
    existing_catalog_database: str = ""
    kms_key_arn: str = ""
    bootstrap_kms_key_arn: str = ""
    vpc_id: str = ""
    subnet_id: str = ""
    availability_zone: str = ""
    lake_retention_days: int = 30
    raw_expiry_days: int = 0
    delete_data_with_stacks: bool = False
    schedule: str = "cron(0 * * * ? *)"
    schedule_enabled: bool = True
    start_by_file: bool = True
    small_changes: str = ON_SPARK
    small_changes_at_once: int = 10
    concurrent_tables: int = 50
    glue_version: str = "6.0"
    worker_type: str = "G.1X"
    most_workers: int = 10
    quick_tasks: bool = True
    load_initial_timeout_minutes: int = 480
    load_incremental_timeout_minutes: int = 120
    table_metrics: bool = True
    lineage_url: str = ""
    hash_secret: str = ""
    lag_alarm_minutes: int = 180
    silence_alarm_hours: int = 3
    dms_task: str = ""
    sample_database: bool = False
    sample_certificate: str = ""
    create_dms_roles: bool = True

    def __post_init__(self) -> None:
        """Reject values that cannot be deployed.

        Raises:
            ConfigurationError: A value is invalid; the message contains the setting and its valid values.
        """
        meaning = "at most 15 of a-z, 0-9 and single hyphens, a letter first and a hyphen last, such as staging-"
        self._require("name_prefix", _NAME_PREFIX, meaning, may_be_empty=True)
        for name in ("raw_prefix", "lake_prefix"):
            self._require(name, _PREFIX, "letters, digits, / and !_.'()=-")
            object.__setattr__(self, name, folder_prefix(getattr(self, name)))
        for name in ("existing_raw_bucket", "existing_lake_bucket"):
            self._require(name, _BUCKET, "the name of a bucket, without s3://", may_be_empty=True)
        self._require("existing_state_table", _TABLE, "the name of a DynamoDB table", may_be_empty=True)
        self._require("existing_catalog_database", _DATABASE, "1 to 255 of a-z, 0-9, _ and -", may_be_empty=True)
        for name in ("kms_key_arn", "bootstrap_kms_key_arn"):
            self._require(name, _KEY, "the ARN of a key, not of an alias", may_be_empty=True)
        self._require("dms_task", _TASK, "the ARN of a DMS task", may_be_empty=True)
        self._require("lineage_url", _URL, "an http or https URL without user, query and fragment", may_be_empty=True)
        meaning = "the name of a secret in AWS Secrets Manager, not its ARN or value"
        self._require("hash_secret", _SECRET, meaning, may_be_empty=True)
        network = {"vpc_id": _VPC, "subnet_id": _SUBNET, "availability_zone": _ZONE}
        for name, pattern in network.items():
            meaning = f"set together with the others of {', '.join(network)}: vpc-..., subnet-..., eu-central-1a"
            self._require(name, pattern, meaning, may_be_empty=not any(getattr(self, other) for other in network))
        self._require("schedule", _SCHEDULE, "a Glue schedule with six fields, such as cron(0 * * * ? *)")
        if self.glue_version.isdecimal():  # JSON has no 6.0
            object.__setattr__(self, "glue_version", f"{self.glue_version}.0")
        choices = {
            "small_changes": (ON_SPARK, ON_LAMBDA),
            "worker_type": WORKER_TYPES,
            "glue_version": tuple(GLUE_VERSIONS),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise InvalidSettingError(name, getattr(self, name), f"one of {', '.join(known)}")
        if self.small_changes_on_lambda and not self.start_by_file:
            meaning = f"{ON_SPARK} while start_by_file is false, because only events of raw files start the function"
            raise InvalidSettingError("small_changes", self.small_changes, meaning)
        self._require_between("small_changes_at_once", 0, 1000)
        self._require_between("lake_retention_days", 1, 36500)
        self._require_between("raw_expiry_days", 0, 36500)
        self._require_between("concurrent_tables", 1, 1000)
        self._require_between("most_workers", 2, 299)  # Glue: a driver and at least one worker
        self._require_between("load_initial_timeout_minutes", 1, MOST_TIMEOUT_MINUTES)
        self._require_between("load_incremental_timeout_minutes", 1, MOST_TIMEOUT_MINUTES)
        if self.sample_database and not _is_pem(self.sample_certificate):
            meaning = "the path of a PEM file with RDS's certificates, see docs/deploy.md"
            raise InvalidSettingError("sample_certificate", self.sample_certificate, meaning)
        self._require_between("lag_alarm_minutes", 0, 10080)
        self._require_between("silence_alarm_hours", 0, 24)  # CloudWatch: alarms evaluate at most one day
        if self.existing_raw_bucket and self.existing_raw_bucket == self.existing_lake_bucket:
            raise InvalidSettingError(
                "existing_lake_bucket", self.existing_lake_bucket, "another bucket than the raw bucket"
            )

    @classmethod
    def from_context(cls, context: Mapping[str, object]) -> Settings:
        """Read the settings; context keys that do not start with `cdclake:` are ignored.

        Args:
            context: The whole context. Values from the command line are text; values from cdk.json may be typed.

        Raises:
            ConfigurationError: A setting is unknown, or its value is invalid.
        """
        kinds = {field.name: type(field.default) for field in fields(cls)}
        own = {key[len(CONTEXT_PREFIX) :]: value for key, value in context.items() if key.startswith(CONTEXT_PREFIX)}
        for name in own:
            if name not in kinds:
                near = get_close_matches(name, kinds, n=1) or sorted(kinds)
                message = f"There is no setting {CONTEXT_PREFIX}{name}"
                raise ConfigurationError(message, remedy=f"Did you mean {', '.join(near)}?")
        values: dict[str, Any] = {name: _read(name, value, kinds[name]) for name, value in own.items()}
        return cls(**values)

    @property
    def creates_storage(self) -> bool:
        """Whether the storage stack has anything to create."""
        existing = [self.existing_raw_bucket, self.existing_lake_bucket, self.existing_state_table]
        if self.catalog:
            existing.append(self.existing_catalog_database)
        return not all(existing)

    @property
    def small_changes_on_lambda(self) -> bool:
        """Whether the function of small changes is deployed."""
        return self.small_changes == ON_LAMBDA

    def _require(self, name: str, pattern: re.Pattern[str], meaning: str, *, may_be_empty: bool = False) -> None:
        value = getattr(self, name)
        if not (pattern.fullmatch(value) or (may_be_empty and not value)):
            raise InvalidSettingError(name, value, meaning)

    def _require_between(self, name: str, minimum: int, maximum: int) -> None:
        if not minimum <= getattr(self, name) <= maximum:
            raise InvalidSettingError(name, getattr(self, name), f"a number from {minimum} to {maximum}")


def _is_pem(path: str) -> bool:
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    return content.isascii() and b"-----BEGIN CERTIFICATE-----" in content and b"PRIVATE KEY" not in content


def _read(name: str, value: object, kind: type) -> str | int | bool | tuple[Tag, ...]:
    if kind is tuple:
        try:
            return read_tags(value)
        except ValueError as error:
            raise InvalidSettingError(name, value, str(error)) from error
    if isinstance(value, (dict, list)):
        raise InvalidSettingError(name, value, "one value")
    text = str(value).strip()
    if kind is bool:
        if text.lower() not in _FLAGS:
            raise InvalidSettingError(name, value, "true or false")
        return _FLAGS[text.lower()]
    if kind is int:
        if not re.fullmatch(r"\d+", text):
            raise InvalidSettingError(name, value, "a whole number")
        return int(text)
    return text
