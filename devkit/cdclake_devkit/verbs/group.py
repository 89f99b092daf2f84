"""`cdclake local`: assembles the verbs of the group."""

from __future__ import annotations

import typer

from cdclake_devkit.verbs import feed, put, query, replicate, sample, sample_db, serve, shell

app = typer.Typer(
    no_args_is_help=True,
    help="Start a local AWS, and generate or replicate data for it.\n\nExample: cdclake local shell",
)
app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})(shell.shell)
app.command()(put.put)
app.command()(query.query)
app.command()(serve.serve)
app.command()(sample.sample)
app.command()(feed.feed)
app.command()(replicate.replicate)
app.command("sample-db")(sample_db.sample_db)
