"""The figures of a lake table, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdclake.model.retained import Retained
    from cdclake.model.snapshot import Snapshot


def lake_facts(lake: Snapshot, retained: Retained | None) -> dict[str, Any]:
    """Figures of a lake table.

    Args:
        lake: The table after its newest change.
        retained: The changes to roll back to; None if there is no change.
    """
    history = lake.history.files if lake.history else ()
    return {
        "change": lake.change,
        "rows": lake.rows,
        "deleted_rows": lake.deleted_rows,
        "files": len(lake.files),
        "bytes": sum(file.bytes for file in lake.files),
        "partitions": len({file.partition for file in lake.files}),
        "remembered_deletes": sum(file.rows for file in lake.tombstones),
        "history_versions": sum(file.rows for file in history),
        "history_files": len(history),
        "history_bytes": sum(file.bytes for file in history),
        "watermark": lake.watermark,
        "first_retained": retained and retained.first,
        "all_retained_from": retained and retained.through + 1,
        "retained_before": list(retained.kept) if retained else [],
        "columns": [{"name": column.name, "type": column.type} for column in lake.schema],
    }
