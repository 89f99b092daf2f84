"""The parts of `make deploy-local` that work without a deployment: assembly, templates, job runs."""

from __future__ import annotations

import io
import json
import shutil
import sysconfig
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from deploy_local.assembly import ZIP, Account, stacks_in_order
from deploy_local.deploy import UNSUPPORTED, zipped
from deploy_local.job_run import Request, run
from deploy_local.modules import link_modules
from deploy_local.this_machine import for_this_machine
from deploy_local.unsupported import UnsupportedType, dead_letter_targets, remove_unsupported, with_dead_letter_outputs

from cdclake.errors import ConfigurationError
from cdclake_devkit.local.jobs import JobRunState
from cdclake_infra.build import PIPELINE, STORAGE
from tests.infra.stacks import ACCOUNT, CODE_BUCKET, REGION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cdclake_devkit.local import EmbeddedAws
    from cdclake_infra.gate import CheckedStacks

TARGET = Account(ACCOUNT, REGION)
UNSUPPORTED_THING = {"Some::Thing": UnsupportedType("Some::Thing", name_property="Name", replacement="created by hand")}
THING = {"Type": "Some::Thing", "Properties": {"Name": "thing"}}
BUCKET, SCRIPT = "code", "script.py"
SUCCESS = (JobRunState.SUCCEEDED, "")


def template(**users: Mapping[str, Any]) -> dict[str, Any]:
    return {"Resources": {"Thing": THING, **users}}


def test_stacks_come_after_their_dependencies_with_existing_assets(checked: CheckedStacks):
    stacks = stacks_in_order(checked.folder, TARGET)
    assert [stack.name for stack in stacks] == [STORAGE, PIPELINE]
    assert [stack.termination_protection for stack in stacks] == [True, False]
    assert stacks[1].template == checked.templates[PIPELINE]
    assets = [asset for stack in stacks for asset in stack.assets]
    assert {asset.bucket for asset in assets} == {CODE_BUCKET}
    assert {asset.source.suffix for asset in assets if asset.packaging != ZIP} == {".json", ".py", ".whl", ".zip"}
    (function,) = [asset for asset in assets if asset.packaging == ZIP]
    assert (function.source / "handler.py").is_file()


def test_a_missing_asset_is_reported(checked: CheckedStacks, tmp_path: Path):
    folder = shutil.copytree(checked.folder, tmp_path / "assembly")
    (folder / "code" / "controller.py").unlink()
    with pytest.raises(ConfigurationError, match=r"An asset is missing .*controller\.py"):
        stacks_in_order(folder, TARGET)


def test_a_folder_without_an_assembly_is_reported(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"is missing .*manifest\.json"):
        stacks_in_order(tmp_path, TARGET)


def test_only_the_workflow_is_removed_from_the_templates(checked: CheckedStacks):
    whole = checked.templates[PIPELINE]
    rest, removed = remove_unsupported(whole, UNSUPPORTED)
    assert [resource.properties["Name"] for resource in removed] == ["DMSCDC"]
    assert whole["Resources"].keys() - rest["Resources"].keys() == {removed[0].logical_id}
    changed = {name for name, resource in rest["Resources"].items() if resource != whole["Resources"][name]}
    assert [rest["Resources"][name]["Type"] for name in changed] == ["AWS::Glue::Trigger"]
    assert [rest["Resources"][name]["Properties"]["WorkflowName"] for name in changed] == ["DMSCDC"]


def test_removed_resources_disappear_from_depends_on():
    users: dict[str, Any] = {
        "One": {"Type": "A", "DependsOn": ["Thing", "Two"]},
        "Two": {"Type": "A", "DependsOn": "Thing"},
    }
    rest, _ = remove_unsupported(template(**users), UNSUPPORTED_THING)
    assert rest["Resources"] == {"One": {"Type": "A", "DependsOn": ["Two"]}, "Two": {"Type": "A", "DependsOn": []}}


