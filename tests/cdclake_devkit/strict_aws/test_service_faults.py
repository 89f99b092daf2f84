"""Faults of services, and clients that survive it."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import ConnectionClosedError
from moto.core.botocore_stubber import BotocoreStubber

from cdclake.adapters.aws import client
from cdclake.adapters.dynamodb import DynamoState, create_state_table
from cdclake.adapters.s3 import S3Store
from cdclake.errors import LeaseHeldError
from cdclake.model.table.state import TableState
from cdclake_devkit.strict_aws.calls import Call, gated_process
from cdclake_devkit.strict_aws.service_faults import FaultKind, ServiceFaults
from tests.cdclake_devkit.strict_aws.answers import answer
from tests.cdclake_devkit.strict_aws.conftest import BUCKET, ONCE, retry_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

GET = Call("s3", "GetObject", "")
SEEDS = range(5)


@contextmanager
def faulty(faults: ServiceFaults) -> Iterator[ServiceFaults]:
    """Let the faults decide about the requests of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BotocoreStubber, "process_request", gated_process(BotocoreStubber.process_request, faults))
        retry_at_once(patch)
        faults.is_on = True
        yield faults


def drawn(seed: int, rate: float) -> list[object]:
    faults = ServiceFaults(rate, seed)
    faults.is_on = True
    return [faults(GET) for _ in range(1000)]


def test_a_seed_chooses_the_same_faults_again():
    assert drawn(1, 0.1) == drawn(1, 0.1)
    assert drawn(1, 0.1) != drawn(2, 0.1)
    assert 70 < 1000 - drawn(1, 0.1).count(None) < 130
    assert set(drawn(1, 0.0)) == {None}


def test_a_higher_rate_adds_faults():
    few, many = drawn(1, 0.1), drawn(1, 0.2)
    assert [fault for fault, other in zip(few, many) if fault and fault != other] == []


def test_calls_are_chosen_by_number():
    faults = ServiceFaults(at={2: FaultKind.THROTTLED})
    faults.is_on = True
    assert [faults(GET) is None for _ in range(3)] == [True, False, True]
    assert faults.injected == {("s3", "GetObject", "throttled"): 1}


def test_other_services_have_no_faults():
    faults = ServiceFaults(1.0)
    faults.is_on = True
    assert faults(Call("lambda", "/functions", "")) is None
    assert faults.calls == 0


@pytest.mark.parametrize(
    ("kind", "expected"), [(FaultKind.THROTTLED, (503, "SlowDown")), (FaultKind.FAILED, (500, "InternalError"))]
)
def test_a_refused_call_is_not_executed(s3: S3Client, kind: FaultKind, expected: tuple[int, str]):
    with faulty(ServiceFaults(at={1: kind})):
        assert answer(s3, "put_object", Bucket=BUCKET, Key="k", Body=b"1") == expected
    assert answer(s3, "get_object", Bucket=BUCKET, Key="k") == (404, "NoSuchKey")


def test_a_call_whose_response_is_lost_is_executed(s3: S3Client):
    with faulty(ServiceFaults(at={1: FaultKind.LOST})), pytest.raises(ConnectionClosedError):
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    assert answer(s3, "get_object", Bucket=BUCKET, Key="k") == (200, "")


@pytest.mark.parametrize(
    ("service", "operation", "kind", "expected"),
    [
        ("dynamodb", "list_tables", FaultKind.THROTTLED, (400, "ProvisionedThroughputExceededException")),
        ("dynamodb", "list_tables", FaultKind.FAILED, (500, "InternalServerError")),
        ("glue", "get_databases", FaultKind.THROTTLED, (400, "ThrottlingException")),
        ("glue", "get_databases", FaultKind.FAILED, (500, "InternalServiceException")),
    ],
)
def test_each_service_has_its_own_errors(
    aws: None, service: str, operation: str, kind: FaultKind, expected: tuple[int, str]
):
    without_retries = boto3.client(service, config=ONCE)  # type: ignore[call-overload]  # a name at run time
    with faulty(ServiceFaults(at={1: kind})):
        assert answer(without_retries, operation) == expected


@pytest.mark.sampled(test=2, ci=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_survives_a_fault_in_every_tenth_call(
    s3: S3Client, seed: int, record_faults: Callable[[ServiceFaults], None]
):
    store = S3Store(client("s3"), BUCKET, sleep=lambda _: None)
    with faulty(ServiceFaults(0.1, seed)) as faults:
        for number in range(30):
            key = f"k{number}"
            assert store.put_if_absent(key, b"1")
            assert not store.put_if_absent(key, b"2")
            assert store.put_if_unchanged(key, b"3", b"1")
            assert store.get(key) == b"3"
            store.copy(key, f"copy/{key}")
            store.delete([key])
        assert len(list(store.list("copy/"))) == 30
        assert len(list(store.list(""))) == 30
    assert len(faults.injected) >= 5
    record_faults(faults)


@pytest.mark.sampled(test=2, ci=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_lease_has_one_holder_whatever_fails(aws: None, seed: int, record_faults: Callable[[ServiceFaults], None]):
    dynamodb = client("dynamodb")
    create_state_table(dynamodb, "DMSCDC_Controller")
    states = DynamoState(dynamodb, "DMSCDC_Controller")
    state = TableState.new("raw", "shop/", "orders/")
    now = datetime(2024, 3, 5, tzinfo=timezone.utc)
    tokens = []
    with faulty(ServiceFaults(0.1, seed)) as faults:
        states.register(state)
        for number in range(20):
            lease = states.acquire_lease(state.path, f"run-{number}", now, 60)
            tokens.append(lease.token)
            assert lease.taken_over_from in ("", f"run-{number}")
            with pytest.raises(LeaseHeldError):
                states.acquire_lease(state.path, "another", now, 60)
            assert states.renew_lease(state.path, f"run-{number}", lease.token, now, 60)
            assert states.release_lease(state.path, f"run-{number}", lease.token, even_if_requested=True)
    assert tokens == sorted(set(tokens))
    assert faults.injected
    record_faults(faults)
