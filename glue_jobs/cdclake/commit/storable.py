"""Refuses a change whose data files would have keys that the store cannot hold, because of their partition values.

Such a change could be committed, but neither published nor retired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from cdclake.errors import InputError
from cdclake.model.layout import HISTORY
from cdclake.model.partition_folder import parse_partition_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cdclake.model.change.record import StagedFile
    from cdclake.model.layout import LakeLayout
    from cdclake.ports import ObjectStore

SourceRow = Callable[[str], "Mapping[str, object]"]
"""From a staged key to the `file` and `row` of one of its rows, as details of an error; empty if unknown."""


def require_storable(
    store: ObjectStore, layout: LakeLayout, added: Iterable[StagedFile], source_row: SourceRow = lambda _: {}
) -> None:
    """Check the key of every new data file, wherever the file may go: published, retired, or copied for reading.

    Args:
        added: The new data files of a change.
        source_row: Tells, for an error, where a row of a staged file is from.

    Raises:
        InputError: The store cannot hold one of them.
    """
    for file in added:
        for key in (layout.data_key(file.path), layout.retired_key(file.path), layout.as_of_key(file.path)):
            fault = store.key_fault(key)
            if fault:
                raise _refusal(layout, file.path, fault, source_row(file.staged_key))


def _refusal(layout: LakeLayout, path: str, fault: str, where: Mapping[str, object]) -> InputError:
    folders = [parse_partition_folder(folder) for folder in path.removeprefix(HISTORY).split("/")[:-1]]
    values = {column: value or "" for column, value in filter(None, folders)}
    column = max(values, key=lambda one: len(values[one].encode()), default=None)
    message = f"A partition value is too long for the name of a data file: {fault}"
    remedy = (
        "Nothing was applied. Choose a PartitionKey with shorter values and reload the table, or correct the value at"
        " the source"
    )
    return InputError(message, remedy=remedy, table=layout.name, **where, column=column)
