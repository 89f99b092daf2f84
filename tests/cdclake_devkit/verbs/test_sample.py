"""`cdclake local sample`, and the arguments of `cdclake local serve`."""

from pathlib import Path

from cdclake.model.raw.files import split_raw_key


def test_sample_writes_raw_files_of_each_round_to_upload(cdclake, tmp_path):
    cdclake.ok("local", "sample", str(tmp_path / "new" / "files"), "--orders", "1000")
    found = {round_.name: list(keys(round_)) for round_ in (tmp_path / "new" / "files").iterdir()}
    assert {name: len(files) for name, files in found.items()} == {"full-load": 6, "round-one": 3, "round-two": 4}
    assert all(split_raw_key(key, "") for files in found.values() for key in files)


def test_serve_refuses_an_invalid_port(cdclake):
    assert cdclake("local", "serve", "--port", "70000").exit_code == 2


def keys(folder: Path):
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
