"""Writes the page of proofs: the tests that hold each guarantee, by the tier in which they first run.

A guarantee of `docs/guarantees.md` begins a paragraph in bold. The *Proof* between it and the next one names the tests
that hold it: folders and files, or single functions of files that are about other things as well. Of several functions
of one file, only the first is named with its file.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from docs_build.collect_tests import ROOT, collect_tests

if TYPE_CHECKING:
    from docs_build.collect_tests import Tiers

GUARANTEES = ROOT / "docs" / "guarantees.md"
TIERS = {"quick": "make quick", "test": "make test", "all": "make test-all", "thorough": "make thorough"}
"""Tiers in their order, each with the command that runs it."""
MOST_NAMES = 5
"""Most names of tests that the page lists of one file, unless the proof names them itself."""

HEAD = f"""\
<!-- Written by `make reference` from docs/guarantees.md and the tests that it names: do not edit. -->

# Proofs

The tests that hold each [guarantee](../guarantees.md), and how many of them first run in each
[tier](../../CONTRIBUTING.md#run-the-tests): {", ".join(f"`{command}`" for command in TIERS.values())}.
Each tier includes those before it. A test counts twice if more cases of it run later, for instance on S3 besides a
folder. Names are those of the tests that a proof names itself, and of files with up to {MOST_NAMES} tests.

Later tiers also give property tests more examples, and inject faults at more calls.
"""

_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
_PROOF = re.compile(r"^\*Proof\*: (.+)", re.DOTALL | re.MULTILINE)
_TESTS = re.compile(r"`(tests/[\w./-]+)?(?:::([\w:]+))?`")
_COMMAND = re.compile(r"`(make [a-z0-9-]+)`")
_LINK = re.compile(r"(?<=\]\()(?!https?:|#)")


class NamedTests(NamedTuple):
    """What a proof names: a folder, a file, or one function in a file."""

    path: str
    function: str


class Guarantee(NamedTuple):
    """A guarantee and its proofs, of which there should be one.

    Attributes:
        section: Heading above it.
        text: The words in bold.
    """

    section: str
    text: str
    proofs: list[str]

    @property
    def tests(self) -> list[NamedTests]:
        """The tests that the proofs name."""
        named: list[NamedTests] = []
        for path, function in _TESTS.findall("\n".join(self.proofs)):
            if path or (function and named):
                named.append(NamedTests(path or named[-1].path, function))
        return named

    @property
    def commands(self) -> list[str]:
        """The commands that the proofs name."""
        return list(dict.fromkeys(command for proof in self.proofs for command in _COMMAND.findall(proof)))


def guarantees() -> list[Guarantee]:
    """All guarantees, in the order of the document."""
    found: list[Guarantee] = []
    section = ""
    for paragraph in GUARANTEES.read_text(encoding="utf-8").split("\n\n"):
        if paragraph.startswith("## "):
            section = paragraph[3:].strip()
        if bold := _BOLD.match(paragraph):
            found.append(Guarantee(section, " ".join(bold[1].split()), []))
        if (proof := _PROOF.search(paragraph)) and found:
            found[-1].proofs.append(proof[1])
    return found


@lru_cache(maxsize=1)
def collected() -> Tiers:
    """The tests of everything that a proof names; takes seconds."""
    return collect_tests(sorted({named.path for guarantee in guarantees() for named in guarantee.tests}))


def tests_of(guarantee: Guarantee) -> Tiers:
    """The tests that hold a guarantee.

    Raises:
        LookupError: A proof names tests that do not exist.
    """
    chosen: dict[str, set[str]] = {}
    for path, function in guarantee.tests:
        files = [file for file in collected() if file == path or file.startswith(f"{path}/")]
        names = {file: {name for name in collected()[file] if function in ("", name)} for file in files}
        if not any(names.values()):
            message = f"{GUARANTEES.name} names {path}{function and '::'}{function}, which has no tests"
            raise LookupError(message)
        for file, some in names.items():
            chosen.setdefault(file, set()).update(some)
    return {
        file: {name: tiers for name, tiers in collected()[file].items() if name in names}
        for file, names in chosen.items()
    }


def page() -> str:
    """The page in Markdown."""
    lines, section = [HEAD], ""
    for guarantee in guarantees():
        if guarantee.section != section:
            section = guarantee.section
            lines += [f"## {section}", ""]
        lines += [f"**{_LINK.sub('../', guarantee.text)}**", ""]
        lines += [f"| {' | '.join(TIERS)} | tests |", f"|{' ---: |' * len(TIERS)} --- |"]
        named = {path for path, function in guarantee.tests if function}
        lines += [_row(file, tests, has_names=file in named) for file, tests in tests_of(guarantee).items()]
        if guarantee.commands:
            lines += ["", f"Besides: {', '.join(f'`{command}`' for command in guarantee.commands)}."]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(file: str, tests: dict[str, list[str]], *, has_names: bool) -> str:
    names = list(tests) if has_names or len(tests) <= MOST_NAMES else []
    numbers = [sum(tier in tiers for tiers in tests.values()) for tier in TIERS]
    cells = [*(str(number or "") for number in numbers), "<br>".join(f"`{one}`" for one in (file, *names))]
    return f"| {' | '.join(cells)} |"
