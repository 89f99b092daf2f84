"""The deployed wheels install as on Glue, without a package index, and the jobs import them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deploy_local.job_run import PREINSTALLED_ON_SPARK
from deploy_local.modules import link_modules
from packaging.utils import parse_wheel_filename

from cdclake_infra.library import JOBS, build_shell_libraries, build_spark_libraries, build_wheel, build_zip
from cdclake_infra.wheels import GLUE_VERSIONS, SPARK, pins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cdclake_infra.wheels import Runtime

LARGEST_SHELL_BYTES, LARGEST_SPARK_BYTES = 20_000_000, 110_000_000
NOWHERE = "http://127.0.0.1:9/simple"
"""A package index that does not answer."""

# Glue imports its own boto3, appends the folder of the installed wheels to the path, and runs the script.
# https://github.com/boto/boto3/issues/2566
RUN_IN_PYTHON_SHELL = """
import json, runpy, sys
glues, installed, script = sys.argv[1:]
sys.path[:0] = [glues]
import boto3
sys.path.append(installed)
runpy.run_path(script, run_name="imported")
from cdclake.control.jobs.libraries import check_libraries
check_libraries()
import dateutil, jmespath, s3transfer, six, urllib3
names = ("boto3", "botocore", "cdclake", "dateutil", "jmespath", "s3transfer", "six", "urllib3")
print(json.dumps({name: sys.modules[name].__file__ for name in names}))
"""
RUN_IN_SPARK = """
import json, runpy, sys
*path, script = sys.argv[1:]
sys.path[:0] = path
runpy.run_path(script, run_name="imported")
from cdclake.control.jobs.libraries import check_libraries
check_libraries()
print(json.dumps({name: sys.modules[name].__file__ for name in ("boto3", "botocore", "numpy", "pyarrow", "xxhash")}))
"""


def pip_install(python: Path, target: Path, *what: str) -> None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--isolated", "--no-compile", "--target", str(target)]
    subprocess.run([*pip, *what], check=True)


def run_isolated(python: Path, code: str, *words: object) -> dict[str, str]:
    """Run code in a process that sees no installed package; returns its JSON."""
    command = [str(python), "-I", "-S", "-c", code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    files: dict[str, str] = json.loads(done.stdout)
    return files


def has_pip(path: str) -> bool:
    return subprocess.run([path, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module", params=["python3.9", "this Python"])
def python(request: pytest.FixtureRequest) -> Path:
    """Python 3.9 as in Glue's Python shell, if this machine has it, and the Python of the tests."""
    if request.param == "this Python":
        return Path(sys.executable)
    found = shutil.which("python3.9")
    if found is None or not has_pip(found):
        pytest.skip("There is no Python 3.9 with pip on the path")
    return Path(found)


@pytest.fixture(scope="module")
def python_shell(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of the Python shell jobs, installed one by one as Glue does, while no package index answers."""
    folder = tmp_path_factory.mktemp("shell")
    for wheel in (build_wheel(folder), build_shell_libraries(folder)):
        pip_install(python, folder / "installed", f"--index-url={NOWHERE}", str(wheel.path))
    return folder / "installed"


@pytest.fixture
def glues_boto3(tmp_path: Path) -> Path:
    """A folder with other versions of boto3 and botocore, as Glue's Python shell has."""
    for name in ("boto3", "botocore"):
        (tmp_path / "glue" / name).mkdir(parents=True)
    (tmp_path / "glue" / "boto3" / "__init__.py").write_text("import botocore\n__version__ = '1.21.21'\n")
    (tmp_path / "glue" / "botocore" / "__init__.py").write_text("__version__ = '1.23.5'\n")
    return tmp_path / "glue"


@pytest.mark.sampled(ci=1)
@pytest.mark.deployment
@pytest.mark.parametrize("script", ["controller.py", "process_table.py"])
def test_the_python_shell_jobs_import_the_deployed_libraries_although_glues_are_imported(
    python: Path, python_shell: Path, glues_boto3: Path, script: str
):
    files = run_isolated(python, RUN_IN_PYTHON_SHELL, glues_boto3, python_shell, JOBS / script)
    libraries = {name: file for name, file in files.items() if name != "cdclake"}
    assert files["cdclake"].startswith(f"{python_shell}/cdclake/")
    assert all(file.startswith(f"{python_shell}/cdclake_libraries/") for file in libraries.values()), libraries


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Runtime], Path]:
    """Packs the libraries of a runtime, once."""
    return cache(lambda runtime: build_spark_libraries(tmp_path_factory.mktemp("archive"), runtime).path)


@pytest.fixture(scope="module")
def spark_path(archives: Callable[[Runtime], Path], tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """The path of a Spark job: its package, its installed wheels, and what Glue has."""
    folder = tmp_path_factory.mktemp("spark")
    with zipfile.ZipFile(archives(SPARK)) as archive:
        archive.extractall(folder)
    wheels = folder / "wheels"
    pip_install(
        Path(sys.executable),
        folder / "installed",
        "--no-index",
        f"--find-links={wheels}",
        f"--requirement={wheels / 'requirements.txt'}",
    )
    link_modules(PREINSTALLED_ON_SPARK, folder / "preinstalled")
    return build_zip(folder).path, folder / "installed", folder / "preinstalled"


@pytest.mark.sampled(ci=1)
@pytest.mark.deployment
@pytest.mark.parametrize("script", ["load_initial.py", "load_incremental.py"])
def test_the_spark_jobs_import_the_deployed_libraries(spark_path: Sequence[Path], script: str):
    files = run_isolated(Path(sys.executable), RUN_IN_SPARK, *spark_path, JOBS / script)
    assert all(file.startswith(f"{spark_path[1]}/") for file in files.values()), files


@pytest.mark.deployment
@pytest.mark.parametrize("runtime", GLUE_VERSIONS.values(), ids=GLUE_VERSIONS)
def test_the_archive_has_exactly_the_locked_wheels(archives: Callable[[Runtime], Path], runtime: Runtime):
    packed = archives(runtime)
    hashes = {digest for pin in pins(SPARK) for digest in pin.hashes}
    with zipfile.ZipFile(packed) as archive:
        required, *wheels = archive.namelist()
        assert archive.read(required).decode().split() == [f"{pin.name}=={pin.version}" for pin in pins(SPARK)]
        assert len(wheels) == len(pins(SPARK))
        assert all(hashlib.sha256(archive.read(wheel)).hexdigest() in hashes for wheel in wheels)
    compiled = [tag for wheel in wheels for tag in parse_wheel_filename(Path(wheel).name)[3] if tag.abi != "none"]
    assert {tag.interpreter for tag in compiled} == {f"cp{runtime.python.replace('.', '')}"}, wheels
    assert packed.stat().st_size < LARGEST_SPARK_BYTES


@pytest.mark.deployment
def test_the_wheel_of_libraries_is_reproducible_pure_python_and_has_one_folder(tmp_path: Path):
    first, second = (build_shell_libraries(tmp_path / name) for name in ("first", "second"))
    assert first.name == second.name
    assert first.path.read_bytes() == second.path.read_bytes()
    with zipfile.ZipFile(first.path) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    assert sorted(folder.partition("-")[0] for folder in folders) == ["cdclake_libraries", "cdclake_libraries"]
    assert first.path.stat().st_size < LARGEST_SHELL_BYTES
