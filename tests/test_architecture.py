"""Who may import whom, held by reading the source."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
JOBS = ROOT / "glue_jobs"
PACKAGE = JOBS / "cdclake"
ENTRY_SCRIPTS = sorted(JOBS.glob("*.py"))
SPARK_SCRIPTS = {"load_initial", "load_incremental"}
MOST_LINES_OF_A_SCRIPT = 45

EVERYWHERE = {"cdclake", "cdclake.errors"}
"""What all may import; `cdclake` alone is the package's own module, which holds the version."""
ANYTHING = {"cdclake"}
MAY_IMPORT = {
    "cdclake.errors": set(),
    "cdclake.logs": set(),
    "cdclake.model": {"cdclake.model"},
    "cdclake.ports": {"cdclake.model"},
    "cdclake.raw_listing": {"cdclake.model", "cdclake.ports"},
    "cdclake.commit": {"cdclake.commit", "cdclake.model", "cdclake.ports", "cdclake.logs"},
    "cdclake.control": {
        "cdclake.control",
        "cdclake.model",
        "cdclake.ports",
        "cdclake.commit",
        "cdclake.raw_listing",
        "cdclake.logs",
    },
    "cdclake.adapters": {"cdclake.adapters", "cdclake.model", "cdclake.ports", "cdclake.logs"},
    "cdclake.lake": {
        "cdclake.lake",
        "cdclake.model",
        "cdclake.ports",
        "cdclake.commit",
        "cdclake.adapters",
        "cdclake.control.jobs.entry",
        "cdclake.control.jobs.arguments",
        "cdclake.control.run.spark_batch",
        "cdclake.raw_listing",
        "cdclake.logs",
    },
    "cdclake.lake_table": {
        "cdclake.lake",
        "cdclake.control",
        "cdclake.commit",
        "cdclake.adapters",
        "cdclake.model",
        "cdclake.ports",
    },
    "cdclake.oracle": {"cdclake.model"},
    "cdclake.devkit.dms": {"cdclake.devkit.dms", "cdclake.model", "cdclake.ports", "cdclake.lake.storage.types"},
    "cdclake.devkit.feed": {
        "cdclake.devkit.feed",
        "cdclake.devkit.dms",
        "cdclake.model",
        "cdclake.ports",
        "cdclake.lake.storage.types",
    },
    "cdclake.devkit.replicate": {
        "cdclake.devkit.replicate",
        "cdclake.devkit.dms",
        "cdclake.model",
        "cdclake.ports",
        "cdclake.lake.storage.types",
        "cdclake.lake.read.all_rows",
        "cdclake.lake.read.as_of",
    },
    "cdclake.doctor": {
        "cdclake.doctor",
        "cdclake.devkit.dms",
        "cdclake.lake",
        "cdclake.control.plan.lost_files",
        "cdclake.model",
        "cdclake.ports",
    },
    "cdclake.loopback": set(),
    "cdclake.console": {
        "cdclake.console",
        "cdclake.control",
        "cdclake.commit",
        "cdclake.model",
        "cdclake.ports",
        "cdclake.loopback",
    },
    "cdclake.devkit": ANYTHING,
    "cdclake.cli": ANYTHING,
}
"""Each room's own dependencies. What lies below a name counts as the name."""
ONLY_IN = {
    "boto3": ("cdclake.adapters", "cdclake.devkit", "cdclake.cli"),
    "botocore": ("cdclake.adapters", "cdclake.devkit", "cdclake.cli"),
    "aws_lambda_powertools": ("lambdas",),
    # `direct` only names the type of a DataFrame.
    "pyspark": (
        "cdclake.lake.spark",
        "cdclake.lake.read",
        "cdclake.lake.operations.direct",
        "cdclake.lake_table",
        *SPARK_SCRIPTS,
    ),
    "pymysql": ("cdclake.devkit",),
    "pymysqlreplication": ("cdclake.devkit.replicate",),
    "pyarrow": (
        "cdclake.lake",
        "cdclake.adapters.filesystem",
        "cdclake.devkit.dms",
        "cdclake.devkit.feed",
        "cdclake.devkit.replicate",
        "cdclake.doctor",
        "cdclake.devkit",
        "cdclake.cli",
    ),
    "flask": ("cdclake.console", "cdclake.devkit"),
    "werkzeug": ("cdclake.console", "cdclake.devkit"),
    "cdclake.cli": ("cdclake.cli",),
    "cdclake.console": ("cdclake.console", "cdclake.cli"),
    # What plays the source's side is no part of what runs on AWS.
    "cdclake.devkit.feed": ("cdclake.devkit.feed", "cdclake.cli"),
    "faker": ("cdclake.devkit.feed",),
    "cdclake.devkit.dms": (
        "cdclake.devkit.dms",
        "cdclake.devkit.feed",
        "cdclake.devkit.replicate",
        "cdclake.doctor",
        "cdclake.devkit",
        "cdclake.cli",
    ),
    "cdclake.doctor": ("cdclake.doctor", "cdclake.cli"),
    "cdclake.devkit.replicate": ("cdclake.devkit.replicate", "cdclake.devkit", "cdclake.cli"),
    "cdclake.devkit.local": ("cdclake.devkit.local", "cdclake.devkit.shop", "cdclake.cli"),
    "cdclake.devkit.shop": ("cdclake.devkit.shop", "cdclake.cli"),
}
"""Who alone may import these."""


