"""`cdclake resync` has DMS reload a table, and names the next step."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.errors import AttentionError, RetryableError
from cdclake_cli.aws.dms_reload import DmsReloads, TableLoad
from cdclake_cli.aws.services import Services
from cdclake_cli.signals import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdclake.model.table.name import TableName

PATHS = {name: f"cdclake-raw/shop/{name}/" for name in ("store", "product")}
TASK = "arn:aws:dms:eu-central-1:123456789012:task:SHOP"


class Reloads(DmsReloads):
    """Notes what DMS is asked, and reports a load."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing: dict[str, BaseException] = {}

    def before_reload(self, task: str, name: TableName) -> TableLoad:
        assert task == TASK
        return TableLoad("SHOP", name.table.upper(), "Table completed", 1_000)

    def reload(self, task: str, load: TableLoad) -> None:
        assert task == TASK
        self.asked.append(load.table)

    def wait(self, task: str, name: TableName, before: TableLoad, progress: Callable[[TableLoad], None]) -> TableLoad:
        progress(before._replace(state="Full load"))
        if name.table in self.failing:
            raise self.failing[name.table]
        return before._replace(rows=1_234)


@pytest.fixture
def dms(state: Any, monkeypatch: pytest.MonkeyPatch) -> Reloads:
    for path in PATHS.values():
        state.set_attributes(path, {"DmsTask": TASK, "ActiveFlag": "true", "FullLoadQuietMinutes": "7"})
    reloads = Reloads()
    monkeypatch.setattr(Services, "reloads", reloads)
    return reloads


def test_a_dry_run_tells_what_dms_has_and_asks_for_nothing(cdclake: Any, dms: Reloads):
    result = cdclake.ok("resync", "shop.store", "--dry-run")
    assert "DMS reports 'Table completed' for SHOP.STORE, rows of its last full load: 1,000" in result.stdout
    assert "Dry run: nothing was changed" in result.stdout
    record = cdclake.record("resync", "shop.store", "--dry-run")
    assert record == {"table": "shop.store", "done": False, "task": TASK, "state": "Table completed", "rows": 1_000}
    assert dms.asked == []


def test_dms_reloads_and_the_next_step_is_named(cdclake: Any, dms: Reloads):
    result = cdclake.ok("resync", "shop.store", "--yes")
    assert "Done. DMS has reloaded SHOP.STORE, rows: 1,234." in result.stdout
    assert (
        "A run replaces the table with it when no file has arrived for 7 minutes: cdclake run shop.store"
        in result.stdout
    )
    record = cdclake.record("resync", "shop.store", "--yes")
    assert (record["done"], record["rows"]) == (True, 1_234)
    assert dms.asked == ["STORE", "STORE"]


def test_a_table_that_is_off_stays_off(cdclake: Any, dms: Reloads, state: Any):
    state.set_attributes(PATHS["store"], {"ActiveFlag": "false"})
    assert "To turn it on: cdclake tables activate shop.store" in cdclake.ok("resync", "shop.store", "--yes").stdout
    assert not state.get(PATHS["store"]).active


def test_a_table_without_a_task_is_refused_with_the_remedy(cdclake: Any, state: Any):
    error = cdclake.refused("resync", "shop.store", "--yes")
    assert "DmsTask is not set" in error
    assert "cdclake tables set shop.store --set DmsTask=ARN" in error


def test_nobody_to_ask_asks_dms_for_nothing(cdclake: Any, dms: Reloads):
    assert "--yes" in cdclake.refused("resync", "shop.store")
    assert cdclake.at_terminal("resync", "shop.store", answer="n").exit_code == 1
    assert dms.asked == []


def test_a_failed_reload_stops_no_other_and_exits_with_6(cdclake: Any, dms: Reloads):
    dms.failing["product"] = AttentionError("The reload failed: DMS reports 'Table error'", remedy="Look")
    result = cdclake("resync", "shop.*", "--yes")
    assert result.exit_code == 6
    assert "shop.product: AttentionError: The reload failed" in result.stderr
    assert dms.asked == ["PRODUCT", "STORE"]


@pytest.mark.parametrize(
    ("error", "status"), [(Interrupted(signal.SIGINT), 130), (RetryableError("AWS did not respond", remedy="Wait"), 4)]
)
def test_a_command_that_no_longer_waits_says_that_dms_goes_on(
    cdclake: Any, dms: Reloads, error: BaseException, status: int
):
    dms.failing["store"] = error
    result = cdclake("resync", "shop.store", "--yes")
    assert result.exit_code == status
    assert "DMS goes on reloading SHOP.STORE. To watch it: cdclake status" in result.stderr
