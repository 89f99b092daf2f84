"""Infers the DMS settings that files were written with. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timezone
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.model.raw.files import RawKind, read_time
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN, UPDATE
from cdclake_cli.dms.attributes import escaped
from cdclake_cli.dms.files import BEFORE_PREFIX
from cdclake_cli.dms.names import date_folder
from cdclake_cli.dms.settings import DateDelimiter, DateSequence, DmsSettings, Encoding
from cdclake_cli.doctor.clocks import name_offsets, seconds_between_files, usual_offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from cdclake.model.raw.files import RawFile
    from cdclake_cli.doctor.evidence import Evidence
    from cdclake_cli.doctor.sampling import FileFacts

_HEADER_PREFIX = "AR_H_"
_MIN_ROWS = 100
_MAJORITY = 0.9
"""A file written at midnight may be in the previous day's folder."""
_SEGMENT = re.compile(r"SEGMENT\d+_LOAD")


class Certainty(str, Enum):
    """How sure an inferred setting is."""

    SURE = "sure"
    """With another value the files would look different."""
    LIKELY = "likely"
    """The files fit this value, but do not prove it."""
    UNSURE = "unsure"
    """The files may have this value or another one."""


SURE, LIKELY, UNSURE = Certainty


@dataclass(frozen=True)
class Inference:
    """An inferred DMS setting.

    Attributes:
        name: DMS's name, as in `cdclake_cli.dms.settings`.
        value: As text.
        certainty: How sure the value is.
        source: The property of the files that it was inferred from.
    """

    name: str
    value: str
    certainty: Certainty
    source: str

    def to_json(self) -> dict[str, object]:
        """The setting as JSON."""
        return {"setting": self.name, "value": self.value, "certainty": self.certainty.value, "told_by": self.source}


def infer_settings(evidence: Evidence) -> list[Inference]:
    """The settings that can be inferred from the files; others are left out."""
    readable = [facts for facts in evidence.files if facts.columns]
    return [
        *_format(evidence),
        *_csv(evidence),
        *_parquet(readable),
        *_columns(evidence, readable),
        *_operations(evidence),
        *_names(evidence),
    ]


def timestamp_column(evidence: Evidence) -> str:
    """Name of the column that `TimestampColumnName` adds; empty if there is none.

    It is the first column after `Op`, and in Parquet the only required one.
    """
    for facts in evidence.files:
        source = [name for name in facts.columns if name != OP_COLUMN]
        required = facts.parquet is None or facts.parquet.required == tuple(source[:1])
        if source and required and evidence.statistics.timestamp_like.get(source[0]):
            return source[0]
    return ""


def clock_offsets(evidence: Evidence, files: Sequence[RawFile]) -> list[tuple[RawFile, timedelta]]:
    """`name_offsets` of change files, with the timestamp column if there is one."""
    return name_offsets(files, evidence.statistics.latest_timestamps.get(timestamp_column(evidence), {}))


def _format(evidence: Evidence) -> Iterator[Inference]:
    formats = {file.format for file in (*evidence.listing.loads, *evidence.listing.sample) if not file.transactions}
    parquet = any(not one.is_text for one in formats)
    if formats:
        yield Inference("DataFormat", "parquet" if parquet else "csv", SURE, "file names")
    codecs = {codec for facts in evidence.files if facts.parquet for codec in facts.parquet.codecs}
    if formats:
        gzip = "GZIP" in codecs or any(one.is_gzip for one in formats)
        source = "Parquet footers" if parquet else "file names"
        yield Inference("CompressionType", "gzip" if gzip else "none", SURE, source)
    if any(file.transactions for file in evidence.listing.sample):
        yield Inference("PreserveTransactions", "true", SURE, "file names")
        yield Inference("CdcPath", evidence.settings.cdc_path, SURE, "the table's CdcPath")


def _csv(evidence: Evidence) -> Iterator[Inference]:
    guess = evidence.csv
    if guess is None:
        return
    if guess.header_unclear:
        yield Inference("AddColumnName", "true or false", UNSURE, "first lines, which may be names or texts")
    else:
        yield Inference("AddColumnName", str(bool(guess.header)).lower(), LIKELY, "first lines")
    if not guess.sure:
        source = "the settings; rows do not show it"
        yield Inference("CsvDelimiter", escaped(guess.dialect.delimiter), UNSURE, source)
        yield Inference("CsvRowDelimiter", escaped(guess.dialect.row_delimiter), UNSURE, source)
    else:
        yield Inference("CsvDelimiter", escaped(guess.dialect.delimiter), SURE, "rows")
        yield Inference("CsvRowDelimiter", escaped(guess.dialect.row_delimiter), LIKELY, "rows")
    if guess.null_text is not None:
        yield Inference("CsvNullValue", guess.null_text, LIKELY, "columns of numbers or times")
    if guess.quoted is not None:
        source = "quotes around fields" if guess.quoted else "rows"
        yield Inference("Rfc4180", str(guess.quoted).lower(), LIKELY, source)