@pytest.mark.parametrize(
    "value",
    [
        {"Fn::GetAtt": ["Thing", "Arn"]},
        {"Fn::Sub": "arn:${AWS::Partition}:${Thing}"},
        {"Fn::Join": ["", ["a", {"Fn::Sub": ["${Thing.Arn}", {}]}]]},
    ],
)
def test_an_irreplaceable_reference_is_refused(value: Mapping[str, Any]):
    user = {"Type": "A", "Properties": {"Of": value}}
    with pytest.raises(ConfigurationError, match="lacks the type of Thing"):
        remove_unsupported(template(User=user), UNSUPPORTED_THING)


def test_a_reference_to_a_generated_name_is_refused():
    user = {"Type": "A", "Properties": {"Of": {"Ref": "Unnamed"}}}
    unnamed = {"Type": "Some::Thing", "Properties": {}}
    with pytest.raises(ConfigurationError, match="its name, which CloudFormation generates"):
        remove_unsupported(template(User=user, Unnamed=unnamed), UNSUPPORTED_THING)


def test_outputs_contain_the_dead_letter_targets_by_function(checked: CheckedStacks):
    whole = with_dead_letter_outputs(checked.templates[PIPELINE])
    added = whole["Outputs"].keys() - checked.templates[PIPELINE]["Outputs"].keys()
    outputs = {name: json.dumps(whole["Outputs"][name]["Value"]) for name in added}
    ((function, queue),) = dead_letter_targets(outputs).items()
    assert "OnRawFileFunction" in function
    assert "OnRawFileUndelivered" in queue
    assert dead_letter_targets({"RawBucket": "raw"}) == {}


def test_only_the_archive_of_the_function_of_small_changes_is_replaced(checked_tailored: CheckedStacks, tmp_path: Path):
    stacks = stacks_in_order(checked_tailored.folder, TARGET)
    here = for_this_machine(stacks, tmp_path)
    assert [replace(one, assets=()) for one in here] == [replace(one, assets=()) for one in stacks]
    pairs = [
        pair for one, other in zip(stacks, here, strict=True) for pair in zip(one.assets, other.assets, strict=True)
    ]
    ((deployed, own),) = [pair for pair in pairs if pair[0] != pair[1]]
    assert own == replace(deployed, source=own.source)
    assert own.source.parent == tmp_path
    with zipfile.ZipFile(own.source) as archive:
        names = archive.namelist()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert {f"pyarrow/lib{suffix}", "handler.py", "cdclake/lake_table.py"} < set(names)


def test_a_folder_is_zipped_with_relative_names(tmp_path: Path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("pass")
    (tmp_path / "handler.py").write_text("pass")
    assert zipfile.ZipFile(io.BytesIO(zipped(tmp_path))).namelist() == ["handler.py", "package/module.py"]


def test_modules_are_linked_with_their_dependencies_only(tmp_path: Path):
    folder = tmp_path / "modules"
    link_modules(["botocore"], folder)
    packages = {path.name for path in folder.iterdir() if path.is_dir() and not path.name.endswith("-info")}
    assert {"botocore", "dateutil", "jmespath", "urllib3"} <= packages
    assert not packages & {"boto3", "cdclake", "numpy", "pyarrow"}


def test_a_module_that_is_not_installed_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="use no-such-module-of-anybody, which is not installed"):
        link_modules(["no-such-module-of-anybody"], tmp_path / "modules")


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    from cdclake_devkit.local import EmbeddedAws

    with EmbeddedAws() as embedded:
        embedded.client("s3").create_bucket(Bucket=BUCKET)
        yield embedded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    return tmp_path


def request(aws: EmbeddedAws, script: str = SCRIPT, kind: str = "pythonshell", **arguments: str) -> Request:
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), "local")
    command = {"Name": kind, "ScriptLocation": f"s3://{BUCKET}/{script}"}
    options = {f"--{name.replace('_', '-')}": value for name, value in arguments.items()}
    return Request(aws.endpoint, {"Name": "job", "Command": command, "Timeout": 1}, "run", options, keys)


