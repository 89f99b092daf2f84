"""docs/formats.md names existing tests and every setting of a DMS endpoint for S3."""

from __future__ import annotations

import re

import boto3

from tests import ROOT

DOCUMENT = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def test_every_test_named_in_the_document_exists() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", sources, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT))
    assert len(named) > 50
    assert named - defined == set()


def test_every_setting_of_the_dms_endpoint_is_in_the_document() -> None:
    client = boto3.client("dms", region_name="eu-central-1", aws_access_key_id="-", aws_secret_access_key="-")
    settings = client.meta.service_model.shape_for("S3Settings").members
    assert [name for name in settings if f"`{name}`" not in DOCUMENT] == []


def test_every_table_row_names_a_test_unless_the_setting_does_not_affect_the_files() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    headers = {line for line in rows if line.endswith("| test |")}
    untested = [row for row in rows if row not in headers and "`test_" not in row]
    assert [row.split(" | ")[0].strip("| ") for row in untested] == [
        "`BucketName`, `ServiceAccessRoleArn`, `EncryptionMode`, `ServerSideEncryptionKmsKeyId`, "
        "`CannedAclForObjects`, `ExpectedBucketOwner`, `GlueCatalogGeneration`",
        "`ExternalTableDefinition`, `IgnoreHeaderRows`",
    ]
