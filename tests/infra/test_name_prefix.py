"""With a prefix, a second deployment in the same account and region shares nothing with the first."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from cdclake.model.names import Argument
from cdclake_infra.gate import CheckedStacks, lint
from tests.infra.conftest import PREFIX, TAGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.infra.stacks import Stacks

pytestmark = pytest.mark.deployment

SHARED = {"dms-vpc-role", "dms-cloudwatch-logs-role"}
"""DMS looks these roles up by name."""
UNIQUE = ("BucketName", "TableName", "Name", "FunctionName", "LogGroupName", "TopicName", "AlarmName", "DashboardName")
OTHERS = ("RoleName", "ReplicationTaskIdentifier", "DBInstanceIdentifier", "QueueName")
JOB = "AWS::Glue::Job"
MOST_TAGS_OF_AWS = 50


def names(stacks: Stacks) -> set[tuple[str, str]]:
    """The names that the templates choose for resources, each with the resource's type."""
    found = {pair for one in stacks.stacks.values() for pair in _names(one["Resources"])}
    return {(kind, name) for kind, name in found if not name.startswith("<") and name not in SHARED}


def _names(resources: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for resource in resources.values():
        properties = resource.get("Properties", {})
        for own in (properties, properties.get("ConnectionInput", {}), properties.get("DatabaseInput", {})):
            yield from ((resource["Type"], own[name]) for name in (*UNIQUE, *OTHERS) if isinstance(own.get(name), str))


def test_no_name_of_one_deployment_is_a_name_of_the_other(everything: tuple[Stacks, Stacks]):
    without, with_prefix = everything
    assert len(names(without)) == len(names(with_prefix)) > 20
    assert names(without).isdisjoint(names(with_prefix))
    assert set(with_prefix.stacks) == {f"{PREFIX}{name}" for name in without.stacks}


def test_nothing_refers_to_jobs_and_tables_without_the_prefix(everything: tuple[Stacks, Stacks]):
    text = json.dumps(everything[1].stacks)
    assert re.findall(rf"(?<!{PREFIX})DMSCDC_\w+", text) == []
    assert re.findall(r"(?<!acme-)cdclake-(?:raw|lake|access-logs|on-raw-file|small-changes|alarms|sample)", text) == []


def test_jobs_and_functions_know_the_prefix(everything: tuple[Stacks, Stacks]):
    for stacks, prefix in zip(everything, ("", PREFIX), strict=True):
        for job in ("DMSCDC_Controller", "DMSCDC_ProcessTable"):
            arguments = stacks.one(JOB, Name=f"{prefix}{job}")["Properties"]["DefaultArguments"]
            assert arguments.get(f"--{Argument.NAME_PREFIX}", "") == prefix
        for function in ("cdclake-on-raw-file", "cdclake-small-changes"):
            properties = stacks.one("AWS::Lambda::Function", FunctionName=f"{prefix}{function}")["Properties"]
            assert properties["Environment"]["Variables"].get("NAME_PREFIX", "") == prefix
        outputs = stacks.stacks[f"{prefix}CdclakePipeline"]["Outputs"]
        assert outputs.get("NamePrefix", {}).get("Value", "") == prefix


def test_metrics_and_alarms_are_apart(everything: tuple[Stacks, Stacks]):
    for stacks, prefix in zip(everything, ("", PREFIX), strict=True):
        alarms = [alarm["Properties"] for alarm in stacks.all("AWS::CloudWatch::Alarm").values()]
        own = {alarm["Namespace"] for alarm in alarms} - {"AWS/Lambda", "AWS/SQS"}
        assert own == {f"{prefix}cdclake"}
        role = stacks.role_of(stacks.one(JOB, Name=f"{prefix}DMSCDC_Controller"))
        assert role["PutMetrics"]["Condition"] == {"StringEquals": {"cloudwatch:namespace": f"{prefix}cdclake"}}


def test_all_that_can_have_tags_has_them(everything: tuple[Stacks, Stacks]):
    tagged = 0
    for template in everything[1].stacks.values():
        for name, resource in template["Resources"].items():
            schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource["Type"]).schema
            if schema.get("tagging", {}).get("taggable"):
                found = _tags(resource["Properties"].get(schema["tagging"]["tagProperty"].rpartition("/")[2], {}))
                assert found.items() >= TAGS.items(), (name, resource["Type"])
                assert len(found) <= MOST_TAGS_OF_AWS
                tagged += 1
    assert tagged > 50
    assert not any(_tags(one["Properties"].get("Tags", {})) for one in everything[0].all("AWS::Glue::Job").values())


def test_every_resource_takes_these_tags(everything: tuple[Stacks, Stacks]):
    lint(CheckedStacks(everything[1].folder, everything[1].stacks, []))


def test_stacks_have_the_tags(everything: tuple[Stacks, Stacks]):
    for stacks, tags in zip(everything, ({}, TAGS), strict=True):
        artifacts = json.loads((stacks.folder / "manifest.json").read_text())["artifacts"]
        assert {name: artifacts[name]["properties"].get("tags", {}) for name in stacks.stacks} == dict.fromkeys(
            stacks.stacks, tags
        )


def _tags(property_of_tags: Any) -> dict[str, str]:
    """Some types have a mapping, the others a list."""
    if isinstance(property_of_tags, dict):
        return dict(property_of_tags)
    return {tag["Key"]: tag["Value"] for tag in property_of_tags}
