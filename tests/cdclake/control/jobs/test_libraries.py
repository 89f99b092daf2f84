"""A deployed job refuses to run with other libraries."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

import boto3
import pytest

from cdclake.control.jobs import libraries
from cdclake.control.jobs.entry import JobExit, run_job
from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the package."""
    monkeypatch.setattr(libraries, "files", lambda _: tmp_path)
    return tmp_path


def pin(deployed: Path, version: str) -> None:
    (deployed / libraries.PINS_FILE).write_text(json.dumps({"boto3": version}), encoding="utf-8")


def test_deployed_libraries_replace_others_that_come_first_and_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, content in (("glue", "__version__ = '1'"), (f"deployed/{libraries.LIBRARIES}", "__version__ = '2'")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "some_library.py").write_text(content, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "glue"), *sys.path, str(tmp_path / "deployed")])
    assert import_module("some_library").__version__ == "1"
    libraries.use_deployed_libraries()
    try:
        assert import_module("some_library").__version__ == "2"
    finally:
        del sys.modules["some_library"]
    assert sys.modules["boto3"] is boto3  # it is not among them


def test_without_deployed_libraries_nothing_changes() -> None:
    path, modules = list(sys.path), dict(sys.modules)
    libraries.use_deployed_libraries()
    assert (sys.path, sys.modules) == (path, modules)


def test_the_deployed_version_is_accepted(deployed: Path) -> None:
    pin(deployed, boto3.__version__)
    libraries.check_libraries()


@pytest.mark.parametrize("name", ["boto3", "botocore", "numpy", "pyarrow", "xxhash"])
def test_each_library_tells_its_version(name: str) -> None:
    libraries.require_versions({name: version(name)})
    with pytest.raises(ConfigurationError, match=f"The job runs with {name} {version(name)}, but"):
        libraries.require_versions({name: "1.2.3"})


def test_another_version_is_refused_with_its_place_and_what_to_do(deployed: Path) -> None:
    pin(deployed, "1.2.3")
    with pytest.raises(ConfigurationError, match=rf"boto3 {boto3.__version__}, but .* 1\.2\.3") as refused:
        libraries.check_libraries()
    assert "Deploy again" in str(refused.value)
    assert boto3.__file__ in str(refused.value)


def test_a_job_ends_before_it_does_anything(deployed: Path) -> None:
    pin(deployed, "1.2.3")

    def work() -> dict[str, object]:
        pytest.fail("the job worked")

    with pytest.raises(JobExit, match="ConfigurationError"):
        run_job(work)


def test_a_package_that_is_not_deployed_is_not_checked(deployed: Path) -> None:
    assert not list(deployed.iterdir())
    libraries.check_libraries()
