"""Reads ProcessTable's command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.control.jobs.arguments import folder_prefix, parse_arguments, parse_item, parse_paths
from cdclake.control.run.process_table import DEFAULT_TIMEOUT_SECONDS
from cdclake.errors import ConfigurationError
from cdclake.model.names import STATE_TABLE, Argument, Attribute, Sentinel

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS = 60


class ProcessTableArguments(NamedTuple):
    """What a run is asked for.

    Attributes:
        paths: Keys of the tables' items, each once.
        out_bucket: Lake bucket.
        out_prefix: Lake prefix, empty or with a trailing slash.
        state_table: Name of the state table.
        table_metrics: As the argument of that name says.
        timeout_seconds: The run's own time.
        catalog_database: Database of the catalog that shows the lake tables; empty: none does.
    """

    paths: Sequence[str]
    out_bucket: str
    out_prefix: str
    state_table: str
    table_metrics: str
    timeout_seconds: int
    catalog_database: str


def what_to_process(argv: Sequence[str]) -> ProcessTableArguments:
    """Read the arguments: `paths` names several tables; without it, `item` is that of a single one.

    Raises:
        ConfigurationError: An argument is missing or wrong; names it.
    """
    optional = {
        Argument.PATHS: "",
        Argument.OUT_PREFIX: "",
        Argument.STATE_TABLE: STATE_TABLE,
        Argument.TABLE_METRICS: Sentinel.ACTIVE,
        Argument.CATALOG_DATABASE: "",
        Argument.TIMEOUT_MINUTES: str(DEFAULT_TIMEOUT_SECONDS // _SECONDS),
    }
    may_be_empty = [Argument.OUT_PREFIX, Argument.CATALOG_DATABASE]
    given = parse_arguments(argv, [Argument.OUT_BUCKET], optional, may_be_empty)
    if given[Argument.PATHS]:
        paths = parse_paths(given[Argument.PATHS])
    else:
        paths = [parse_item(parse_arguments(argv, [Argument.ITEM])[Argument.ITEM])[Attribute.PATH]]
    minutes = given[Argument.TIMEOUT_MINUTES]
    if not minutes.isdigit() or int(minutes) == 0:
        message = f"The argument --{Argument.TIMEOUT_MINUTES} is '{minutes}'"
        raise ConfigurationError(message, remedy="Pass a whole number of minutes, 1 or more")
    return ProcessTableArguments(
        paths=paths,
        out_bucket=given[Argument.OUT_BUCKET],
        out_prefix=folder_prefix(given[Argument.OUT_PREFIX]),
        state_table=given[Argument.STATE_TABLE],
        table_metrics=given[Argument.TABLE_METRICS],
        timeout_seconds=int(minutes) * _SECONDS,
        catalog_database=given[Argument.CATALOG_DATABASE].strip(),
    )
