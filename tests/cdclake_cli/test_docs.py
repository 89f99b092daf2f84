"""Commands in the documents exist, and arguments are documented."""

import re
import shlex
import subprocess

import pytest

from cdclake.model.names import Argument
from tests import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def commands(program, documents=DOCUMENTS):
    """The arguments of every call of a program in the documents' bash blocks."""
    for document in documents:
        script = scripts(document).replace("\\\n", " ")  # lines that go on
        for line in script.splitlines():
            line = line.strip().removeprefix("uvx --from . ")
            if line.startswith(f"{program} "):
                yield shlex.split(line)[1:]


def scripts(document):
    """A document's bash blocks, in order."""
    return "\n".join(re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", sorted(set(map(tuple, commands("cdclake")))), ids=shlex.join)
def test_documented_commands_and_options_exist(cdclake, arguments):
    cdclake.ok(*arguments, "--help")


@pytest.mark.parametrize(
    "document", list(filter(scripts, DOCUMENTS)), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_blocks_of_a_document_are_shell_scripts(document):
    checked = subprocess.run(["bash", "-n"], input=scripts(document), text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_files_of_the_first_own_table_fit_its_settings_and_the_doctor_prints_what_the_page_shows(cdclake, tmp_path):
    page = ROOT / "docs" / "your-first-table.md"
    files = dict(re.findall(r"^cat > (\S+) <<'CSV'\n(.*?)^CSV$", page.read_text(), re.DOTALL | re.MULTILINE))
    loads = sorted(name for name in files if name.startswith("mine/"))
    folder = tmp_path / "my" / "rides"
    folder.mkdir(parents=True)
    for number, name in enumerate(loads, 1):
        (folder / f"LOAD{number:08X}.csv").write_text(files[name])
    doctor = ("doctor", "my.rides", "--unregistered", "--folder", str(tmp_path))
    (shown,) = re.findall(r"^```\nWARNING (.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    report = cdclake.ok(*doctor).stdout
    assert len(loads) == 2
    assert [line for line in shown.splitlines() if line.strip() != "…" and line not in report] == []

    (folder / "20240101-000000000.csv").write_text(files["changes.csv"])
    (settings,) = (options for verb, *options in commands("cdclake", [page]) if options[:1] == ["set"])
    findings = cdclake.record(*doctor, *settings[2:])["findings"]
    assert {"untyped", "bad-rows", "key-not-unique"}.isdisjoint(finding["code"] for finding in findings)
    assert [finding["code"] for finding in findings if finding["severity"] == "error"] == []


def test_every_argument_of_the_jobs_is_documented():
    _, _, documented = (ROOT / "docs" / "configuration.md").read_text().partition("## Arguments of the jobs\n")
    arguments = [value for name, value in vars(Argument).items() if name.isupper()]
    assert [argument for argument in arguments if f"`{argument}`" not in documented] == []
