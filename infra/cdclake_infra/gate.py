"""`make synth`: synthesizes the stacks and lets through only what all checks find nothing wrong with.

cdk-nag runs within synthesis, which fails if there is a finding for which nobody has given a reason.
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
from cdclake_infra.build import build_app, context_of_cdk_json, refusals
from cdclake_infra.library import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import App
    from aws_cdk.cx_api import CloudAssembly

IGNORED_BY_CFN_LINT = ("W3005",)
"""W3005: the CDK writes out dependencies that follow from references as well; that is harmless."""
_ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
_ANNOTATION = "Annotation::"


@dataclass(frozen=True)
class Reason:
    """Why a finding is no mistake.

    Attributes:
        place: Where in the construct tree.
        finding: The finding, as cdk-nag or the CDK names it.
        reason: Why.
    """

    place: str
    finding: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """Stacks that passed.

    Attributes:
        folder: Where everything was written.
        templates: CloudFormation templates by stack.
        reasons: What was found and explained.
    """

    folder: Path
    templates: Mapping[str, Mapping[str, Any]]
    reasons: Sequence[Reason]


def synthesize(app: App) -> Checked:
    """Synthesize, with cdk-nag, and let no warning of the CDK pass.

    Raises:
        ConfigurationError: There are findings or warnings.
    """
    with refusals():
        assembly = app.synth()
    warnings = _warnings(assembly)
    if warnings:
        raise ConfigurationError("The CDK warns: " + "; ".join(warnings), remedy="Correct it, or acknowledge it")
    folder = Path(assembly.directory)
    stacks = [stack.stack_name for stack in assembly.stacks]
    templates = {stack: json.loads(template_file(folder, stack).read_text(encoding="utf-8")) for stack in stacks}
    return Checked(folder, templates, [reason for stack in stacks for reason in _reasons(folder, stack)])


def lint(checked: Checked) -> None:
    """Have cfn-lint look at the templates.

    Raises:
        ConfigurationError: It finds something.
    """
    config = ManualArgs(ignore_checks=list(IGNORED_BY_CFN_LINT))
    files = [template_file(checked.folder, stack) for stack in checked.templates]
    found = [f"{file.name}: {match}" for file in files for match in lint_file(file, config)]
    if found:
        raise ConfigurationError("cfn-lint found: " + "; ".join(found), remedy="Correct the constructs")


def template_file(folder: Path, stack: str) -> Path:
    """The file of a stack's template."""
    return folder / f"{stack}.template.json"


def main() -> int:
    """Check the stacks with the settings of cdk.json, and say what was checked."""
    try:
        checked = synthesize(build_app(context_of_cdk_json(), ROOT / "cdk.out"))
        lint(checked)
    except CdclakeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for stack, template in checked.templates.items():
        sys.stdout.write(f"{stack}: {len(template['Resources'])} resources\n")
    sys.stdout.write(f"cdk-nag (AwsSolutions): nothing left to explain; {len(checked.reasons)} findings explained:\n")
    for reason in sorted({f"  {_rule(one.finding)}: {one.reason}\n" for one in checked.reasons}):
        sys.stdout.write(reason)
    sys.stdout.write(f"cfn-lint: clean\nThe templates and all they deploy are in {checked.folder}\n")
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


def _reasons(folder: Path, stack: str) -> list[Reason]:
    metadata = json.loads((folder / f"{stack}.metadata.json").read_text(encoding="utf-8"))
    return [
        Reason(place, finding.removeprefix(_ANNOTATION), reason)
        for place, entries in metadata.items()
        for entry in entries
        if entry["type"] == _ACKNOWLEDGED
        for finding, reason in entry["data"].items()
    ]


if __name__ == "__main__":
    sys.exit(main())
