"""What a command works on: the account or endpoint, the buckets, the state table."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, Callable, get_type_hints

import typer

from cdclake.control.installation import Installation, variable
from cdclake.model.names import Argument

_AWS = "AWS"
_PLACES = "Places"


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
        command(*args, target=target, **options)

    parameters = [*own, *shared]
    vars(with_options)["__signature__"] = inspect.Signature(parameters)
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options
