"""What a command works on: the account or endpoint, the buckets, the state table."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Annotated, Any, Callable, get_type_hints

import typer

from cdclake.control.admin.installation import Installation, variable
from cdclake.errors import ConfigurationError
from cdclake.model.names import Argument

STACK_VARIABLE = "CDCLAKE_STACK"
_AWS = "AWS"
_PLACES = "Places"
_OUTPUTS = {
    "RawBucket": "raw_bucket",
    "RawPrefix": "raw_prefix",
    "LakeBucket": "lake_bucket",
    "LakePrefix": "lake_prefix",
    "StateTable": "state_table",
}
"""Outputs of the deployed stack, and the options that they stand for."""


def _place(name: str, what: str) -> Any:  # noqa: ANN401 - Typer's own type for an option
    return typer.Option(f"--{name.replace('_', '-')}", envvar=variable(name), help=what, rich_help_panel=_PLACES)


@dataclass(frozen=True)
class Target:
    """Where the raw files, the lake and the state are. Each field is an option of every command that works on them."""

    endpoint_url: Annotated[
        str | None,
        typer.Option(help="Use this URL in place of AWS's own; also AWS_ENDPOINT_URL.", rich_help_panel=_AWS),
    ] = None
    region: Annotated[str | None, typer.Option(help="Region; also AWS_DEFAULT_REGION.", rich_help_panel=_AWS)] = None
    profile: Annotated[
        str | None, typer.Option(help="Profile of the AWS configuration; also AWS_PROFILE.", rich_help_panel=_AWS)
    ] = None
    stack: Annotated[
        str | None,
        typer.Option(
            envvar=STACK_VARIABLE,
            help="Take the places that are not given from this CloudFormation stack, such as CdclakePipeline.",
            rich_help_panel=_PLACES,
        ),
    ] = None
    raw_bucket: Annotated[str, _place("raw_bucket", "Bucket that DMS writes to.")] = Installation.raw_bucket
    raw_prefix: Annotated[str, _place("raw_prefix", "Folder of the schemas in it.")] = Installation.raw_prefix
    lake_bucket: Annotated[str, _place("lake_bucket", "Bucket of the lake.")] = Installation.lake_bucket
    lake_prefix: Annotated[str, _place("lake_prefix", "Folder of the lake in it.")] = Installation.lake_prefix
    state_table: Annotated[str, _place("state_table", "DynamoDB table of the state.")] = Installation.state_table

    @property
    def installation(self) -> Installation:
        """The same without the account."""
        return Installation(self.raw_bucket, self.raw_prefix, self.lake_bucket, self.lake_prefix, self.state_table)

    @property
    def job_arguments(self) -> dict[str, str]:
        """Arguments that point the Controller job to the same raw files and state."""
        return {
            Argument.BUCKET: self.raw_bucket,
            Argument.PREFIX: self.installation.raw_folder,
            Argument.STATE_TABLE: self.state_table,
        }


def _of_stack(target: Target) -> Target:
    """The target with the places that its stack tells in place of the defaults."""
    from cdclake.cli.aws.services import stack_outputs  # boto3 takes a while, and who names no stack needs none

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
