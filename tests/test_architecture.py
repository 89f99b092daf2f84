"""Which module may import which, checked by reading the source."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests import CODE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLDERS = [ROOT / name for name in CODE]
JOBS = FOLDERS[0]
ENTRY_SCRIPTS = sorted(JOBS.glob("*.py"))
MOST_LINES_OF_A_SCRIPT = 50

LAYERS = {
    "": [["cdclake"], ["cdclake_cli"], ["cdclake_devkit"]],
    "cdclake": [
        ["printable"],
        ["errors"],
        ["logs"],
        ["concurrency", "model", "signals"],
        ["ports"],
        ["adapters", "commit", "raw_listing"],
        ["control"],
        ["run_ports", "hash_secret"],
        ["lake"],
        ["lake_table"],
    ],
    "cdclake.control": [["jobs"], ["catalog", "plan"], ["run"], ["admin", "controller", "raw_fates", "status"]],
    "cdclake.lake": [
        ["counts", "limits", "memory_errors"],
        ["storage"],
        ["spark"],
        ["raw"],
        ["merge"],
        ["scd2"],
        ["read"],
        ["operations"],
    ],
    "cdclake_devkit": [
        ["memory", "memory_catalog", "oracle", "patching", "versioned_bucket"],
        ["quick_moto", "simulate", "strict_aws"],
        ["local"],
        ["feed", "replicate"],
        ["shop"],
        ["verbs"],
    ],
}
"""What each package consists of, lowest first: a part imports only parts in layers below its own."""
NOT_IN = {
    "cdclake.model": ("cdclake.logs",),
    "cdclake.commit": ("cdclake.adapters",),
    "cdclake.control": ("cdclake.adapters",),
    "cdclake_cli.console": ("cdclake.adapters", "cdclake.lake"),
    "cdclake_devkit.oracle": ("cdclake.commit", "cdclake.adapters", "cdclake.ports", "cdclake.raw_listing"),
    "cdclake.lake": (
        "cdclake.control.admin",
        "cdclake.control.catalog",
        "cdclake.control.controller",
        "cdclake.control.plan",
        "cdclake.control.raw_fates",
        "cdclake.control.status",
    ),
    "cdclake_cli.dms": ("cdclake.control", "cdclake.commit"),
    "cdclake_devkit.feed": ("cdclake.control", "cdclake.commit"),
    "cdclake_devkit.replicate": ("cdclake.control", "cdclake.commit"),
}
"""What a part must not import, although it lies below."""
ONLY_IN = {
    "boto3": ("cdclake.adapters", "cdclake_devkit", "cdclake_cli"),
    "botocore": ("cdclake.adapters", "cdclake_devkit", "cdclake_cli"),
    "aws_lambda_powertools": ("lambdas",),
    "pymysql": ("cdclake_cli.sources.mysql", "cdclake_devkit"),
    "pymysqlreplication": ("cdclake_devkit.replicate.mysql",),
    "psycopg2": ("cdclake_cli.sources.postgres", "cdclake_devkit"),
    "pyarrow": ("cdclake.lake", "cdclake.adapters.filesystem", "cdclake_devkit", "cdclake_cli"),
    "sqlalchemy": ("cdclake_cli.sources.inspected",),
    "deltalake": ("cdclake_cli.shadow.formats.delta",),
    "hudi": ("cdclake_cli.shadow.formats.hudi",),
    "flask": ("cdclake_cli.console", "cdclake_devkit.local"),
    "werkzeug": ("cdclake_cli.console", "cdclake_devkit.local"),
    "faker": ("cdclake_devkit.feed",),
    "pydantic": ("cdclake_cli.config",),
    "yaml": ("cdclake_cli.config",),
}
"""Who alone may import these."""
STARTS_SPARK = ("cdclake.lake.spark", "cdclake.lake.read", "cdclake.lake_table")
"""What may import pyspark when it runs. For types alone, the rest of `cdclake.lake` may."""
OURS = ("cdclake", "cdclake_cli", "cdclake_devkit", "cdclake_infra", "costs", "benchmarks")
"""Packages whose constants no test replaces: what a test needs smaller is handed in, like `EngineLimits`."""
WAITS = {
    "cdclake.adapters.filesystem._ATTEMPTS",
    "cdclake.adapters.filesystem._LONGEST_PAUSE_SECONDS",
    "cdclake_cli.confirm.LEASE_WAIT_SECONDS",
}
"""Except how long S3 and a lease are waited for: pauses that no test has time for, and no caller chooses."""
MOST_MODULES = 16
"""Of a package, without its subpackages."""
HAS_MORE_MODULES = {"cdclake_cli.verbs"}
"""Packages with a module for each of many things that users know by name."""


class Import(NamedTuple):
    """One import of one module."""

    importer: str
    imported: str
    location: str
    types_only: bool = False


def module_name(path: Path) -> str:
    base = next((folder for folder in FOLDERS if path.is_relative_to(folder)), ROOT)
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def imports_of(path: Path) -> list[Import]:
    """Every import in a file, also those inside functions and `if TYPE_CHECKING`.

    `from package import name` counts as an import of `package.name` if that is a module.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typed = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}:{node.lineno}"
            names = [_imported(str(node.module), alias.name) for alias in node.names]
        else:
            continue
        location = f"{path.relative_to(ROOT)}:{node.lineno}"
        found += [Import(module_name(path), name, location, node in typed) for name in names]
    return found


