"""The contract of object stores, run on all adapters."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Callable

import pytest

from cdclake.errors import IntegrityError
from cdclake.model.layout import FileKeys
from cdclake.model.raw.files import parse_raw_file
from tests.cdclake.adapters.conftest import at_once

if TYPE_CHECKING:
    from cdclake.ports import ObjectStore


def keys(store: ObjectStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [found.key for found in store.list(prefix, start_after)]


def fill(store: ObjectStore, *names: str) -> None:
    for name in names:
        store.put(name, name.encode())


def test_get_returns_what_was_put_last(store: ObjectStore) -> None:
    store.put("a/b", b"first")
    store.put("a/b", b"second")
    assert store.get("a/b") == b"second"


def test_get_of_an_absent_key_is_none(store: ObjectStore) -> None:
    fill(store, "a/b")
    assert store.get("a/c") is None
    assert store.get("a") is None


@pytest.mark.parametrize("key", ["a/" + "x" * 1100 + "/b", "ä" * 520])
def test_there_is_nothing_at_a_key_that_is_too_long(store: ObjectStore, key: str) -> None:
    fill(store, "a/b")
    assert store.key_fault(key)
    assert store.get(key) is None
    assert keys(store, f"{key}/") == []
    assert list(store.list_level(f"{key}/")) == []


def test_an_empty_object_exists(store: ObjectStore) -> None:
    store.put("published/1", b"")
    assert store.get("published/1") == b""
    assert keys(store) == ["published/1"]


def test_list_returns_size_and_time_in_utc(store: ObjectStore) -> None:
    before = datetime.now(timezone.utc) - timedelta(seconds=2)
    store.put("a/b", b"12345")
    (found,) = store.list("a/")
    assert (found.key, found.size_bytes) == ("a/b", 5)
    assert found.modified_utc.utcoffset() == timedelta(0)
    assert before <= found.modified_utc <= datetime.now(timezone.utc) + timedelta(seconds=2)


def test_the_etag_changes_with_the_content_and_not_with_the_time(store: ObjectStore) -> None:
    def identity() -> str:
        (entry,) = store.list("shop/orders/")
        file = parse_raw_file(entry, "shop/orders/")
        assert file
        return file.identity

    store.put("shop/orders/LOAD00000001.csv", b"12345")
    first = identity()
    assert first == "5-827ccb0eea8a"
    store.copy("shop/orders/LOAD00000001.csv", "copy")
    store.copy("copy", "shop/orders/LOAD00000001.csv")
    assert identity() == first
    for content in (b"54321", b"12345", b"54321"):  # faster than the ticks of a file system's clock
        store.put("shop/orders/LOAD00000001.csv", content)
        assert (identity() == first) is (content == b"12345")


def test_list_sorts_by_the_bytes_of_the_whole_key(store: ObjectStore) -> None:
    # '-' and '.' sort before '/', upper case before lower case, and a letter outside ASCII after both.
    names = ["t-old/1", "t.bak/1", "t/1", "t/2/1", "t/2", "T/1", "tä/1", "t0/1"]
    in_order = ["T/1", "t-old/1", "t.bak/1", "t/1", "t/2-x", "t/2/1", "t0/1", "tä/1"]
    fill(store, *[name for name in names if name != "t/2"], "t/2-x")
    assert keys(store) == in_order


def test_a_prefix_may_end_within_a_name(store: ObjectStore) -> None:
    fill(store, "s/t/1", "s/t/2", "s/tt/1", "r/t/1")
    found = {prefix: keys(store, prefix) for prefix in ("s/t/", "s/t", "s/t/2", "x/")}
    assert found == {"s/t/": ["s/t/1", "s/t/2"], "s/t": ["s/t/1", "s/t/2", "s/tt/1"], "s/t/2": ["s/t/2"], "x/": []}


def test_an_impossible_prefix_lists_nothing(store: ObjectStore) -> None:
    fill(store, "s/t/1")
    for prefix in ("../", "s/../", "/", "s//", "./s/"):
        assert [*keys(store, prefix), *store.list_level(prefix)] == [], prefix


def test_list_starts_after_a_key_that_need_not_exist(store: ObjectStore) -> None:
    fill(store, "s/1", "s/2", "s/3")
    assert keys(store, "s/", start_after="s/1") == ["s/2", "s/3"]
    assert keys(store, "s/", start_after="s/10") == ["s/2", "s/3"]
    assert keys(store, "s/", start_after="s/3") == []
    assert keys(store, "s/", start_after="a") == ["s/1", "s/2", "s/3"]


def test_deleting_no_keys_does_nothing(store: ObjectStore) -> None:
    fill(store, "kept")
    store.delete([])
    assert keys(store) == ["kept"]


def test_list_level_returns_each_folder_once_and_the_objects_beside_them(store: ObjectStore) -> None:
    fill(store, "raw/s2/t/1", "raw/s2/t/2", "raw/s2/1", "raw/s2-old/t/1", "raw/file", "other/s3/t/1", "1")
    assert sorted(store.list_level("")) == ["1", "other/", "raw/"]
    assert sorted(store.list_level("raw/")) == ["raw/file", "raw/s2-old/", "raw/s2/"]
    assert sorted(store.list_level("raw/s2/")) == ["raw/s2/1", "raw/s2/t/"]
    assert list(store.list_level("raw/s3/")) == []


def test_a_folder_is_gone_with_its_last_object(store: ObjectStore) -> None:
    fill(store, "raw/s/t/1")
    store.delete(["raw/s/t/1"])
    assert list(store.list_level("raw/")) == []


PRINTABLE = ("a b", "a+b", "a%20b", "a=ö&'\"<>", "day=2024-03-05 10:15:00", "日本")


def test_keys_may_contain_any_printable_characters(store: ObjectStore) -> None:
    for name in PRINTABLE:
        store.put(f"s/{name}/{name}.parquet", name.encode())
        store.copy(f"s/{name}/{name}.parquet", f"copy/{name}")
        assert store.get(f"copy/{name}") == name.encode()
    assert sorted(keys(store, "s/")) == sorted(f"s/{name}/{name}.parquet" for name in PRINTABLE)
    assert sorted(store.list_level("s/")) == sorted(f"s/{name}/" for name in PRINTABLE)


def test_put_if_absent_writes_once(store: ObjectStore) -> None:
    assert store.put_if_absent("changes/1", b"first")
    assert not store.put_if_absent("changes/1", b"second")
    assert store.get("changes/1") == b"first"
    assert keys(store) == ["changes/1"]


def test_put_if_absent_does_not_replace_an_object_written_by_put(store: ObjectStore) -> None:
    store.put("changes/1", b"first")
    assert not store.put_if_absent("changes/1", b"first")


def test_put_if_absent_can_write_again_after_a_delete(store: ObjectStore) -> None:
    store.put_if_absent("changes/1", b"first")
    store.delete(["changes/1"])
    assert store.put_if_absent("changes/1", b"second")
    assert store.get("changes/1") == b"second"


def test_put_if_unchanged_replaces_only_the_content_it_knows(store: ObjectStore) -> None:
    assert not store.put_if_unchanged("a", b"new", b"old")
    assert store.get("a") is None
    store.put("a", b"old")
    assert store.put_if_unchanged("a", b"new", b"old")
    assert not store.put_if_unchanged("a", b"newer", b"old")
    assert store.get("a") == b"new"


def test_put_if_unchanged_may_be_repeated(store: ObjectStore) -> None:
    store.put("a", b"new")
    assert store.put_if_unchanged("a", b"new", b"old")


def test_of_16_racing_put_if_unchanged_one_wins(store: ObjectStore) -> None:
    store.put("a", b"old")
    won = at_once(lambda number: store.put_if_unchanged("a", str(number).encode(), b"old"))
    assert won.count(True) == 1
    assert store.get("a") == str(won.index(True)).encode()


def test_of_16_racing_put_if_absent_one_wins(store: ObjectStore) -> None:
    won = at_once(lambda number: store.put_if_absent("changes/1", str(number).encode()))
    assert won.count(True) == 1
    assert store.get("changes/1") == str(won.index(True)).encode()


@pytest.mark.parametrize("size_bytes", [None, len("staging/1")])
def test_copy_replaces_the_target_and_keeps_the_source(store: ObjectStore, size_bytes: int | None) -> None:
    fill(store, "staging/1", "table/1")
    store.copy("staging/1", "table/1", size_bytes)
    assert store.get("table/1") == store.get("staging/1") == b"staging/1"


def test_copy_of_an_absent_object_is_an_error_that_names_it(store: ObjectStore) -> None:
    with pytest.raises(IntegrityError, match="staging/1"):
        store.copy("staging/1", "table/1")
    assert store.get("table/1") is None


def test_retire_hides_an_object(store: ObjectStore) -> None:
    fill(store, "table/1", "table/2")
    store.retire("table/1", "control/retired/1")
    assert keys(store, "table/") == ["table/2"]
    assert store.get("table/1") is None


def test_retire_is_idempotent(store: ObjectStore) -> None:
    fill(store, "table/1")
    store.retire("table/1", "control/retired/1")
    before = [(key, store.get(key)) for key in keys(store, "control/")]
    store.retire("table/1", "control/retired/1")
    assert [(key, store.get(key)) for key in keys(store, "control/")] == before
    assert keys(store, "table/") == []


def test_retiring_an_absent_object_does_nothing(store: ObjectStore) -> None:
    store.retire("table/1", "control/retired/1")
    assert keys(store) == []


def test_a_file_that_begins_to_be_retired_is_live_until_that_ends(store: ObjectStore) -> None:
    fill(store, "table/1")
    ends = store.begin_retiring([FileKeys(f"table/{number}", f"control/retired/{number}") for number in (1, 2)])
    assert keys(store) == ["table/1"]
    for end in (*ends, *ends):
        end()
    assert keys(store, "table/") == []
    store.restore("table/1", "control/retired/1")
    assert store.get("table/1") == b"table/1"


RETIRED = "control/retired/1"
CONTENT = bytes(range(256)) * 100


def retired(store: ObjectStore, key: str = "table/1", retired_key: str = RETIRED) -> None:
    store.put(key, CONTENT)
    store.retire(key, retired_key)


def test_restore_brings_back_the_same_bytes_and_keeps_no_copy(store: ObjectStore) -> None:
    fill(store, "table/10")
    retired(store)
    store.restore("table/1", RETIRED)
    assert store.get("table/1") == CONTENT
    assert keys(store) == ["table/1", "table/10"]


def test_restore_is_idempotent(store: ObjectStore) -> None:
    retired(store)
    store.restore("table/1", RETIRED)
    store.restore("table/1", RETIRED)
    assert store.get("table/1") == CONTENT
    assert keys(store) == ["table/1"]


def test_restoring_a_live_file_changes_nothing(store: ObjectStore) -> None:
    fill(store, "table/1")
    store.restore("table/1", RETIRED)
    assert store.get("table/1") == b"table/1"


def test_a_data_file_can_be_retired_and_restored_repeatedly(store: ObjectStore) -> None:
    store.put("table/1", CONTENT)
    for _ in range(3):
        store.retire("table/1", RETIRED)
        store.retire("table/1", RETIRED)
        assert keys(store, "table/") == []
        store.restore("table/1", RETIRED)
        assert store.get("table/1") == CONTENT
    assert keys(store) == ["table/1"]


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.restore("table/1", RETIRED),
        lambda store: store.copy_retained("table/1", RETIRED, "table/2"),
    ],
)
def test_a_file_that_is_not_retained_cannot_be_restored_or_copied(
    store: ObjectStore, use: Callable[[ObjectStore], None]
) -> None:
    retired(store, "table/10", f"{RETIRED}0")
    before = keys(store)
    with pytest.raises(IntegrityError, match=r"table/1\b") as raised:
        use(store)
    assert "later change" in raised.value.remedy
    assert keys(store) == before
    assert store.is_retained("table/10", f"{RETIRED}0")


def test_live_and_retired_files_are_retained(store: ObjectStore) -> None:
    assert not store.is_retained("table/1", RETIRED)
    store.put("table/1", CONTENT)
    assert store.is_retained("table/1", RETIRED)
    store.retire("table/1", RETIRED)
    assert store.is_retained("table/1", RETIRED)
    assert not store.is_retained("table", "control/retired")
    store.discard("table/1", RETIRED)
    assert not store.is_retained("table/1", RETIRED)


def test_many_files_are_restored_and_those_that_are_not_retained_are_named(store: ObjectStore) -> None:
    fill(store, "table/live", "table/late")
    files = [FileKeys(f"{folder}/{n}", f"control/{folder}/{n}", f"{folder}/") for folder in "ab" for n in range(9)]
    for file in files:
        retired(store, file.key, file.retired_key)
    live = FileKeys("table/live", "control/live", "table/")
    gone = [FileKeys(f"{folder}/gone", f"control/{folder}/gone", f"{folder}/") for folder in "ab"]
    gone.append(FileKeys("b/" + "ü" * 512, "control/long", "b/"))
    assert sorted(store.not_retained([live, *gone, *files])) == sorted(gone)
    moves = store.begin_restoring([*files, live])
    assert not set(keys(store)).intersection(file.key for file in files)
    for move in moves:
        move()
    assert [key for key in keys(store) if key.startswith(("a/", "b/"))] == sorted(file.key for file in files)
    assert store.get(files[-1].key) == CONTENT
    assert keys(store, "control/") == []


def test_copy_retained_copies_a_live_file(store: ObjectStore) -> None:
    fill(store, "table/1")
    store.copy_retained("table/1", RETIRED, "staging/1")
    assert store.get("staging/1") == store.get("table/1") == b"table/1"


def test_copy_retained_copies_a_retired_file_and_leaves_it_retired(store: ObjectStore) -> None:
    retired(store)
    before = keys(store)
    fill(store, "staging/1")
    store.copy_retained("table/1", RETIRED, "staging/1")
    assert store.get("staging/1") == CONTENT
    assert keys(store) == [*before, "staging/1"]
    store.restore("table/1", RETIRED)
    assert store.get("table/1") == CONTENT


def test_discarding_a_retired_file_is_permanent(store: ObjectStore) -> None:
    retired(store)
    retired(store, "table/10", f"{RETIRED}0")
    store.discard("table/1", RETIRED)
    store.discard("table/1", RETIRED)
    assert RETIRED not in keys(store)
    with pytest.raises(IntegrityError):
        store.restore("table/1", RETIRED)
    store.restore("table/10", f"{RETIRED}0")
    assert keys(store) == ["table/10"]


def test_discard_leaves_a_live_file_alone(store: ObjectStore) -> None:
    retired(store)
    store.restore("table/1", RETIRED)
    store.discard("table/1", RETIRED)
    assert store.get("table/1") == CONTENT
    store.retire("table/1", RETIRED)
    store.restore("table/1", RETIRED)
    assert store.get("table/1") == CONTENT


def test_discarding_an_absent_file_is_no_error(store: ObjectStore) -> None:
    store.discard("table/1", RETIRED)
    assert keys(store) == []


def test_retired_files_may_have_any_printable_name(store: ObjectStore) -> None:
    for name in PRINTABLE:
        key, retired_key = f"table/{name}/1.parquet", f"control/retired/{name}/1.parquet"
        retired(store, key, retired_key)
        store.copy_retained(key, retired_key, f"copy/{name}")
        assert store.get(f"copy/{name}") == CONTENT
        store.restore(key, retired_key)
        assert store.get(key) == CONTENT
        store.retire(key, retired_key)
        store.discard(key, retired_key)
        assert not store.is_retained(key, retired_key)


def test_16_concurrent_callers_can_do_the_same(store: ObjectStore) -> None:
    store.put("table/1", CONTENT)
    at_once(lambda _: store.retire("table/1", RETIRED))
    assert keys(store, "table/") == []
    at_once(lambda number: store.copy_retained("table/1", RETIRED, f"copy/{number}"))
    assert {store.get(key) for key in keys(store, "copy/")} == {CONTENT}
    at_once(lambda _: store.restore("table/1", RETIRED))
    assert store.get("table/1") == CONTENT
    assert keys(store, "control/") == []
    store.retire("table/1", RETIRED)
    at_once(lambda _: store.discard("table/1", RETIRED))
    assert not store.is_retained("table/1", RETIRED)


def test_16_concurrent_callers_can_move_different_files(store: ObjectStore) -> None:
    def there_and_back(number: int) -> None:
        key, retired_key, content = f"table/{number}", f"control/retired/{number}", str(number).encode()
        store.put(key, content)
        store.retire(key, retired_key)
        store.copy_retained(key, retired_key, f"copy/{number}")
        store.restore(key, retired_key)
        if number % 2:
            store.retire(key, retired_key)
            store.discard(key, retired_key)

    at_once(there_and_back)
    assert keys(store) == sorted([f"copy/{number}" for number in range(16)] + [f"table/{n}" for n in range(0, 16, 2)])
    assert [store.get(f"table/{number}") for number in range(0, 16, 2)] == [b"%d" % n for n in range(0, 16, 2)]
    assert [store.get(f"copy/{number}") for number in range(16)] == [b"%d" % number for number in range(16)]


@pytest.mark.parametrize("move", ["retire", "restore"])
def test_a_file_can_be_copied_while_others_retire_or_restore_it(store: ObjectStore, move: str) -> None:
    store.put("table/1", CONTENT)
    if move == "restore":
        store.retire("table/1", RETIRED)

    def call(number: int) -> None:
        if number % 3 == 0:
            getattr(store, move)("table/1", RETIRED)
        elif number % 3 == 1:
            store.copy_retained("table/1", RETIRED, f"copy/{number}")
            assert store.get(f"copy/{number}") == CONTENT
        else:
            assert store.is_retained("table/1", RETIRED)

    at_once(call, times=9)


def test_purging_keeps_live_and_protected_objects(store: ObjectStore) -> None:
    for content in (b"old", b"new"):
        store.put("t/1", content)
        store.put("t/2", content)
        store.put("u/1", content)
    store.put("t/3", b"kept")
    store.put("t/4", b"deleted")
    store.delete(["t/4"])
    store.retire("t/3", "retired/3")
    store.purge("t/", lambda key: key == "t/3")
    assert keys(store, "t/") == ["t/1", "t/2"]
    assert [store.get(key) for key in ("t/1", "t/2", "u/1")] == [b"new"] * 3
    assert store.is_retained("t/3", "retired/3")
    assert not store.is_retained("t/4", "retired/4")
    assert store.purge("t/", lambda key: key == "t/3") == 0
    store.restore("t/3", "retired/3")
    assert store.get("t/3") == b"kept"


def test_old_versions_can_be_read_and_deleted_one_by_one(store: ObjectStore) -> None:
    """A store without versions has none of them."""
    for content in (b"first", b"second", b"third"):
        store.put("t/1", content)
        store.put("t/2", content)
        store.put("u/1", content)
    store.delete(["t/2"])
    versions = list(store.old_versions("t/"))
    contents = {(version.key, store.get_version(version)) for version in versions}
    assert not versions or contents == {
        *(("t/1", content) for content in (b"first", b"second")),
        *(("t/2", content) for content in (b"first", b"second", b"third")),
    }
    assert all(version.size_bytes == len(store.get_version(version) or b"") for version in versions)
    first = [version for version in versions if store.get_version(version) == b"first"]
    store.delete_versions(first)
    store.delete_versions(first)
    assert {*store.old_versions("t/")} == {*versions} - {*first}
    assert all(store.get_version(version) is None for version in first)
    store.delete_versions(list(store.old_versions("t/")))
    assert list(store.old_versions("t/")) == []
    assert (store.get("t/1"), store.get("t/2"), store.get("u/1")) == (b"third", None, b"third")


def test_removing_leftovers_disturbs_no_writer(store: ObjectStore) -> None:
    store.put("source", b"copied")
    writers: list[Callable[[int], object]] = [
        lambda number: store.put(f"put/{number}", b"put"),
        lambda number: store.put_if_absent(f"absent/{number}", b"absent"),
        lambda _: store.put_if_unchanged("source", b"copied", b"copied") or pytest.fail("it was unchanged"),
        lambda number: store.copy_retained("source", "retired", f"copy/{number}"),
    ]

    def write_all(write: Callable[[int], object]) -> None:
        for number in range(20):
            write(number)

    with ThreadPoolExecutor(len(writers)) as pool:
        done = [pool.submit(write_all, write) for write in writers]
        while not all(one.done() for one in done):
            store.remove_leftovers()
            time.sleep(0.002)  # a loop without pauses would leave the writers no time
        for one in done:
            one.result()
    assert len(keys(store)) == 61
    assert {store.get(key) for key in keys(store)} == {b"put", b"absent", b"copied"}


def test_removing_leaves_protected_and_other_objects(store: ObjectStore) -> None:
    for key in ("t/1", "t/2", "t/3", "u/1"):
        store.put(key, b"old")
        store.put(key, b"new")
    store.delete(["t/2"])
    store.remove("t/", lambda key: key == "t/3")
    store.remove("t/", lambda key: key == "t/3")
    assert keys(store, "") == ["t/3", "u/1"]
    assert [store.get(key) for key in ("t/3", "u/1")] == [b"new"] * 2


def test_an_object_whose_key_is_too_long_counts_as_absent(store: ObjectStore) -> None:
    fill(store, "a")
    long = "shop/" + "ü" * 510
    assert store.key_fault(long)
    assert not store.key_fault("shop/" + "ü" * 127)
    assert not store.is_retained(long, "retired/x")
    store.retire(long, "retired/x")
    store.discard(long, "retired/x")
    assert keys(store) == ["a"]
