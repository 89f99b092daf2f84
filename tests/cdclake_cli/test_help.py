"""Every verb has help with an example, and help is fast because it imports nothing slow."""

import itertools
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cdclake_cli import main
from cdclake_cli.main import assembled
from cdclake_cli.version import version_text


def verbs(command, path=()):
    """Every verb of a command, as typed."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, (*path, name))


COMMAND = get_command(assembled())
VERBS = list(verbs(COMMAND))


def command_of(verb):
    command = COMMAND
    for name in verb:
        command = getattr(command, "commands", {})[name]
    return command


def group(verb):
    return hasattr(command_of(verb), "commands")


def options(verb):
    return {option for parameter in command_of(verb).params for option in parameter.opts}


def test_the_command_prints_its_version():
    result = CliRunner().invoke(assembled(), ["--version"])
    assert (result.exit_code, result.output) == (0, f"cdclake {version_text(version('cdclake'))}\n")


def test_the_documented_verbs_exist():
    assert len(VERBS) > 20
    assert {("tables", "show"), ("changes", "show"), ("clean-up",), ("local", "serve")} <= set(VERBS)


def broken_early(text):
    """Lines of the description in help that end although the next word would fit."""
    lines = [line.strip() for line in text.partition("Usage:")[2].partition("╭")[0].splitlines()[1:]]
    return [
        line
        for line, after in itertools.pairwise(lines)
        if line and after and len(f" {line} {after.split()[0]} ") <= 80
    ]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example_that_fits_80_columns(cdclake, verb):
    result = cdclake.ok(*verb, "--help", COLUMNS="80")
    assert f"Usage: {' '.join(('cdclake', *verb))}" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert broken_early(result.stdout) == []
    if verb and verb != ("changes",):
        text = " ".join(result.stdout.split())
        assert f"Example: {' '.join(('cdclake', *verb))}".removesuffix(" list") in text


def test_help_shows_patterns_as_they_are_typed(cdclake):
    text = cdclake.ok("rollback", "--help", COLUMNS="200").stdout
    assert "patterns such as 'shop.*'; '*' means all." in text


RUNS_UNTIL_STOPPED = {("console",), ("local", "serve"), ("local", "replicate"), ("local", "shell")}
DESTROYS = {
    ("rollback",),
    ("repair",),
    ("resync",),
    ("clean-up",),
    ("erase",),
    ("tables", "unfreeze"),
}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not group(verb)], ids=" ".join)
def test_every_verb_that_ends_has_json_output(verb):
    assert ("--output" in options(verb)) == (verb not in RUNS_UNTIL_STOPPED)


@pytest.mark.parametrize("verb", sorted(DESTROYS), ids=" ".join)
def test_destructive_verbs_ask_and_have_a_dry_run(verb):
    assert {"--yes", "--dry-run"} <= options(verb)


def test_the_shell_completes_verbs(cdclake):
    done = cdclake(_CDCLAKE_COMPLETE="complete_bash", COMP_WORDS="cdclake roll", COMP_CWORD="1")
    assert "rollback" in done.stdout


@pytest.mark.slow
def test_help_loads_neither_boto3_nor_moto_nor_arrow_nor_spark():
    code = (
        "import sys; from cdclake_cli.main import assembled\n"
        "try: assembled()(['--help'], prog_name='cdclake')\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'boto3', 'moto', 'pyarrow', 'numpy', 'pyspark', 'flask'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_unknown_verb_is_a_usage_error(cdclake):
    assert cdclake("explode").exit_code == 2


@pytest.mark.parametrize("verb", [*main.VERBS, "demo", "local"])
def test_a_verb_alone_has_the_help_that_it_has_among_all(verb):
    alone, among_all = (CliRunner().invoke(app, [verb, "--help"]) for app in (assembled(verb), assembled()))
    assert alone.stdout == among_all.stdout
    assert alone.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [(["plan"], ["cdclake_cli.verbs.plan"]), (["local", "query"], [])],
    ids=["plan", "local query"],
)
def test_a_verb_alone_loads_no_other_and_no_client_of_aws(arguments, loaded):
    code = (
        f"import sys; sys.argv = ['cdclake', *{arguments}, '--help']\n"
        "from cdclake_cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "unwanted = 'cdclake_cli.verbs.', 'botocore.parsers', 'moto'\n"
        "print(sorted(name for name in sys.modules if name.startswith(unwanted)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(loaded)