def _imported(module: str, name: str) -> str:
    files = [folder.joinpath(*module.split("."), name) for folder in FOLDERS]
    return f"{module}.{name}" if any(one.is_dir() or one.with_suffix(".py").is_file() for one in files) else module


MODULES = sorted(path for folder in FOLDERS for path in folder.glob("*/**/*.py"))
PRODUCT = [*MODULES, *ENTRY_SCRIPTS, *sorted((ROOT / "lambdas").rglob("*.py"))]
PACKAGES = {module_name(path): path for path in MODULES if path.name == "__init__.py"}


@cache
def product_imports() -> list[Import]:
    """Every import of the product. Reading them takes seconds, so not when tests are collected."""
    return [found for path in PRODUCT for found in imports_of(path)]


def part_of(package: str, module: str) -> str:
    """The direct child of a package that a module is or lies in; empty for the package itself and foreign modules.

    Without a package, the package of ours that a module is or lies in.
    """
    if not package:
        top = module.partition(".")[0]
        return top if top in PACKAGES else ""
    return module[len(package) + 1 :].partition(".")[0] if module.startswith(f"{package}.") else ""


def imports_between_parts(package: str) -> dict[tuple[str, str], list[str]]:
    """Where one direct child of a package imports another: the locations, by both names."""
    locations = defaultdict(list)
    for found in product_imports():
        importer, imported = part_of(package, found.importer), part_of(package, found.imported)
        if importer and imported and importer != imported:
            locations[importer, imported].append(found.location)
    return locations


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_no_package_has_an_import_circle(package: str):
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for importer, imported in imports_between_parts(package):
        sorter.add(importer, imported)
    sorter.prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("package", sorted(LAYERS))
def test_imports_point_to_lower_layers(package: str):
    layer = {part: number for number, parts in enumerate(LAYERS[package]) for part in parts}
    assert set(layer) == {part_of(package, module_name(path)) for path in MODULES} - {""}
    wrong = {pair: where for pair, where in imports_between_parts(package).items() if layer[pair[0]] <= layer[pair[1]]}
    assert wrong == {}


def is_in_one(module: str, packages: Iterable[str]) -> bool:
    return any(is_within(module, package) for package in packages)


@pytest.mark.parametrize("package", sorted(NOT_IN))
def test_a_package_leaves_alone_what_it_must_not_import(package: str):
    own = [found for found in product_imports() if is_within(found.importer, package)]
    assert [found for found in own if is_in_one(found.imported, NOT_IN[package])] == []


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_only_where_it_belongs(library: str):
    its = [found for found in product_imports() if is_within(found.imported, library)]
    assert [found for found in its if not is_in_one(found.importer, ONLY_IN[library])] == []


def test_pyspark_is_imported_only_where_spark_is_used():
    spark = [found for found in product_imports() if is_within(found.imported, "pyspark")]
    others = [found for found in spark if not is_in_one(found.importer, STARTS_SPARK)]
    assert [found for found in others if not (found.types_only and is_within(found.importer, "cdclake.lake"))] == []


def test_files_are_opened_only_where_their_errors_are_translated():
    methods = (".open_input_file(", ".open_input_stream(", ".open_output_stream(")
    opening = {
        module_name(path) for path in PRODUCT if any(method in path.read_text(encoding="utf-8") for method in methods)
    }
    assert opening == {"cdclake.adapters.filesystem", "cdclake.lake.read.retained_files"}


READ_FROM_MEMORY = {"cdclake_devkit.simulate.invariants", "cdclake_devkit.simulate.lake_state"}


def test_parquet_files_are_read_only_where_reads_are_repeated():
    readers = ("pq.ParquetFile", "pq.read_table(", "pq.ParquetDataset(")
    reading = {module_name(path) for path in PRODUCT if any(reader in path.read_text("utf-8") for reader in readers)}
    assert reading == {"cdclake.adapters.filesystem", "cdclake_devkit.shop.checksum", *READ_FROM_MEMORY}


