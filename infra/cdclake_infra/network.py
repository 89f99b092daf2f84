"""Runs the jobs in a subnet of an existing VPC.

Glue creates a network interface there for each worker, with the job's role.
https://docs.aws.amazon.com/glue/latest/dg/setup-vpc-for-glue-access.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Acknowledgment, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_glue as glue
from constructs import Construct

from cdclake_infra.resource_names import regional_arn
from cdclake_infra.roles import Statement

if TYPE_CHECKING:
    from constructs import IConstruct

    from cdclake_infra.resource_names import ResourceNames
    from cdclake_infra.settings import Settings

CONNECTION = "cdclake"
_TAG = "aws-glue-service-resource"
"""Glue tags its network interfaces with it."""


class Network(Construct):
    """A Glue connection to a subnet, and the security group of the workers' network interfaces.

    Attributes:
        connection: The connection that the jobs use.
    """

    def __init__(self, scope: Construct, name: str, *, settings: Settings, names: ResourceNames) -> None:
        super().__init__(scope, name)
        zone = settings.availability_zone
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=settings.vpc_id, availability_zones=[zone])
        subnet = ec2.Subnet.from_subnet_attributes(self, "Subnet", subnet_id=settings.subnet_id, availability_zone=zone)
        _acknowledge(subnet, "@aws-cdk/aws-ec2:noSubnetRouteTableId", "Nothing here uses the subnet's routes")
        self._group = ec2.SecurityGroup(
            self, "Workers", vpc=vpc, description="cdclake: workers of the Glue jobs", allow_all_outbound=False
        )
        self._group.connections.allow_internally(ec2.Port.all_tcp(), "Glue: workers of a job speak to each other")
        self._group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "APIs of AWS")
        self._subnet_id = settings.subnet_id
        self._name = f"{names.prefix}{CONNECTION}"
        self.connection = glue.Connection(
            self,
            "Connection",
            connection_name=self._name,
            description="cdclake: network of the jobs",
            type=glue.ConnectionType.NETWORK,
            network=glue.ConnectionNetwork.subnet(subnet),
            security_groups=[self._group],
        )
        reason = "Glue requires both the subnet and its availability zone"
        _acknowledge(self.connection, "CloudFormation-Validate::W3010", reason)
        self.connection.node.default_child.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3010"]}})

    def join_statements(self) -> list[Statement]:
        """The permissions that a job's role needs for the network.

        The actions come from the managed policy AWSGlueServiceRole, restricted to the resources they need.
        https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSGlueServiceRole.html
        """
        interfaces = regional_arn("ec2", "network-interface/*")
        subnet = regional_arn("ec2", f"subnet/{self._subnet_id}")
        group = regional_arn("ec2", f"security-group/{self._group.security_group_id}")
        described = ("NetworkInterfaces", "RouteTables", "SecurityGroups", "Subnets", "VpcAttribute", "VpcEndpoints")
        reason = "Glue creates network interfaces for each run, and EC2 chooses their ids"
        return [
            Statement(
                "ReadConnection",
                ("glue:GetConnection",),
                (regional_arn("glue", "catalog"), regional_arn("glue", f"connection/{self._name}")),
            ),
            Statement(
                "LookAtNetwork",
                tuple(f"ec2:Describe{kind}" for kind in described),
                ("*",),
                "EC2's Describe actions do not support resources",
            ),
            Statement("JoinSubnet", ("ec2:CreateNetworkInterface",), (subnet, group, interfaces), reason),
            Statement(
                "LeaveSubnet",
                ("ec2:DeleteNetworkInterface",),
                (interfaces,),
                reason,
                {"ArnEquals": {"ec2:Subnet": subnet}},
            ),
            Statement(
                "MarkInterfaces",
                ("ec2:CreateTags", "ec2:DeleteTags"),
                (interfaces,),
                reason,
                {"ForAllValues:StringEquals": {"aws:TagKeys": [_TAG]}},
            ),
        ]


def _acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))
