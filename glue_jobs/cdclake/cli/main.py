"""The `cdclake` command: puts the verbs together."""

from __future__ import annotations

from typing import Annotated

import typer

from cdclake import __version__
from cdclake.cli.errors import ErrorReportingGroup
from cdclake.cli.verbs import (
    adopt,
    changes,
    console,
    demo,
    diff,
    doctor,
    erase,
    export,
    history,
    plan,
    quarantine,
    run,
    status,
    tables,
    undo,
    upkeep,
    verify,
)
from cdclake.cli.verbs.local import feed, group, replicate, sample_db

_TRY, _EVERY_DAY, _LOOK_BACK, _MEND = "Try it out", "Every day", "Look back and undo", "Mend and clean up"

app = typer.Typer(
    name="cdclake",
    cls=ErrorReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Keep a data lake on S3 equal to the databases behind it, from AWS DMS files. Example: cdclake demo",
    epilog="Exit status: 0 all is well, 2 a setting is wrong, 3 a raw file is, 4 run again, 5 look first, 6 see to it.",
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"cdclake {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take what is asked of no verb."""


app.command(rich_help_panel=_EVERY_DAY)(run.run)
app.command(rich_help_panel=_EVERY_DAY)(plan.plan)
app.command(rich_help_panel=_EVERY_DAY)(status.status)
app.add_typer(tables.app, name="tables", rich_help_panel=_EVERY_DAY)
app.command(rich_help_panel=_EVERY_DAY)(console.console)
app.command(rich_help_panel=_EVERY_DAY)(verify.verify)

app.add_typer(changes.app, name="changes", rich_help_panel=_LOOK_BACK)
app.command(rich_help_panel=_LOOK_BACK)(history.history)
app.command(rich_help_panel=_LOOK_BACK)(diff.diff)
app.command(rich_help_panel=_LOOK_BACK)(export.export)
app.command(rich_help_panel=_LOOK_BACK)(undo.rollback)
app.command(rich_help_panel=_LOOK_BACK)(undo.reapply)

app.command(rich_help_panel=_MEND)(doctor.doctor)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=_MEND)
app.command(rich_help_panel=_MEND)(upkeep.repair)
app.command("clean-up", rich_help_panel=_MEND)(upkeep.clean_up)
app.command(rich_help_panel=_MEND)(erase.erase)
app.command(rich_help_panel=_MEND)(adopt.adopt)

app.command(rich_help_panel=_TRY)(demo.demo)
app.command(rich_help_panel=_TRY)(feed.feed)
group.app.command()(replicate.replicate)
group.app.command("sample-db")(sample_db.sample_db)
app.add_typer(group.app, name="local", rich_help_panel=_TRY)


def main() -> None:
    """Entry point of the command."""
    app()
