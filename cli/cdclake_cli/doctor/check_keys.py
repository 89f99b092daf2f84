"""Findings about keys, operations and partitions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdclake.model.schema import DELETE, OP_COLUMN, UPDATE
from cdclake.model.table.attributes import Attribute
from cdclake_cli.dms.files import BEFORE_PREFIX
from cdclake_cli.doctor.findings import Code, Finding, agreeing, counted, some_have
from cdclake_cli.doctor.fixes import before_image_rule, s3_settings, tables_set
from cdclake_cli.doctor.infer import timestamp_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdclake_cli.doctor.evidence import Evidence

_MANY_PARTITIONS = 1_000
_SMALL_PARTITION_BYTES = 4 << 20
_ADD_RULE = "Add this mapping rule to the task, with the column-filter all if the source table has no primary key"
_LOG_KEYS = "Have the source log the key before an update (PostgreSQL: alter table ... replica identity full)"


def check_keys(evidence: Evidence) -> Iterator[Finding]:
    """Faults of keys, operations and partitions."""
    yield from _operations(evidence)
    if evidence.settings.primary_key:
        yield from _missing_columns(evidence)
        yield from _repeated_keys(evidence)
    yield from _key_changes(evidence)
    yield from _unique_checks(evidence)
    if evidence.settings.partition_key:
        yield from _partitions(evidence)


def _operations(evidence: Evidence) -> Iterator[Finding]:
    without_op = [facts for facts in evidence.changes if OP_COLUMN not in facts.columns]
    if without_op:
        paste = s3_settings(IncludeOpForFullLoad=True, CdcInsertsOnly=False, CdcInsertsAndUpdates=False)
        text = f"{some_have(len(without_op), len(evidence.changes), 'change file')} no Op"
        fix = "Make DMS send all changes, with Op"
        yield Finding(Code.NO_OP, text, fix, paste, without_op[0].file.relative)
    rows = evidence.statistics.row_counts
    if rows[UPDATE] + rows[DELETE] and not evidence.settings.primary_key:
        likely = [name for name in evidence.statistics.unique_columns or () if name != timestamp_column(evidence)]
        paste = tables_set(evidence.name, "--primary-key", likely[0] if likely else "<columns>")
        fix = "Set the source's key" + (f"; {likely[0]} is unique in the first LOAD rows" if likely else "")
        text = f"{counted(rows[UPDATE], 'update')} and {counted(rows[DELETE], 'delete')}"
        yield Finding(Code.NO_PRIMARY_KEY, text, fix, paste)


def _missing_columns(evidence: Evidence) -> Iterator[Finding]:
    for name in evidence.settings.primary_key:
        without = [facts for facts in (*evidence.loads, *evidence.changes) if not facts.has(name)]
        if without:
            files = len(evidence.loads) + len(evidence.changes)
            text = f"{some_have(len(without), files, 'file')} no column {name}"
            paste = tables_set(evidence.name, "--primary-key", "<columns>")
            fix = "Set the key to columns that the files contain, or make DMS send the column"
            yield Finding(Code.KEY_NOT_THERE, text, fix, paste, without[0].file.relative, column=name)


def _repeated_keys(evidence: Evidence) -> Iterator[Finding]:
    if not all(facts.has(name) for facts in evidence.loads for name in evidence.settings.primary_key):
        return  # part of a key need not be unique
    repeated = evidence.statistics.repeated_load_keys()
    if repeated:
        paste = tables_set(evidence.name, "--primary-key", "<columns>")
        fix = "Set the key to all columns of the source's key, or remove LOAD files of an earlier load"
        text = f"{counted(repeated, 'LOAD row')} {agreeing(repeated, 'repeats', 'repeat')} the key of an earlier row"
        yield Finding(Code.KEY_NOT_UNIQUE, text, fix, paste)


def _key_changes(evidence: Evidence) -> Iterator[Finding]:
    keys, updates = evidence.settings.primary_key, evidence.statistics.row_counts[UPDATE]
    if not updates or not keys:
        return
    without = [name for name in keys if any(not facts.has(BEFORE_PREFIX + name) for facts in evidence.changes)]
    rule, fix = before_image_rule(evidence.name), _ADD_RULE
    if not without and not all(rows.tells_keys for rows in evidence.statistics.files.values()):
        without, rule, fix = list(keys), "", _LOG_KEYS  # the columns are there, but without values
    unknown = evidence.statistics.unknown_updates() if evidence.is_complete else 0
    names, count = ", ".join(without), counted(unknown, "key")
    if without and unknown:
        fix = f"{fix}; then reload the table: DMS does not send lost changes again"
        yield Finding(Code.KEY_CHANGE_LOST, count, fix, rule, column=names)
    elif without:
        text = f"{counted(updates, 'update')} without a before image of {names}"
        yield Finding(Code.NO_BEFORE_IMAGE, text, fix, rule, column=names)
    elif unknown:
        fix = "Put the file back, or reload the table with DMS. If the file was already applied, nothing is lost"
        yield Finding(Code.MISSING_CHANGES, count, fix, column=", ".join(keys))


def _unique_checks(evidence: Evidence) -> Iterator[Finding]:
    moves = {name: facts.key_changes for name, facts in evidence.statistics.files.items() if facts.key_changes}
    if moves and not evidence.settings.unique_checks:
        fix = (
            "Set it to immediate if the source checks keys row by row (MySQL, MariaDB, PostgreSQL), and to deferred if"
            " it checks them later (Oracle, SQL Server, DEFERRABLE keys of PostgreSQL)"
        )
        paste = tables_set(evidence.name, "--set", f"{Attribute.UNIQUE_CHECKS}=<immediate or deferred>")
        text = counted(sum(moves.values()), "update")
        yield Finding(Code.NO_UNIQUE_CHECKS, text, fix, paste, next(iter(moves)))


def _partitions(evidence: Evidence) -> Iterator[Finding]:
    files = [*evidence.loads, *evidence.changes]
    for name in evidence.settings.partition_key:
        if files and not any(facts.has(name) for facts in files):
            paste = tables_set(evidence.name, "--partition-key", "<columns>")
            yield Finding(Code.PARTITION_NOT_THERE, f"no file has {name}", "Set other columns", paste, column=name)
    count = len(evidence.statistics.partitions)
    load_bytes = sum(file.size_bytes for file in evidence.listing.loads)
    if count >= _MANY_PARTITIONS and load_bytes / count < _SMALL_PARTITION_BYTES:
        text = f"{count:,} partitions in the sampled rows"
        paste = tables_set(evidence.name, "--partition-key", "<columns with few values>")
        fix = "Partition by a column with fewer values, such as a month, or do not partition"
        yield Finding(Code.TOO_MANY_PARTITIONS, text, fix, paste, column=",".join(evidence.settings.partition_key))
