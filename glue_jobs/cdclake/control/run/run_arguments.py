"""Reads the arguments of a run: of ProcessTable, and of a Spark job that ProcessTable started."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.arguments import folder_prefix, parse_arguments, parse_item, parse_paths
from cdclake.control.run.bring_up_to_date import DEFAULT_TIMEOUT_SECONDS
from cdclake.errors import ConfigurationError
from cdclake.model.names import STATE_TABLE, Argument, Sentinel
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS = 60
PASSED_ON = (
    Argument.OUT_BUCKET,
    Argument.OUT_PREFIX,
    Argument.STATE_TABLE,
    Argument.TABLE_METRICS,
    Argument.CATALOG_DATABASE,
    Argument.NAME_PREFIX,
    Argument.LINEAGE_URL,
    Argument.HASH_SECRET,
)
"""What ProcessTable passes on to a Spark run, as it is. A function has them as environment variables, in capitals."""


class RunArguments(NamedTuple):
    """The arguments of a run.

    Attributes:
        paths: Keys of the tables' items, each once.
        out_bucket: Lake bucket.
        out_prefix: Lake prefix, empty or with a trailing slash.
        state_table: Name of the state table.
        table_metrics: The value of the argument of that name.
        catalog_database: Catalog database for the lake tables; empty for none.
        name_prefix: Prefix of the names of jobs and metrics.
        lineage_url: Where to send OpenLineage events; empty for nowhere.
        hash_secret: Name of the secret of hashed columns; empty for none.
        lease_holder: The run that hands its leases over; empty if none does.
        timeout_seconds: The run's time.
    """

    paths: Sequence[str]
    out_bucket: str
    out_prefix: str
    state_table: str
    table_metrics: str
    catalog_database: str
    name_prefix: str
    lineage_url: str
    hash_secret: str
    lease_holder: str
    timeout_seconds: int

    @classmethod
    def parse(cls, argv: Sequence[str]) -> RunArguments:
        """Read the command line: `paths` names several tables; without it, `item` is the item of a single table.

        Raises:
            ConfigurationError: An argument is missing or invalid; names it.
        """
        may_be_empty = (
            Argument.OUT_PREFIX,
            Argument.CATALOG_DATABASE,
            Argument.NAME_PREFIX,
            Argument.LINEAGE_URL,
            Argument.HASH_SECRET,
        )
        optional = {
            **dict.fromkeys((*may_be_empty, Argument.PATHS, Argument.LEASE_HOLDER), ""),
            Argument.STATE_TABLE: STATE_TABLE,
            Argument.TABLE_METRICS: Sentinel.ACTIVE,
            Argument.TIMEOUT_MINUTES: str(round(DEFAULT_TIMEOUT_SECONDS / _SECONDS)),
        }
        values = parse_arguments(argv, [Argument.OUT_BUCKET], optional, may_be_empty)
        if values[Argument.PATHS]:
            paths = parse_paths(values[Argument.PATHS])
        else:
            paths = [parse_item(parse_arguments(argv, [Argument.ITEM])[Argument.ITEM])[Attribute.PATH]]
        minutes = values[Argument.TIMEOUT_MINUTES]
        if not minutes.isdigit() or int(minutes) == 0:
            message = f"The argument --{Argument.TIMEOUT_MINUTES} is '{minutes}'"
            raise ConfigurationError(message, remedy="Pass a whole number of minutes, 1 or more")
        values[Argument.OUT_PREFIX] = folder_prefix(values[Argument.OUT_PREFIX])
        values[Argument.CATALOG_DATABASE] = values[Argument.CATALOG_DATABASE].strip()
        same = {name: values[name] for name in (*PASSED_ON, Argument.LEASE_HOLDER)}
        return cls(paths=paths, timeout_seconds=int(minutes) * _SECONDS, **same)

    def passed_on(self) -> dict[str, str]:
        """The arguments that ProcessTable passes on to a Spark run, by name without dashes."""
        return {name: value for name in PASSED_ON if (value := getattr(self, name))}
