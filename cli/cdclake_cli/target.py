"""The AWS account or endpoint, the buckets and the state table that a command works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cdclake.control.admin.installation import Installation, variable
from cdclake.model.names import Argument

STACK_VARIABLE = "CDCLAKE_STACK"
_AWS = "AWS"
_LOCATIONS = "Locations"


def _location(name: str, text: str) -> Any:  # noqa: ANN401 - Typer's own type for an option
    return typer.Option(f"--{name.replace('_', '-')}", envvar=variable(name), help=text, rich_help_panel=_LOCATIONS)


@dataclass(frozen=True)
class Target:
    """Locations of the raw files, the lake and the state. Each field is an option of every verb that uses them."""

    endpoint_url: Annotated[
        str | None,
        typer.Option(help="Use this URL instead of AWS. Also AWS_ENDPOINT_URL.", rich_help_panel=_AWS),
    ] = None
    region: Annotated[str | None, typer.Option(help="AWS region. Also AWS_DEFAULT_REGION.", rich_help_panel=_AWS)] = (
        None
    )
    profile: Annotated[str | None, typer.Option(help="AWS profile. Also AWS_PROFILE.", rich_help_panel=_AWS)] = None
    stack: Annotated[
        str | None,
        typer.Option(
            envvar=STACK_VARIABLE,
            help="Read the locations from the outputs of this CloudFormation stack, such as CdclakePipeline.",
            rich_help_panel=_LOCATIONS,
        ),
    ] = None
    raw_bucket: Annotated[str, _location("raw_bucket", "Bucket that DMS writes to.")] = Installation.raw_bucket
    raw_prefix: Annotated[str, _location("raw_prefix", "Prefix of the schemas in the raw bucket.")] = (
        Installation.raw_prefix
    )
    lake_bucket: Annotated[str, _location("lake_bucket", "Bucket of the lake tables.")] = Installation.lake_bucket
    lake_prefix: Annotated[str, _location("lake_prefix", "Prefix of the schemas in the lake bucket.")] = (
        Installation.lake_prefix
    )
    state_table: Annotated[str, _location("state_table", "State table in DynamoDB.")] = Installation.state_table
    name_prefix: Annotated[str, _location("name_prefix", "Prefix of the jobs' names; --stack finds all.")] = ""

    @property
    def installation(self) -> Installation:
        """The buckets and the state table."""
        return Installation(self.raw_bucket, self.raw_prefix, self.lake_bucket, self.lake_prefix, self.state_table)

    @property
    def job_arguments(self) -> dict[str, str]:
        """Arguments that make the Controller job use the same raw files and state table."""
        return {
            Argument.BUCKET: self.raw_bucket,
            Argument.PREFIX: self.installation.raw_folder,
            Argument.STATE_TABLE: self.state_table,
        }
