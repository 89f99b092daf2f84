"""`cdclake import`: propose the configuration of tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cdclake.control.jobs.entry import error_line
from cdclake.errors import AttentionError, ConfigurationError, gravest_kind
from cdclake.model.table.attributes import Attribute
from cdclake.printable import printable, shell_word
from cdclake_cli.named_files import check_writable, json_object, write_text
from cdclake_cli.options import ForceOption, with_target
from cdclake_cli.patterns import parse_pattern
from cdclake_cli.printing.output import OutputColumn, OutputFormat, OutputOption, output_for, progress
from cdclake_cli.sources import options as source_database
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cdclake.errors import CdclakeError
    from cdclake.model.table.name import TableName
    from cdclake_cli.dms.settings import DmsSettings
    from cdclake_cli.importing.mappings import Rule
    from cdclake_cli.importing.proposal import TableProposal
    from cdclake_cli.importing.propose import Import, RawFiles
    from cdclake_cli.sources.catalog import CatalogTable

_DEFAULT_FILES = 4
_S3 = "s3://"
_GRANTS = "Grant what the reasons name, then run the same command again with --force"
_COLUMNS = (
    OutputColumn("table", "Table"),
    OutputColumn("primary_key", "Primary key"),
    OutputColumn("sure", "Settings", number=True),
    OutputColumn("unsure", "To judge", number=True),
    OutputColumn("notes", "Notes", number=True),
)


@with_target
def import_tables(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATTERN", help="Only these tables, such as shop.orders or `'shop.*'`."),
    ] = None,
    *,
    source: source_database.SourceOption = None,
    definitions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Source",
            help="Instead of a database: JSON of DMS's external table definitions, in a file or at s3://bucket/key.",
        ),
    ] = None,
    socket: source_database.SocketOption = "",
    option_file: source_database.OptionFileOption = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="ARN",
            rich_help_panel="DMS",
            help="DMS task: its table mappings, and the settings of its endpoints.",
        ),
    ] = None,
    mappings: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, rich_help_panel="DMS", help="JSON file of the task's table mappings."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            rich_help_panel="DMS",
            help="Setting of the DMS endpoint, such as DataFormat=csv; others have DMS's defaults. Repeatable.",
        ),
    ] = None,
    files: Annotated[
        int, typer.Option(min=0, help="Open at most this many LOAD files of a table, and as many change files; 0: all.")
    ] = _DEFAULT_FILES,
    no_files: Annotated[bool, typer.Option("--no-files", help="Do not read the raw bucket.")] = False,
    to: Annotated[Path, typer.Option(dir_okay=False, help="File to write.")] = Path("cdclake.yml"),
    force: ForceOption = False,
    output: OutputOption = OutputFormat.TABLE,
    target: Target,
) -> None:
    """Propose the configuration of tables, in a file to review.

    Reads the catalog of the source, the settings of DMS, and some raw files of each table, as far as they are named.
    Writes what they prove, with the evidence; what they only suggest is a comment. Changes nothing else.

    Example: cdclake import --source mysql://reader@db.example.com/shop 'shop.*'
    """
    from cdclake_cli.aws.environment import aws_environment  # slow to import, and --help does not need it
    from cdclake_cli.importing.definitions import read_definitions
    from cdclake_cli.importing.document import document
    from cdclake_cli.importing.mappings import sent_tables
    from cdclake_cli.importing.propose import propose
    from cdclake_cli.sources.catalog import is_chosen
    from cdclake_cli.sources.url import open_catalog

    check_writable(to, force=force)
    if source and definitions:
        raise ConfigurationError("--source and --definitions say the same", remedy="Use one of them")
    if no_files and not (source or definitions or task):
        raise ConfigurationError("There is nothing to read", remedy="Use --source, or leave --no-files out")
    out = output_for(output)
    chosen = [str(parse_pattern(pattern)) for pattern in patterns or []]  # raises before anything is read
    with aws_environment(target), progress("Reading the settings of DMS") as bar:
        dms = _read_dms(target, task, mappings, settings or [])
        catalog = None
        if source:
            bar.describe("Reading the catalog of the source")
            opened = open_catalog(source, dms.endpoint, socket=socket, option_file=option_file)
            catalog = sent_tables(opened.tables(chosen), dms.rules)
        elif definitions or dms.definitions:
            defined = read_definitions(_json_at(definitions) if definitions else dms.definitions)
            catalog = sent_tables((one for one in defined if is_chosen(one.name, chosen)), dms.rules)
        elif no_files:
            raise ConfigurationError("The task defines no tables", remedy="Use --source, or leave --no-files out")
        raw = None if no_files else _raw_files(target, chosen, catalog, files)
        found = propose(catalog, raw, dms.endpoint, bar.describe)
    if not found.tables:
        raise _nothing(found)
    if catalog is None and len(found.unread) == len(found.tables):
        raise _nothing_read(found)
    write_text(to, document(found, task or ""), force=force)
    out.records(f"Proposed in {to}", _COLUMNS, [_record(table) for table in found.tables])
    if found.without_files:
        out.remark(f"Left out, because they have no raw files: {', '.join(map(str, found.without_files))}")
    out.remark(f"Review {to}, then: cdclake apply {shell_word(str(to))} --register")
    if found.unread or found.unlisted:
        raise _incomplete(found, to)


class _Dms(NamedTuple):
    """What is known of DMS.

    Attributes:
        rules: Its table mappings; empty if they are unknown.
        endpoint: Settings of its endpoints; None if they are unknown.
        definitions: External table definitions of its source; empty if it has none.
    """

    rules: tuple[Rule, ...]
    endpoint: DmsSettings | None
    definitions: Mapping[str, object]


def _read_dms(target: Target, arn: str | None, mappings: Path | None, settings: list[str]) -> _Dms:
    from cdclake_cli.aws.services import connect
    from cdclake_cli.dms.settings import settings_from
    from cdclake_cli.importing.mappings import read_rules
    from cdclake_cli.importing.task import endpoint_settings, table_definitions

    defined: Mapping[str, object] = {}
    endpoint = settings_from(source_database.named_settings(settings)) if settings else None
    rules: object = json_object(mappings) if mappings else None
    if arn:
        statistics = connect(target).statistics
        task = statistics.with_endpoints(statistics.settings(arn))
        endpoint, rules = endpoint or endpoint_settings(task), rules or dict(task.mappings)
        defined = table_definitions(task)
    return _Dms(read_rules(rules) if rules else (), endpoint, defined)


def _json_at(place: str) -> dict[str, object]:
    """The JSON object in a file, or in an object of S3."""
    from cdclake.adapters.stores import open_store
    from cdclake_cli.named_files import object_of

    bucket, slash, key = place.removeprefix(_S3).partition("/")
    if not place.startswith(_S3) or not slash:
        return json_object(Path(place))
    content = open_store(bucket).get(key)
    if content is None:
        raise ConfigurationError("There is no such object", remedy="Correct --definitions", file=place)
    return object_of(content, place)


def _raw_files(target: Target, patterns: list[str], catalog: Sequence[CatalogTable] | None, max_files: int) -> RawFiles:
    """The tables of the raw bucket that are in the catalog, and those that patterns match.

    Without patterns, those in a schema of the catalog: other schemas are of other sources.
    """
    from cdclake.adapters.aws import server_clock
    from cdclake.control.plan.discovery import discover_tables
    from cdclake_cli.doctor.diagnose import RawBucket
    from cdclake_cli.importing.propose import RawFiles
    from cdclake_cli.sources.catalog import is_chosen

    bucket = RawBucket.at(target.raw_bucket)
    found = discover_tables(bucket.store, target.raw_bucket, target.installation.raw_folder)
    for finding in found.findings:
        typer.echo(printable(finding), err=True)
    names = {table.name for table in catalog or ()}
    schemas = {name.schema for name in names}

    def belongs(name: TableName) -> bool:
        by_schema = catalog is not None and not patterns
        return name in names or (name.schema in schemas if by_schema else is_chosen(name, patterns))

    tables = [one for one in found.tables if belongs(one.name)]
    return RawFiles(bucket, tables, server_clock(), max_files, found.errors)


def _nothing(found: Import) -> ConfigurationError:
    if found.unlisted:
        message = f"No folder with tables could be listed: {found.unlisted[0]}"
        return ConfigurationError(message, remedy=_GRANTS)
    if not found.without_files:
        remedy = "Check the patterns, and what the user may see at the source"
        return ConfigurationError("There is no such table", remedy=remedy)
    message = f"No raw files: {', '.join(map(str, found.without_files))}"
    return ConfigurationError(message, remedy="Check --raw-bucket and --raw-prefix, or use --no-files")


def _nothing_read(found: Import) -> CdclakeError:
    name, reason = next(iter(found.unread.items()))
    read = f"of {name} could not" if len(found.unread) == 1 else f"of none of {len(found.unread):,} tables could"
    message = f"The raw files {read} be read: {reason.message}"
    return gravest_kind(found.unread.values())(message, remedy=f"{reason.remedy}. Nothing was written")


def _incomplete(found: Import, to: Path) -> AttentionError:
    from cdclake_cli.doctor.findings import counted  # not needed for --help

    reasons = [f"{name}: {error_line(error)}" for name, error in found.unread.items()] + list(found.unlisted)
    for reason in reasons:
        typer.echo(printable(reason), err=True)
    message = f"{to} is incomplete: {counted(len(reasons), 'place')} of the raw bucket could not be read"
    return AttentionError(message, remedy=_GRANTS)


def _record(table: TableProposal) -> dict[str, object]:
    return {
        "table": str(table.name),
        "primary_key": table.attributes.get(Attribute.PRIMARY_KEY),
        "sure": len(table.attributes),
        "unsure": len({one.attribute for one in table.settings if not one.sure}),
        "notes": len(table.notes),
        "settings": [asdict(one) for one in table.settings],
        "remarks": list(table.notes),
    }
