"""What the documents tell people to type exists, and what can be set is documented."""

import re
import shlex
from pathlib import Path

import pytest

from cdclake.cli.tables import SETTABLE
from cdclake.errors import CdclakeError

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


def test_every_setting_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    assert [name for name in SETTABLE if f"| `{name}` |" not in text] == []


def test_every_exit_status_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    kinds: list[type[CdclakeError]] = [CdclakeError, *CdclakeError.__subclasses__()]
    statuses = {kind.exit_code for kind in kinds}
    assert [status for status in sorted(statuses) if f"| {status} |" not in text] == []
