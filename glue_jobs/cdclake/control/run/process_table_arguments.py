"""Reads the arguments of the ProcessTable job."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.arguments import folder_prefix, parse_arguments, parse_item, parse_paths
from cdclake.control.run.process_table import DEFAULT_TIMEOUT_SECONDS
from cdclake.errors import ConfigurationError
from cdclake.model.names import STATE_TABLE, Argument, Sentinel
from cdclake.model.table.attributes import Attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS = 60


class ProcessTableArguments(NamedTuple):
    """The arguments of a run.

    Attributes:
        paths: Keys of the tables' items, each once.
        out_bucket: Lake bucket.
        out_prefix: Lake prefix, empty or with a trailing slash.
        state_table: Name of the state table.
        table_metrics: The value of the argument of that name.
        timeout_seconds: The run's time.
        catalog_database: Catalog database for the lake tables; empty for none.
        name_prefix: Prefix of the names of jobs and metrics.
        lineage_url: Where to send OpenLineage events; empty for nowhere.
    """

    paths: Sequence[str]
    out_bucket: str
    out_prefix: str
    state_table: str
    table_metrics: str
    timeout_seconds: int
    catalog_database: str
    name_prefix: str
    lineage_url: str

    @classmethod
    def parse(cls, argv: Sequence[str]) -> ProcessTableArguments:
        """Read the command line: `paths` names several tables; without it, `item` is the item of a single table.

        Raises:
            ConfigurationError: An argument is missing or invalid; names it.
        """
        optional = {
            Argument.PATHS: "",
            Argument.OUT_PREFIX: "",
            Argument.STATE_TABLE: STATE_TABLE,
            Argument.TABLE_METRICS: Sentinel.ACTIVE,
            Argument.CATALOG_DATABASE: "",
            Argument.NAME_PREFIX: "",
            Argument.LINEAGE_URL: "",
            Argument.TIMEOUT_MINUTES: str(DEFAULT_TIMEOUT_SECONDS // _SECONDS),
        }
        may_be_empty = [Argument.OUT_PREFIX, Argument.CATALOG_DATABASE, Argument.NAME_PREFIX, Argument.LINEAGE_URL]
        values = parse_arguments(argv, [Argument.OUT_BUCKET], optional, may_be_empty)
        if values[Argument.PATHS]:
            paths = parse_paths(values[Argument.PATHS])
        else:
            paths = [parse_item(parse_arguments(argv, [Argument.ITEM])[Argument.ITEM])[Attribute.PATH]]
        minutes = values[Argument.TIMEOUT_MINUTES]
        if not minutes.isdigit() or int(minutes) == 0:
            message = f"The argument --{Argument.TIMEOUT_MINUTES} is '{minutes}'"
            raise ConfigurationError(message, remedy="Pass a whole number of minutes, 1 or more")
        return cls(
            paths=paths,
            out_bucket=values[Argument.OUT_BUCKET],
            out_prefix=folder_prefix(values[Argument.OUT_PREFIX]),
            state_table=values[Argument.STATE_TABLE],
            table_metrics=values[Argument.TABLE_METRICS],
            timeout_seconds=int(minutes) * _SECONDS,
            catalog_database=values[Argument.CATALOG_DATABASE].strip(),
            name_prefix=values[Argument.NAME_PREFIX],
            lineage_url=values[Argument.LINEAGE_URL],
        )
