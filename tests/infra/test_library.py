"""What is shipped really imports, where nothing else of cdclake is."""

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
from cdclake.errors import ConfigurationError
from cdclake_infra.library import JOBS, SHIPPED_WITH_FUNCTION, build_function, build_wheel, build_zip, pinned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cdclake_infra.library import CodeFile

# Runs a script up to its imports, then tells where each module of cdclake came from.
IMPORT_SCRIPT = """
import json, runpy, sys
library, script = sys.argv[1:]
sys.path.insert(0, library)
runpy.run_path(script, run_name="imported")
ours = ("cdclake", "aws_lambda_powertools")
print(json.dumps([module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] in ours]))
"""
LARGEST_BYTES = 500_000
LARGEST_FUNCTION_BYTES = 5_000_000


def imported_from(library: Path, script: Path) -> list[str]:
    """Import what a script imports, in a process that sees this project's code nowhere else."""
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
    """The wheel, installed by pip as Glue's Python shell does it."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel.path)], check=True, capture_output=True)
    return target


@pytest.mark.parametrize("script", ["controller.py", "process_table.py"])
def test_the_python_shell_jobs_import_from_the_wheel(installed: Path, script: str):
    assert all(file.startswith(str(installed)) for file in imported_from(installed, JOBS / script))


@pytest.mark.parametrize("script", ["load_initial.py", "load_incremental.py"])
def test_the_spark_jobs_import_from_the_zip(tmp_path: Path, script: str):
    library = build_zip(tmp_path).path
    assert all(file.startswith(str(library)) for file in imported_from(library, JOBS / script))


def test_the_function_imports_from_its_folder(tmp_path: Path):
    build_function(tmp_path)
    files = imported_from(tmp_path, tmp_path / "handler.py")
    assert all(file.startswith(str(tmp_path)) for file in files)
    assert any("aws_lambda_powertools" in file for file in files)


def test_the_function_is_shipped_with_all_that_its_library_needs_and_in_the_versions_that_are_tested(tmp_path: Path):
    needs = [line for line in importlib.metadata.requires("aws-lambda-powertools") or [] if "extra ==" not in line]
    assert {"aws-lambda-powertools", *(re.split(r"[^a-z-]", line)[0] for line in needs)} == set(SHIPPED_WITH_FUNCTION)
    build_function(tmp_path)
    for found in importlib.metadata.distributions(path=[str(tmp_path)]):
        assert found.version == importlib.metadata.version(found.name)


def test_the_function_is_packed_the_same_each_time_of_pure_python_and_not_too_large(tmp_path: Path):
    packed = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        build_function(tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        packed.append([(path.relative_to(tmp_path / name), path.read_bytes()) for path in files])
    assert packed[0] == packed[1]
    assert sum(len(content) for _, content in packed[0]) < LARGEST_FUNCTION_BYTES
    assert not [path for path, _ in packed[0] if path.suffix in (".so", ".pyc")]


def test_a_library_that_is_installed_in_another_version_than_the_pin_is_not_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cdclake_infra.library.ROOT", tmp_path)
    (tmp_path / "requirements.txt").write_text("aws-lambda-powertools==1.0.0\n")
    with pytest.raises(ConfigurationError, match=r"aws-lambda-powertools is installed as .* and pinned as 1\.0\.0"):
        build_function(tmp_path / "function")


def test_pip_knows_what_it_installed(installed: Path):
    (found,) = importlib.metadata.distributions(path=[str(installed)])
    assert (found.name, found.version) == ("cdclake", __version__)
    assert all((installed / file).is_file() for file in found.files or [])


def test_the_wheel_has_what_its_record_says(wheel: CodeFile):
    with zipfile.ZipFile(wheel.path) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
        listed = [line.partition(",")[0] for line in archive.read(record).decode().splitlines()]
        assert listed == archive.namelist()


def test_no_place_gets_what_runs_on_an_operators_machine_only(tmp_path: Path, wheel: CodeFile):
    function = tmp_path / "function"
    function.mkdir()
    build_function(function)
    shipped = {
        "wheel": zipfile.ZipFile(wheel.path).namelist(),
        "zip": zipfile.ZipFile(build_zip(tmp_path).path).namelist(),
        "function": [path.relative_to(function).as_posix() for path in function.rglob("*.py")],
    }
    for place, names in shipped.items():
        rooms = {name.split("/")[1] for name in names if name.startswith("cdclake/")}
        assert not rooms & {"cli", "console", "devkit", "doctor", "loopback.py", "oracle.py"}, place
        assert ("lake" in rooms) == (place == "zip"), place
        assert not [name for name in names if name.endswith(".pyc")], place


@pytest.mark.parametrize("build", [build_wheel, build_zip])
def test_the_same_sources_give_the_same_file(tmp_path: Path, build: Callable[[Path], CodeFile]):
    first, second = build(tmp_path / "first"), build(tmp_path / "second")
    assert first.name == second.name
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.path.stat().st_size < LARGEST_BYTES


def test_libraries_are_those_that_the_tests_run_with():
    for pin in pinned("boto3", "numpy", "pyarrow", "xxhash").split(","):
        name, _, version = pin.partition("==")
        assert importlib.metadata.version(name) == version


def test_a_library_that_is_not_pinned_is_refused():
    with pytest.raises(ConfigurationError, match="does not pin polars"):
        pinned("boto3", "polars")


@pytest.mark.parametrize("library", ["numpy", "pyarrow", "xxhash"])
def test_glue_can_install_the_compiled_libraries(library: str):
    # https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html, for Glue 5.1
    taken = {"manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64"}
    tags = importlib.metadata.distribution(library).read_text("WHEEL") or ""
    assert any(tag in tags for tag in taken), tags