def wheel(name: str, more: str = "") -> bytes:
    """A wheel with an empty module."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{more}")
        archive.writestr(f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{name}-1.dist-info/RECORD", "")
    return content.getvalue()


def put_wheel(aws: EmbeddedAws, name: str, more: str = "") -> str:
    """Upload a wheel; returns its location."""
    put(aws, f"{name}-1-py3-none-any.whl", wheel(name, more))
    return f"s3://{BUCKET}/{name}-1-py3-none-any.whl"


def put(aws: EmbeddedAws, key: str, content: bytes) -> None:
    aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content)


@pytest.mark.aws
def test_a_script_cannot_import_code_that_is_not_deployed(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"import cdclake")
    state, error = run(request(aws), REGION, folder)
    assert state is JobRunState.FAILED
    assert error.startswith("ModuleNotFoundError: No module named 'cdclake'")


@pytest.mark.deployment
@pytest.mark.aws
def test_a_script_gets_its_arguments_its_role_and_its_wheels(aws: EmbeddedAws, folder: Path):
    put(
        aws,
        SCRIPT,
        b"import os, sys, first, second\n"
        b"assert sys.argv[-2:] == ['--bucket', 'raw'], sys.argv\n"
        b"assert os.environ['AWS_SESSION_TOKEN'] == 'local'\n",
    )
    locations = [put_wheel(aws, "first"), put_wheel(aws, "second")]
    assert run(request(aws, extra_py_files=",".join(locations), bucket="raw"), REGION, folder) == SUCCESS


@pytest.mark.aws
def test_a_wheel_whose_dependency_is_not_deployed_is_refused(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"")
    location = put_wheel(aws, "needy", "Requires-Dist: boto3\n")
    with pytest.raises(ConfigurationError, match=r"pip cannot install needy-1-py3-none-any\.whl: .* boto3"):
        run(request(aws, extra_py_files=location), REGION, folder)


@pytest.mark.aws
def test_a_python_shell_job_installs_modules_only_from_its_extra_files(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"")
    with pytest.raises(ConfigurationError, match=r"such as first-1-py3.* Pass them with --extra-py-files"):
        run(request(aws, additional_python_modules=put_wheel(aws, "first")), REGION, folder)


@pytest.mark.deployment
@pytest.mark.aws
def test_a_spark_job_gets_the_wheels_of_its_archive(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"import first, pandas\n")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("wheels/requirements.txt", "first==1\n")
        archive.writestr("wheels/first-1-py3-none-any.whl", wheel("first"))
    put(aws, "libraries.gluewheels.zip", content.getvalue())
    modules = {"additional_python_modules": f"s3://{BUCKET}/libraries.gluewheels.zip"}
    option = {"python_modules_installer_option": "--no-index"}
    assert run(request(aws, kind="glueetl", **modules, **option), REGION, folder) == SUCCESS
    with pytest.raises(ConfigurationError, match="with the option '', Glue needs a package index"):
        run(replace(request(aws, kind="glueetl", **modules), run_id="another"), REGION, folder)


@pytest.mark.aws
def test_a_library_with_an_invalid_wheel_name_is_refused(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"")
    put(aws, "0123456789abcdef.whl", b"")
    with pytest.raises(ConfigurationError, match=r"pip cannot install 0123456789abcdef\.whl"):
        run(request(aws, extra_py_files=f"s3://{BUCKET}/0123456789abcdef.whl"), REGION, folder)


@pytest.mark.aws
def test_a_missing_script_is_reported(aws: EmbeddedAws, folder: Path):
    with pytest.raises(ConfigurationError, match=r"The job cannot read s3://code/gone\.py"):
        run(request(aws, script="gone.py"), REGION, folder)
