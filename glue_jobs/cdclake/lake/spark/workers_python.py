"""Lets Spark's workers run a Python that has cdclake, or says that they do not.

PySpark starts `PYSPARK_PYTHON`, else the first `python3` on the path (`SparkContext._do_init`), which need not be the
Python of the virtual environment that this process runs in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cdclake.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark import SparkContext

VARIABLE = "PYSPARK_PYTHON"
_FAULTS = re.compile(
    r"ModuleNotFoundError: (No module named '[\w.]+')|\[(PYTHON_VERSION_MISMATCH)\]|(Cannot run program \"[^\"]*\")"
)
_CHECK = "import sys, cdclake, pyarrow; sys.exit(f'{sys.version_info[:2]}' != sys.argv[1])"
_SECONDS = 60


def choose_python(context: SparkContext) -> None:
    """Let the workers of a Spark on this machine run this Python, unless the environment chooses one."""
    if _is_local(context) and VARIABLE not in os.environ:
        context.pythonExec = sys.executable


def check_python(context: SparkContext) -> None:
    """Check the Python of the workers of a Spark on this machine. On a cluster it is known only when a task runs.

    Raises:
        ConfigurationError: It does not exist, or lacks cdclake.
    """
    if _is_local(context) and not context._python_includes:  # they get other archives
        fault = _fault(context.pythonExec)
        if fault:
            message = f"Spark's workers run {fault}"
            raise _error(message)


def error_of_python(text: str) -> ConfigurationError | None:
    """The error for the text of a failed task whose Python is the wrong one; None if it failed for another reason."""
    fault = _FAULTS.search(text)
    return _error(f"Spark's workers run another Python: {next(filter(None, fault.groups()))}") if fault else None


def _error(message: str) -> ConfigurationError:
    remedy = f"Set {VARIABLE} before Spark starts, to a Python with cdclake on each worker; here it is {sys.executable}"
    return ConfigurationError(message, remedy=remedy)


def _is_local(context: SparkContext) -> bool:
    return str(context.master).startswith("local")


@cache
def _fault(python: str) -> str:
    """What is wrong with a Python on this machine; empty if it can run cdclake."""
    found = shutil.which(python)
    if found is None:
        return f"{python}, which does not exist"
    if Path(found).parent == Path(sys.executable).parent:
        return ""
    command = [found, "-c", _CHECK, f"{sys.version_info[:2]}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if not done.returncode:
        return ""
    lines = done.stderr.strip().splitlines() or ["it has another version"]
    return f"{found}, which cannot run cdclake: {lines[-1]}"
