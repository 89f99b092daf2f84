"""The gate checks every template and fails on every finding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from aws_cdk import Annotations, Stack
from aws_cdk import aws_s3 as s3

from cdclake.errors import ConfigurationError
from cdclake_infra import gate
from cdclake_infra.build import build_app, context_of_cdk_json
from cdclake_infra.gate import CheckedStacks, lint, synthesize, template_file
from cdclake_infra.settings_file import NAMES_A_FILE, SETTINGS_FILE
from cdclake_infra.terraform import MODULE_FILE
from tests import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.deployment


def test_cfn_lint_finds_nothing(checked_tailored: CheckedStacks):
    lint(checked_tailored)


def test_make_synth_checks_the_stacks_and_prints_each_finding_that_was_accepted(
    checked: CheckedStacks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The command builds the stacks of this checkout as `checked` did, whose settings are the default ones."""
    built: list[object] = []
    monkeypatch.setattr(gate, "build_app", lambda *given, **named: built.append((given, named)))
    monkeypatch.setattr(gate, "synthesize", lambda _: checked)
    assert gate.main() == 0
    assert built == [((context_of_cdk_json(), ROOT / "cdk.out"), {"settings_file": SETTINGS_FILE})]
    out = capsys.readouterr().out
    for stack, template in checked.templates.items():
        assert f"{stack}: {len(template['Resources'])} resources\n" in out
    assert all(accepted.reason in out for accepted in checked.acknowledged)
    assert "cfn-lint: no findings" in out
    assert (checked.folder / MODULE_FILE).is_file()


def test_make_synth_reports_a_wrong_template_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    template = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"Encrypted": True}}}}
    template_file(tmp_path, "Broken").write_text(json.dumps(template))
    monkeypatch.setattr(gate, "build_app", lambda *_, **__: None)
    monkeypatch.setattr(gate, "synthesize", lambda _: CheckedStacks(tmp_path, {"Broken": template}, []))
    assert gate.main() == ConfigurationError.exit_code
    assert capsys.readouterr().err.startswith("cfn-lint found: Broken.template.json: [E3002")


def test_every_accepted_finding_has_a_reason(checked: CheckedStacks):
    assert checked.acknowledged
    assert [accepted.finding for accepted in checked.acknowledged if len(accepted.reason) < 20] == []


def test_an_unacknowledged_finding_stops_synthesis(tmp_path: Path):
    app = build_app({}, tmp_path)
    s3.Bucket(Stack(app, "Another"), "Open")
    with pytest.raises(ConfigurationError, match="Synthesis failed: ValidationFailed"):
        synthesize(app)


def test_an_error_of_the_cdk_is_reported_without_a_stack_trace(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"Synthesis failed: .*Invalid S3 bucket name .*a\.\.b"):
        build_app({"cdclake:existing_raw_bucket": "a..b"}, tmp_path)


def test_a_warning_of_the_cdk_stops_the_gate(tmp_path: Path):
    app = build_app({}, tmp_path)
    Annotations.of(app.node.find_child("CdclakePipeline")).add_warning_v2("odd", "something is odd")
    with pytest.raises(ConfigurationError, match=r"The CDK warns: .*something is odd"):
        synthesize(app)


def test_the_cdk_command_creates_the_checked_templates(checked: CheckedStacks, tmp_path: Path):
    assert context_of_cdk_json() == {}
    done = run_as_cdk(tmp_path, {})
    assert done.returncode == 0, done.stderr
    for stack, template in checked.templates.items():
        assert json.loads(template_file(tmp_path, stack).read_text()) == template
    assert (tmp_path / MODULE_FILE).is_file()


def test_the_cdk_command_reports_a_wrong_setting_on_one_line(tmp_path: Path):
    done = run_as_cdk(tmp_path, {"cdclake:most_workers": "one"})
    assert done.returncode == 1
    assert done.stderr.strip().startswith("ConfigurationError: The setting cdclake:most_workers is 'one'")


def run_as_cdk(outdir: Path, context: Mapping[str, object]) -> subprocess.CompletedProcess[str]:
    """Run the app as the `cdk` command does (see cdk.json), but with this Python, and without a file of settings."""
    empty = outdir / "no-settings.yml"
    empty.touch()
    context = {NAMES_A_FILE: str(empty), **context}
    python, *arguments = json.loads((ROOT / "cdk.json").read_text())["app"].split()
    assert python == ".venv/bin/python"
    env = {**os.environ, "CDK_OUTDIR": str(outdir), "CDK_CONTEXT_JSON": json.dumps(context)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=env)
