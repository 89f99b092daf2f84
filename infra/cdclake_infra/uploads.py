"""Uploads the jobs' code with the deployment.

The CDK's assets are named by hash only, and pip rejects a wheel with such a name.
https://github.com/aws/aws-cdk/issues/20481
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import FileAssetPackaging, Stack, Stage
from aws_cdk import aws_glue as glue
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdclake_infra.library import build_shell_libraries, build_spark_libraries, build_wheel, build_zip, copy_script
from cdclake_infra.resource_names import bucket_arn

if TYPE_CHECKING:
    from cdclake_infra.library import CodeFile
    from cdclake_infra.wheels import Runtime


class Upload(Construct):
    """A file that is uploaded to the CDK's bucket when the stack is deployed.

    Attributes:
        code: The file's location, for a job.
        url: The file's location as an `s3://` URL, for a job's argument.
        arn: The file's ARN, for a policy.
    """

    def __init__(self, scope: Construct, name: str, *, file: CodeFile) -> None:
        super().__init__(scope, name)
        location = Stack.of(self).synthesizer.add_file_asset(
            source_hash=file.name,
            file_name=str(file.path.relative_to(_assembly(self))),
            packaging=FileAssetPackaging.FILE,
        )
        self.code = glue.Code.from_bucket(
            s3.Bucket.from_bucket_name(self, "Bucket", location.bucket_name), location.object_key
        )
        self.url = f"s3://{location.bucket_name}/{location.object_key}"
        self.arn = f"{bucket_arn(location.bucket_name)}/{location.object_key}"


class Uploads(Construct):
    """The code of the jobs.

    Attributes:
        shell_package: The package of the Python shell jobs.
        shell_libraries: Its libraries.
        spark_package: The package of the Spark jobs.
        spark_libraries: Its libraries.
    """

    def __init__(self, scope: Construct, name: str, *, spark: Runtime) -> None:
        super().__init__(scope, name)
        # Inside the cloud assembly, so that it can be deployed without the sources.
        self._folder = _assembly(self) / "code"
        self.shell_package = Upload(self, "ShellPackage", file=build_wheel(self._folder))
        self.shell_libraries = Upload(self, "ShellLibraries", file=build_shell_libraries(self._folder))
        self.spark_package = Upload(self, "SparkPackage", file=build_zip(self._folder))
        self.spark_libraries = Upload(self, "SparkLibraries", file=build_spark_libraries(self._folder, spark))

    def script(self, name: str) -> Upload:
        """The script of a job, e.g. `controller.py`."""
        return Upload(self, name, file=copy_script(name, self._folder))


def _assembly(scope: Construct) -> Path:
    stage = Stage.of(scope)
    assert stage is not None  # an app is a stage
    return Path(stage.outdir)