def test_parquet_files_are_opened_only_with_a_footer_that_was_checked():
    calls = re.compile(r"(?<!class )\bParquetFile\(")
    opening = {module_name(path) for path in PRODUCT if calls.search(path.read_text("utf-8"))}
    with_footer = {"cdclake.lake.storage.reader", "cdclake.lake.storage.parquet.decoding"}
    assert opening == with_footer


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_is_for_and_has_few_modules(package: str):
    assert ast.get_docstring(ast.parse(PACKAGES[package].read_text(encoding="utf-8")))
    modules = {path.stem for path in PACKAGES[package].parent.glob("*.py")} - {"__init__"}
    assert len(modules) <= MOST_MODULES or package in HAS_MORE_MODULES, sorted(modules)


def replaced_constants(source: str) -> set[str]:
    """Constants of our packages that a test module replaces; those of an object of unknown origin count, too."""
    nodes = list(ast.walk(ast.parse(source)))
    imported: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imported |= {alias.asname or alias.name: alias.name for alias in node.names}
    found = set()
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and _last_name(node.func) in REPLACING:
            owner, *others = node.args
            name = str(others[0].value) if others and isinstance(others[0], ast.Constant) else None
            if isinstance(owner, ast.Constant):
                found.add(str(owner.value))
            else:
                found |= {f"{ast.unparse(owner)}.{one}" for one in (name, *(one.arg for one in node.keywords)) if one}
        elif isinstance(node, ast.Tuple) and len(node.elts) > 1 and isinstance(node.elts[1], ast.Constant):
            owner = node.elts[0]
            if isinstance(owner, ast.Name) and owner.id in imported:  # a row of a table of replacements
                found.add(f"{owner.id}.{node.elts[1].value!s}")
        elif isinstance(node, ast.Assign):
            targets = [one for one in node.targets if isinstance(one, ast.Attribute)]
            found |= {ast.unparse(one) for one in targets if ast.unparse(one.value) in imported}
    constants = (one.rpartition(".") for one in found if CONSTANT.search(one))
    resolved = ((imported.get(owner, owner), name) for owner, _, name in constants)
    foreign = {*imported.values()}
    return {
        f"{owner}.{name}"
        for owner, name in resolved
        if owner.split(".")[0] in OURS or ("." not in owner and owner not in foreign)
    }


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


REPLACING = {"setattr", "delattr", "patch", "object", "multiple"}
CONSTANT = re.compile(r"\._?[A-Z][A-Z0-9_]*$")
MAY_REPLACE = re.compile(
    r"""(setattr|delattr|object|patch)\([^"\n]*\s*"[\w.]*\b_?[A-Z][A-Z0-9_]*"|multiple\(|"""
    r"""\(\w+, "_?[A-Z]|^ *\w+\.[A-Z0-9_]+ = """,
    re.MULTILINE,
)
"""Whether a file must be parsed, which takes longer."""


def test_no_test_replaces_a_constant_of_ours():
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert {one for text in sources if MAY_REPLACE.search(text) for one in replaced_constants(text)} == WAITS


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('monkeypatch.setattr(writer, "ROWS", 2)', {"cdclake.lake.storage.writer.ROWS"}),
        ('monkeypatch.setattr("cdclake.lake.storage.writer._ROWS", 2)', {"cdclake.lake.storage.writer._ROWS"}),
        ('patch.object(writer, "ROWS", 2)', {"cdclake.lake.storage.writer.ROWS"}),
        ("patch.multiple(writer, ROWS=2, write=print)", {"cdclake.lake.storage.writer.ROWS"}),
        ('TINY = ((writer, "ROWS", 2),)', {"cdclake.lake.storage.writer.ROWS"}),
        ("writer.ROWS = 2", {"cdclake.lake.storage.writer.ROWS"}),
        ('for module in (writer,): patch.setattr(module, "ROWS", 2)', {"module.ROWS"}),
        ('monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)', set()),
        ('monkeypatch.setattr(writer, "write", print)', set()),
        ('monkeypatch.setenv("ROWS", "2")', set()),
    ],
)
def test_replaced_constants_are_found_in_every_form(line: str, found: set[str]):
    assert not found or MAY_REPLACE.search(line)
    assert replaced_constants(f"import boto3\nfrom cdclake.lake.storage import writer\n{line}\n") == found


def test_the_rules_are_read_from_imports_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "probe.py"
    file.write_text(
        "from cdclake import lake\n"
        "def f():\n"
        "    import cdclake_devkit.local.server\n"
        "if TYPE_CHECKING:\n"
        "    from cdclake.lake.operations.load import load_initial\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert {one.imported for one in imports_of(file)} == {
        "cdclake.lake",
        "cdclake_devkit.local.server",
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