def _parquet(files: Sequence[FileFacts]) -> Iterator[Inference]:
    parquet = [facts.parquet for facts in files if facts.parquet]
    if not parquet:
        return
    source = "Parquet footers"
    version_1 = all(file.version == "1.0" for file in parquet)
    yield Inference("ParquetVersion", "parquet-1-0" if version_1 else "parquet-2-0", SURE, source)
    encodings = {encoding for file in parquet for encoding in file.encodings}
    if not encodings & {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}:
        yield Inference("EncodingType", Encoding.PLAIN.value, SURE, source)
    yield Inference("EnableStatistics", str(any(file.has_statistics for file in parquet)).lower(), SURE, source)
    units = {unit for file in parquet for unit in file.timestamp_units}
    if units:
        yield Inference("ParquetTimestampInMillisecond", str(units == {"ms"}).lower(), SURE, "column types")
    groups = [file.group_rows for file in parquet if len(file.group_rows) > 1]
    if groups:
        yield Inference("RowGroupLength", str(max(max(rows) for rows in groups)), LIKELY, source)


def _columns(evidence: Evidence, files: Sequence[FileFacts]) -> Iterator[Inference]:
    timestamp = timestamp_column(evidence)
    if timestamp:
        yield Inference("TimestampColumnName", timestamp, LIKELY, "the first column contains only times")
    loads = [facts for facts in files if facts.file.kind is RawKind.FULL_LOAD]
    if loads:
        with_op = any(OP_COLUMN in facts.columns for facts in loads)
        yield Inference("IncludeOpForFullLoad", str(with_op).lower(), SURE, "columns of LOAD files")
    names = {column for facts in files for column in facts.columns}
    headers = sorted(name for name in names if name.startswith(_HEADER_PREFIX))
    if headers:
        yield Inference("HeaderColumns", ",".join(headers), SURE, "columns")
    images = {name[len(BEFORE_PREFIX) :] for name in names if name.startswith(BEFORE_PREFIX)}
    if images:
        source = {name for name in names if name != OP_COLUMN and not name.startswith((_HEADER_PREFIX, BEFORE_PREFIX))}
        keys = {key.lower() for key in evidence.settings.primary_key}
        only_keys = {name.lower() for name in images} == keys if keys else len(images) < len(source) // 2
        filter_ = "pk-only" if only_keys else "all" if images >= source - {timestamp} else "non-lob"
        yield Inference("BeforeImages", filter_, LIKELY, "columns")


def _operations(evidence: Evidence) -> Iterator[Inference]:
    changes = [facts for facts in evidence.files if facts.file.kind is RawKind.CHANGE and facts.columns]
    rows = {kind: evidence.statistics.row_counts[kind] for kind in (INSERT, UPDATE, DELETE)}
    if changes and not any(OP_COLUMN in facts.columns for facts in changes):
        text = "true (or CdcInsertsOnly)"
        yield Inference("CdcInsertsAndUpdates", text, LIKELY, "no Op in change files")
    elif sum(rows.values()) >= _MIN_ROWS and not rows[DELETE]:
        setting = "CdcInsertsAndUpdates" if rows[UPDATE] else "CdcInsertsOnly"
        kinds = "I and U" if rows[UPDATE] else "I"
        yield Inference(setting, "true, or none occurred", LIKELY, f"{sum(rows.values()):,} rows, all {kinds}")


def _names(evidence: Evidence) -> Iterator[Inference]:
    changes = [file for file in evidence.listing.timeline if not file.transactions]
    if changes:
        yield from _date_folders(evidence, changes)
    seconds = seconds_between_files(evidence.listing.timeline)
    if seconds is not None:
        yield Inference("CdcMaxBatchInterval", f"about {seconds}", LIKELY, "gaps between file names")
    loads = [file.relative for file in evidence.listing.loads]
    if any("/" in path for path in loads):
        yield Inference("ParallelLoad", "folders", SURE, "LOAD file names")
    elif any(_SEGMENT.match(path) for path in loads):
        yield Inference("ParallelLoad", "segments", SURE, "LOAD file names")
    elif len(loads) > 1:
        largest = max(file.size_bytes for file in evidence.listing.loads)
        yield Inference("MaxFileSize", f"about {round(largest / 1000):,}", LIKELY, "largest LOAD file")


def _date_folders(evidence: Evidence, changes: Sequence[RawFile]) -> Iterator[Inference]:
    folders = {file.relative.rpartition("/")[0] for file in changes}
    yield Inference("DatePartitionEnabled", str(folders != {""}).lower(), SURE, "folders")
    if folders == {""}:
        return
    patterns = [
        (sequence, delimiter)
        for sequence in DateSequence
        for delimiter in DateDelimiter
        if sum(_matches(file, sequence, delimiter) for file in changes) >= _MAJORITY * len(changes)
    ]
    if patterns:
        sequence, delimiter = patterns[0]
        yield Inference("DatePartitionSequence", sequence.value, SURE, "folders")
        yield Inference("DatePartitionDelimiter", delimiter.value, SURE, "folders")
    offset = usual_offset(clock_offsets(evidence, changes))
    if offset:
        hours = offset.total_seconds() / 3600
        yield Inference("DatePartitionTimezone", f"UTC{hours:+g} h", LIKELY, "file names and write times")


def _matches(file: RawFile, sequence: DateSequence, delimiter: DateDelimiter) -> bool:
    when = read_time(file.order)
    if when is None:
        return False
    settings = DmsSettings(
        date_partition_enabled=True, date_partition_sequence=sequence, date_partition_delimiter=delimiter
    )
    folder = file.relative[: file.relative.rfind("/") + 1]
    return folder == date_folder(settings, when.replace(tzinfo=timezone.utc))
