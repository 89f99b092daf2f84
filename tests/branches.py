"""Measures which branches of the packages that decide what is lost their own tests take: `make branches`.

For each package of `AREAS` it runs the tests of some folders, as `make test` does. A branch that none of them takes
needs a reason here, and a reason without such a branch is an error. What runs in Spark's own processes is not seen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import CODE_PATH, ROOT
from tests.counts import keep

AREAS = {
    "commit": (
        *("commit", "control/admin", "control/run", "lake/iceberg", "lake/operations/adopt", "lake/operations/erase"),
        "lake/scd2",
    ),
    "control/plan": ("control/plan",),
    "lake/merge": ("lake/merge",),
}
"""Folders of the packages below `glue_jobs/cdclake`, and of their tests below `tests/cdclake`. What `commit` does for
Iceberg tables, histories, erasures and adoptions is tested beside the operations that begin them."""
REASONS = {
    "commit/clean_up.py: if committed": "A log restored to before its list of retained changes.",
    "lake/merge/file_ranges.py: if end": "A data file of which only the first key is known.",
    "lake/merge/file_sizes.py: if not are_in_order": "Settled files whose key ranges overlap.",
    "lake/merge/full_load.py: if memory_bytes": "A LOAD file of more memory than a task may use.",
    "lake/merge/full_load.py: if quarantine.rows": "More bad rows in one LOAD file than are allowed.",
    "lake/merge/full_load.py: if not batches": "A LOAD file without a batch of rows.",
    "lake/merge/in_place.py": "Rows of one task of more memory than it may use: the change is then merged by key.",
    "lake/merge/join_by_key.py: if files": "A join of whole files, which tables with updates of keys need.",
    "lake/merge/join_by_key.py: if shape.limits": "The bound on files of the function for small changes.",
    "lake/merge/key_updates.py: if contradicting": "Late rows that agree with what was assumed of their key.",
    "lake/merge/key_updates.py: if isinstance": "NaN in a row whose key an update took.",
    "lake/merge/merge_file.py": "A data file that lost rows: a defect, or damage.",
    "lake/merge/positioned_deletes.py": "Deletes that are in one order by position and by file.",
    "lake/merge/read_changes.py": "Changes of a table without a key.",
    "lake/merge/repeated_keys.py": "A task without new rows in a full load that repeats a key.",
    "lake/merge/resolve.py": "A key twice in the lake table: a defect, or damage.",
}
"""What it takes to take a branch that these tests do not: by the beginnings of branches, as `counted` names them."""


def reason_of(branch: str) -> str:
    """What it takes to take a branch; empty if nobody has written that down."""
    return next((reason for begin, reason in REASONS.items() if branch.startswith(begin)), "")


def measure(area: str) -> dict[str, Any]:
    """The branches of a package: how many there are and are taken, and the others by their two lines."""
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder, "data"), Path(folder, "report.json")
        environment = {**os.environ, "CDCLAKE_TESTS": "test", "COVERAGE_FILE": str(data)}
        environment["PYTHONPATH"] = os.pathsep.join((CODE_PATH, os.environ.get("PYTHONPATH", "")))
        source = ROOT / "glue_jobs" / "cdclake" / area
        coverage = (sys.executable, "-m", "coverage")
        tests = ("-m", "pytest", "-q", "-n", "0", *(f"tests/cdclake/{folder}" for folder in AREAS[area]))
        run = (*coverage, "run", "--branch", f"--source={source}", *tests)
        subprocess.run(run, cwd=ROOT, env=environment, check=True)
        subprocess.run((*coverage, "json", "-q", "-o", str(report)), cwd=ROOT, env=environment, check=True)
        return counted(json.loads(report.read_text(encoding="utf-8")))


def counted(report: dict[str, Any]) -> dict[str, Any]:
    """The branches in a report of coverage."""
    totals, untaken = report["totals"], []
    for name, file in sorted(report["files"].items()):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        short = Path(name).relative_to("glue_jobs/cdclake").as_posix()
        for line, target in file["missing_branches"]:
            follows = lines[target - 1].strip() if target > 0 else "the end"
            untaken.append(f"{short}: {lines[line - 1].strip()} -> {follows}")
    return {"branches": totals["num_branches"], "taken": totals["covered_branches"], "untaken": untaken}


def main() -> int:
    """Measure, and print what is untaken without a reason; the exit status is 1 if there is any."""
    parser = argparse.ArgumentParser(prog="python -m tests.branches", description=__doc__)
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="all if none is named")
    parser.add_argument("--record", action="store_true", help="keep the counts for docs/testing.md")
    arguments = parser.parse_args()
    unexplained = []
    for area in arguments.areas or AREAS:
        found = measure(area)
        print(f"{area}: {found['taken']:,} of {found['branches']:,} branches are taken", flush=True)
        unexplained += [branch for branch in found["untaken"] if not reason_of(branch)]
        if arguments.record:
            keep("branches", area, found)
    print(
        "\n".join(
            ["Untaken, without a reason in tests/branches.py:", *unexplained] if unexplained else ["All explained"]
        )
    )
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
