"""Commands in the documents exist, and errors and arguments are documented."""

import re
import shlex

import pytest

from cdclake.errors import CdclakeError
from cdclake.model.names import Argument
from tests import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def commands(program, documents=DOCUMENTS):
    """The arguments of every call of a program in the documents' bash blocks."""
    for document in documents:
        for block in re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL):
            for line in map(str.strip, block.splitlines()):
                if line.startswith(f"{program} "):
                    yield shlex.split(line)[1:]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", list(commands("cdclake")), ids=shlex.join)
def test_documented_commands_and_options_exist(cdclake, arguments):
    cdclake.ok(*arguments, "--help")


def test_the_handbook_has_every_error_under_its_exit_status():
    text = (ROOT / "docs" / "operations.md").read_text()
    _, _, errors = text.partition("## Errors, by exit status\n")
    table, _, _ = errors.partition("\n## ")
    documented, status = {}, 0
    for cell, name in re.findall(r"^\| (\d*) ?\| (?:`(\w+)`)?", table, re.MULTILINE):
        status = int(cell or status)
        documented[name] = status
    assert documented == {"": 0, **{kind.__name__: kind.exit_code for kind in kinds(CdclakeError)}}


def test_every_argument_of_the_jobs_is_documented():
    _, _, documented = (ROOT / "docs" / "configuration.md").read_text().partition("## Arguments of the jobs\n")
    arguments = [value for name, value in vars(Argument).items() if name.isupper()]
    assert [argument for argument in arguments if f"`{argument}`" not in documented] == []


def kinds(root):
    """An error class and its subclasses."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == root.__module__:
            yield from kinds(kind)
