"""Options that several verbs share."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Callable, Union, get_type_hints

import typer

from cdclake.cli.target import Target
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

TableArgument = Annotated[str, typer.Argument(metavar="SCHEMA.TABLE", help="The table.")]
TablesOption = Annotated[
    Union[list[str], None],
    typer.Option("--table", metavar="SCHEMA.TABLE", help="Only this table; may be repeated."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why: kept in the change log.")]
KeyOption = Annotated[
    list[str],
    typer.Option(
        metavar="VALUE|JSON",
        help='Key of a row; of several columns: {"id": 5, "region": "EU"}. Binary: as hex digits. Repeat.',
    ),
]
LateAfterOption = Annotated[
    int, typer.Option("--late-after-minutes", min=1, help="After how long a raw file that no run has taken is late.")
]

_OUTPUTS = {
    "RawBucket": "raw_bucket",
    "RawPrefix": "raw_prefix",
    "LakeBucket": "lake_bucket",
    "LakePrefix": "lake_prefix",
    "StateTable": "state_table",
}
"""Outputs of the deployed stack, and the options that they stand for."""


def _of_stack(target: Target) -> Target:
    """The target with the places that its stack tells in place of the defaults."""
    from cdclake.cli.aws.session import stack_outputs  # boto3 takes a while, and who names no stack needs none

    told = stack_outputs(target)
    named = {output: told[output] for output in _OUTPUTS if output in told}
    if not named:
        message = f"The stack {target.stack} tells of no buckets and no state table"
        raise ConfigurationError(message, remedy="Name the stack of the pipeline, CdclakePipeline by default")
    given = {name: value for output, name in _OUTPUTS.items() if (value := named.get(output))}
    defaults = {field.name: field.default for field in fields(Target)}
    return replace(target, **{name: value for name, value in given.items() if getattr(target, name) == defaults[name]})


def with_target(command: Callable[..., None]) -> Callable[..., None]:
    """Give a Typer command the options of `Target` in place of its parameter `target`."""
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
        command(*args, target=_of_stack(target) if target.stack else target, **options)

    parameters = [*own, *shared]
    vars(with_options)["__signature__"] = inspect.Signature(parameters)
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def change_or_time(text: str | None) -> tuple[int | None, datetime | None]:
    """What a person wrote to name a state of a table: a number, a time, or neither.

    Raises:
        ConfigurationError: It is none of them.
    """
    from cdclake.lake.read.as_of import parse_time

    if text is None:
        return None, None
    return (int(text), None) if text.isdecimal() else (None, parse_time(text))
