"""Looks a table over: listing, sample of files, inferred settings, findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from cdclake.doctor.check_columns import check_columns
from cdclake.doctor.check_files import check_files
from cdclake.doctor.check_keys import check_keys
from cdclake.doctor.check_order import check_order
from cdclake.doctor.csv_guess import guess_csv
from cdclake.doctor.examination import Examination, schemas_root
from cdclake.doctor.findings import Finding, Severity, worst_first
from cdclake.doctor.infer import Inferred, infer_settings
from cdclake.doctor.listing import read_listing, spread_over
from cdclake.doctor.look import csv_heads, look_into
from cdclake.doctor.tally import Tally
from cdclake.errors import InputError
from cdclake.model.names import Attribute
from cdclake.model.rawfiles import TRANSACTIONS_NAME, is_transactions_key
from cdclake.model.schema import Column, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from pyarrow.fs import FileSystem

    from cdclake.doctor.csv_guess import CsvGuess
    from cdclake.model.table import TableSettings, TableState
    from cdclake.ports import ObjectReader

DEFAULT_FILES = 30
_MOST_FOLDERS = 100


class Raw(NamedTuple):
    """The raw bucket, and who writes to it.

    Attributes:
        store: For listings.
        fs: The same for reading.
        versioned: Whether it keeps versions; None if that is not known.
        task: Settings of the DMS task that writes to it, by section; None if they are not known.
    """

    store: ObjectReader
    fs: FileSystem
    versioned: bool | None = None
    task: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        table: Its name.
        registered: Whether the table is registered.
        files: Raw files of the table.
        looked_into: How many of them were opened.
        rows: How many rows were looked at.
        inferred: Settings that DMS seems to have.
        findings: The worst first.
    """

    table: str
    registered: bool
    files: int
    looked_into: int
    rows: int
    inferred: list[Inferred]
    findings: list[Finding]

    @property
    def has_errors(self) -> bool:
        """Whether something is wrong, and not just unsafe."""
        return any(one.kind.severity is Severity.ERROR for one in self.findings)


def examine(
    raw: Raw,
    state: TableState,
    now: datetime,
    *,
    registered: bool = True,
    most_files: int = DEFAULT_FILES,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Look a table over. Nothing is changed.

    Args:
        raw: The raw bucket.
        state: The table's item; of one that is not registered, as it would be.
        now: The time.
        registered: Whether the table is registered.
        most_files: Open so many LOAD files and so many change files at most; 0: all.
        say: Is told what is looked at.

    Raises:
        ConfigurationError: The bucket cannot be read, or an attribute of the item cannot.
        InputError: There are no raw files of the table.
    """
    settings, watermark = state.settings, state.checked_watermark
    _ = state.last_full_load_utc  # a run would stop at that too
    say(f"Listing {state.raw_prefix}")
    objects = chain(
        raw.store.list(state.raw_prefix),
        raw.store.list(state.transactions_prefix) if state.transactions_prefix else (),
    )
    pending_after = watermark if state.item.get(Attribute.LAST_PENDING) else None
    listing = read_listing(objects, state.raw_prefix, most_files, pending_after)
    files = [*spread_over(listing.loads, most_files), *listing.sample]
    if not files:
        remedy = "Look at the name, --raw-bucket and --raw-prefix; file names are case-sensitive"
        raise InputError(
            "There are no raw files of the table", remedy=remedy, table=state.name, folder=state.raw_prefix
        )
    guess = guess_csv(csv_heads(raw.fs, files), settings.csv)
    readable = _readable(settings, guess)
    tally = Tally(settings.partition_key)
    facts = look_into(raw.fs, files, readable, state.name, tally, say)
    unread = "" if listing.change_count or settings.cdc_path else _transaction_file(raw.store, state.raw_prefix)
    seen = Examination(state, settings, listing, facts, tally, guess, raw.versioned, now, unread, raw.task)
    findings = [*check_files(seen), *check_keys(seen), *check_order(seen), *check_columns(seen)]
    return Report(
        table=str(state.name),
        registered=registered,
        files=len(listing.loads) + listing.change_count,
        looked_into=len(files),
        rows=sum(told.rows for told in tally.files.values()),
        inferred=infer_settings(seen),
        findings=worst_first(findings),
    )


def _transaction_file(store: ObjectReader, raw_prefix: str) -> str:
    """Key of some transaction file in a folder beside the schemas' or tables' folders; empty if there is none."""
    for folder in islice(_folders(store, schemas_root(raw_prefix)), _MOST_FOLDERS):
        found = next(iter(store.list(f"{folder}{TRANSACTIONS_NAME}")), None)
        if found is not None and is_transactions_key(found.key):
            return found.key
    return ""


def _folders(store: ObjectReader, root: str) -> Iterator[str]:
    """Folders below a prefix, and then the folders in those."""
    schemas = list(store.list_folders(root))
    yield from schemas
    for schema in schemas:
        yield from store.list_folders(schema)


def _readable(settings: TableSettings, guess: CsvGuess | None) -> TableSettings:
    """The settings to read by: as they should be, so that one wrong setting does not hide all else."""
    if guess is None:
        return settings
    csv = replace(settings.csv, delimiter=guess.dialect.delimiter, row_delimiter=guess.dialect.row_delimiter)
    if csv.no_sup_value != guess.dialect.null_value:
        csv = replace(csv, null_value=guess.dialect.null_value)
    schema = settings.schema
    if schema is None and not guess.header:
        schema = Schema(tuple(Column(f"column_{i + 1}", "string") for i in range(guess.width)))
    return replace(settings, csv=csv, schema=schema)
