"""The contract of state stores, run on all adapters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from cdclake.errors import CdclakeError, ConfigurationError, LeaseHeldError, UnknownTableError
from cdclake.model.table.attributes import Attribute
from cdclake.model.table.state import TableState
from tests.cdclake.adapters.conftest import at_once

if TYPE_CHECKING:
    from cdclake.ports import StateStore
    from cdclake_devkit.memory import ManualClock

TABLE = TableState.new("raw", "dms/shop/", "product/")
PATH = TABLE.path
UNKNOWN = "raw/dms/shop/nothing/"


def item(state: StateStore, path: str = PATH) -> dict[str, str]:
    found = state.get(path)
    assert found is not None
    return dict(found.item)


@pytest.fixture
def registered(state: StateStore) -> StateStore:
    """A state store with one table."""
    assert state.register(TABLE)
    return state


@pytest.fixture
def token(registered: StateStore, clock: ManualClock) -> int:
    """The token of holder a, who has just taken the lease for a minute."""
    return registered.acquire_lease(PATH, "a", clock(), 60).token


def test_a_table_is_unknown_until_it_is_registered(state: StateStore) -> None:
    assert state.get(PATH) is None
    assert state.register(TABLE)
    assert item(state) == dict(TABLE.item)


def test_a_path_that_is_too_long_is_that_of_no_table(state: StateStore) -> None:
    assert state.get(f"raw/dms/shop/{'x' * 2100}/") is None


def test_register_leaves_a_registered_table_alone(registered: StateStore) -> None:
    registered.set_attributes(PATH, {Attribute.ACTIVE_FLAG: "true", Attribute.PRIMARY_KEY: "id"})
    before = item(registered)
    assert not registered.register(TABLE)
    assert item(registered) == before


def test_of_16_racing_registers_one_wins(state: StateStore) -> None:
    assert at_once(lambda _: state.register(TABLE)).count(True) == 1


def test_all_returns_every_table_below_a_prefix(state: StateStore) -> None:
    tables = [TableState.new("raw", f"dms/{schema}/", f"t{number}/") for schema in ("a", "ab") for number in range(3)]
    for table in tables:
        state.register(table)
    assert sorted(found.path for found in state.all()) == sorted(table.path for table in tables)
    assert sorted(found.path for found in state.all("raw/dms/a/")) == [f"raw/dms/a/t{number}/" for number in range(3)]
    assert list(state.all("other/")) == []


def test_all_goes_through_all_pages(state: StateStore) -> None:
    # DynamoDB scans 1 MB a page.
    paths = [f"raw/dms/shop/t{number}/" for number in range(12)]
    for number in range(12):
        state.register(TableState.new("raw", "dms/shop/", f"t{number}/").with_attributes(Schema="x" * 200_000))
    assert sorted(found.path for found in state.all()) == sorted(paths)


def test_an_operators_settings_survive_all_other_calls(registered: StateStore, clock: ManualClock) -> None:
    settings = {
        Attribute.PRIMARY_KEY: "id",
        Attribute.ACTIVE_FLAG: "true",
        Attribute.SCHEMA: "id int",
        "Remark": "ours",
    }
    registered.set_attributes(PATH, settings)
    registered.register(TABLE)
    registered.request_work(PATH, clock(), 60)
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    registered.renew_lease(PATH, "a", token, clock(), 60)
    registered.clear_request(PATH)
    registered.record_run(
        PATH, {Attribute.LAST_RUN_STATE: "SUCCEEDED", Attribute.LAST_INCREMENTAL_FILE: PATH + "2.csv"}
    )
    registered.release_lease(PATH, "a", token, even_if_requested=True)
    after = item(registered)
    assert {name: after[name] for name in settings} == settings
    assert after[Attribute.LAST_INCREMENTAL_FILE] == PATH + "2.csv"
    assert after[Attribute.PARTITION_KEY] == TABLE.item[Attribute.PARTITION_KEY]


def test_an_empty_text_is_kept(registered: StateStore) -> None:
    registered.record_run(PATH, {Attribute.LAST_ERROR: ""})
    assert item(registered)[Attribute.LAST_ERROR] == ""


@pytest.mark.parametrize("name", [Attribute.PRIMARY_KEY, Attribute.ACTIVE_FLAG, Attribute.PATH, Attribute.LEASE_HOLDER])
def test_record_run_refuses_what_is_not_an_outcome(registered: StateStore, name: str) -> None:
    before = item(registered)
    with pytest.raises(ValueError, match=name):
        registered.record_run(PATH, {Attribute.LAST_ERROR: "x", name: "x"})
    assert item(registered) == before


@pytest.mark.parametrize("name", [Attribute.PATH, Attribute.FENCING_TOKEN, "a-b", "", "a = :x, b"])
def test_operators_cannot_set_internal_attributes_or_invalid_names(registered: StateStore, name: str) -> None:
    before = item(registered)
    with pytest.raises(ConfigurationError):
        registered.set_attributes(PATH, {Attribute.PRIMARY_KEY: "id", name: "x"})
    assert item(registered) == before


def test_setting_nothing_is_an_error(registered: StateStore) -> None:
    with pytest.raises(ConfigurationError, match="nothing to set"):
        registered.set_attributes(PATH, {})
    with pytest.raises(ValueError, match="no attributes"):
        registered.record_run(PATH, {})


def test_nothing_registers_a_table_by_accident(registered: StateStore, clock: ManualClock) -> None:
    for use in (
        lambda: registered.set_attributes(UNKNOWN, {Attribute.PRIMARY_KEY: "id"}),
        lambda: registered.record_run(UNKNOWN, {Attribute.LAST_ERROR: "x"}),
        lambda: registered.request_work(UNKNOWN, clock(), 60),
        lambda: registered.acquire_lease(UNKNOWN, "a", clock(), 60),
        lambda: registered.renew_lease(UNKNOWN, "a", 1, clock(), 60),
        lambda: registered.clear_request(UNKNOWN),
        lambda: registered.release_lease(UNKNOWN, "a", 1, even_if_requested=True),
    ):
        with pytest.raises(UnknownTableError, match=UNKNOWN):
            use()
    assert [found.path for found in registered.all()] == [PATH]


def test_a_lease_keeps_others_out_until_it_expires(registered: StateStore, clock: ManualClock) -> None:
    registered.acquire_lease(PATH, "a", clock(), 60)
    clock.advance(59)
    with pytest.raises(LeaseHeldError, match="holder a"):
        registered.acquire_lease(PATH, "b", clock(), 60)
    clock.advance(1)
    registered.acquire_lease(PATH, "b", clock(), 60)
    assert item(registered)[Attribute.LEASE_HOLDER] == "b"


def test_a_lease_never_expires_a_fraction_of_a_second_early(registered: StateStore, clock: ManualClock) -> None:
    clock.advance(0.7)
    registered.acquire_lease(PATH, "a", clock(), 60)
    clock.advance(59.9)
    with pytest.raises(LeaseHeldError):
        registered.acquire_lease(PATH, "b", clock(), 60)


def test_times_are_stored_in_utc_to_the_second(registered: StateStore, clock: ManualClock) -> None:
    registered.acquire_lease(PATH, "a", clock(), 60)
    registered.request_work(PATH, clock(), 60)
    assert item(registered)[Attribute.LEASE_EXPIRES_UTC] == "2024-03-05T10:01:00Z"
    assert item(registered)[Attribute.WORK_REQUESTED_UTC] == "2024-03-05T10:00:00Z"


def test_a_time_without_zone_is_refused(registered: StateStore, clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        registered.acquire_lease(PATH, "a", clock().replace(tzinfo=None), 60)


def test_a_free_lease_leaves_only_the_token(registered: StateStore, token: int) -> None:
    assert registered.release_lease(PATH, "a", token, even_if_requested=False)
    assert item(registered) == {**TABLE.item, Attribute.FENCING_TOKEN: str(token)}


def test_every_lease_has_a_greater_token(registered: StateStore, clock: ManualClock) -> None:
    tokens = []
    for holder in ("a", "b", "b", "a"):  # the second b repeats its request, as if the response was lost
        tokens.append(registered.acquire_lease(PATH, holder, clock(), 60).token)
        if len(tokens) != 2:
            registered.release_lease(PATH, holder, tokens[-1], even_if_requested=True)
    for _ in range(10):  # past 9, where text order and number order differ
        clock.advance(61)
        tokens.append(registered.acquire_lease(PATH, str(len(tokens)), clock(), 60).token)
    assert tokens == sorted(set(tokens))
    assert item(registered)[Attribute.FENCING_TOKEN] == str(tokens[-1])


def test_a_holder_that_repeats_its_request_learns_that_the_lease_was_not_free(
    registered: StateStore, clock: ManualClock
) -> None:
    assert registered.acquire_lease(PATH, "a", clock(), 60).taken_over_from == ""
    clock.advance(61)
    lost, repeated = (registered.acquire_lease(PATH, "b", clock(), 60) for _ in range(2))
    assert (lost.taken_over_from, repeated.taken_over_from) == ("a", "b")


def test_of_16_racing_holders_one_gets_the_lease(registered: StateStore, clock: ManualClock) -> None:
    def attempt(number: int) -> bool:
        try:
            return bool(registered.acquire_lease(PATH, f"holder {number}", clock(), 60))
        except LeaseHeldError:
            return False

    won = at_once(attempt)
    assert won.count(True) == 1
    assert item(registered)[Attribute.LEASE_HOLDER] == f"holder {won.index(True)}"


def test_renewal_extends_the_holders_lease(registered: StateStore, token: int, clock: ManualClock) -> None:
    clock.advance(40)
    assert registered.renew_lease(PATH, "a", token, clock(), 60)
    clock.advance(59)
    with pytest.raises(LeaseHeldError):
        registered.acquire_lease(PATH, "b", clock(), 60)


def test_a_lease_of_0_seconds_has_expired_at_once(registered: StateStore, token: int, clock: ManualClock) -> None:
    clock.advance(40.7)
    assert registered.renew_lease(PATH, "a", token, clock(), 0)
    assert registered.acquire_lease(PATH, "b", clock(), 60).taken_over_from == "a"


def test_an_expired_lease_can_be_renewed_if_no_other_holder_acquired_it(
    registered: StateStore, token: int, clock: ManualClock
) -> None:
    clock.advance(600)
    assert registered.renew_lease(PATH, "a", token, clock(), 60)


def test_renewal_for_0_seconds_ends_the_lease_at_once(registered: StateStore, token: int, clock: ManualClock) -> None:
    clock.advance(0.7)
    assert registered.renew_lease(PATH, "a", token, clock(), 0)
    state = registered.get(PATH)
    assert state
    assert not state.leased(clock())
    assert registered.acquire_lease(PATH, "b", clock(), 60).taken_over_from == "a"


def test_a_late_holder_cannot_renew(registered: StateStore, token: int, clock: ManualClock) -> None:
    clock.advance(61)
    registered.acquire_lease(PATH, "b", clock(), 60)
    before = item(registered)
    assert not registered.renew_lease(PATH, "a", token, clock(), 60)
    assert item(registered) == before


@pytest.mark.parametrize(("holder", "token"), [("a", 2), ("b", 1), ("b", 2)])
def test_renewal_needs_both_holder_and_token(
    registered: StateStore, clock: ManualClock, holder: str, token: int
) -> None:
    assert registered.acquire_lease(PATH, "a", clock(), 60).token == 1
    assert not registered.renew_lease(PATH, holder, token, clock(), 600)


def test_a_released_lease_cannot_be_renewed(registered: StateStore, token: int, clock: ManualClock) -> None:
    registered.release_lease(PATH, "a", token, even_if_requested=True)
    assert not registered.renew_lease(PATH, "a", token, clock(), 60)


def test_a_late_release_leaves_the_new_holders_lease(registered: StateStore, token: int, clock: ManualClock) -> None:
    clock.advance(61)
    registered.acquire_lease(PATH, "b", clock(), 60)
    registered.request_work(PATH, clock(), 60)
    for even_if_requested in (False, True):
        assert registered.release_lease(PATH, "a", token, even_if_requested=even_if_requested)
    assert item(registered)[Attribute.LEASE_HOLDER] == "b"


def test_release_is_idempotent(registered: StateStore, token: int) -> None:
    assert registered.release_lease(PATH, "a", token, even_if_requested=False)
    assert registered.release_lease(PATH, "a", token, even_if_requested=False)


def test_of_16_racing_requests_one_starts_the_run(registered: StateStore, clock: ManualClock) -> None:
    assert at_once(lambda _: registered.request_work(PATH, clock(), 300).is_new).count(True) == 1


def test_after_a_request_is_stale_the_next_one_starts_a_run(registered: StateStore, clock: ManualClock) -> None:
    assert registered.request_work(PATH, clock(), 300).is_new
    clock.advance(299)
    assert not registered.request_work(PATH, clock(), 300).is_new
    clock.advance(1)
    assert registered.request_work(PATH, clock(), 300).is_new
    assert not registered.request_work(PATH, clock(), 300).is_new


def test_a_request_under_a_lease_is_pending_until_the_lease_expires(registered: StateStore, clock: ManualClock) -> None:
    registered.acquire_lease(PATH, "a", clock(), 60)
    clock.advance(10)
    assert registered.request_work(PATH, clock(), 300).is_new
    clock.advance(49)
    assert not registered.request_work(PATH, clock(), 300).is_new
    clock.advance(1)
    assert registered.request_work(PATH, clock(), 300).is_new
    clock.advance(1)
    assert not registered.request_work(
        PATH, clock(), 300
    ).is_new  # made after the lease had expired, so it started a run


def test_a_request_under_a_lease_that_was_released_stays_pending(
    registered: StateStore, token: int, clock: ManualClock
) -> None:
    assert registered.request_work(PATH, clock(), 300).is_new
    registered.release_lease(PATH, "a", token, even_if_requested=True)
    clock.advance(299)
    assert not registered.request_work(PATH, clock(), 300).is_new


def test_clearing_no_request_is_no_error(registered: StateStore) -> None:
    registered.clear_request(PATH)
    assert item(registered) == dict(TABLE.item)


def test_a_holder_keeps_the_lease_if_a_request_is_pending(
    registered: StateStore, token: int, clock: ManualClock
) -> None:
    registered.clear_request(PATH)
    registered.request_work(PATH, clock(), 300)
    assert not registered.release_lease(PATH, "a", token, even_if_requested=False)
    assert item(registered)[Attribute.LEASE_HOLDER] == "a"
    registered.clear_request(PATH)
    assert registered.release_lease(PATH, "a", token, even_if_requested=False)


def test_an_outcome_is_written_with_the_release_or_not_at_all(registered: StateStore, token: int, clock: ManualClock):
    registered.request_work(PATH, clock(), 300)
    written = {"LastError": "mine"}
    assert not registered.release_lease(PATH, "a", token, even_if_requested=False, attributes=written)
    assert "LastError" not in item(registered)
    assert registered.record_run(PATH, {"LastRunId": "a"}, ("a", token), clears_request=True)
    assert Attribute.WORK_REQUESTED_UTC not in item(registered)
    assert registered.release_lease(PATH, "a", token, even_if_requested=False, attributes=written)
    assert item(registered) == {**TABLE.item, "LastError": "mine", "LastRunId": "a", "FencingToken": str(token)}
    assert registered.release_lease(PATH, "a", token, even_if_requested=True, attributes={"LastError": "late"})
    assert item(registered)["LastError"] == "mine"
    with pytest.raises(ValueError, match="ActiveFlag"):
        registered.release_lease(PATH, "a", token, even_if_requested=True, attributes={"ActiveFlag": "true"})


def test_a_forced_release_leaves_the_request_pending(registered: StateStore, token: int, clock: ManualClock) -> None:
    registered.request_work(PATH, clock(), 300)
    assert registered.release_lease(PATH, "a", token, even_if_requested=True)
    assert Attribute.LEASE_HOLDER not in item(registered)
    assert Attribute.WORK_REQUESTED_UTC in item(registered)


def test_no_request_is_lost_between_a_release_and_a_racing_request(registered: StateStore, clock: ManualClock) -> None:
    """Either the holder keeps the lease and lists again, or the requester finds the lease free for its run."""
    for _ in range(30):
        token = registered.acquire_lease(PATH, "holder", clock(), 60).token
        registered.clear_request(PATH)
        barrier = Barrier(2)

        def ask(barrier: Barrier = barrier) -> bool:
            barrier.wait()
            assert registered.request_work(PATH, clock(), 300).is_new
            try:
                started = registered.acquire_lease(PATH, "asker", clock(), 60).token
            except LeaseHeldError:
                return False
            registered.release_lease(PATH, "asker", started, even_if_requested=True)
            return True

        with ThreadPoolExecutor(1) as thread:
            request = thread.submit(ask)
            barrier.wait()
            released = registered.release_lease(PATH, "holder", token, even_if_requested=False)
            requester_got_the_lease = request.result()
        assert requester_got_the_lease == released
        assert Attribute.WORK_REQUESTED_UTC in item(registered)
        if not released:
            registered.clear_request(PATH)
            assert registered.release_lease(PATH, "holder", token, even_if_requested=False)


def test_the_holder_of_a_lease_can_raise_its_token(registered: StateStore, token: int, clock: ManualClock) -> None:
    assert registered.raise_token(PATH, "a", token, 5_000)
    assert not registered.renew_lease(PATH, "a", token, clock(), 60)
    assert registered.renew_lease(PATH, "a", 5_000, clock(), 60)
    assert registered.release_lease(PATH, "a", 5_000, even_if_requested=True)
    assert registered.acquire_lease(PATH, "b", clock(), 60).token == 5_001


@pytest.mark.parametrize(("holder", "token"), [("b", 1), ("a", 2)])
def test_nobody_else_can_raise_the_token(registered: StateStore, clock: ManualClock, holder: str, token: int) -> None:
    registered.acquire_lease(PATH, "a", clock(), 60)
    before = item(registered)
    assert not registered.raise_token(PATH, holder, token, 9)
    assert item(registered) == before


def test_of_two_holders_with_one_token_each_has_only_its_own_lease(state: StateStore, clock: ManualClock) -> None:
    """As after an item is restored from a backup: the first holder still works."""
    state.register(TABLE.with_attributes(FencingToken="41"))
    assert state.acquire_lease(PATH, "new", clock(), 60).token == 42
    assert not state.renew_lease(PATH, "old", 42, clock(), 60)
    assert state.release_lease(PATH, "old", 42, even_if_requested=True)
    assert item(state)[Attribute.LEASE_HOLDER] == "new"


@pytest.mark.parametrize("end", ["2099-01-01T00:00:00Z", "2024-03-05T10:10:01Z", "never", "", None])
def test_a_lease_without_an_end_that_a_lease_can_have_is_taken_over(
    state: StateStore, clock: ManualClock, end: str | None
) -> None:
    broken = {Attribute.LEASE_HOLDER: "ghost", **({Attribute.LEASE_EXPIRES_UTC: end} if end is not None else {})}
    state.register(TABLE.with_attributes(**broken))
    lease = state.acquire_lease(PATH, "a", clock(), 60)
    assert lease.taken_over_from == "ghost"
    assert "LeaseExpiresUtc is" in lease.fault
    assert item(state)[Attribute.LEASE_EXPIRES_UTC] == "2024-03-05T10:01:00Z"
    with pytest.raises(LeaseHeldError, match="holder a"):
        state.acquire_lease(PATH, "b", clock(), 60)


def test_the_longest_lease_is_respected(state: StateStore, clock: ManualClock) -> None:
    state.register(TABLE.with_attributes(LeaseHolder="slow", LeaseExpiresUtc="2024-03-05T10:10:00Z"))
    with pytest.raises(LeaseHeldError, match="holder slow"):
        state.acquire_lease(PATH, "a", clock(), 60)


def test_an_expired_lease_has_no_fault(registered: StateStore, clock: ManualClock) -> None:
    assert registered.acquire_lease(PATH, "a", clock(), 60).fault == ""
    clock.advance(61)
    assert registered.acquire_lease(PATH, "b", clock(), 60)[:3] == (2, "a", "")


@pytest.mark.parametrize("clears_request", [True, False])
def test_a_lease_brings_the_item_along_and_may_clear_the_request(
    registered: StateStore, clock: ManualClock, clears_request: bool
) -> None:
    registered.acquire_lease(PATH, "dead", clock(), 60)
    clock.advance(61)
    registered.request_work(PATH, clock(), 300)
    acquired = registered.acquire_lease(PATH, "a", clock(), 60, clears_request=clears_request)
    assert acquired.state == registered.get(PATH)
    assert (Attribute.WORK_REQUESTED_UTC in item(registered)) is not clears_request


def test_a_request_says_who_holds_the_lease(registered: StateStore, clock: ManualClock) -> None:
    registered.acquire_lease(PATH, "a", clock(), 60)
    for is_new in (True, False):
        request = registered.request_work(PATH, clock(), 300)
        assert request == (is_new, registered.get(PATH))
        assert request.state.leased(clock())


@pytest.mark.parametrize("token", ["many", "1.5", "-1", ""])
def test_a_fencing_token_that_is_no_whole_number_is_named(state: StateStore, clock: ManualClock, token: str) -> None:
    try:
        state.register(TABLE.with_attributes(FencingToken=token))
    except CdclakeError:  # DynamoDB stores only numbers as numbers
        pytest.skip("the store refuses it")
    with pytest.raises(ConfigurationError, match="FencingToken") as raised:
        state.acquire_lease(PATH, "a", clock(), 60)
    assert "shop.product" in str(raised.value)
    assert "Remove the attribute" in str(raised.value)


def test_a_request_of_the_future_delays_no_run(state: StateStore, clock: ManualClock) -> None:
    state.register(TABLE.with_attributes(WorkRequestedUtc="2099-01-01T00:00:00Z"))
    assert state.request_work(PATH, clock(), 300).is_new
    assert not state.request_work(PATH, clock(), 300).is_new


def test_a_lease_can_be_given_to_another_holder_with_its_token(registered: StateStore, clock: ManualClock):
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    assert registered.renew_lease(PATH, "a", token, clock(), 60, to="b")
    assert not registered.renew_lease(PATH, "a", token, clock(), 60)
    assert registered.renew_lease(PATH, "b", token, clock(), 60)
    assert registered.renew_lease(PATH, "a", token, clock(), 60, to="b")  # its first answer was lost
    assert not registered.renew_lease(PATH, "a", token, clock(), 60, to="c")
    with pytest.raises(LeaseHeldError):
        registered.acquire_lease(PATH, "c", clock(), 60)


def test_a_lease_that_is_ended_can_be_taken_over(registered: StateStore, clock: ManualClock):
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    assert registered.renew_lease(PATH, "a", token, clock(), 0)
    assert registered.acquire_lease(PATH, "b", clock(), 60).taken_over_from == "a"
    assert not registered.renew_lease(PATH, "a", token, clock(), 60)


def test_an_outcome_is_written_only_under_the_lease_that_it_names(registered: StateStore, clock: ManualClock):
    token = registered.acquire_lease(PATH, "a", clock(), 60).token
    assert registered.record_run(PATH, {"LastError": "mine"}, ("a", token))
    assert not registered.record_run(PATH, {"LastError": "other"}, ("b", token))
    assert not registered.record_run(PATH, {"LastError": "older"}, ("a", token - 1))
    assert item(registered)["LastError"] == "mine"
    assert registered.release_lease(PATH, "a", token, even_if_requested=True)
    assert not registered.record_run(PATH, {"LastError": "late"}, ("a", token))
    assert registered.record_run(PATH, {"LastError": "by hand"})
    assert item(registered)["LastError"] == "by hand"
    with pytest.raises(UnknownTableError):
        registered.record_run(UNKNOWN, {"LastError": "x"}, ("a", token))


@pytest.mark.parametrize(
    "edited", [Attribute.LAST_FULL_LOAD_DATE, Attribute.LAST_SEEN], ids=["was there", "was absent"]
)
def test_a_run_leaves_what_an_operator_edited_since_it_read_the_item(
    registered: StateStore, token: int, edited: str
) -> None:
    names = (Attribute.LAST_FULL_LOAD_DATE, Attribute.LAST_INCREMENTAL_FILE, Attribute.LAST_SEEN)
    read = {name: item(registered).get(name, "") for name in names}
    registered.record_run(PATH, {edited: "edited"})
    written = {**dict.fromkeys(names, "new"), Attribute.LAST_RUN_ID: "a"}
    after = registered.record_run(PATH, written, ("a", token), unless_edited=read)
    assert after is not None
    assert dict(after.item) == item(registered)
    assert item(registered).items() >= {**written, edited: "edited"}.items()
    again = registered.record_run(PATH, written, ("a", token), unless_edited=read)  # as if its answer had been lost
    assert again == after
    assert registered.record_run(PATH, {edited: "new"}, ("a", token), unless_edited=read) == after
    assert registered.record_run(PATH, written, ("b", token), unless_edited=read) is None
    assert item(registered) == dict(after.item)
