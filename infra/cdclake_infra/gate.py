"""`make synth`: synthesizes the stacks and fails on any warning or finding of the CDK, cdk-nag or cfn-lint.

cdk-nag runs within synthesis. A finding is accepted only with an acknowledged reason.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aws_cdk.cx_api import SynthesisMessageLevel
from cfnlint.api import ManualArgs, lint_file

from cdclake.errors import CdclakeError, ConfigurationError
from cdclake_infra.build import build_app, cdk_errors, context_of_cdk_json
from cdclake_infra.library import ROOT
from cdclake_infra.settings_file import SETTINGS_FILE
from cdclake_infra.terraform import write_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import App
    from aws_cdk.cx_api import CloudAssembly

IGNORED_BY_CFN_LINT = ("W3005",)
"""W3005: the CDK declares dependencies that references already imply; this is harmless."""
_ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
_ANNOTATION = "Annotation::"


@dataclass(frozen=True)
class AcknowledgedFinding:
    """A finding that was accepted, and why.

    Attributes:
        path: Path in the construct tree.
        finding: The name that cdk-nag or the CDK uses.
        reason: Why the finding is acceptable.
    """

    path: str
    finding: str
    reason: str


@dataclass(frozen=True)
class CheckedStacks:
    """Stacks that passed.

    Attributes:
        folder: The cloud assembly.
        templates: CloudFormation templates by stack.
        acknowledged: Accepted findings.
    """

    folder: Path
    templates: Mapping[str, Mapping[str, Any]]
    acknowledged: Sequence[AcknowledgedFinding]


def synthesize(app: App) -> CheckedStacks:
    """Synthesize the stacks with cdk-nag.

    Raises:
        ConfigurationError: There are findings or warnings.
    """
    with cdk_errors():
        assembly = app.synth()
    warnings = _warnings(assembly)
    if warnings:
        raise ConfigurationError("The CDK warns: " + "; ".join(warnings), remedy="Correct or acknowledge them")
    folder = Path(assembly.directory)
    stacks = [stack.stack_name for stack in assembly.stacks]
    templates = {stack: json.loads(template_file(folder, stack).read_text(encoding="utf-8")) for stack in stacks}
    acknowledged = [finding for stack in stacks for finding in _acknowledged_findings(folder, stack)]
    return CheckedStacks(folder, templates, acknowledged)


def lint(checked: CheckedStacks) -> None:
    """Check the templates with cfn-lint.

    Raises:
        ConfigurationError: cfn-lint reports an error or a warning.
    """
    config = ManualArgs(ignore_checks=list(IGNORED_BY_CFN_LINT))
    files = [template_file(checked.folder, stack) for stack in checked.templates]
    matches = [f"{file.name}: {match}" for file in files for match in lint_file(file, config)]
    if matches:
        raise ConfigurationError("cfn-lint found: " + "; ".join(matches), remedy="Correct the constructs")


def template_file(folder: Path, stack: str) -> Path:
    """The template file of a stack."""
    return folder / f"{stack}.template.json"


def main() -> int:
    """Check the stacks with the settings of this checkout and print the result."""
    try:
        checked = synthesize(build_app(context_of_cdk_json(), ROOT / "cdk.out", settings_file=SETTINGS_FILE))
        lint(checked)
        write_module(checked.folder)
    except CdclakeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for stack, template in checked.templates.items():
        sys.stdout.write(f"{stack}: {len(template['Resources'])} resources\n")
    sys.stdout.write(f"cdk-nag (AwsSolutions): no open findings; {len(checked.acknowledged)} acknowledged:\n")
    for line in sorted({f"  {_rule(accepted.finding)}: {accepted.reason}\n" for accepted in checked.acknowledged}):
        sys.stdout.write(line)
    sys.stdout.write(f"cfn-lint: no findings\nThe templates and assets are in {checked.folder}\n")
    return 0


def _rule(finding: str) -> str:
    return finding.partition("[")[0]


def _warnings(assembly: CloudAssembly) -> list[str]:
    return [
        f"{message.id}: {message.entry.data}"
        for stack in assembly.stacks
        for message in stack.messages
        if message.level is not SynthesisMessageLevel.INFO
    ]


def _acknowledged_findings(folder: Path, stack: str) -> list[AcknowledgedFinding]:
    metadata = json.loads((folder / f"{stack}.metadata.json").read_text(encoding="utf-8"))
    return [
        AcknowledgedFinding(path, finding.removeprefix(_ANNOTATION), reason)
        for path, entries in metadata.items()
        for entry in entries
        if entry["type"] == _ACKNOWLEDGED
        for finding, reason in entry["data"].items()
    ]


if __name__ == "__main__":
    sys.exit(main())
