"""A signal that stops a command lets it clean up, and is one line on stderr and a status, whatever the command."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest

from cdclake_cli import main
from tests.cdclake_cli.test_exit_statuses import STORE

STATUSES = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize(("number", "status"), STATUSES)
def test_a_stopped_command_is_one_line_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals, status: int
) -> None:
    monkeypatch.setattr(main, "assembled", lambda _: lambda: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == status
    assert signal.getsignal(number) is before
    assert capsys.readouterr() == (
        "",
        f"Stopped by {number.name}. What the command did before stays done; run it again\n",
    )


@pytest.mark.slow
def test_a_stopped_command_gives_its_lease_back(state: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the table is busy until the lease expires."""
    held = []

    def stop(*_: object, **__: object) -> None:
        held.append("LeaseHolder" in state.get(STORE).item)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("cdclake.control.admin.table_admin.apply_undo", stop)
    monkeypatch.setattr(sys, "argv", ["cdclake", "rollback", "shop.store", "--yes"])
    with pytest.raises(SystemExit):
        main.main()
    assert held == [True]
    assert "LeaseHolder" not in state.get(STORE).item
