"""The libraries of jobs and functions are locked, and each wheel is downloaded once and checked each time."""

from __future__ import annotations

import hashlib
import os
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cdclake.errors import ConfigurationError
from cdclake_infra.library import ROOT
from cdclake_infra.wheels import GLUE_VERSIONS, PYTHON_SHELL, SMALL_CHANGES, SPARK, Runtime, fetch, pins

if TYPE_CHECKING:
    from pathlib import Path

PURE = Runtime("pure", "pure", "3.9", ("any",))
COMPILED = Runtime("compiled", "compiled", "3.11", ("manylinux_2_28_x86_64",))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_wheel(folder: Path, name: str, tag: str = "py3-none-any", content: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", content)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return wheel


def write_lock(folder: Path, runtime: Runtime, *wheels: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{wheel.name.partition('-')[0]}==1.0 \\\n    --hash=sha256:{sha256(wheel.read_bytes())}\n    # via nobody\n"
        for wheel in wheels
    ]
    (folder / f"{runtime.lock}.txt").write_text("".join(lines))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where pip looks for wheels, and nowhere else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pip, nothing can be downloaded."""
    monkeypatch.setattr("cdclake_infra.wheels.subprocess.run", lambda *_, **__: pytest.fail("pip was called"))


@pytest.mark.slow
def test_wheels_are_downloaded_into_the_cache_in_the_locks_order(tmp_path: Path, index: Path):
    write_lock(tmp_path, PURE, *(write_wheel(index, name) for name in ("second", "first")))
    wheels = fetch(PURE, tmp_path / "cache", tmp_path)
    assert [wheel.name for wheel in wheels] == ["second-1.0-py3-none-any.whl", "first-1.0-py3-none-any.whl"]
    assert {wheel.parent for wheel in wheels} == {tmp_path / "cache" / "pure"}
    assert set((tmp_path / "cache" / "pure").iterdir()) == set(wheels)


@pytest.mark.usefixtures("unreachable")
def test_a_filled_cache_needs_no_network(tmp_path: Path):
    wheel = write_wheel(tmp_path / "cache" / "pure", "first")
    write_lock(tmp_path, PURE, wheel)
    assert fetch(PURE, tmp_path / "cache", tmp_path) == [wheel]


@pytest.mark.usefixtures("unreachable")
def test_a_cached_wheel_that_differs_from_its_hash_is_refused(tmp_path: Path):
    write_lock(tmp_path, PURE, write_wheel(tmp_path / "original", "first"))
    wheel = write_wheel(tmp_path / "cache" / "pure", "first", content="evil = True")
    with pytest.raises(ConfigurationError, match=r"differs from the hashes of first in .*pure\.txt") as refused:
        fetch(PURE, tmp_path / "cache", tmp_path)
    assert refused.value.details == {"file": wheel}
    assert "Delete the file" in refused.value.remedy


@pytest.mark.slow
def test_a_downloaded_wheel_that_differs_from_its_hash_is_refused(tmp_path: Path, index: Path):
    write_lock(tmp_path, PURE, write_wheel(tmp_path / "original", "first"))
    write_wheel(index, "first", content="evil = True")
    with pytest.raises(ConfigurationError, match=r"runtime pure cannot be downloaded: .*DO NOT MATCH THE HASHES"):
        fetch(PURE, tmp_path / "cache", tmp_path)
    assert not list((tmp_path / "cache" / "pure").iterdir())


@pytest.mark.slow
def test_a_wheel_that_cannot_be_downloaded_is_reported_with_the_folder_to_fill(tmp_path: Path, index: Path):
    write_lock(tmp_path, PURE, write_wheel(tmp_path / "original", "first"))
    with pytest.raises(ConfigurationError, match=r"No matching distribution found for first==1\.0") as refused:
        fetch(PURE, tmp_path / "cache", tmp_path)
    assert refused.value.details == {"file": tmp_path / "cache" / "pure"}
    assert "copy this folder from a machine that has it" in refused.value.remedy


@pytest.mark.slow
def test_only_wheels_that_the_runtime_can_install_are_taken(tmp_path: Path, index: Path):
    linux = write_wheel(index, "first", "cp311-cp311-manylinux_2_28_x86_64")
    mac = write_wheel(tmp_path / "cache" / "compiled", "first", "cp311-cp311-macosx_11_0_arm64")
    write_lock(tmp_path, COMPILED, linux)
    lock = tmp_path / "compiled.txt"
    lock.write_text(lock.read_text().replace("first==1.0", f"first==1.0 --hash=sha256:{sha256(mac.read_bytes())}"))
    assert [wheel.name for wheel in fetch(COMPILED, tmp_path / "cache", tmp_path)] == [linux.name]


@pytest.mark.parametrize("line", ["first==1.0", "first>=1.0 --hash=sha256:" + 64 * "0", "./first.whl"])
def test_a_lock_without_exact_versions_and_hashes_is_refused(tmp_path: Path, line: str):
    (tmp_path / "pure.txt").write_text(f"{line}\n")
    with pytest.raises(ConfigurationError, match=r"lacks an exact version or a hash .* Run `make lock`"):
        pins(PURE, tmp_path)


def test_the_spark_jobs_have_the_tested_versions():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert {f"{pin.name}=={pin.version}" for pin in pins(SPARK)} <= set(lines)


def test_the_python_shell_jobs_have_the_projects_boto3():
    project = tomllib.loads((ROOT / "glue_jobs" / "pyproject.toml").read_text())["project"]
    assert {f"{pin.name}=={pin.version}" for pin in pins(PYTHON_SHELL)} >= set(project["dependencies"])


def requirements(wheel: Path, python_version: str) -> set[str]:
    """Names of what a wheel requires on a version of Python, without extras."""
    with zipfile.ZipFile(wheel) as archive:
        (file,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
        lines = archive.read(file).decode().partition("\n\n")[0].splitlines()
    required = [Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-Dist: ")]
    runs_on = {"extra": "", "python_version": python_version}
    return {canonicalize_name(one.name) for one in required if not one.marker or one.marker.evaluate(runs_on)}


@pytest.mark.deployment
@pytest.mark.parametrize("runtime", [PYTHON_SHELL, *GLUE_VERSIONS.values(), SMALL_CHANGES], ids=lambda one: one.name)
def test_a_lock_contains_all_that_its_libraries_require(runtime: Runtime):
    locked = {pin.name for pin in pins(runtime)}
    for wheel in fetch(runtime):
        assert requirements(wheel, runtime.python) <= locked, wheel.name
