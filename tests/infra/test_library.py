"""Each bundle imports in isolation and contains only what its runtime needs."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from cdclake import __version__
from cdclake.control.jobs.libraries import PINS_FILE
from cdclake.errors import ConfigurationError
from cdclake_infra import library
from cdclake_infra.library import (
    FUNCTION_LIBRARIES,
    JOBS,
    ON_RAW_FILE,
    SHELL_LIBRARIES,
    SPARK_LIBRARIES,
    build_function,
    build_small_changes,
    build_wheel,
    build_zip,
)
from cdclake_infra.wheels import PYTHON_SHELL, SMALL_CHANGES, SPARK, pins
from tests.test_architecture import is_within, module_name, product_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cdclake_infra.library import CodeFile
    from cdclake_infra.wheels import Runtime

# Runs a script's imports, then prints the file of each of its modules.
IMPORT_SCRIPT = """
import json, runpy, sys
library, script = sys.argv[1:]
sys.path.insert(0, library)
runpy.run_path(script, run_name="imported")
ours = ("cdclake", "aws_lambda_powertools")
print(json.dumps([module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] in ours]))
"""
LARGEST_BYTES = 640_000
LARGEST_FUNCTION_BYTES = 5_000_000


def imported_from(library: Path, script: Path) -> list[str]:
    """Run a script's imports in a process that sees this project's code nowhere else; returns the modules' files."""
    command = [sys.executable, "-I", "-c", IMPORT_SCRIPT, str(library), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    files: list[str] = json.loads(done.stdout)
    assert files
    return files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> CodeFile:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: CodeFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed with pip as in Glue's Python shell."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel.path)], check=True, capture_output=True)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("script", ["controller.py", "process_table.py"])
def test_the_python_shell_jobs_import_from_the_wheel(installed: Path, script: str):
    assert all(file.startswith(str(installed)) for file in imported_from(installed, JOBS / script))


@pytest.mark.parametrize(
    ("build", "runtime", "names"), [(build_wheel, PYTHON_SHELL, SHELL_LIBRARIES), (build_zip, SPARK, SPARK_LIBRARIES)]
)
def test_a_package_has_the_versions_of_its_libraries(
    tmp_path: Path, build: Callable[[Path], CodeFile], runtime: Runtime, names: tuple[str, ...]
):
    with zipfile.ZipFile(build(tmp_path).path) as archive:
        versions = json.loads(archive.read(f"cdclake/{PINS_FILE}"))
    assert versions == {pin.name: pin.version for pin in pins(runtime) if pin.name in names}
    assert len(versions) == len(names)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("script", ["load_initial.py", "load_incremental.py"])
def test_the_spark_jobs_import_from_the_zip(tmp_path: Path, script: str):
    library = build_zip(tmp_path).path
    assert all(file.startswith(str(library)) for file in imported_from(library, JOBS / script))


@pytest.mark.slow
def test_the_function_imports_from_its_folder(tmp_path: Path):
    build_function(tmp_path)
    files = imported_from(tmp_path, tmp_path / "handler.py")
    assert all(file.startswith(str(tmp_path)) for file in files)
    assert any("aws_lambda_powertools" in file for file in files)


def test_the_function_has_its_librarys_dependencies_in_the_tested_versions(tmp_path: Path):
    required = [line for line in importlib.metadata.requires("aws-lambda-powertools") or [] if "extra ==" not in line]
    assert {"aws-lambda-powertools", *(re.split(r"[^a-z-]", line)[0] for line in required)} == set(FUNCTION_LIBRARIES)
    build_function(tmp_path)
    for one in importlib.metadata.distributions(path=[str(tmp_path)]):
        assert one.version == importlib.metadata.version(one.name)


@pytest.mark.slow
def test_the_function_is_reproducible_pure_python_and_not_too_large(tmp_path: Path):
    packed = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        build_function(tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        packed.append([(path.relative_to(tmp_path / name), path.read_bytes()) for path in files])
    assert packed[0] == packed[1]
    assert sum(len(content) for _, content in packed[0]) < LARGEST_FUNCTION_BYTES
    assert not [path for path, _ in packed[0] if path.suffix in (".so", ".pyc")]


def test_a_library_whose_version_differs_from_the_pin_is_not_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cdclake_infra.library._pins_of_lock", lambda: {"aws-lambda-powertools": "1.0.0"})
    with pytest.raises(ConfigurationError, match=r"aws-lambda-powertools is installed as .* but pinned as 1\.0\.0"):
        build_function(tmp_path / "function")


@pytest.mark.slow
def test_pip_knows_what_it_installed(installed: Path):
    (library,) = importlib.metadata.distributions(path=[str(installed)])
    assert (library.name, library.version) == ("cdclake", __version__)
    assert all((installed / file).is_file() for file in library.files or [])


def test_the_wheels_record_lists_its_files(wheel: CodeFile):
    with zipfile.ZipFile(wheel.path) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
        listed = [line.partition(",")[0] for line in archive.read(record).decode().splitlines()]
        assert listed == archive.namelist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bundle", "scripts"),
    [
        ("wheel", [JOBS / "controller.py", JOBS / "process_table.py"]),
        ("zip", [JOBS / "load_initial.py", JOBS / "load_incremental.py"]),
        ("function", [ON_RAW_FILE / "handler.py"]),
    ],
)
def test_a_bundle_has_every_module_it_imports_and_none_for_operators(
    tmp_path: Path, wheel: CodeFile, bundle: str, scripts: list[Path]
):
    if bundle == "function":
        build_function(tmp_path)
        names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]
    else:
        names = zipfile.ZipFile((wheel if bundle == "wheel" else build_zip(tmp_path)).path).namelist()
    assert not [name for name in names if name.endswith(".pyc")]
    parts = {name.split("/")[1] for name in names if name.startswith("cdclake/")}
    assert not parts & {"cli", "console", "devkit", "doctor", "loopback.py", "oracle.py"}
    assert ("lake" in parts, "lake_table.py" in parts) == (bundle == "zip",) * 2
    modules = {module_name(JOBS / name) for name in names if name.startswith("cdclake/") and name.endswith(".py")}
    importers = {*modules, *map(module_name, scripts)}
    assert {"cdclake", "cdclake.errors"} < modules
    assert [
        found
        for found in product_imports()
        if found.importer in importers and is_within(found.imported, "cdclake") and not found.types_only
        if found.imported not in modules
    ] == []


