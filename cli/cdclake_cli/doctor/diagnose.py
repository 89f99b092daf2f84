"""Diagnoses a table: lists its raw files, reads a sample, infers DMS's settings and runs the checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from secrets import token_bytes
from typing import TYPE_CHECKING, NamedTuple

from cdclake.adapters.filesystem import lake_filesystem
from cdclake.adapters.s3 import S3Store
from cdclake.adapters.stores import open_store
from cdclake.control.plan.lost_files import PendingNote
from cdclake.errors import InputError, UnknownTableError
from cdclake.model.raw.files import TRANSACTIONS_NAME, file_order, is_transactions_key
from cdclake.model.schema import Column, Schema
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.column_policy import MIN_SECRET_BYTES
from cdclake_cli.doctor.check_columns import check_columns
from cdclake_cli.doctor.check_dms import check_dms
from cdclake_cli.doctor.check_files import check_files
from cdclake_cli.doctor.check_keys import check_keys
from cdclake_cli.doctor.check_order import check_order
from cdclake_cli.doctor.csv.dialect import guess_csv
from cdclake_cli.doctor.evidence import Evidence, is_null_declared, schemas_root
from cdclake_cli.doctor.findings import Finding, Severity, counted, worst_first
from cdclake_cli.doctor.infer import Inference, infer_settings
from cdclake_cli.doctor.listing import evenly_spaced, read_listing
from cdclake_cli.doctor.row_statistics import RowStatistics
from cdclake_cli.doctor.sampling import read_csv_heads, read_sample
from cdclake_cli.doctor.types.check_types import check_types
from cdclake_cli.doctor.types.known_types import known_types
from cdclake_cli.doctor.types.proposal import propose_types
from cdclake_cli.doctor.types.shapes import TypeStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.adapters.dms import DmsTask
    from cdclake.model.table.settings import TableSettings
    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectReader
    from cdclake_cli.doctor.csv.dialect import CsvGuess
    from cdclake_cli.doctor.types.proposal import Proposal

DEFAULT_MAX_FILES = 30
_MAX_FOLDERS = 100


class RawBucket(NamedTuple):
    """The raw bucket and the DMS task that writes to it.

    Attributes:
        store: Lists objects.
        fs: Reads objects.
        versioned: Whether the bucket keeps versions; None if unknown.
        task: The DMS task; None if unknown.
    """

    store: ObjectReader
    fs: FileSystem
    versioned: bool | None = None
    task: DmsTask | None = None

    @classmethod
    def at(cls, location: str) -> RawBucket:
        """The raw bucket with a name, or a folder by its URI."""
        reader = open_store(location)
        versioned = reader.keeps_versions() if isinstance(reader, S3Store) else None
        return cls(reader, lake_filesystem(location).open(), versioned)


class Examination(NamedTuple):
    """What a table's raw files show, before any judgement.

    Attributes:
        guess: The CSV dialect by the first rows; None if there are no CSV files.
        proposal: Types for CSV columns that have none; None if there are none.
        types: Statistics of the values of columns.
    """

    evidence: Evidence
    guess: CsvGuess | None
    proposal: Proposal | None
    types: TypeStatistics


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a table.

    Attributes:
        table: Its name.
        registered: Whether the table is registered.
        files: Number of raw files of the table.
        files_opened: Number of files that were opened.
        rows: Number of rows that were read.
        inferred: The settings that DMS seems to have.
        findings: The worst first.
    """

    table: str
    registered: bool
    files: int
    files_opened: int
    rows: int
    inferred: list[Inference]
    findings: list[Finding]

    @property
    def has_errors(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.kind.severity is Severity.ERROR for finding in self.findings)


