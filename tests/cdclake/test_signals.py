"""The signals that ask a process to stop, where it handles them."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from cdclake.signals import handle_stop_signals, stop_signals

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.usefixtures("hangup")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_another_thread_receives_stops_the_service(number: signal.Signals) -> None:
    def receive() -> None:
        time.sleep(0.1)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), number)

    before = signal.getsignal(number)
    with stop_signals() as wait:
        threading.Thread(target=receive).start()
        wait()
    assert signal.getsignal(number) is before


def test_a_process_under_nohup_goes_on_when_its_terminal_closes() -> None:
    seen: list[signal.Signals] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        restore = handle_stop_signals(seen.append)
        for number in SIGNALS:
            os.kill(os.getpid(), number)
        restore()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen == [signal.SIGINT, signal.SIGTERM]
