"""The time of AWS, from the responses to ordinary requests."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from cdclake.adapters import aws as aws_clients
from cdclake.adapters.aws import ServerClock, machine_time
from cdclake.model.times import MAX_CLOCK_DIFFERENCE
from cdclake_devkit.memory import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

AGREES = timedelta(seconds=2)


class Service:
    """A client whose responses have the service's time, and arrive when a test says.

    Attributes:
        time: The service's clock.
        machine: The clock of the client's machine.
        clock: Learns from the responses.
    """

    def __init__(self, skew: timedelta) -> None:
        self.time = ManualClock()
        self.skew = skew
        self.clock = ServerClock(self.machine)
        self._handlers: dict[str, Callable[..., None]] = {}
        self.clock.watch(SimpleNamespace(meta=SimpleNamespace(events=SimpleNamespace(register=self._register))))

    def _register(self, event: str, handler: Callable[..., None]) -> None:
        self._handlers[event] = handler

    def machine(self) -> datetime:
        return self.time() + self.skew

    def answer(self, there: float = 0.1, back: float = 0.1, **headers: str) -> None:
        """A request and its response, which take some seconds."""
        self._handlers["before-send"](request=None)
        self.time.advance(there)
        date = format_datetime(self.time().replace(microsecond=0), usegmt=True)
        self.time.advance(back)
        self._handlers["response-received"](response_dict={"headers": {"date": date, **headers}}, exception=None)

    def no_answer(self) -> None:
        self._handlers["before-send"](request=None)
        self._handlers["response-received"](response_dict=None, exception=OSError())


@pytest.mark.parametrize("seconds", [-7200, -600, -61, -5, 0, 5, 61, 600, 7200, 86_400 * 400])
def test_all_machines_have_the_time_of_the_service(seconds: int) -> None:
    service = Service(timedelta(seconds=seconds))
    for _ in range(20):
        service.answer()
        assert abs(service.clock() - service.time()) <= AGREES
        service.time.advance(0.77)


def test_a_clock_that_agrees_is_taken_as_it_is_to_the_microsecond() -> None:
    service = Service(timedelta(seconds=0.4))
    for _ in range(20):
        service.answer()
        service.time.advance(0.77)
        assert service.clock() == service.machine()


def test_before_a_response_the_machines_clock_counts() -> None:
    service = Service(timedelta(hours=2))
    assert service.clock() == service.machine()
    assert not service.clock.heard
    service.no_answer()
    assert not service.clock.heard


def test_the_time_after_a_request_needs_one_request_at_most() -> None:
    service, requests = Service(timedelta(hours=2)), []

    def ask() -> None:
        requests.append(1)
        service.answer()

    for _ in range(3):
        assert abs(service.clock.after(ask) - service.time()) <= AGREES
    assert len(requests) == 1


def test_a_service_that_does_not_name_its_time_is_asked_once() -> None:
    service, requests = Service(timedelta(hours=2)), list[int]()

    def ask() -> None:
        requests.append(1)
        service.answer(date="")

    for _ in range(3):
        assert service.clock.after(ask) == service.machine()
    assert len(requests) == 1


def test_a_clock_that_is_set_right_meanwhile_is_found_right_with_the_next_response() -> None:
    service = Service(timedelta(hours=2))
    service.answer()
    service.skew = timedelta()
    service.answer()
    assert (service.clock.skew, service.clock.fault) == (timedelta(), "")


def test_a_response_after_which_the_process_was_paused_does_not_show_the_time() -> None:
    service = Service(timedelta())
    service.answer(back=600)
    assert service.clock() == service.machine()
    service.answer(there=600)
    assert service.clock() == service.machine()


@pytest.mark.parametrize("date", ["", "yesterday", "2024-03-05", "Tue, 05 Mar 2024 10:00:00 -0000"])
def test_a_response_without_a_time_that_can_be_read_changes_nothing(date: str) -> None:
    service = Service(timedelta(hours=2))
    service.answer(date=date)
    assert service.clock() == service.machine()


@pytest.mark.parametrize(
    ("skew", "text"),
    [
        (
            timedelta(minutes=10),
            "2024-03-05 10:10:00 UTC, 600 seconds ahead of AWS, where it is 2024-03-05 10:00:00 UTC",
        ),
        (timedelta(hours=-2), "2024-03-05 08:00:00 UTC, 7,200 seconds behind AWS, where it is 2024-03-05 10:00:00 UTC"),
    ],
)
def test_a_clock_that_is_off_is_logged_once_with_both_times(
    skew: timedelta, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(skew)
    for _ in range(5):
        service.answer(there=0.25, back=0.25)
        service.time.now = datetime(2024, 3, 5, 10, 0, 0, tzinfo=timezone.utc)
    assert text in service.clock.fault
    assert caplog.text.count("The clock of this machine shows") == 1


def test_a_small_difference_is_corrected_and_not_reported() -> None:
    service = Service(MAX_CLOCK_DIFFERENCE - timedelta(seconds=2))
    service.answer()
    assert abs(service.clock() - service.time()) <= AGREES
    assert service.clock.fault == ""


def test_each_thread_measures_its_own_requests() -> None:
    service = Service(timedelta(hours=2))
    service._handlers["before-send"](request=None)
    thread = threading.Thread(
        target=lambda: service._handlers["response-received"](
            response_dict={"headers": {"date": format_datetime(service.time(), usegmt=True)}}, exception=None
        )
    )
    thread.start()
    thread.join()
    assert not service.clock.heard


@pytest.mark.parametrize("service", ["s3", "dynamodb", "glue"])
def test_the_services_name_their_time(aws: None, service: Any) -> None:
    clock = ServerClock(lambda: machine_time() + timedelta(hours=2))
    client: Any = clock.watch(boto3.client(service))
    {"s3": lambda: client.list_buckets(), "dynamodb": lambda: client.list_tables(), "glue": lambda: client.get_jobs()}[
        service
    ]()
    assert abs(clock() - machine_time()) <= AGREES


def test_also_an_error_names_the_time(aws: None) -> None:
    clock = ServerClock(lambda: machine_time() - timedelta(hours=2))
    client = clock.watch(boto3.client("s3"))
    with pytest.raises(client.exceptions.ClientError):
        client.get_object(Bucket="no-such-bucket", Key="k")
    assert abs(clock() - machine_time()) <= AGREES


def test_every_client_of_the_process_is_watched(aws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ServerClock(lambda: machine_time() + timedelta(hours=2))
    monkeypatch.setattr(aws_clients, "server_clock", clock)
    aws_clients.client("dynamodb").list_tables()
    assert abs(clock() - machine_time()) <= AGREES
