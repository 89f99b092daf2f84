"""What is specific to folders: keys that are paths, complete files, foreign files."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdclake.adapters import folder
from cdclake.adapters.folder import TEMPORARY_FOLDER, FolderStore
from cdclake.errors import ConfigurationError, DiskFullError, IntegrityError
from cdclake.model.raw.files import ListedObject

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a secret beside it."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


USES: list[Callable[[FolderStore, str], object]] = [
    lambda store, key: store.get(key),
    lambda store, key: store.put(key, b"x"),
    lambda store, key: store.put_if_absent(key, b"x"),
    lambda store, key: store.copy(key, "inside"),
    lambda store, key: store.copy("inside", key),
    lambda store, key: store.delete([key]),
    lambda store, key: store.retire(key, "retired"),
    lambda store, key: store.retire("inside", key),
    lambda store, key: store.restore(key, "retired"),
    lambda store, key: store.restore("inside", key),
    lambda store, key: store.is_retained(key, "retired"),
    lambda store, key: store.is_retained("inside", key),
    lambda store, key: store.copy_retained(key, "inside", "copy"),
    lambda store, key: store.copy_retained("inside", key, "copy"),
    lambda store, key: store.copy_retained("inside", "retired", key),
    lambda store, key: store.discard(key, "retired"),
    lambda store, key: store.discard("absent", key),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "key",
    [
        *("../secret", "a/../../secret", "/secret", "", "a//b", "./a", "a/", "a\0b"),
        *("link/secret", "link/no/such", "deep/link/secret", "file", "broken"),
    ],
)
def test_no_key_leads_out_of_the_folder(root: Path, use: Callable[[FolderStore, str], object], key: str) -> None:
    (root / "link").symlink_to(root.parent)
    (root / "deep").mkdir()
    (root / "deep" / "link").symlink_to("../link")
    (root / "file").symlink_to(root.parent / "secret")
    (root / "broken").symlink_to(root.parent / "no" / "such")
    store = FolderStore(root)
    store.put("inside", b"inside")
    with pytest.raises(ConfigurationError, match="does not name a file below the folder"):
        use(store, key)
    assert (root.parent / "secret").read_bytes() == b"secret"
    assert store.get("inside") == b"inside"
    assert sorted(path.name for path in root.parent.iterdir()) == ["lake", "secret"]


def test_a_key_may_lead_through_a_link_within_the_folder(root: Path) -> None:
    (root / "a").mkdir()
    (root / "link").symlink_to("a")
    store = FolderStore(root)
    store.put("link/key", b"x")
    assert store.get("a/key") == b"x"


def test_links_are_not_listed(root: Path) -> None:
    (root / "link").symlink_to(root.parent)
    (root / "file").symlink_to(root.parent / "secret")
    store = FolderStore(root)
    assert list(store.list("")) == list(store.list("file")) == []
    for prefix in ("link/", "link/sec"):
        with pytest.raises(ConfigurationError, match="does not name a file below the folder"):
            list(store.list(prefix))


@pytest.mark.parametrize("use", USES)
def test_keys_in_the_folder_of_temporary_files_are_refused(
    root: Path, use: Callable[[FolderStore, str], object]
) -> None:
    store = FolderStore(root)
    store.put("inside", b"inside")
    with pytest.raises(ConfigurationError):
        use(store, f"{TEMPORARY_FOLDER}/x")


def test_no_temporary_file_is_listed_or_left(root: Path) -> None:
    store = FolderStore(root)
    (root / TEMPORARY_FOLDER).mkdir()
    (root / TEMPORARY_FOLDER / "leftover of a killed process").write_bytes(b"half")
    store.put("a", b"1")
    store.put_if_absent("a", b"2")
    store.put_if_absent("b", b"2")
    store.copy("a", "c")
    assert [found.key for found in store.list("")] == ["a", "b", "c"]
    assert sorted(store.list_level("")) == ["a", "b", "c"]
    assert len(list((root / TEMPORARY_FOLDER).iterdir())) == 1


def test_temporary_files_of_killed_processes_are_removed_after_a_day(root: Path) -> None:
    (root / TEMPORARY_FOLDER).mkdir()
    for name, age_hours in (("leftover", 25), ("being written", 23)):
        path = root / TEMPORARY_FOLDER / name
        path.write_bytes(b"half")
        written = datetime.now(timezone.utc) - timedelta(hours=age_hours)
        os.utime(path, (written.timestamp(),) * 2)
    FolderStore(root)
    assert [path.name for path in (root / TEMPORARY_FOLDER).iterdir()] == ["being written"]


def test_a_failed_write_leaves_the_old_object_and_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(root)
    store.put("a", b"old")
    write_bytes = Path.write_bytes

    def write_half(path: Path, data: bytes) -> int:
        write_bytes(path, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(DiskFullError, match="A disk is full: No space left") as caught:
        store.put("a", b"new content")
    assert caught.value.details == {"file": "a", "folder": str(root)}
    assert re.search(rf"Free at least 0\.0 MB .* on the disk of {root} \([\d,.]+ MB free\)", caught.value.remedy)
    with pytest.raises(DiskFullError):
        store.put_if_absent("b", b"new content")
    with pytest.raises(DiskFullError):
        store.put_if_unchanged("a", b"new content", b"old")
    assert [(found.key, store.get(found.key)) for found in store.list("")] == [("a", b"old")]
    assert list((root / TEMPORARY_FOLDER).iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.put("b", b"x"),
        lambda store: store.copy("a", "c/b"),
        lambda store: store.copy_retained("a", "retired", "b"),
        lambda store: store.retire("a", "retired/a"),
    ],
)
def test_a_disk_without_room_for_anything_is_an_error_with_a_remedy(
    root: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[FolderStore], object], number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    store = FolderStore(root)
    store.put("a", b"1")
    (root / TEMPORARY_FOLDER).rmdir()
    for function in ("mkdir", "link", "rename", "replace"):
        monkeypatch.setattr(os, function, refuse)
    with pytest.raises(DiskFullError, match="on the disk of"):
        use(store)
    assert store.get("a") == b"1"


def test_a_copy_of_a_retained_file_is_independent_of_it(root: Path) -> None:
    store = FolderStore(root)
    store.put("a", b"1")
    store.copy_retained("a", "retired", "b")
    (root / "a").write_bytes(b"changed in place by others")
    assert store.get("b") == b"1"


@pytest.mark.parametrize("error", [None, PermissionError(1, "Operation not permitted"), OSError(95, "Not supported")])
def test_a_copy_outlives_its_source(root: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None) -> None:
    def refuse(*_: object) -> None:
        assert error
        raise error

    store = FolderStore(root)
    store.put("a", b"1")
    store.put("b", b"old")
    if error:
        monkeypatch.setattr(os, "link", refuse)
    store.copy("a", "b")
    store.copy("a", "b")
    assert store.get("a") == store.get("b") == b"1"
    store.put("a", b"2")
    store.delete(["a"])
    assert store.get("b") == b"1"
    assert list((root / TEMPORARY_FOLDER).iterdir()) == []


@pytest.mark.parametrize("key", ["a", "a/b/c"])
def test_a_name_cannot_be_both_file_and_folder(root: Path, key: str) -> None:
    store = FolderStore(root)
    store.put("a/b", b"1")
    for use in (store.put, store.put_if_absent):
        with pytest.raises(ConfigurationError, match="no file the name of a folder"):
            use(key, b"2")
    assert [found.key for found in store.list("")] == ["a/b"]


def test_a_missing_folder_is_an_error_that_names_it(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        FolderStore(root / "nowhere")
    store = FolderStore(root)
    root.rmdir()
    for use in (lambda: list(store.list("")), lambda: list(store.list_level("")), lambda: store.get("a")):
        with pytest.raises(ConfigurationError, match="folder does not exist"):
            use()


@pytest.mark.parametrize(
    "use",
    [lambda store: list(store.list("")), lambda store: list(store.list_level("a/")), lambda store: store.get("a/b")],
)
def test_a_forbidden_folder_is_an_error_that_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[FolderStore], object]
) -> None:
    store = FolderStore(root)
    store.put("a/b", b"1")

    def forbid(*_: object, **__: object) -> None:  # not by file modes, because root may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", forbid)
    monkeypatch.setattr(Path, "read_bytes", forbid)
    with pytest.raises(ConfigurationError, match="Let this user read"):
        use(store)


def test_a_folder_is_no_data_file(root: Path) -> None:
    store = FolderStore(root)
    store.put("retired/a/b", b"1")
    assert not store.is_retained("table/a", "retired/a")
    with pytest.raises(IntegrityError):
        store.restore("table/a", "retired/a")
    with pytest.raises(IntegrityError):
        store.copy_retained("table/a", "retired/a", "copy")
    store.discard("table/a", "retired/a")
    assert [found.key for found in store.list("")] == ["retired/a/b"]


def test_a_data_file_that_is_restored_while_it_is_copied_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(root)
    store.put("table/1", b"1")
    store.retire("table/1", "retired/1")
    open_file = Path.open

    def open_too_late(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path == root / "retired/1":
            FolderStore(root).restore("table/1", "retired/1")
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", open_too_late)
    store.copy_retained("table/1", "retired/1", "copy")
    assert store.get("copy") == b"1"


def test_removing_leaves_no_empty_folder_but_protected_ones(root: Path) -> None:
    store = FolderStore(root)
    for key in ("a/staging/1-run/x/1", "a/staging/2-run/1", "a/staging/3-run/1", "a/other/1"):
        store.put(key, b"x")
    (root / "a/staging/1-killed").mkdir()
    (root / "a/staging/3-empty").mkdir()
    (root / "a/other-empty").mkdir()
    prefix = "a/staging/"
    store.remove(prefix, lambda key: int(key[len(prefix)]) > 2)
    assert sorted(path.name for path in (root / "a/staging").iterdir()) == ["3-empty", "3-run"]
    assert sorted(path.name for path in (root / "a").iterdir()) == ["other", "other-empty", "staging"]


@pytest.mark.parametrize("prefix", ["", "../", "link/", f"{TEMPORARY_FOLDER}/"])
def test_no_folder_is_removed_that_contains_no_objects_of_the_store(root: Path, prefix: str) -> None:
    (root.parent / "outside" / "empty").mkdir(parents=True)
    (root / "link").symlink_to(root.parent / "outside")
    store = FolderStore(root)
    store.put("a/1", b"x")
    with suppress(ConfigurationError):
        store.remove(prefix, lambda _: False)
    assert (root.parent / "outside" / "empty").is_dir()
    assert (root / TEMPORARY_FOLDER).is_dir()


def test_a_listing_asks_the_disk_only_about_the_objects_that_it_returns(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(root)
    for number in range(9):
        store.put(f"changes/{number}", b"x")
    asked: list[str] = []

    def recorded(key: str, *facts: Any) -> ListedObject:
        asked.append(key)
        return ListedObject(key, *facts)

    monkeypatch.setattr(folder, "ListedObject", recorded)
    assert [entry.key for entry in store.list("changes/", "changes/6")] == ["changes/7", "changes/8"]
    assert sorted(asked) == ["changes/7", "changes/8"]
