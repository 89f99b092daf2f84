"""What services on this machine share: a clean stop."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from cdclake.loopback import stop_signals


@pytest.mark.timeout(20)
def test_a_signal_that_another_thread_receives_stops_the_service() -> None:
    def receive() -> None:
        time.sleep(0.1)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as wait:
        threading.Thread(target=receive).start()
        wait()
    assert signal.getsignal(signal.SIGTERM) is before
