"""Takes the jobs' code along to the account.

The CDK's own assets will not do: they are named after their hash alone, and pip refuses a wheel by such a name.
https://github.com/aws/aws-cdk/issues/20481
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aws_cdk import FileAssetPackaging, Stack, Stage
from aws_cdk import aws_glue as glue
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdclake_infra.library import build_wheel, build_zip, copy_script
from cdclake_infra.places import bucket_arn

if TYPE_CHECKING:
    from cdclake_infra.library import CodeFile


class Upload(Construct):
    """A file that is uploaded to the CDK's bucket when the stack is deployed.

    Attributes:
        code: The file, as a job takes it.
        arn: The file, as a policy takes it.
    """

    def __init__(self, scope: Construct, name: str, *, file: CodeFile) -> None:
        super().__init__(scope, name)
        place = Stack.of(self).synthesizer.add_file_asset(
            source_hash=file.name,
            file_name=str(file.path.relative_to(_assembly(self))),
            packaging=FileAssetPackaging.FILE,
        )
        self.code = glue.Code.from_bucket(
            s3.Bucket.from_bucket_name(self, "Bucket", place.bucket_name), place.object_key
        )
        self.arn = f"{bucket_arn(place.bucket_name)}/{place.object_key}"


class Uploads(Construct):
    """The code of the jobs.

    Attributes:
        shell_library: What the Python shell jobs import.
        spark_library: What the Spark jobs import.
    """

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        # Beside the templates, which are then complete without the sources.
        self._folder = _assembly(self) / "code"
        self.shell_library = Upload(self, "ShellLibrary", file=build_wheel(self._folder))
        self.spark_library = Upload(self, "SparkLibrary", file=build_zip(self._folder))

    def script(self, name: str) -> Upload:
        """The script of a job, e.g. `controller.py`."""
        return Upload(self, name, file=copy_script(name, self._folder))


def _assembly(scope: Construct) -> Path:
    stage = Stage.of(scope)
    assert stage is not None  # an app is a stage
    return Path(stage.outdir)
