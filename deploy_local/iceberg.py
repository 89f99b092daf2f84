"""Reads an Iceberg table of the deployment as other engines do: the catalog names its metadata, pyiceberg the rest.

Objects come through boto3, because Arrow's own S3 client does not trust the emulator's certificate.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

if TYPE_CHECKING:
    import pyarrow as pa

    from deploy_local.deployment import Deployment


def read_iceberg(deployment: Deployment, name: str) -> pa.Table:
    """All rows of the Iceberg table with that name in the catalog."""
    glue = deployment.client("glue")
    entry = glue.get_table(DatabaseName=deployment.catalog_database, Name=name)["Table"]
    location: str = entry["Parameters"]["metadata_location"]
    objects = _Objects(deployment.client("s3"))
    metadata = TableMetadataUtil.parse_raw(objects.content(location).decode())
    table = Table((deployment.catalog_database, name), metadata, location, objects, NoopCatalog("glue"))
    return table.scan().to_arrow()


class _Objects(FileIO):
    """pyiceberg's access to objects, which it only reads."""

    def __init__(self, s3: Any) -> None:  # noqa: ANN401 - boto3 creates client classes at run time
        super().__init__()
        self._s3 = s3

    def content(self, location: str) -> bytes:
        url = urlsplit(location)
        content: bytes = self._s3.get_object(Bucket=url.netloc, Key=url.path[1:])["Body"].read()
        return content

    def new_input(self, location: str) -> InputFile:
        return _Object(location, self.content(location))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> NoReturn:
        raise NotImplementedError(location)


class _Object(InputFile):
    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002 - always seekable
        return io.BytesIO(self._content)