def diagnose(
    raw: RawBucket,
    state: TableState,
    now: datetime,
    *,
    registered: bool = True,
    lake: Schema | None = None,
    max_files: int = DEFAULT_MAX_FILES,
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Examine a table, and judge what there is; see `examine`. Changes nothing."""
    examination = examine(raw, state, now, registered=registered, lake=lake, max_files=max_files, progress=progress)
    evidence = examination.evidence
    return Diagnosis(
        table=str(state.name),
        registered=registered,
        files=len(evidence.listing.loads) + evidence.listing.change_count,
        files_opened=len(evidence.files),
        rows=sum(file.rows for file in evidence.statistics.files.values()),
        inferred=infer_settings(evidence),
        findings=find(examination),
    )


def find(examination: Examination) -> list[Finding]:
    """What is wrong or unsafe, the worst first."""
    evidence, guess, proposal, _ = examination
    checks = (check_files, check_dms, check_keys, check_order, check_columns)
    findings = [finding for check in checks for finding in check(evidence)]
    known = Attribute.CSV_DELIMITER in evidence.state.item or guess is None or guess.sure
    newest = evidence.files[-1].columns
    findings += check_types(proposal, evidence.settings, evidence.name, guess, newest, delimiters_known=known)
    return worst_first(findings)


def examine(
    raw: RawBucket,
    state: TableState,
    now: datetime,
    *,
    registered: bool = True,
    lake: Schema | None = None,
    max_files: int = DEFAULT_MAX_FILES,
    progress: Callable[[str], None] = lambda _: None,
) -> Examination:
    """Read a sample of a table's raw files. Changes nothing.

    Args:
        state: The table's item. For an unregistered table: the item that registration would create.
        now: The time of the check.
        registered: Whether the table is registered.
        lake: Columns of the lake table; None if it is unknown or not loaded.
        max_files: Open at most this many LOAD files and this many change files; 0: all.
        progress: Called with the name of the folder or file that is read next.

    Raises:
        ConfigurationError: The bucket or an attribute of the item cannot be read.
        InputError: The table has no raw files.
        UnknownTableError: It has none, and is not registered.
    """
    policy = replace(state.settings.column_policy, secret=token_bytes(MIN_SECRET_BYTES))  # equal values stay equal
    settings = replace(state.settings, column_policy=policy)
    _ = state.checked_watermark, state.last_full_load_utc  # raise, as in a run
    progress(f"Listing {state.raw_prefix}")
    objects = chain(*(raw.store.list(prefix) for prefix in (state.raw_prefix, state.transactions_prefix) if prefix))
    noted = PendingNote.of_item(state.item).names
    pending_from = file_order(noted[0]) if noted else None
    listing = read_listing(objects, state.raw_prefix, max_files, pending_from, settings.ignore_files)
    files = [*evenly_spaced(listing.loads, max_files), *listing.sample]
    if not files:
        message, remedy = "The table has no raw files", "Check the name, --raw-bucket and --raw-prefix"
        if listing.other_count:
            message += f", but {counted(listing.other_count, 'other file')}, for example {listing.other[0]}"
            remedy += ", or rename the files to names that DMS gives"
        kind = InputError if registered else UnknownTableError
        raise kind(message, remedy=f"{remedy}; names are case-sensitive", table=state.name, folder=state.raw_prefix)
    null_declared = is_null_declared(state)
    named = [name for names in settings.named_columns.values() for name in names]
    guess = guess_csv(read_csv_heads(raw.fs, files), settings.csv, null_declared=null_declared, named=named)
    types = TypeStatistics(settings.schema, loads_only=bool(listing.loads))
    statistics, readable = RowStatistics(settings.partition_key, types), _readable_settings(settings, guess)
    facts = read_sample(raw.fs, files, readable, state.name, statistics, progress)
    typed = [one for one in facts if one.error is None and not one.file.transactions]
    names = dict.fromkeys(name for one in typed if one.file.format.is_text for name in one.columns)
    proposal = propose_types(
        raw.fs,
        [one.file for one in typed],
        names,
        replace(readable, csv=replace(readable.csv, add_column_name=settings.csv.add_column_name)),
        settings.schema or Schema(),
        state.name,
        types,
        known_types((one.types for one in typed), lake, has_load=bool(listing.loads)),
        has_header=None if guess and guess.header_unclear else bool(guess and guess.header),
        null_declared=null_declared,
    )
    likely = guess
    if proposal and guess and guess.null_text is not None:  # all sampled rows say more than the first ones
        likely = replace(guess, null_text=proposal.csv.null_value)
    unread = "" if listing.change_count or settings.cdc_path else _transaction_file(raw.store, state.raw_prefix)
    evidence = Evidence(state, settings, listing, facts, statistics, likely, raw.versioned, now, unread, raw.task)
    return Examination(evidence, guess, proposal, types)


def _transaction_file(store: ObjectReader, raw_prefix: str) -> str:
    """Key of any transaction file in a folder beside the schema or table folders; empty if there is none."""
    for folder in islice(_folders(store, schemas_root(raw_prefix)), _MAX_FOLDERS):
        entry = next(iter(store.list(f"{folder}{TRANSACTIONS_NAME}")), None)
        if entry is not None and is_transactions_key(entry.key):
            return entry.key
    return ""


def _folders(store: ObjectReader, root: str) -> Iterator[str]:
    """The folders below a prefix, then their subfolders."""
    schemas = _subfolders(store, root)
    yield from schemas
    for schema in schemas:
        yield from _subfolders(store, schema)


def _subfolders(store: ObjectReader, folder: str) -> list[str]:
    return sorted(entry for entry in store.list_level(folder) if entry.endswith("/"))


def _readable_settings(settings: TableSettings, guess: CsvGuess | None) -> TableSettings:
    """The settings corrected by the guess, so that one wrong setting does not hide every other fault."""
    if guess is None:
        return settings
    csv = replace(settings.csv, delimiter=guess.dialect.delimiter, row_delimiter=guess.dialect.row_delimiter)
    if csv.no_sup_value != guess.dialect.null_value:
        csv = replace(csv, null_value=guess.dialect.null_value)
    schema = settings.schema
    if schema is None and not guess.header:
        schema = Schema(tuple(Column(f"column_{i + 1}", "string") for i in range(guess.width)))
        csv = replace(csv, add_column_name=False)
    return replace(settings, csv=csv, schema=schema)
