"""The `cdclake` command: assembles the verbs."""

from __future__ import annotations

import logging
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, NamedTuple

import typer

from cdclake import __version__
from cdclake_cli.errors import ErrorReportingGroup
from cdclake_cli.printing.output import PrintableFormatter
from cdclake_cli.printing.stdout import lost_output_reported
from cdclake_cli.signals import stopping_in_order
from cdclake_cli.version import version_text

_TRY, _SET_UP, _DAILY = "Try it out", "Set up", "Daily use"
_HISTORY, _FIX = "History and undo", "Fix and clean up"


class _Verb(NamedTuple):
    """Where a verb is: under which heading in the help, in which module of `cdclake_cli.verbs`, and as what."""

    panel: str
    module: str
    attribute: str


VERBS = {
    "dms": _Verb(_SET_UP, "dms", "app"),
    "import": _Verb(_SET_UP, "import_tables", "import_tables"),
    "apply": _Verb(_SET_UP, "apply", "apply"),
    "export-config": _Verb(_SET_UP, "export_config", "export_config"),
    "run": _Verb(_DAILY, "run", "run"),
    "plan": _Verb(_DAILY, "plan", "plan"),
    "status": _Verb(_DAILY, "status", "status"),
    "tables": _Verb(_DAILY, "tables", "app"),
    "console": _Verb(_DAILY, "console", "console"),
    "verify": _Verb(_DAILY, "verify", "verify"),
    "compare": _Verb(_DAILY, "compare", "compare"),
    "changes": _Verb(_HISTORY, "changes", "app"),
    "history": _Verb(_HISTORY, "history", "history"),
    "diff": _Verb(_HISTORY, "diff", "diff"),
    "export": _Verb(_HISTORY, "export", "export"),
    "rollback": _Verb(_HISTORY, "rollback", "rollback"),
    "reapply": _Verb(_HISTORY, "reapply", "reapply"),
    "doctor": _Verb(_FIX, "doctor", "doctor"),
    "files": _Verb(_FIX, "files", "files"),
    "quarantine": _Verb(_FIX, "quarantine", "app"),
    "repair": _Verb(_FIX, "repair", "repair"),
    "resync": _Verb(_FIX, "resync", "resync"),
    "clean-up": _Verb(_FIX, "clean_up", "clean_up"),
    "erase": _Verb(_FIX, "erase", "erase"),
    "adopt": _Verb(_FIX, "adopt", "adopt"),
    "migrate-walkthrough": _Verb(_FIX, "migrate_walkthrough", "migrate_walkthrough"),
}
"""The verbs in the order of the help, without what other packages add."""


@cache
def assembled(only: str = "") -> typer.Typer:
    """The command with its verbs, built once.

    Args:
        only: The only verb that is needed: to import and to set up all of them takes half of a short command's time. If
            it is empty or unknown, all are.
    """
    app = typer.Typer(
        name="cdclake",
        cls=ErrorReportingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        help="Keep a data lake on S3 equal to its source databases, from AWS DMS files.\n\nExample: cdclake status",
        epilog="Exit status: 0 success, 2 wrong setting, 3 bad raw file, 4 run again, 5 check first, 6 action needed.",
    )
    app.callback()(_options)
    # What other packages add, as the devkit its `demo` and `local`: a function, or a group of verbs.
    added = {} if only in VERBS else {entry.name: entry for entry in sorted(entry_points(group="cdclake.verbs"))}
    names = [only] if only in VERBS or only in added else [*VERBS, *added]
    for name in names:
        if name in added:
            _add(app, name, added[name].load(), _TRY)
        else:
            panel, module, attribute = VERBS[name]
            _add(app, name, getattr(import_module(f"cdclake_cli.verbs.{module}"), attribute), panel)
    return app


def _add(app: typer.Typer, name: str, verb: Any, panel: str) -> None:  # noqa: ANN401 - a function, or a group
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(verb)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"cdclake {version_text(__version__)}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show version and commit, and exit."),
    ] = False,
) -> None:
    """Parse the options that belong to no verb."""


def main() -> None:
    """Entry point of the command."""
    if logging.lastResort:  # prints warnings of the modules that log
        logging.lastResort.setFormatter(PrintableFormatter())
    with lost_output_reported(), stopping_in_order():
        assembled(sys.argv[1] if len(sys.argv) > 1 else "")()
