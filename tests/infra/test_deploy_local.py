"""What `make deploy-local` makes of a cloud assembly and of a job, without deploying anything."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import certifi
import pytest
from botocore import __version__ as botocore_version
from deploy_local.assembly import ZIP, Account, stacks_in_order
from deploy_local.deployment import LACKING, zipped
from deploy_local.job_run import Request, run
from deploy_local.modules import link_modules
from deploy_local.reduce import Lacking, dead_letters, reduced, with_dead_letters

from cdclake.devkit.local.jobs import RunState
from cdclake.errors import ConfigurationError
from cdclake_infra.build import PIPELINE, STORAGE
from tests.infra.stacks import ACCOUNT, CODE_BUCKET, REGION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cdclake.devkit.local import EmbeddedAws
    from cdclake_infra.gate import CheckedStacks

HERE = Account(ACCOUNT, REGION)
LACKS = {"Some::Thing": Lacking("Some::Thing", name_property="Name", instead="made by hand")}
THING = {"Type": "Some::Thing", "Properties": {"Name": "thing"}}
BUCKET, SCRIPT = "code", "script.py"


def template(**users: Mapping[str, Any]) -> dict[str, Any]:
    return {"Resources": {"Thing": THING, **users}}


def test_stacks_come_after_those_they_depend_on_with_assets_that_are_there(checked: CheckedStacks):
    stacks = stacks_in_order(checked.folder, HERE)
    assert [stack.name for stack in stacks] == [STORAGE, PIPELINE]
    assert [stack.termination_protection for stack in stacks] == [True, False]
    assert stacks[1].template == checked.templates[PIPELINE]
    assets = [asset for stack in stacks for asset in stack.assets]
    assert {asset.bucket for asset in assets} == {CODE_BUCKET}
    assert {asset.source.suffix for asset in assets if asset.packaging != ZIP} == {".json", ".py", ".whl", ".zip"}
    (function,) = [asset for asset in assets if asset.packaging == ZIP]
    assert (function.source / "handler.py").is_file()


def test_an_asset_that_is_not_there_is_named(checked: CheckedStacks, tmp_path: Path):
    folder = shutil.copytree(checked.folder, tmp_path / "assembly")
    (folder / "code" / "controller.py").unlink()
    with pytest.raises(ConfigurationError, match=r"An asset is not there .*controller\.py"):
        stacks_in_order(folder, HERE)


def test_a_folder_that_is_no_assembly_is_named(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"not there .*manifest\.json"):
        stacks_in_order(tmp_path, HERE)


def test_of_our_templates_nothing_but_the_workflow_is_taken_out(checked: CheckedStacks):
    whole = checked.templates[PIPELINE]
    rest, gone = reduced(whole, LACKING)
    assert [one.properties["Name"] for one in gone] == ["DMSCDC"]
    assert whole["Resources"].keys() - rest["Resources"].keys() == {gone[0].logical_id}
    changed = {name for name, resource in rest["Resources"].items() if resource != whole["Resources"][name]}
    assert [rest["Resources"][name]["Type"] for name in changed] == ["AWS::Glue::Trigger"]
    assert [rest["Resources"][name]["Properties"]["WorkflowName"] for name in changed] == ["DMSCDC"]


def test_who_waits_for_what_is_taken_out_waits_for_the_rest():
    users: dict[str, Any] = {
        "One": {"Type": "A", "DependsOn": ["Thing", "Two"]},
        "Two": {"Type": "A", "DependsOn": "Thing"},
    }
    rest, _ = reduced(template(**users), LACKS)
    assert rest["Resources"] == {"One": {"Type": "A", "DependsOn": ["Two"]}, "Two": {"Type": "A", "DependsOn": []}}


@pytest.mark.parametrize(
    "value",
    [
        {"Fn::GetAtt": ["Thing", "Arn"]},
        {"Fn::Sub": "arn:${AWS::Partition}:${Thing}"},
        {"Fn::Join": ["", ["a", {"Fn::Sub": ["${Thing.Arn}", {}]}]]},
    ],
)
def test_what_cannot_be_put_in_place_of_a_reference_is_refused(value: Mapping[str, Any]):
    user = {"Type": "A", "Properties": {"Of": value}}
    with pytest.raises(ConfigurationError, match="lacks the type of Thing"):
        reduced(template(User=user), LACKS)


def test_a_reference_to_a_name_that_is_made_up_is_refused():
    user = {"Type": "A", "Properties": {"Of": {"Ref": "Unnamed"}}}
    unnamed = {"Type": "Some::Thing", "Properties": {}}
    with pytest.raises(ConfigurationError, match="its name is made up"):
        reduced(template(User=user, Unnamed=unnamed), LACKS)


def test_dead_letter_targets_come_back_by_the_functions_names(checked: CheckedStacks):
    whole = with_dead_letters(checked.templates[PIPELINE])
    added = whole["Outputs"].keys() - checked.templates[PIPELINE]["Outputs"].keys()
    outputs = {name: json.dumps(whole["Outputs"][name]["Value"]) for name in added}
    (found,) = dead_letters(outputs).items()
    assert "OnRawFileFunction" in found[0]
    assert "OnRawFileUndelivered" in found[1]
    assert dead_letters({"RawBucket": "raw"}) == {}


def test_a_folder_is_zipped_with_the_names_that_its_files_have_in_it(tmp_path: Path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("pass")
    (tmp_path / "handler.py").write_text("pass")
    assert zipfile.ZipFile(io.BytesIO(zipped(tmp_path))).namelist() == ["handler.py", "package/module.py"]


def test_modules_come_with_what_they_need_and_with_nothing_else(tmp_path: Path):
    folder = tmp_path / "modules"
    link_modules([f"botocore=={botocore_version}"], folder)
    packages = {path.name for path in folder.iterdir() if path.is_dir() and not path.name.endswith("-info")}
    assert {"botocore", "dateutil", "jmespath", "urllib3"} <= packages
    assert not packages & {"boto3", "cdclake", "numpy", "pyarrow"}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("boto3==1.0.0", "the tests run with"),
        ("no-such-module-of-anybody==1.0", "not what the tests run with"),
        ("boto3=1.0", "is not a module as pip takes it"),
    ],
)
def test_modules_that_are_not_those_of_the_tests_are_refused(tmp_path: Path, wanted: str, why: str):
    with pytest.raises(ConfigurationError, match=why):
        link_modules([wanted], tmp_path / "modules")


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    from cdclake.devkit.local import EmbeddedAws

    with EmbeddedAws() as embedded:
        embedded.client("s3").create_bucket(Bucket=BUCKET)
        yield embedded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    return tmp_path


def request(aws: EmbeddedAws, script: str = SCRIPT, **arguments: str) -> Request:
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), "local")
    command = {"Name": "pythonshell", "ScriptLocation": f"s3://{BUCKET}/{script}"}
    given = {f"--{name.replace('_', '-')}": value for name, value in arguments.items()}
    return Request(aws.endpoint, {"Name": "job", "Command": command, "Timeout": 1}, "run", given, keys)


def put(aws: EmbeddedAws, key: str, content: bytes) -> None:
    aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content)


@pytest.mark.aws
def test_a_script_finds_none_of_our_code_that_is_not_deployed_with_it(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"import cdclake")
    state, error = run(request(aws), REGION, folder)
    assert state is RunState.FAILED
    assert error.startswith("ModuleNotFoundError: No module named 'cdclake'")


@pytest.mark.aws
def test_a_script_gets_its_arguments_its_role_and_the_modules_it_names(aws: EmbeddedAws, folder: Path):
    put(
        aws,
        SCRIPT,
        b"import os, sys, boto3\n"
        b"assert sys.argv[-2:] == ['--bucket', 'raw'], sys.argv\n"
        b"assert os.environ['AWS_SESSION_TOKEN'] == 'local'\n"
        b"boto3.client('s3').put_object(Bucket='code', Key='written', Body=b'')\n",
    )
    modules = {"additional_python_modules": f"boto3=={botocore_version}"}
    assert run(request(aws, **modules, bucket="raw"), REGION, folder) == (RunState.SUCCEEDED, "")
    aws.client("s3").head_object(Bucket=BUCKET, Key="written")


@pytest.mark.aws
def test_a_library_whose_name_pip_refuses_is_refused(aws: EmbeddedAws, folder: Path):
    put(aws, SCRIPT, b"")
    put(aws, "0123456789abcdef.whl", b"")
    with pytest.raises(ConfigurationError, match=r"pip cannot install 0123456789abcdef\.whl"):
        run(request(aws, extra_py_files=f"s3://{BUCKET}/0123456789abcdef.whl"), REGION, folder)


@pytest.mark.aws
def test_a_script_that_is_not_deployed_is_named(aws: EmbeddedAws, folder: Path):
    with pytest.raises(ConfigurationError, match=r"The job cannot read s3://code/gone\.py"):
        run(request(aws, script="gone.py"), REGION, folder)
