"""`cdclake dms`: settings of AWS DMS that suit cdclake."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdclake_cli.doctor.dms.recommended import DEFAULT_LOB_KILOBYTES, MAX_LOB_KILOBYTES
from cdclake_cli.doctor.dms.setting import Source, shown
from cdclake_cli.doctor.dms.templates import Choices
from cdclake_cli.printing.output import JsonOutput, OutputColumn, OutputFormat, OutputOption, output_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cdclake_cli.doctor.dms.setting import Setting

_COLUMNS = (OutputColumn("name", "Setting"), OutputColumn("value", "Value"), OutputColumn("reason", "Why"))
_RULE_COLUMNS = (OutputColumn("name", "Rule"), OutputColumn("reason", "Why"))
_TARGET, _TASK, _MAPPINGS = "S3 target endpoint (S3Settings)", "Task settings", "Table mappings"
_PARAMETERS, _STEPS = "Parameters of the source database", "SQL in the source database"

app = typer.Typer(
    no_args_is_help=True,
    help="Show settings of AWS DMS that suit cdclake.\n\nExample: cdclake dms settings --source mysql",
)


class Form(str, Enum):
    """What the settings are printed as."""

    TABLE = "table"
    CLI = "cli"
    CLOUDFORMATION = "cloudformation"
    TERRAFORM = "terraform"


@app.callback()
def _group() -> None:
    """Keep `settings` a verb of a group: Typer makes a single one the command itself."""


@app.command("settings")
def settings(
    *,
    source: Annotated[Source, typer.Option(help="Kind of source database.")],
    form: Annotated[
        Form, typer.Option("--as", help="Tables with reasons, a script for the AWS CLI, or a template in JSON.")
    ] = Form.TABLE,
    bucket: Annotated[str | None, typer.Option(help="The raw bucket.")] = None,
    folder: Annotated[str | None, typer.Option(help="The raw prefix, if there is one.")] = None,
    role_arn: Annotated[str | None, typer.Option(help="Role that DMS writes with.")] = None,
    bucket_owner: Annotated[str | None, typer.Option(metavar="ACCOUNT", help="Account that owns the bucket.")] = None,
    kms_key_arn: Annotated[str | None, typer.Option(help="Your own key that encrypts the files.")] = None,
    schema: Annotated[str, typer.Option(help="Replicate the tables of this schema; % matches any text.")] = "%",
    lob_max_size: Annotated[
        int, typer.Option(min=1, max=MAX_LOB_KILOBYTES, help="Size of the largest LOB, in kilobytes.")
    ] = DEFAULT_LOB_KILOBYTES,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print settings of the DMS task and its endpoints that suit cdclake, and what the source database needs.

    Each has its reason. Calls no service and changes nothing. Scripts and templates leave out what the source database
    needs, and templates also the source endpoint: the tables show both.

    Example: cdclake dms settings --source postgres --as terraform > dms.tf.json
    """
    choices = Choices(source, bucket, folder, role_arn, bucket_owner, kms_key_arn, schema, lob_max_size)
    if form is Form.TABLE:
        _print_tables(choices, output)
        return
    if output is OutputFormat.JSON:
        JsonOutput().json_record(_content(choices, form))
    elif form is Form.CLI:
        typer.echo(choices.shell_script)
    else:
        typer.echo(json.dumps(_content(choices, form), indent=2))
    typer.echo(f"Set up the source, too: cdclake dms settings --source {source.value}", err=True)


def _content(choices: Choices, form: Form) -> dict[str, Any]:
    if form is Form.CLI:
        return {"files": choices.cli_files, "commands": choices.cli_commands}
    return choices.cloudformation if form is Form.CLOUDFORMATION else choices.terraform


def _print_tables(choices: Choices, output: OutputFormat) -> None:
    out, advice = output_for(output), choices.advice
    endpoint = f"Source endpoint ({advice.api_name})"
    _print_records(output, _TARGET, choices.target)
    _print_records(output, _TASK, choices.task)
    _print_records(output, _MAPPINGS, choices.rules, _RULE_COLUMNS)
    if output is OutputFormat.TABLE:
        out.verbatim(f"{json.dumps(choices.cli_files['table-mappings.json'], indent=2)}\n")
    if advice.endpoint:
        _print_records(output, endpoint, advice.endpoint)
    else:
        out.remark(f"{endpoint}: no settings besides the connection.")
        out.remark("")
    if advice.parameters:
        _print_records(output, _PARAMETERS, advice.parameters)
    if output is OutputFormat.JSON:
        _print_records(output, _STEPS, advice.steps)
        return
    out.remark(_STEPS)
    for step in advice.steps:
        out.verbatim(f"\n-- {step.name}: {step.reason}\n{step.value}")
    out.remark("")
    out.remark("AWS's page about each: --output json. For the AWS CLI, CloudFormation or Terraform: --as.")


def _print_records(
    output: OutputFormat, title: str, settings: Iterable[Setting], columns: Sequence[OutputColumn] = _COLUMNS
) -> None:
    records = [
        {
            "section": title,
            "name": setting.name,
            "value": setting.value if output is OutputFormat.JSON else shown(setting.value),
            "reason": setting.reason,
            "source": setting.source_url,
        }
        for setting in settings
    ]
    output_for(output).records(title, columns, records)
