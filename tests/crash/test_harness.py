"""The crash tests can fail: faults hit the right call, and the checks notice errors."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from cdclake.adapters.s3 import S3Store
from cdclake.errors import CdclakeError
from cdclake_devkit.memory import MemoryStore
from tests.crash import checks
from tests.crash.connectors import LAKE
from tests.crash.environments import AwsEnvironment
from tests.crash.faults import Fault, FaultyPort, Injector, Point
from tests.crash.runner import LAYOUT, Runner
from tests.crash.sandbox import Sandbox, View
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.trials import try_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.model.table.state import TableState
    from cdclake.ports import ObjectStore
    from cdclake_devkit.oracle import LakeRow
    from tests.crash.conftest import NewEnvironment

pytestmark = pytest.mark.slow
all_readers = pytest.mark.parametrize("readers", ["folder", "iceberg", "both"])
iceberg_readers = pytest.mark.parametrize("readers", ["iceberg"])


@pytest.fixture
def readers() -> str:
    """What readers of the table open."""
    return "folder"


class Settled(NamedTuple):
    """A correct lake, its expected rows, and its table's item."""

    view: View
    expected: list[LakeRow]
    state: TableState


def settle(sandbox: Sandbox) -> Settled:
    scenario = SCENARIOS["LoadIncremental"]
    expected = scenario.prepare(sandbox)
    scenario.run(sandbox.runner())
    return Settled(sandbox.view(), expected, sandbox.state())


@pytest.fixture(scope="module")
def settled_once(new_environment: NewEnvironment) -> Callable[[str], Settled]:
    """Settles a table once for each kind of readers; nothing changes a view."""

    @cache
    def make(readers: str) -> Settled:
        with new_environment("folder") as (environment, folder):
            return settle(Sandbox(environment, folder, readers))

    return make


@pytest.fixture
def settled(settled_once: Callable[[str], Settled], readers: str) -> Settled:
    return settled_once(readers)


@pytest.mark.parametrize(("fault", "is_written"), [(Fault.RAISES, False), (Fault.RESPONSE_LOST, True)])
def test_a_fault_hits_only_its_call(fault: Fault, is_written: bool) -> None:
    store = MemoryStore()
    injector = Injector(Point(fault, 2, writes_only=True))
    faulty = cast("ObjectStore", FaultyPort(store, injector))
    faulty.put("a", b"")
    assert list(faulty.list(""))
    with pytest.raises(CdclakeError, match="injected by a test"):
        faulty.put("b", b"")
    faulty.put("c", b"")
    assert [entry.key for entry in store.list("")] == (["a", "b", "c"] if is_written else ["a", "c"])
    assert (injector.hit, injector.calls) == ("put b", 3)


def test_a_paused_call_is_executed_after_the_calls_of_others() -> None:
    store = MemoryStore()
    injector = Injector(Point(Fault.PAUSED, 1, writes_only=False), meanwhile=lambda: store.put("a", b"other"))
    cast("ObjectStore", FaultyPort(store, injector)).put("a", b"paused")
    assert store.get("a") == b"paused"


@pytest.mark.aws
@pytest.mark.parametrize(
    ("fault", "raises", "writes"),
    [(Fault.RAISES, True, 0), (Fault.RESPONSE_LOST, True, 1), (Fault.CONNECTION_DROPPED, False, 2)],
)
def test_a_fault_hits_only_its_request(
    fault: Fault, raises: bool, writes: int, new_environment: NewEnvironment
) -> None:
    with new_environment("versioned bucket") as (environment, _):
        assert isinstance(environment, AwsEnvironment)
        store = environment.connector.ports(Injector()).lake
        assert isinstance(store, S3Store)
        with environment.wire.watching(Point(fault, 1, writes_only=True), lambda: None) as watch:
            assert store.get("a") is None
            try:
                store.put("a", b"")
                raised = False
            except CdclakeError:
                raised = True
        assert (raised, watch.hit) == (raises, f"PUT /{LAKE}/a")
        listing = store._client.list_object_versions(Bucket=LAKE)
        assert len(listing.get("Versions", [])) == writes  # each execution leaves a version


def _without(view: View, key: str) -> View:
    return View({name: data for name, data in view.objects.items() if name != key})


@all_readers
def test_missing_rows_are_noticed(settled: Settled) -> None:
    view = settled.view
    key = LAYOUT.data_key(max(view.visible))
    with pytest.raises(AssertionError, match="readers"):
        checks.check_readers(view, _without(view, key))
    before = _without(view, LAYOUT.change_key(view.log.head()))
    with pytest.raises(AssertionError, match="readers"):
        checks.check_readers(before, _without(view, key))


@all_readers
def test_a_truncated_file_is_noticed(settled: Settled) -> None:
    view = settled.view
    key = LAYOUT.data_key(max(view.visible))
    with pytest.raises(Exception, match="Parquet"):
        checks.check_readers(view, View({**view.objects, key: view.objects[key][:-9]}))


@all_readers
def test_a_foreign_file_and_a_missing_row_are_noticed(settled: Settled) -> None:
    view, expected, _ = settled
    checks.check_table(view, expected)
    path = max(view.visible)
    with pytest.raises(AssertionError, match="other files than the snapshot's"):
        checks.check_table(View({**view.objects, LAYOUT.data_key("x.parquet"): view.visible[path]}), expected)
    with pytest.raises(AssertionError, match="differs from the oracle"):
        checks.check_table(view, expected[1:])


