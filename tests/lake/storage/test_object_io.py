"""pyiceberg reads the manifests of several lists at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from cdclake.adapters.memory import MemoryStore
from cdclake.lake.storage.object_io import StoreIO


class MeetingStore(MemoryStore):
    """Returns objects only to readers who read at the same time."""

    def __init__(self, readers: int) -> None:
        super().__init__()
        self.barrier = Barrier(readers, timeout=20)

    def get(self, key: str) -> bytes | None:
        self.barrier.wait()
        return super().get(key)


def test_objects_are_read_at_the_same_time() -> None:
    store = MeetingStore(2)
    inputs = [StoreIO(store).new_input(store.url(key)) for key in ("a", "b")]
    for one, content in zip(inputs, (b"1", b"22"), strict=True):
        store.put(one.location.removeprefix(store.url("")), content)
    with ThreadPoolExecutor(2) as pool:
        assert [stream.read() for stream in pool.map(lambda one: one.open(), inputs)] == [b"1", b"22"]


def test_an_object_is_read_once() -> None:
    store = MeetingStore(1)
    store.put("a", b"1")
    one = StoreIO(store).new_input(store.url("a"))
    assert (len(one), one.open().read()) == (1, b"1")
    store.put("a", b"2")
    assert one.open().read() == b"1"
