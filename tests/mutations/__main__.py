"""Puts each fault into a copy of the repository, and runs the tests until one fails: `python -m tests.mutations`."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests import CODE, ROOT
from tests.counts import keep
from tests.mutations.faults import FAULTS, PACKAGE, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TIERS = ("quick", "test")
"""What `make test` consists of."""
NONE, ERROR = "none", "error"
"""Instead of a tier: no test failed, or the tests did not run as they should."""
EVERYTHING = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--ignore=tests/mutations")
"""All tests but those that compare the faults with the code."""
PASSED, NOTHING_COLLECTED = 0, 5
"""Exit statuses of pytest. Others do not tell a test that fails from one that cannot be imported: the output does."""
_FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) ([^\[\s]+::[^\[\s]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_NOT_COLLECTED = re.compile(r"^ERROR ([^:\s]+)(?: - .*)?$", re.MULTILINE)


class Run(NamedTuple):
    """A run of pytest: its exit status, and what it printed."""

    status: int
    output: str

    @property
    def survived(self) -> bool:
        """Whether no test failed."""
        return self.status in (PASSED, NOTHING_COLLECTED)

    @property
    def failed_test(self) -> str:
        """Node id of the first test that failed; empty if none did, or if there was another error."""
        found = _FAILED_TEST.search(self.output)
        return found[1] if found and not _NOT_COLLECTED.search(self.output) else ""

    @property
    def problem(self) -> str:
        """Why no test ran to its end."""
        file = _NOT_COLLECTED.search(self.output)
        last_line = (self.output.strip().splitlines() or [""])[-1]
        return f"{file[1]} cannot be imported" if file else f"pytest ended with {self.status}: {last_line}"


@dataclass(frozen=True)
class Verdict:
    """What became of a fault.

    Attributes:
        file: The file with the fault.
        tier: The tier that caught it, else `NONE` or `ERROR`.
        test: Node id of the test that failed, or what went wrong.
        seconds: How long that took.
    """

    area: str
    fault: str
    file: str
    tier: str
    test: str = ""
    seconds: float = 0

    @property
    def caught(self) -> bool:
        """Whether a test failed because of the fault."""
        return self.tier in TIERS


class Copy:
    """A copy of the repository, into which one fault after another is put."""

    def __init__(self, root: Path) -> None:
        self._root = root
        listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        (root / ".venv").symlink_to(sys.prefix)

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Put a fault in until the `with` block ends."""
        path = self._root / PACKAGE / fault.path
        right = path.read_text(encoding="utf-8")
        if right.count(fault.before) != 1:
            message = f"{fault.name}: the text to replace does not occur once in {fault.path}"
            raise SystemExit(message)
        _write(path, right.replace(fault.before, fault.after))
        try:
            yield
        finally:
            _write(path, right)

    def run(self, tier: str, *arguments: str) -> Run:
        """Run tests of a tier, up to the first that fails."""
        command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments)
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(self._root / name) for name in CODE),
            "CDCLAKE_TESTS": tier,
        }
        done = subprocess.run(command, cwd=self._root, env=env, capture_output=True, text=True, errors="replace")
        return Run(done.returncode, done.stdout + done.stderr)


def _write(path: Path, text: str) -> None:
    """Write a module. What Python compiled of it is from the same second, perhaps, and of the same size."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def try_fault(copy: Copy, fault: Fault, *, near_only: bool) -> Verdict:
    """Look for a test that fails with a fault and passes without it: in the quick tier first, and near it first."""
    verdict = Verdict(fault.area, fault.name, fault.path, NONE)
    for tier in TIERS:
        for tests in (fault.near, () if near_only else EVERYTHING):
            if not tests:
                continue
            with copy.with_fault(fault):
                run = copy.run(tier, *tests)
            if run.survived:
                continue
            if not run.failed_test:
                return replace(verdict, tier=ERROR, test=run.problem)
            if copy.run(tier, run.failed_test).status != PASSED:
                return replace(verdict, tier=ERROR, test=f"{run.failed_test} does not pass without the fault either")
            return replace(verdict, tier=tier, test=run.failed_test)
    return verdict


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a table, and the number of faults by tier."""
    header = ("area", "fault", "file", "caught by", "test", "seconds")
    cells = [(one.area, one.fault, one.file, one.tier, one.test, f"{one.seconds:.0f}") for one in verdicts]
    widths = [max(map(len, column)) for column in zip(header, *cells)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (header, *cells)]
    counts = Counter(one.tier for one in verdicts)
    totals = ", ".join(f"{tier} {counts[tier]}" for tier in (*TIERS, NONE, ERROR))
    return "\n".join([*lines, "", f"{len(verdicts)} faults by the tier that caught them: {totals}"])


def main() -> int:
    """Try the faults; the exit status is 1 if one survives all tests or cannot be tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="a fault to try; all if none is named")
    parser.add_argument("--near-only", action="store_true", help="run only the tests near each fault, not all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there too")
    parser.add_argument("--record", action="store_true", help="keep the counts for docs/testing.md")
    arguments = parser.parse_args()
    by_name = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in arguments.names if name not in by_name]
    if unknown:
        parser.error(f"there is no fault {', '.join(unknown)}; the faults are {', '.join(by_name)}")
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="cdclake-mutations-") as folder:
        copy = Copy(Path(folder))
        for name in arguments.names or by_name:
            started = time.monotonic()
            verdict = try_fault(copy, by_name[name], near_only=arguments.near_only)
            verdicts.append(replace(verdict, seconds=round(time.monotonic() - started, 1)))
            print(f"{verdict.tier:5}  {name}  {verdict.test}", flush=True)
    print(f"\n{table(verdicts)}")
    if arguments.json:
        data = {"faults": [asdict(one) for one in verdicts], "caught_by": Counter(one.tier for one in verdicts)}
        arguments.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if arguments.record:
        caught = Counter(one.tier for one in verdicts)
        keep(
            "tests/mutations",
            "all",
            {"faults": len(verdicts), **{f"caught by make {tier}": caught[tier] for tier in TIERS}},
        )
    return 0 if all(one.caught for one in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
