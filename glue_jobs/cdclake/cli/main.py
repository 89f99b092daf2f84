"""The `cdclake` command: puts the verbs together."""

from __future__ import annotations

import typer

from cdclake.cli import (
    adopt,
    changes,
    console,
    demo,
    diff,
    doctor,
    erase,
    export,
    feed,
    history,
    local,
    plan,
    quarantine,
    replicate,
    run,
    sample_db,
    status,
    tables,
    undo,
    upkeep,
    verify,
)
from cdclake.cli.errors import ErrorReportingGroup

app = typer.Typer(
    name="cdclake",
    cls=ErrorReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Keep a data lake on S3 equal to the databases behind it, from AWS DMS files.",
)
app.command()(demo.demo)
app.command()(run.run)
app.command()(plan.plan)
app.command()(status.status)
app.command()(doctor.doctor)
app.command()(console.console)
app.add_typer(tables.app, name="tables")
app.add_typer(changes.app, name="changes")
app.command()(adopt.adopt)
app.command()(undo.rollback)
app.command()(undo.reapply)
app.command()(upkeep.repair)
app.command("clean-up")(upkeep.clean_up)
app.command()(export.export)
app.command()(diff.diff)
app.command()(verify.verify)
app.command()(feed.feed)
app.command()(history.history)
app.add_typer(quarantine.app, name="quarantine")
app.command()(erase.erase)
local.app.command()(replicate.replicate)
local.app.command("sample-db")(sample_db.sample_db)
app.add_typer(local.app, name="local")


def main() -> None:
    """Entry point of the command."""
    app()