@pytest.mark.parametrize("key", [LAYOUT.staging_prefix(9, "dead") + "x", LAYOUT.snapshot_key(9, "dead")])
def test_leftovers_of_a_clean_up_are_noticed(settled: Settled, key: str) -> None:
    view = settled.view
    checks.check_clean(view)
    with pytest.raises(AssertionError, match=r"staging is not empty|unneeded objects"):
        checks.check_clean(View({**view.objects, key: b""}))


@iceberg_readers
def test_an_iceberg_table_of_an_earlier_change_is_noticed(settled: Settled) -> None:
    view = settled.view
    checks.check_iceberg(view, is_expected=True)
    with pytest.raises(AssertionError, match="wrong readers"):
        checks.check_iceberg(view, is_expected=False)
    with pytest.raises(AssertionError, match="wrong readers"):
        checks.check_iceberg(_without(view, LAYOUT.version_hint_key), is_expected=True)
    earlier = View({**view.objects, LAYOUT.version_hint_key: b"2"})
    with pytest.raises(AssertionError, match="readers do not find the last change"):
        checks.check_iceberg(earlier, is_expected=True)
    with pytest.raises(AssertionError, match="other files than the snapshot's"):
        checks.check_table(earlier, [])


@iceberg_readers
def test_an_iceberg_table_of_half_a_change_is_noticed(settled: Settled) -> None:
    """The metadata of the last change has the files of two changes ago."""
    view = settled.view
    key = LAYOUT.iceberg_metadata_key(3)
    metadata = json.loads(view.objects[key])
    first, _, last = metadata["snapshots"]
    last["manifest-list"] = first["manifest-list"]
    half = View({**view.objects, key: json.dumps(metadata).encode()})
    with pytest.raises(AssertionError, match="readers"):
        checks.check_readers(_without(view, LAYOUT.change_key(3)), half)
    with pytest.raises(AssertionError, match="readers find other files"):
        checks.check_iceberg(half, is_expected=True)


@iceberg_readers
@pytest.mark.parametrize("kind", [".parquet", ".avro"])
def test_a_lost_file_of_an_earlier_snapshot_is_noticed(settled: Settled, kind: str) -> None:
    view = settled.view
    assert view.iceberg
    head = view.log.snapshot(3)
    assert head.iceberg
    needed = {*head.iceberg.keys, *(LAYOUT.data_key(file.path) for file in head.files)}
    key = min(key for key in view.iceberg.keys - needed if key.endswith(kind))
    with pytest.raises(AssertionError, match="readers"):
        checks.check_readers(view, _without(view, key))
    with pytest.raises(AssertionError, match="readers"):
        checks.check_iceberg(_without(view, key), is_expected=True)


@iceberg_readers
def test_leftovers_and_losses_of_an_iceberg_table_are_noticed(new_environment: NewEnvironment, readers: str) -> None:
    with new_environment("folder") as (environment, folder):
        sandbox = Sandbox(environment, folder, readers)
        settled = settle(sandbox)
        with pytest.raises(AssertionError, match="other files than changes need"):
            checks.check_clean(settled.view)  # older metadata
        environment.age_files()
        sandbox.runner().clean_up()
        view = sandbox.view()
    checks.check_clean(view)
    for key in (LAYOUT.iceberg_data_prefix(9, "dead") + "x.parquet", LAYOUT.manifest_prefix(9, "dead") + "-m0.avro"):
        with pytest.raises(AssertionError, match="other files than changes need"):
            checks.check_clean(View({**view.objects, key: b""}))
    first = LAYOUT.data_key(view.log.snapshot(1).files[0].path)
    with pytest.raises(AssertionError, match="other files than changes need"):
        checks.check_clean(_without(view, first))


@iceberg_readers
def test_a_catalog_that_names_other_metadata_is_noticed(settled: Settled) -> None:
    view, _, state = settled
    layouts = {checks.TABLE: LAYOUT, checks.TABLE_HISTORY: LAYOUT.history}
    shown: dict[str, set[str] | str] = {
        name: f"s3://{LAKE}/{layout.iceberg_metadata_key(3)}" for name, layout in layouts.items()
    }
    checks.check_catalog(view, state, shown)
    for name, layout in layouts.items():
        for wrong in (f"s3://{LAKE}/{layout.iceberg_metadata_key(2)}", {""}):
            with pytest.raises(AssertionError, match="the catalog differs"):
                checks.check_catalog(view, state, {**shown, name: wrong})


def test_a_run_that_retires_files_before_its_commit_fails_the_trials(new_environment: NewEnvironment) -> None:
    sound = SCENARIOS["LoadIncremental"]

    def retire_too_early(runner: Runner) -> Any:
        for entry in list(runner.log.store.list(LAYOUT.table_prefix)):
            path = entry.key[len(LAYOUT.table_prefix) :]
            runner.log.store.retire(entry.key, LAYOUT.retired_key(path))
        for entry in list(runner.log.store.list(LAYOUT.retired_key(""))):
            path = entry.key[len(LAYOUT.retired_key("")) :]
            runner.log.store.restore(LAYOUT.data_key(path), entry.key)
        return sound.run(runner)

    faulty = Scenario("early", sound.prepare, retire_too_early, sound.next_run, sound.idle_run)
    with new_environment("folder") as (environment, folder):
        (tally,) = try_points(environment, folder, faulty, [Fault.RAISES])
    assert tally.failures
    assert tally.survived < tally.tried
