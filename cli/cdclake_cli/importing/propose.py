"""Proposes settings for each table of a source, of a raw bucket, or of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cdclake.concurrency import in_parallel
from cdclake.errors import CdclakeError, ConfigurationError, RetryableError, UnknownTableError
from cdclake.model.table.attributes import Attribute
from cdclake_cli.doctor.diagnose import examine, find
from cdclake_cli.importing.from_catalog import from_catalog
from cdclake_cli.importing.from_files import (
    errors,
    from_csv,
    from_csv_and_catalog,
    from_endpoint,
    key_candidates,
    order_candidate,
)
from cdclake_cli.importing.proposal import TableProposal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from cdclake.model.table.name import TableName
    from cdclake.model.table.state import TableState
    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.doctor.diagnose import Examination, RawBucket
    from cdclake_cli.sources.catalog import CatalogTable

_AT_ONCE = 4
"""Each holds the rows of a sampled file."""
_NOT_IN_CATALOG = "The source's catalog has no such table"


class RawFiles(NamedTuple):
    """The tables of a raw bucket, and how to read them.

    Attributes:
        bucket: The raw bucket.
        tables: Items that registration would create.
        now: The time of the reading.
        max_files: Open at most this many LOAD files of a table, and this many change files; 0: all.
        unlisted: A line for each folder that could not be listed.
    """

    bucket: RawBucket
    tables: Iterable[TableState]
    now: datetime
    max_files: int
    unlisted: Sequence[str] = ()


class Import(NamedTuple):
    """What is proposed.

    Attributes:
        tables: A proposal for each table, by name.
        without_files: Tables of the source that have no raw files.
        unlisted: A line for each folder of the raw bucket that could not be listed.
    """

    tables: list[TableProposal]
    without_files: list[TableName]
    unlisted: Sequence[str] = ()

    @property
    def unread(self) -> dict[TableName, CdclakeError]:
        """Why the raw files of tables could not be read."""
        return {table.name: table.unread for table in self.tables if table.unread}


class _Known(NamedTuple):
    """What is known of a table: it is in the catalog, or its folder is in the raw bucket, or both."""

    catalog: CatalogTable | None
    state: TableState | None


def propose(
    catalog: Iterable[CatalogTable] | None,
    raw: RawFiles | None,
    endpoint: DmsSettings | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Import:
    """Propose settings. Reads the raw bucket, and changes nothing.

    Args:
        catalog: Tables of the source, as DMS sends them; None if there is no source to ask.
        raw: The raw bucket; None to leave it alone.
        endpoint: Settings of DMS's target endpoint; None if they are unknown, so that only files can tell.
        progress: Called with what is read next.

    Raises:
        RetryableError: The raw bucket does not answer.
    """
    tables = {table.name: table for table in catalog or ()}
    states = {state.name: state for state in raw.tables} if raw else {}
    known = [_Known(tables.get(name), states.get(name)) for name in sorted(tables.keys() | states.keys())]

    def proposed(one: _Known) -> TableProposal | None:
        proposal = _from_source(one, endpoint, asked=catalog is not None)
        if raw is None:
            return proposal
        progress(str(proposal.name))
        return _with_files(proposal, one, raw, endpoint) if one.state else None

    proposals = in_parallel(proposed, known, _AT_ONCE)
    without = [one.catalog.name for one, proposal in zip(known, proposals, strict=True) if one.catalog and not proposal]
    return Import([one for one in proposals if one], without, raw.unlisted if raw else ())


def _from_source(one: _Known, endpoint: DmsSettings | None, *, asked: bool) -> TableProposal:
    if one.catalog is None:
        assert one.state is not None
        return TableProposal(one.state.name, (), (_NOT_IN_CATALOG,) if asked else ())
    proposal = from_catalog(one.catalog)
    return proposal.plus(from_endpoint(one.catalog, endpoint)) if endpoint else proposal


def _with_files(
    proposal: TableProposal, one: _Known, raw: RawFiles, endpoint: DmsSettings | None
) -> TableProposal | None:
    """The proposal with what the table's raw files say, or that they could not be read; None if it has none."""

    def examined() -> Examination:
        assert one.state is not None
        state = one.state.with_attributes(**proposal.attributes)
        return examine(raw.bucket, state, raw.now, registered=False, max_files=raw.max_files)

    try:
        found = examined()
        if endpoint is None and one.catalog and found.guess:
            proposal = proposal.plus(from_csv_and_catalog(found, one.catalog))
            found = examined()
        findings = find(found)
    except UnknownTableError:
        return None
    except RetryableError:  # another try can judge them, and a file without it would look complete
        raise
    except CdclakeError as error:
        return proposal.without_files(error)
    denied = _denied(found)
    if denied:
        return proposal.without_files(denied)
    if endpoint is None and not one.catalog:
        proposal = proposal.plus(from_csv(found, findings))
    if not any(setting.attribute == Attribute.PRIMARY_KEY for setting in proposal.settings):
        proposal = proposal.plus(key_candidates(found))
    return proposal.plus(order_candidate(found), errors(findings))


def _denied(found: Examination) -> ConfigurationError | None:
    """Why nothing of the sampled files could be read; None if something was, or if the files themselves are bad."""
    files = [facts for facts in found.evidence.files if not facts.file.transactions]  # which need a Schema
    refused = [facts.error for facts in files if isinstance(facts.error, ConfigurationError) and not facts.columns]
    return refused[0] if len(refused) == len(files) > 0 else None
