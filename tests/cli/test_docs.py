"""What the documents tell people to type exists, and what they may meet is documented."""

import re
import shlex

import pytest

from cdclake.errors import CdclakeError
from cdclake.model.names import Argument
from tests import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def commands(program, documents=DOCUMENTS):
    """The arguments of every line of the documents' bash blocks that calls a program."""
    for document in documents:
        for block in re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL):
            for line in map(str.strip, block.splitlines()):
                if line.startswith(f"{program} "):
                    yield shlex.split(line)[1:]


@pytest.mark.parametrize("arguments", list(commands("cdclake")), ids=shlex.join)
def test_documented_commands_and_options_exist(cdclake, arguments):
    result = cdclake(*arguments, "--help")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("targets", list(commands("make")), ids=shlex.join)
def test_documented_make_targets_exist(targets):
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / link).exists(), link


def test_the_handbook_has_every_error_under_its_exit_status():
    text = (ROOT / "docs" / "operations.md").read_text()
    _, _, errors = text.partition("## Errors, by exit status\n")
    table, _, _ = errors.partition("\n## ")
    told, status = {}, 0
    for given, name in re.findall(r"^\| (\d*) ?\| (?:`(\w+)`)?", table, re.MULTILINE):
        status = int(given or status)
        told[name] = status
    assert told == {"": 0, **{kind.__name__: kind.exit_code for kind in kinds(CdclakeError)}}


def test_every_argument_of_the_jobs_is_documented():
    _, _, told = (ROOT / "docs" / "configuration.md").read_text().partition("## Arguments of the jobs\n")
    arguments = [value for name, value in vars(Argument).items() if name.isupper()]
    assert [argument for argument in arguments if f"`{argument}`" not in told] == []


def kinds(root):
    """An error and all below it."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == root.__module__:
            yield from kinds(kind)
