"""The Terraform module of an assembly: it uploads what the templates expect, and all that it refers to is there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import hcl2
import pytest
from deploy_local.assembly import ZIP, Account, stacks_in_order

from cdclake_infra.build import build_app
from cdclake_infra.gate import synthesize
from cdclake_infra.terraform import MODULE_FILE, write_module
from tests.infra.conftest import PREFIX, SAMPLE, TAGS
from tests.infra.stacks import ACCOUNT, REGION, Stacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deployment

CURRENT = {
    "data.aws_caller_identity.current.account_id": ACCOUNT,
    "data.aws_region.current.id": REGION,
    "data.aws_partition.current.partition": "aws",
    "data.aws_partition.current.dns_suffix": "amazonaws.com",
}
REFERENCE = re.compile(r"\$\{([^}]*)\}")
IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class Module:
    """A module, with the value that each reference has.

    Args:
        folder: The cloud assembly.
    """

    def __init__(self, folder: Path) -> None:
        write_module(folder)
        self.folder = folder
        self.content: dict[str, Any] = json.loads((folder / MODULE_FILE).read_text(encoding="utf-8"))
        self.resources = self.content["resource"]

    def text(self, text: str) -> str:
        """A text with its references replaced. What does not exist is an error."""
        return REFERENCE.sub(lambda found: str(self.value(found[1])), text)

    def value(self, reference: str) -> object:
        if reference == "path.module":
            return self.folder
        if reference in CURRENT:
            assert reference.split(".")[2] in self.content["data"][reference.split(".")[1]]
            return CURRENT[reference]
        if reference.startswith("var."):
            return self.content["variable"][reference[4:]]["default"]
        output = re.fullmatch(r'aws_cloudformation_stack\.([\w-]+)\.outputs\["(\w+)"\]', reference)
        if output:
            stack = self.resources["aws_cloudformation_stack"][output[1]]
            template = self.text(stack["template_url"]).rpartition("/")[2]
            return json.loads(self.uploads()[template].read_text())["Outputs"][output[2]]["Value"]
        kind, name, attribute = reference.removeprefix("data.").split(".")
        owner = self.content["data" if reference.startswith("data.") else "resource"]
        return self.text(owner[kind][name][attribute])

    def uploads(self) -> dict[str, Path]:
        """The file or the folder to zip, by its key."""
        archives = self.content["data"].get("archive_file", {})
        found = {}
        for name, one in self.resources["aws_s3_object"].items():
            source = archives[name]["source_dir"] if name in archives else one["source"]
            found[self.text(one["key"])] = type(self.folder)(self.text(source))
        return found


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Stacks:
    """All three, with names that have a hyphen, and tags."""
    context = {**SAMPLE, "cdclake:name_prefix": PREFIX, "cdclake:tags": TAGS}
    return Stacks(synthesize(build_app(context, tmp_path_factory.mktemp("terraform"))))


@pytest.fixture(scope="module")
def module(stacks: Stacks) -> Module:
    return Module(stacks.folder)


def test_the_files_of_the_assembly_are_uploaded_where_the_templates_expect_them(module: Module):
    expected = {
        (asset.bucket, asset.key): (asset.source, asset.packaging)
        for stack in stacks_in_order(module.folder, Account(ACCOUNT, REGION))
        for asset in stack.assets
    }
    archives = module.content["data"]["archive_file"]
    uploads = module.uploads()
    found = {
        (module.text(one["bucket"]), key := module.text(one["key"])): (
            uploads[key],
            ZIP if name in archives else "file",
        )
        for name, one in module.resources["aws_s3_object"].items()
    }
    assert found == expected
    for name, archive in archives.items():
        assert module.resources["aws_s3_object"][name]["source"] == f"${{data.archive_file.{name}.output_path}}"
        assert archive["type"] == ZIP


def test_jobs_and_functions_find_their_code(module: Module, stacks: Stacks):
    keys = {one["Properties"]["Code"].get("S3Key") for one in stacks.all("AWS::Lambda::Function").values()} - {None}
    scripts = [one["Properties"]["Command"]["ScriptLocation"] for one in stacks.all("AWS::Glue::Job").values()]
    assert keys | {script.rpartition("/")[2] for script in scripts} <= module.uploads().keys()
    assert len(scripts) == 4


def test_every_stack_is_created_from_its_template_after_what_it_needs(module: Module, stacks: Stacks):
    created = module.resources["aws_cloudformation_stack"]
    assert created.keys() == stacks.stacks.keys()
    for name, stack in created.items():
        host, key = module.text(stack["template_url"]).rsplit("/", 1)
        assert host == f"https://cdk-hnb659fds-assets-{ACCOUNT}-{REGION}.s3.{REGION}.amazonaws.com"
        assert module.uploads()[key] == module.folder / f"{name}.template.json"
        assert stack["tags"] == TAGS
        assert stack["lifecycle"] == {"prevent_destroy": "Storage" in name}
        needed = {other for other in created if "Storage" in other and other != name}
        own = {f"aws_cloudformation_stack.{other}" for other in needed if "Storage" not in name}
        assert {one for one in stack["depends_on"] if one.startswith("aws_cloud")} == own
        resources = {f"{kind}.{one}" for kind, named in module.resources.items() for one in named}
        assert set(stack["depends_on"]) <= resources


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, (dict, list)):
        for one in content.values() if isinstance(content, dict) else content:
            yield from _texts(one)


def test_a_parser_of_terraforms_language_reads_each_expression(module: Module):
    texts = sorted({text for text in _texts(module.content) if "${" in text})
    body = "".join(f"value_{number} = {json.dumps(text)}\n" for number, text in enumerate(texts))
    assert len(texts) > 20
    assert hcl2.loads(body).keys() >= {f"value_{number}" for number in range(len(texts))}


def test_every_reference_is_to_something(module: Module, stacks: Stacks):
    references = set(REFERENCE.findall(json.dumps(module.content).replace('\\"', '"')))
    assert len(references) > 20
    for reference in references:
        module.value(reference)
    assert "AWS::" not in json.dumps(module.content)
    outputs = {name for template in stacks.stacks.values() for name in template.get("Outputs", {})}
    assert module.content["output"].keys() == outputs >= {"RawBucket", "LakeBucket", "StateTable"}
    assert sum(len(template.get("Outputs", {})) for template in stacks.stacks.values()) == len(outputs)


def test_every_name_is_one_that_terraform_takes(module: Module):
    named = [*module.resources.values(), *module.content["data"].values(), module.content["output"]]
    assert [name for names in named for name in names if not IDENTIFIER.fullmatch(name)] == []
