"""Where the raw files, the lake and the state are that a person works with; finds tables there by their names."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from cdclake.control.jobs.arguments import folder_prefix
from cdclake.errors import UnknownTableError
from cdclake.model.layout import LakeLayout
from cdclake.model.names import STATE_TABLE
from cdclake.model.table import TableName, TableState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.ports import StateStore


@dataclass(frozen=True)
class Installation:
    """The buckets and the state table.

    Attributes:
        raw_bucket: Bucket that DMS writes to.
        raw_prefix: Folder of the schemas in it.
        lake_bucket: Bucket of the lake.
        lake_prefix: Folder of the lake in it.
        state_table: DynamoDB table of the state.
    """

    raw_bucket: str = "cdclake-raw"
    raw_prefix: str = ""
    lake_bucket: str = "cdclake-lake"
    lake_prefix: str = ""
    state_table: str = STATE_TABLE

    @classmethod
    def of(cls, environment: Mapping[str, str], **given: str | None) -> Installation:
        """What was given, else what the environment says, else the defaults.

        Args:
            environment: Variables as `variable` names them.
            given: Fields of this class; None counts as not given.
        """
        named = {field.name: environment.get(variable(field.name)) for field in fields(cls)}
        named.update({name: value for name, value in given.items() if value is not None})
        return cls(**{name: value for name, value in named.items() if value is not None})

    @property
    def raw_folder(self) -> str:
        """Key prefix of the schemas' folders in the raw bucket: empty, or with a trailing slash."""
        return folder_prefix(self.raw_prefix)

    @property
    def state_prefix(self) -> str:
        """What the paths of the tables begin with in the state table."""
        return f"{self.raw_bucket}/{self.raw_folder}"

    def layout(self, name: TableName) -> LakeLayout:
        """Where a table lies in the lake."""
        return LakeLayout(self.lake_bucket, folder_prefix(self.lake_prefix), name)

    def new_state(self, name: TableName) -> TableState:
        """How a table is registered before anybody has set anything."""
        return TableState.new(self.raw_bucket, f"{self.raw_folder}{name.schema}/", f"{name.table}/")

    def find_table(self, states: StateStore, name: TableName) -> TableState:
        """The state of a table.

        Raises:
            UnknownTableError: The Controller has not registered it.
        """
        path = self.new_state(name).path
        found = states.get(path)
        if found is None:
            remedy = "cdclake tables shows the registered ones; cdclake run registers what it finds in the raw bucket"
            raise UnknownTableError("The table is not registered", remedy=remedy, table=name, path=path)
        return found


def variable(name: str) -> str:
    """The environment variable that a field of `Installation` is read from.

    Example:
        >>> variable("lake_bucket")
        'CDCLAKE_LAKE_BUCKET'
    """
    return f"CDCLAKE_{name.upper()}"
