"""The sample database: RDS for MySQL, configured for DMS, in an isolated network."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Duration, RemovalPolicy, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_rds as rds
from constructs import Construct

from cdclake_cli.doctor.dms.setting import Source, by_name
from cdclake_cli.doctor.dms.sources import SOURCES

MYSQL_PORT = 3306
_ISOLATED = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
_SAMPLE = "It contains sample data for a short trial"
_ACKNOWLEDGED = {
    "network": {"AwsSolutions-VPC7": "The network has no route in or out, so flow logs would show nothing"},
    "database": {
        "AwsSolutions-RDS3": _SAMPLE,
        "AwsSolutions-RDS10": f"{_SAMPLE} and is deleted with its stack",
        "AwsSolutions-RDS11": "Only DMS and the bastion can reach the port",
    },
    "secret": {"AwsSolutions-SMG4": f"{_SAMPLE}; each rotation would require an update of the DMS endpoint"},
    "bastion": {
        **{
            f"AwsSolutions-IAM5[{wildcard}]": "Session Manager needs these permissions on every managed instance"
            for wildcard in ("Action::ssmmessages:*", "Action::ec2messages:*", "Resource::*")
        },
        "AwsSolutions-EC28": _SAMPLE,
        "AwsSolutions-EC29": "It stores no data",
    },
}


class SampleSource(Construct):
    """A database, and a bastion that gives operators access to it through Session Manager.

    Attributes:
        vpc: The network: no internet gateway and no NAT; S3 through a gateway endpoint.
        database: The database server, empty.
        bastion: An instance without open ports.
    """

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self.vpc = self._network()
        self.database = self._database()
        self.bastion = self._bastion()

    def admit(self, group: ec2.ISecurityGroup, client: str) -> None:
        """Allow a security group to connect to the database.

        Args:
            client: The group's name in the rule's description.
        """
        self.database.connections.allow_from(group, ec2.Port.tcp(MYSQL_PORT), f"MySQL from {client}")

    def _network(self) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Network",
            max_azs=2,  # RDS and DMS require two for their subnet groups
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="Sample", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=24)
            ],
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
        )
        _acknowledge(vpc, "network")
        return vpc

    def _database(self) -> rds.DatabaseInstance:
        parameters = {**by_name(SOURCES[Source.MYSQL].parameters), "require_secure_transport": "1"}
        engine = rds.DatabaseInstanceEngine.mysql(version=rds.MysqlEngineVersion.VER_8_4_9)
        credentials = rds.DatabaseSecret(self, "Secret", username="cdclake")
        _acknowledge(credentials, "secret")
        database = rds.DatabaseInstance(
            self,
            "Database",
            engine=engine,
            parameter_group=rds.ParameterGroup(self, "Binlog", engine=engine, parameters=parameters),
            credentials=rds.Credentials.from_secret(credentials),
            instance_type=ec2.InstanceType.of(ec2.InstanceClass.T4G, ec2.InstanceSize.MICRO),
            allocated_storage=20,
            storage_type=rds.StorageType.GP3,
            storage_encrypted=True,
            vpc=self.vpc,
            vpc_subnets=_ISOLATED,
            publicly_accessible=False,
            backup_retention=Duration.days(1),  # RDS writes no binlog without backups
            iam_authentication=True,
            removal_policy=RemovalPolicy.DESTROY,
            delete_automated_backups=True,
        )
        _acknowledge(database, "database")
        return database

    def _bastion(self) -> ec2.BastionHostLinux:
        endpoints = ec2.SecurityGroup(
            self, "Endpoints", vpc=self.vpc, description="cdclake sample: Session Manager", allow_all_outbound=False
        )
        for service in ("SSM", "SSM_MESSAGES"):
            self.vpc.add_interface_endpoint(
                f"{service.title().replace('_', '')}Endpoint",
                service=getattr(ec2.InterfaceVpcEndpointAwsService, service),
                subnets=ec2.SubnetSelection(subnets=[self.vpc.isolated_subnets[0]]),
                security_groups=[endpoints],
                open=False,
            )
        group = ec2.SecurityGroup(
            self, "Bastion", vpc=self.vpc, description="cdclake sample: bastion", allow_all_outbound=False
        )
        endpoints.connections.allow_from(group, ec2.Port.tcp(443), "Session Manager from the bastion")
        self.admit(group, "the bastion")
        bastion = ec2.BastionHostLinux(
            self,
            "BastionHost",
            vpc=self.vpc,
            subnet_selection=ec2.SubnetSelection(subnets=[self.vpc.isolated_subnets[0]]),
            security_group=group,
            instance_type=ec2.InstanceType.of(ec2.InstanceClass.T4G, ec2.InstanceSize.NANO),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(cpu_type=ec2.AmazonLinuxCpuType.ARM_64),
            block_devices=[
                ec2.BlockDevice(device_name="/dev/xvda", volume=ec2.BlockDeviceVolume.ebs(8, encrypted=True))
            ],
            require_imdsv2=True,
        )
        _acknowledge(bastion, "bastion")
        return bastion


def _acknowledge(construct: Construct, kind: str) -> None:
    rules = [Acknowledgment(id=rule, reason=reason) for rule, reason in _ACKNOWLEDGED[kind].items()]
    Validations.of(construct).acknowledge(*rules)