class Import(NamedTuple):
    """One import of one module."""

    importer: str
    imported: str
    place: str


def module_name(path: Path) -> str:
    parts = path.relative_to(JOBS if path.is_relative_to(JOBS) else ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_within(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def imports_of(path: Path) -> list[Import]:
    """Every import in a file, also those inside functions and `if TYPE_CHECKING`.

    `from package import name` counts as an import of `package.name` if that is a module.
    """
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}:{node.lineno}"
            names = [_imported(str(node.module), alias.name) for alias in node.names]
        else:
            continue
        place = f"{path.relative_to(ROOT)}:{node.lineno}"
        found += [Import(module_name(path), name, place) for name in names]
    return found


def _imported(module: str, name: str) -> str:
    file = JOBS.joinpath(*module.split("."), name)
    return f"{module}.{name}" if file.is_dir() or file.with_suffix(".py").is_file() else module


PRODUCT = [*sorted(PACKAGE.rglob("*.py")), *ENTRY_SCRIPTS, *sorted((ROOT / "lambdas").rglob("*.py"))]
IMPORTS = [found for path in PRODUCT for found in imports_of(path)]


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_it_may(room: str):
    ours = [one for one in IMPORTS if is_within(one.importer, room) and is_within(one.imported, "cdclake")]
    foreign = [
        f"{one.place} imports {one.imported}"
        for one in ours
        if one.imported not in EVERYWHERE and not any(is_within(one.imported, name) for name in MAY_IMPORT[room])
    ]
    assert foreign == []


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_only_where_it_belongs(library: str):
    strangers = [
        f"{one.place} imports {one.imported}"
        for one in IMPORTS
        if is_within(one.imported, library) and not any(is_within(one.importer, room) for room in ONLY_IN[library])
    ]
    assert strangers == []


def test_every_module_of_the_package_belongs_to_a_room():
    modules = {module_name(path) for path in PACKAGE.rglob("*.py")} - {"cdclake"}
    assert [name for name in sorted(modules) if not any(is_within(name, room) for room in MAY_IMPORT)] == []


def test_the_rules_are_read_from_imports_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "probe.py"
    file.write_text(
        "from cdclake import cli\n"
        "def f():\n"
        "    import cdclake.devkit.local.server\n"
        "if TYPE_CHECKING:\n"
        "    from cdclake.lake.operations.load import load_initial\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert {one.imported for one in imports_of(file)} == {
        "cdclake.cli",
        "cdclake.devkit.local.server",
        "cdclake.lake.operations.load",
    }


@pytest.mark.parametrize("script", ENTRY_SCRIPTS, ids=lambda path: path.name)
def test_an_entry_script_only_wires(script: Path):
    assert len(script.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_SCRIPT


def test_there_are_four_entry_scripts():
    assert [script.stem for script in ENTRY_SCRIPTS] == [
        "controller",
        "load_incremental",
        "load_initial",
        "process_table",
    ]
