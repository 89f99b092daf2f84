"""What a command works on: the account or endpoint, the buckets, the state table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cdclake.control.admin.installation import Installation, variable
from cdclake.model.names import Argument

STACK_VARIABLE = "CDCLAKE_STACK"
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
