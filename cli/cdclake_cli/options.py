"""Options that several verbs share."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Callable, Union, get_type_hints

import typer

from cdclake.errors import ConfigurationError
from cdclake.model.layout import CHANGE_DIGITS
from cdclake_cli.target import Target

if TYPE_CHECKING:
    from datetime import datetime

TableArgument = Annotated[
    str, typer.Argument(metavar="SCHEMA.TABLE", help="One table; schema/table if a name contains a dot.")
]
TablesArgument = Annotated[
    list[str],
    typer.Argument(metavar="SCHEMA.TABLE...", help="Tables, or quoted patterns such as `'shop.*'`; `'*'` means all."),
]
AnyTablesArgument = Annotated[
    Union[list[str], None],
    typer.Argument(metavar="[SCHEMA.TABLE...]", help="Tables, or quoted patterns such as `'shop.*'`. Default: all."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
UncheckedOption = Annotated[
    bool, typer.Option("--unchecked", help="Do not compare the columns named with the raw files.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Reason, kept in the change log.")]
KeyOption = Annotated[
    list[str],
    typer.Option(
        metavar="VALUE|JSON",
        help='Key of a row, or of several columns: {"id": 5, "region": "EU"}. Binary as hex digits. Repeatable.',
    ),
]
FromFileOption = Annotated[
    Union[Path, None],
    typer.Option("--from", exists=True, dir_okay=False, help="Read settings from this JSON file; options override it."),
]
LateAfterOption = Annotated[
    int, typer.Option("--late-after-minutes", min=1, help="Report a due raw file as late after this many minutes.")
]

_FIELD_OF_OUTPUT = {
    "RawBucket": "raw_bucket",
    "RawPrefix": "raw_prefix",
    "LakeBucket": "lake_bucket",
    "LakePrefix": "lake_prefix",
    "StateTable": "state_table",
    "NamePrefix": "name_prefix",
}
"""The field of `Target` for each output of the deployed stack."""


def _with_stack_outputs(target: Target) -> Target:
    """Replace the defaults in a target with the outputs of its stack."""
    from cdclake_cli.aws.session import stack_outputs  # slow to import, and needed only with --stack

    outputs = {name: value for name, value in stack_outputs(target).items() if name in _FIELD_OF_OUTPUT}
    if not outputs:
        message = f"The stack {target.stack} has no outputs that name buckets or the state table"
        raise ConfigurationError(message, remedy="Name the pipeline's stack, which is CdclakePipeline by default")
    located = {_FIELD_OF_OUTPUT[output]: value for output, value in outputs.items() if value}
    default = Target()
    unset = {name: value for name, value in located.items() if getattr(target, name) == getattr(default, name)}
    return replace(target, **unset)


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `target` of a Typer command with the options of `Target`."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "target"
    ]
    target_hints = get_type_hints(Target, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=target_hints[field.name]
        )
        for field in fields(Target)
    ]

    @wraps(command)
    def with_options(*args: object, **options: Any) -> None:  # noqa: ANN401 - passes on what Typer parsed
        target = Target(**{field.name: options.pop(field.name) for field in fields(Target)})
        command(*args, target=_with_stack_outputs(target) if target.stack else target, **options)

    parameters = [*own, *shared]
    vars(with_options)["__signature__"] = inspect.Signature(parameters)
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def change_or_time(text: str | None) -> tuple[int | None, datetime | None]:
    """Parse a change number or a time; one of the two results is None, and both are if there is no text.

    Raises:
        ConfigurationError: The text is neither.
    """
    from cdclake.lake.read.as_of import parse_time

    if text is None:
        return None, None
    is_number = text.isdecimal() and len(text) <= CHANGE_DIGITS
    return (int(text), None) if is_number else (None, parse_time(text))
