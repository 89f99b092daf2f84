"""Runs a verb for each table that a pattern matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from cdclake.control.admin.installation import is_pattern
from cdclake.control.jobs.entry import error_line
from cdclake.errors import CdclakeError, gravest_kind

if TYPE_CHECKING:
    from cdclake_cli.printing.output import Output
    from cdclake_cli.target import Target


def matching_names(target: Target, table: str) -> list[str]:
    """The names of the tables that an argument names: itself, or the registered tables that a pattern matches.

    Raises:
        UnknownTableError: No registered table matches the pattern.
    """
    from cdclake_cli.aws.services import connect  # slow to import, and --help does not need it

    if not is_pattern(table):
        return [table]
    return [str(state.name) for state in target.installation.find_tables(connect(target).state, table)]


def for_each(names: list[str], work: Callable[[str], object], out: Output) -> None:
    """Do the work for each table. The error of one table does not stop the others.

    Raises:
        CdclakeError: Of the kind of the gravest error, if there is one; the error itself if there is one table.
    """
    if len(names) == 1:
        work(names[0])
        return
    failed: dict[str, CdclakeError] = {}
    for name in names:
        try:
            work(name)
        except CdclakeError as error:
            failed[name] = error
            out.remark(f"{name}: {error_line(error)}")
    if failed:
        message = f"{len(failed)} of {len(names)} tables failed: {', '.join(failed)}"
        first = next(iter(failed.values()))
        raise gravest_kind(failed.values())(message, remedy=f"First error: {error_line(first)}")
