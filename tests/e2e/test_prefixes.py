"""Raw files and lake below prefixes of their buckets, with roles that may use nothing else of these."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.adapters.dynamodb import DynamoState
from cdclake.model.names import JOB_CONTROLLER, STATE_TABLE, Sentinel
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.local import EmbeddedAws, deploy
from cdclake_devkit.local.deploy import LocalDeployment
from tests.builders import parquet_bytes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.aws, pytest.mark.long]

DEPLOYMENT = LocalDeployment(raw_prefix="dms/erp/", lake_prefix="tables/")
PATH = f"{DEPLOYMENT.raw_bucket}/dms/erp/shop/orders/"
WAIT_SECONDS = 240


@pytest.mark.thorough
def test_a_table_is_loaded_and_changed(tmp_path: Path) -> None:
    with EmbeddedAws(data_dir=tmp_path) as aws:
        deploy(aws, DEPLOYMENT)
        s3, states = aws.client("s3"), DynamoState(aws.client("dynamodb"), STATE_TABLE)

        def deliver(name: str, content: bytes) -> dict[str, str]:
            """Write a raw file, whose event starts the work; returns the table's item after it."""
            s3.put_object(Bucket=DEPLOYMENT.raw_bucket, Key=f"dms/erp/shop/orders/{name}", Body=content)
            aws.wait_until_idle(WAIT_SECONDS)
            aws.client("glue").start_job_run(JobName=JOB_CONTROLLER)
            aws.wait_until_idle(WAIT_SECONDS)
            state = states.get(PATH)
            assert state is not None
            return dict(state.item)

        full_load = pa.table({"id": [1, 2], "name": ["a", "b"]})
        registered = deliver("LOAD00000001.parquet", parquet_bytes(full_load))
        assert registered[Attribute.ACTIVE_FLAG] == Sentinel.INACTIVE
        states.set_attributes(PATH, {Attribute.PRIMARY_KEY: "id", Attribute.ACTIVE_FLAG: Sentinel.ACTIVE})
        changes = pa.table({"Op": ["U", "D"], "id": [1, 2], "name": ["c", "b"]})
        changed = deliver("20240305-101500123.parquet", parquet_bytes(changes))
        assert (changed[Attribute.LAST_RUN_STATE], changed[Attribute.LAST_ERROR]) == ("SUCCEEDED", "")
        listed = s3.list_objects_v2(Bucket=DEPLOYMENT.lake_bucket, Prefix="tables/shop/orders/")["Contents"]
        contents = (s3.get_object(Bucket=DEPLOYMENT.lake_bucket, Key=one["Key"])["Body"].read() for one in listed)
        rows = [row for content in contents for row in pq.read_table(io.BytesIO(content)).to_pylist()]
        assert [(row["id"], row["name"]) for row in rows] == [(1, "c")]
