"""The command's face: every verb explains itself, and help is quick as it loads nothing heavy."""

import subprocess
import sys

import pytest

VERBS = [
    [],
    ["demo"],
    ["run"],
    ["plan"],
    ["status"],
    ["tables"],
    ["tables", "set"],
    ["tables", "activate"],
    ["tables", "thaw"],
    ["changes"],
    ["changes", "show"],
    ["rollback"],
    ["reapply"],
    ["repair"],
    ["clean-up"],
    ["local", "serve"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help(cdclake, verb):
    result = cdclake(*verb, "--help")
    assert result.exit_code == 0
    assert "Usage: cdclake" in result.stdout


def test_help_loads_neither_boto3_nor_moto_nor_arrow_nor_spark():
    code = (
        "import sys; from cdclake.cli.main import app\n"
        "try: app(['--help'], prog_name='cdclake')\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'boto3', 'moto', 'pyarrow', 'numpy', 'pyspark', 'flask'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_unknown_verb_is_a_usage_error(cdclake):
    assert cdclake("explode").exit_code == 2
