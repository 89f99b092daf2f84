"""`cdclake console`: show tables and their changes in a browser on this machine."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cdclake.control.status import LATE_AFTER_MINUTES
from cdclake.errors import CdclakeError
from cdclake.signals import stop_signals
from cdclake_cli.options import LateAfterOption, with_target
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from cdclake_cli.aws.services import Services


@with_target
def console(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0 for any free port.")] = 0,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes", help="Let pages turn tables on and off, change settings, roll back and reapply."
        ),
    ] = False,
    late_after_minutes: LateAfterOption = LATE_AFTER_MINUTES,
    target: Target,
) -> None:
    """Show tables and their changes in a browser, until Ctrl-C. Read-only by default.

    Prints the address to open. It contains a new secret each time, and only this machine can reach it.

    Example: cdclake console --allow-changes
    """
    from cdclake.adapters.aws import server_clock
    from cdclake.adapters.caller import os_user
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it
    from cdclake_cli.config.column_checks import column_checks
    from cdclake_cli.console.context import Console
    from cdclake_cli.console.server import serve
    from cdclake_cli.errors import explain

    services = connect(target)
    with suppress(CdclakeError):  # pages report it
        services.clock()
    context = Console(
        lake=services,
        where=_endpoint_text(target, services),
        clock=server_clock,
        explain=explain,
        late_after_minutes=late_after_minutes,
        checks=partial(column_checks, target, services, unchecked=False),
        allow_changes=allow_changes,
        made_by=os_user(),
    )
    with stop_signals() as wait, serve(context, port) as address:
        typer.echo(address)
        mode = "allows changes" if allow_changes else "is read-only"
        typer.echo(f"The console {mode}. Open this address in a browser; stop with Ctrl-C.", err=True)
        wait()


def _endpoint_text(target: Target, services: Services) -> str:
    """The AWS endpoint or account, for display. Opens the adapters, so that wrong settings fail here."""
    from cdclake_cli.aws.session import endpoint_of, session_of

    _ = services.plan_inputs, services.lake
    endpoint = endpoint_of(target)
    if endpoint:
        return endpoint
    session = session_of(target)
    profile = f", profile {target.profile}" if target.profile else ""
    return f"AWS {session.region_name or ''}{profile}"
