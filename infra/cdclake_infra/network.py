"""Runs the jobs in a subnet of an existing VPC, and the function of small changes.

Glue creates a network interface there for each worker, with the job's role.
https://docs.aws.amazon.com/glue/latest/dg/setup-vpc-for-glue-access.html
Lambda creates some for all that run at once, with the function's role.
https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
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
_INTERFACES = regional_arn("ec2", "network-interface/*")
_DESCRIBE_REASON = "EC2's Describe actions do not support resources"


class Network(Construct):
    """A Glue connection to a subnet, and the security group of the network interfaces.

    Attributes:
        connection: The connection that the jobs use.
        vpc: The VPC.
        subnet: The subnet.
        group: The security group.
    """

    def __init__(self, scope: Construct, name: str, *, settings: Settings, names: ResourceNames) -> None:
        super().__init__(scope, name)
        zone = settings.availability_zone
        self.vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=settings.vpc_id, availability_zones=[zone])
        self.subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id=settings.subnet_id, availability_zone=zone
        )
        _acknowledge(self.subnet, "@aws-cdk/aws-ec2:noSubnetRouteTableId", "Nothing here uses the subnet's routes")
        self.group = ec2.SecurityGroup(
            self, "Workers", vpc=self.vpc, description="cdclake: workers of the Glue jobs", allow_all_outbound=False
        )
        self.group.connections.allow_internally(ec2.Port.all_tcp(), "Glue: workers of a job speak to each other")
        self.group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "APIs of AWS")
        self._subnet_id = settings.subnet_id
        self._name = f"{names.prefix}{CONNECTION}"
        self.connection = glue.Connection(
            self,
            "Connection",
            connection_name=self._name,
            description="cdclake: network of the jobs",
            type=glue.ConnectionType.NETWORK,
            network=glue.ConnectionNetwork.subnet(self.subnet),
            security_groups=[self.group],
        )
        reason = "Glue requires both the subnet and its availability zone"
        _acknowledge(self.connection, "CloudFormation-Validate::W3010", reason)
        self.connection.node.default_child.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3010"]}})

    def join_statements(self) -> list[Statement]:
        """The permissions that a job's role needs for the network.

        The actions come from the managed policy AWSGlueServiceRole, restricted to the resources they need.
        https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSGlueServiceRole.html
        """
        interfaces, subnet = _INTERFACES, self._subnet_arn()
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
                _DESCRIBE_REASON,
            ),
            self._join_subnet(reason),
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

    def function_statements(self) -> list[Statement]:
        """The permissions that a function's role needs for the network; Lambda uses them, not the function.

        The actions come from the managed policy AWSLambdaVPCAccessExecutionRole. Lambda connects no function that may
        delete only some network interfaces.
        https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html
        https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions
        """
        described = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets")
        leave = ("ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses")
        everything = (regional_arn("ec2", "*/*"),)
        return [
            Statement("LookAtNetwork", described, ("*",), _DESCRIBE_REASON),
            self._join_subnet("Lambda creates network interfaces for the function, and EC2 chooses their ids"),
            Statement(
                "LeaveSubnet", leave, everything, "Lambda connects no function that may delete only some interfaces"
            ),
        ]

    def _join_subnet(self, reason: str) -> Statement:
        group = regional_arn("ec2", f"security-group/{self.group.security_group_id}")
        resources = (self._subnet_arn(), group, _INTERFACES)
        return Statement("JoinSubnet", ("ec2:CreateNetworkInterface",), resources, reason)

    def _subnet_arn(self) -> str:
        return regional_arn("ec2", f"subnet/{self._subnet_id}")


def _acknowledge(construct: IConstruct, finding: str, reason: str) -> None:
    Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))