@pytest.mark.parametrize("build", [build_wheel, build_zip])
def test_the_same_sources_give_the_same_file(tmp_path: Path, build: Callable[[Path], CodeFile]):
    first, second = build(tmp_path / "first"), build(tmp_path / "second")
    assert first.name == second.name
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.path.stat().st_size < LARGEST_BYTES


def test_the_archive_of_small_changes_is_packed_again_only_if_its_content_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    packed: list[str] = []
    cache, wheel = tmp_path / "cache", tmp_path / "one.whl"
    (cache / SMALL_CHANGES.name).mkdir(parents=True)

    def pack(target: Path, files: Mapping[str, bytes]) -> Path:
        packed.append(target.name)
        return zip_of(target, files)

    def build(folder: str, content: str) -> CodeFile:
        with zipfile.ZipFile(wheel, "w") as one:
            one.writestr("one/module.py", content)
        return build_small_changes(tmp_path / folder, cache=cache)

    zip_of = library._zip
    monkeypatch.setattr(library, "_zip", pack)
    monkeypatch.setattr(library, "fetch", lambda *_: [wheel])
    first, again, other = build("first", "a = 1"), build("again", "a = 1"), build("other", "a = 2")
    assert first.path.read_bytes() == again.path.read_bytes() != other.path.read_bytes()
    assert zipfile.ZipFile(again.path).read("one/module.py") == b"a = 1"
    assert packed == [first.path.name, other.path.name]
    assert [path.name for path in (cache / SMALL_CHANGES.name).iterdir()] == [other.path.name]
