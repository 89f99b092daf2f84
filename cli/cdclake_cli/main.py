"""The `cdclake` command: assembles the verbs."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from typing import Annotated

import typer

from cdclake import __version__
from cdclake_cli.errors import ErrorReportingGroup
from cdclake_cli.printing.output import PrintableFormatter
from cdclake_cli.printing.stdout import lost_output_reported
from cdclake_cli.signals import stopping_in_order
from cdclake_cli.verbs import (
    adopt,
    apply,
    changes,
    clean_up,
    console,
    diff,
    dms,
    doctor,
    erase,
    export,
    export_config,
    files,
    history,
    import_tables,
    plan,
    quarantine,
    reapply,
    repair,
    resync,
    rollback,
    run,
    status,
    tables,
    verify,
)
from cdclake_cli.version import version_text

_TRY, _SET_UP, _DAILY = "Try it out", "Set up", "Daily use"
_HISTORY, _FIX = "History and undo", "Fix and clean up"

app = typer.Typer(
    name="cdclake",
    cls=ErrorReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Keep a data lake on S3 equal to its source databases, from AWS DMS files.\n\nExample: cdclake status",
    epilog="Exit status: 0 success, 2 wrong setting, 3 bad raw file, 4 run again, 5 check first, 6 action needed.",
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"cdclake {version_text(__version__)}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show version and commit, and exit."),
    ] = False,
) -> None:
    """Parse the options that belong to no verb."""


app.add_typer(dms.app, name="dms", rich_help_panel=_SET_UP)
app.command("import", rich_help_panel=_SET_UP)(import_tables.import_tables)
app.command(rich_help_panel=_SET_UP)(apply.apply)
app.command("export-config", rich_help_panel=_SET_UP)(export_config.export_config)

app.command(rich_help_panel=_DAILY)(run.run)
app.command(rich_help_panel=_DAILY)(plan.plan)
app.command(rich_help_panel=_DAILY)(status.status)
app.add_typer(tables.app, name="tables", rich_help_panel=_DAILY)
app.command(rich_help_panel=_DAILY)(console.console)
app.command(rich_help_panel=_DAILY)(verify.verify)

app.add_typer(changes.app, name="changes", rich_help_panel=_HISTORY)
app.command(rich_help_panel=_HISTORY)(history.history)
app.command(rich_help_panel=_HISTORY)(diff.diff)
app.command(rich_help_panel=_HISTORY)(export.export)
app.command(rich_help_panel=_HISTORY)(rollback.rollback)
app.command(rich_help_panel=_HISTORY)(reapply.reapply)

app.command(rich_help_panel=_FIX)(doctor.doctor)
app.command(rich_help_panel=_FIX)(files.files)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=_FIX)
app.command(rich_help_panel=_FIX)(repair.repair)
app.command(rich_help_panel=_FIX)(resync.resync)
app.command("clean-up", rich_help_panel=_FIX)(clean_up.clean_up)
app.command(rich_help_panel=_FIX)(erase.erase)
app.command(rich_help_panel=_FIX)(adopt.adopt)

# What other packages add, as the devkit its `demo` and `local`: a function, or a group of verbs.
for entry in sorted(entry_points(group="cdclake.verbs")):
    verb = entry.load()
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=entry.name, rich_help_panel=_TRY)
    else:
        app.command(entry.name, rich_help_panel=_TRY)(verb)


def main() -> None:
    """Entry point of the command."""
    if logging.lastResort:  # prints warnings of the modules that log
        logging.lastResort.setFormatter(PrintableFormatter())
    with lost_output_reported(), stopping_in_order():
        app()
