"""From what files tell to the settings of DMS that they were written with. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timezone
from enum import Enum
from typing import TYPE_CHECKING

from cdclake.devkit.dms.files import BEFORE_PREFIX
from cdclake.devkit.dms.names import date_folder
from cdclake.devkit.dms.settings import DateDelimiter, DateSequence, DmsSettings, Encoding
from cdclake.doctor.times import name_offsets, seconds_between_files, usual_offset
from cdclake.model.rawfiles import RawFormat, RawKind, read_time
from cdclake.model.schema import DELETE, INSERT, OP_COLUMN, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.doctor.examination import Examination
    from cdclake.doctor.look import FileFacts
    from cdclake.model.rawfiles import RawFile

_HEADER_PREFIX = "AR_H_"
_LEAST_ROWS = 100
_MOSTLY = 0.9
"""A file written at midnight may lie in the folder of the day before."""
_SEGMENT = re.compile(r"SEGMENT\d+_LOAD")


class Certainty(str, Enum):
    """How sure an inferred setting is."""

    SURE = "sure"
    """Files of another setting would look otherwise."""
    LIKELY = "likely"


SURE, LIKELY = Certainty


@dataclass(frozen=True)
class Inferred:
    """One setting.

    Attributes:
        name: DMS's name of it, as in `cdclake.devkit.dms.settings`.
        value: As text.
        told_by: What tells it.
    """

    name: str
    value: str
    certainty: Certainty
    told_by: str

    def to_json(self) -> dict[str, object]:
        """All that is known, for programs."""
        return {
            "setting": self.name,
            "value": self.value,
            "certainty": self.certainty.value,
            "told_by": self.told_by,
        }


def infer_settings(seen: Examination) -> list[Inferred]:
    """Settings that the files tell; what they do not tell is left out."""
    readable = [facts for facts in seen.files if facts.columns]
    parts = (_format(seen), _csv(seen), _parquet(readable), _columns(seen, readable), _operations(seen), _names(seen))
    return [one for part in parts for one in part]


def timestamp_column(seen: Examination) -> str:
    """Name of the column that `TimestampColumnName` adds; empty if there is none.

    It is the first one, or the one after `Op`, and in Parquet the only one that may not be null.
    """
    for facts in seen.files:
        source = [name for name in facts.columns if name != OP_COLUMN]
        required = facts.parquet is None or facts.parquet.required == tuple(source[:1])
        if source and required and seen.rows.stamps.get(source[0]):
            return source[0]
    return ""


def _format(seen: Examination) -> Iterator[Inferred]:
    formats = {file.format for file in (*seen.listing.loads, *seen.listing.sample) if not file.transactions}
    parquet = RawFormat.PARQUET in formats
    if formats:
        yield Inferred("DataFormat", "parquet" if parquet else "csv", SURE, "names of files")
    codecs = {codec for facts in seen.files if facts.parquet for codec in facts.parquet.codecs}
    if "GZIP" in codecs or RawFormat.CSV_GZ in formats:
        yield Inferred("CompressionType", "gzip", SURE, "names of files" if not parquet else "feet of files")
    elif formats:
        yield Inferred("CompressionType", "none", SURE, "names of files" if not parquet else "feet of files")
    if any(file.transactions for file in seen.listing.sample):
        yield Inferred("PreserveTransactions", "true", SURE, "names of files")
        yield Inferred("CdcPath", seen.settings.cdc_path, SURE, "the table's CdcPath")


def _csv(seen: Examination) -> Iterator[Inferred]:
    guess = seen.csv
    if guess is None:
        return
    yield Inferred("AddColumnName", str(bool(guess.header)).lower(), LIKELY, "first lines")
    if guess.sure:
        yield Inferred("CsvDelimiter", _shown(guess.dialect.delimiter), SURE, "rows")
        yield Inferred("CsvRowDelimiter", _shown(guess.dialect.row_delimiter), LIKELY, "rows")
    if guess.null_text is not None:
        yield Inferred("CsvNullValue", guess.null_text, LIKELY, "values between numbers")
    if guess.quoted is not None:
        yield Inferred("Rfc4180", str(guess.quoted).lower(), LIKELY, "quotes around fields" if guess.quoted else "rows")


def _shown(text: str) -> str:
    return text.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")


def _parquet(files: Sequence[FileFacts]) -> Iterator[Inferred]:
    found = [facts.parquet for facts in files if facts.parquet]
    if not found:
        return
    feet = "feet of files"
    first = all(one.version == "1.0" for one in found)
    yield Inferred("ParquetVersion", "parquet-1-0" if first else "parquet-2-0", SURE, feet)
    encodings = {encoding for one in found for encoding in one.encodings}
    if not encodings & {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}:
        yield Inferred("EncodingType", Encoding.PLAIN.value, SURE, feet)
    yield Inferred("EnableStatistics", str(any(one.has_statistics for one in found)).lower(), SURE, feet)
    units = {unit for one in found for unit in one.timestamp_units}
    if units:
        yield Inferred("ParquetTimestampInMillisecond", str(units == {"ms"}).lower(), SURE, "types of columns")
    groups = [one.group_rows for one in found if len(one.group_rows) > 1]
    if groups:
        yield Inferred("RowGroupLength", str(max(max(rows) for rows in groups)), LIKELY, feet)


def _columns(seen: Examination, files: Sequence[FileFacts]) -> Iterator[Inferred]:
    name = timestamp_column(seen)
    if name:
        yield Inferred("TimestampColumnName", name, LIKELY, "a first column of nothing but times")
    loads = [facts for facts in files if facts.file.kind is RawKind.FULL_LOAD]
    if loads:
        with_op = any(OP_COLUMN in facts.columns for facts in loads)
        yield Inferred("IncludeOpForFullLoad", str(with_op).lower(), SURE, "columns of LOAD files")
    names = {column for facts in files for column in facts.columns}
    headers = sorted(one for one in names if one.startswith(_HEADER_PREFIX))
    if headers:
        yield Inferred("HeaderColumns", ",".join(headers), SURE, "columns")
    images = {one[len(BEFORE_PREFIX) :] for one in names if one.startswith(BEFORE_PREFIX)}
    if images:
        source = {one for one in names if one != OP_COLUMN and not one.startswith((_HEADER_PREFIX, BEFORE_PREFIX))}
        keys = {key.lower() for key in seen.settings.primary_key}
        only_keys = {one.lower() for one in images} == keys if keys else len(images) < len(source) // 2
        filter_ = "pk-only" if only_keys else "all" if images >= source - {name} else "non-lob"
        yield Inferred("BeforeImages", filter_, LIKELY, "columns")


def _operations(seen: Examination) -> Iterator[Inferred]:
    changes = [facts for facts in seen.files if facts.file.kind is RawKind.CHANGE and facts.columns]
    rows = {kind: seen.rows.rows[kind] for kind in (INSERT, UPDATE, DELETE)}
    if changes and not any(OP_COLUMN in facts.columns for facts in changes):
        text = "true (or CdcInsertsOnly)"
        yield Inferred("CdcInsertsAndUpdates", text, LIKELY, "no Op in change files")
    elif sum(rows.values()) >= _LEAST_ROWS and not rows[DELETE]:
        setting = "CdcInsertsAndUpdates" if rows[UPDATE] else "CdcInsertsOnly"
        kinds = "I and U" if rows[UPDATE] else "I"
        yield Inferred(setting, "true, or none came", LIKELY, f"{sum(rows.values()):,} rows, all {kinds}")


def _names(seen: Examination) -> Iterator[Inferred]:
    changes = [file for file in seen.listing.times if not file.transactions]
    if changes:
        yield from _date_folders(seen, changes)
    seconds = seconds_between_files(seen.listing.times)
    if seconds is not None:
        yield Inferred("CdcMaxBatchInterval", f"about {seconds}", LIKELY, "distances of names")
    loads = [file.relative for file in seen.listing.loads]
    if any("/" in one for one in loads):
        yield Inferred("ParallelLoad", "folders", SURE, "names of LOAD files")
    elif any(_SEGMENT.match(one) for one in loads):
        yield Inferred("ParallelLoad", "segments", SURE, "names of LOAD files")
    elif len(loads) > 1:
        largest = max(file.size_bytes for file in seen.listing.loads)
        yield Inferred("MaxFileSize", f"about {round(largest / 1000):,}", LIKELY, "largest LOAD file")


def _date_folders(seen: Examination, changes: Sequence[RawFile]) -> Iterator[Inferred]:
    folders = {file.relative.rpartition("/")[0] for file in changes}
    yield Inferred("DatePartitionEnabled", str(folders != {""}).lower(), SURE, "folders")
    if folders == {""}:
        return
    patterns = [
        (sequence, delimiter)
        for sequence in DateSequence
        for delimiter in DateDelimiter
        if sum(_matches(file, sequence, delimiter) for file in changes) >= _MOSTLY * len(changes)
    ]
    if patterns:
        sequence, delimiter = patterns[0]
        yield Inferred("DatePartitionSequence", sequence.value, SURE, "folders")
        yield Inferred("DatePartitionDelimiter", delimiter.value, SURE, "folders")
    offset = usual_offset(name_offsets(changes, seen.rows.stamp_ends.get(timestamp_column(seen), {})))
    if offset:
        hours = offset.total_seconds() / 3600
        yield Inferred("DatePartitionTimezone", f"one {hours:+g} h from UTC", LIKELY, "names and times of files")


def _matches(file: RawFile, sequence: DateSequence, delimiter: DateDelimiter) -> bool:
    when = read_time(file.order)
    if when is None:
        return False
    named = DmsSettings(
        date_partition_enabled=True, date_partition_sequence=sequence, date_partition_delimiter=delimiter
    )
    folder = file.relative[: file.relative.rfind("/") + 1]
    return folder == date_folder(named, when.replace(tzinfo=timezone.utc))
