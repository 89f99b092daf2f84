"""Locations of the raw files, the lake and the state table; finds tables there by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import UnknownTableError, similar_names
from cdclake.model.layout import LakeLayout
from cdclake.model.names import STATE_TABLE
from cdclake.model.table.state import TableState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.table.name import TableName
    from cdclake.ports import StateStore


@dataclass(frozen=True)
class Installation:
    """The buckets and the state table.

    Attributes:
        raw_bucket: Bucket that DMS writes to.
        raw_prefix: Folder of the schemas in that bucket.
        lake_bucket: Bucket of the lake.
        lake_prefix: Folder of the lake in that bucket.
        state_table: DynamoDB table with the state of the tables.
    """

    raw_bucket: str = "cdclake-raw"
    raw_prefix: str = ""
    lake_bucket: str = "cdclake-lake"
    lake_prefix: str = ""
    state_table: str = STATE_TABLE

    @classmethod
    def of(cls, environment: Mapping[str, str], **options: str | None) -> Installation:
        """Resolve each field from the options, else from the environment, else from its default.

        Args:
            environment: Environment variables, named by `variable`.
            options: Values by field name; None means not set.
        """
        values = {field.name: environment.get(variable(field.name)) for field in fields(cls)}
        values.update({name: value for name, value in options.items() if value is not None})
        return cls(**{name: value for name, value in values.items() if value is not None})

    @property
    def raw_folder(self) -> str:
        """Key prefix of the schemas' folders in the raw bucket: empty, or with a trailing slash."""
        return folder_prefix(self.raw_prefix)

    @property
    def state_prefix(self) -> str:
        """Prefix of the tables' paths in the state table."""
        return f"{self.raw_bucket}/{self.raw_folder}"

    def layout(self, name: TableName) -> LakeLayout:
        """Location of a table in the lake."""
        return LakeLayout(self.lake_bucket, folder_prefix(self.lake_prefix), name)

    def new_state(self, name: TableName) -> TableState:
        """The state of a newly registered table."""
        return TableState.new(self.raw_bucket, f"{self.raw_folder}{name.schema}/", f"{name.table}/")

    def find_table(self, states: StateStore, name: TableName) -> TableState:
        """Read the state of a table.

        Raises:
            UnknownTableError: The Controller has not registered it.
        """
        path = self.new_state(name).path
        state = states.get(path)
        if state is None:
            similar = similar_names(str(name), (str(one.name) for one in states.all(self.state_prefix)))
            remedy = f"{similar}cdclake tables lists the tables; cdclake run registers new tables of the raw bucket"
            raise UnknownTableError("The table is not registered", remedy=remedy, table=name, path=path)
        return state


def variable(name: str) -> str:
    """Name of the environment variable for a field of `Installation`.

    Example:
        >>> variable("lake_bucket")
        'CDCLAKE_LAKE_BUCKET'
    """
    return f"CDCLAKE_{name.upper()}"
