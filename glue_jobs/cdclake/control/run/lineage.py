"""Tells lineage tools which raw files became which version of a lake table, as OpenLineage events. Pure.

The events follow https://openlineage.io/spec/2-0-2/OpenLineage.json and the facets below https://openlineage.io/spec/facets,
and name datasets as https://openlineage.io/docs/spec/naming asks: the bucket is the namespace, the folder the name.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from cdclake import __version__
from cdclake.model.change.record import ChangeKind
from cdclake.model.raw.files import TRANSACTIONS_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdclake.model.change.record import ChangeRecord
    from cdclake.model.layout import LakeLayout
    from cdclake.model.snapshot import Snapshot
    from cdclake.model.table.state import TableState

Event = dict[str, Any]
"""JSON data of one event."""

MAX_LOCATIONS = 1_000
"""An event names the raw files of a change up to this number, so that it stays below 256 KB, the largest line of a log
in CloudWatch. The change record names all of them."""
_PRODUCER = f"urn:cdclake:{__version__}"
_EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"
_FACETS = "https://openlineage.io/spec/facets/"


def lineage_events(record: ChangeRecord, snapshot: Snapshot, layout: LakeLayout, state: TableState) -> list[Event]:
    """The start and the end of the run that made a change; none for a takeover, which changes no rows.

    A repeated call returns equal events, also the run's id, so that they may be sent again.

    Args:
        record: The change.
        snapshot: The table after it.
        state: The table's item; its raw folder is the input of a change that read raw files.
    """
    if record.kind is ChangeKind.TAKEOVER:
        return []
    ended = datetime.fromisoformat(record.created_utc)
    began = ended - timedelta(seconds=sum(record.seconds.values()))
    table = f"s3://{layout.bucket}/{layout.table_prefix}"
    event: Event = {
        "producer": _PRODUCER,
        "schemaURL": f"{_EVENT}RunEvent",
        "run": {
            "runId": str(uuid5(NAMESPACE_URL, f"{table}#{record.change}@{record.created_utc}")),
            "facets": {
                "cdclake_change": {
                    **_facet(f"{_EVENT}RunFacet"),
                    "change": record.change,
                    "kind": record.kind.value,
                    "shows": record.content_change,
                    "jobRun": record.run_id,
                }
            },
        },
        "job": {"namespace": f"s3://{layout.bucket}", "name": f"cdclake.{layout.name}"},
    }
    return [
        {**event, "eventType": "START", "eventTime": began.isoformat(), "inputs": [], "outputs": []},
        {
            **event,
            "eventType": "COMPLETE",
            "eventTime": ended.isoformat(),
            "inputs": _inputs(record, state),
            "outputs": [_output(record, snapshot, layout)],
        },
    ]


def _facet(schema_url: str) -> Event:
    return {"_producer": _PRODUCER, "_schemaURL": schema_url}


def _facet_of(name: str, version: str) -> Event:
    return _facet(f"{_FACETS}{version}/{name}.json#/$defs/{name}")


def _inputs(record: ChangeRecord, state: TableState) -> list[Event]:
    """The raw folder, if the change applied raw files: a direct change has rows, and an erasure removes them."""
    files = [file for file in record.raw_files if file.rows is not None]
    if not files or record.kind is ChangeKind.DIRECT:
        return []
    facets: Event = {
        "inputStatistics": {
            **_facet_of("InputStatisticsInputDatasetFacet", "1-0-0"),
            "rowCount": record.books.read,
            "fileCount": len(files),
        }
    }
    if len(files) <= MAX_LOCATIONS:
        schema_url = f"{_FACETS}1-0-0/BaseSubsetDatasetFacet.json#/$defs/InputSubsetInputDatasetFacet"
        locations = [f"s3://{state.bucket}/{_key(state, file.relative)}" for file in files]
        condition = {"type": "location", "locations": locations}
        facets["subset"] = {**_facet(schema_url), "inputCondition": condition}
    return [{**_dataset(state.bucket, state.raw_prefix), "inputFacets": facets}]


def _key(state: TableState, relative: str) -> str:
    folder = state.transactions_folder if relative.startswith(TRANSACTIONS_NAME) else ""
    return (folder or state.raw_prefix) + relative


def _output(record: ChangeRecord, snapshot: Snapshot, layout: LakeLayout) -> Event:
    books = record.books
    fields = [{"name": column.name, "type": column.type} for column in snapshot.schema]
    return {
        **_dataset(layout.bucket, layout.table_prefix),
        "facets": {
            "schema": {**_facet_of("SchemaDatasetFacet", "1-2-0"), "fields": fields},
            "version": {**_facet_of("DatasetVersionDatasetFacet", "1-0-1"), "datasetVersion": str(record.change)},
        },
        "outputFacets": {
            "outputStatistics": {
                **_facet_of("OutputStatisticsOutputDatasetFacet", "1-0-2"),
                "rowCount": books.inserted + books.updated,
                "size": record.bytes_added,
                "fileCount": len(record.added),
            }
        },
    }


def _dataset(bucket: str, prefix: str) -> Mapping[str, str]:
    return {"namespace": f"s3://{bucket}", "name": prefix.rstrip("/")}
