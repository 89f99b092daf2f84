"""What of a deployment runs on this machine: which version of Glue, and the archive of the function of small changes.

The deployed archive has compiled libraries for arm64 and Python 3.13, which do not run here. It is replaced by one that
is packed in the same way, from wheels in the same lock for this processor and this Python. So it is trimmed as the
deployed one is.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.model.names import FUNCTION_SMALL_CHANGES
from cdclake_infra.library import ROOT, build_small_changes
from cdclake_infra.wheels import GLUE_VERSIONS, SMALL_CHANGES, SPARK, SPARK_4, of_this_machine
from deploy_local.unsupported import FUNCTION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from deploy_local.assembly import StackToDeploy


GLUE_WITH_SPARK, GLUE_WITH_SPARK_4 = (
    next(version for version, runtime in GLUE_VERSIONS.items() if runtime is wanted) for wanted in (SPARK, SPARK_4)
)
SPARK_4_PYTHON = ROOT / ".venv-spark4" / "bin" / "python"


def glue_version() -> str:
    """The newest version of Glue whose Spark, Python and Java this machine has."""
    modules = SPARK_4_PYTHON.parents[1] / "lib" / f"python{SPARK_4.python}" / "site-packages"
    has_spark_4 = (modules / "pyspark").is_dir() and shutil.which("java") is not None
    return GLUE_WITH_SPARK_4 if has_spark_4 else GLUE_WITH_SPARK


def for_this_machine(stacks: Sequence[StackToDeploy], folder: Path) -> list[StackToDeploy]:
    """The stacks, with an archive that runs here.

    Args:
        folder: Where to write it.
    """
    return [_with_archive(stack, folder) for stack in stacks]


def _with_archive(stack: StackToDeploy, folder: Path) -> StackToDeploy:
    keys = {
        resource["Properties"]["Code"]["S3Key"]
        for resource in stack.template["Resources"].values()
        if resource["Type"] == FUNCTION and resource["Properties"].get("FunctionName") == FUNCTION_SMALL_CHANGES
    }
    if not keys:
        return stack
    archive = build_small_changes(folder, of_this_machine(SMALL_CHANGES)).path
    assets = [replace(asset, source=archive) if asset.key in keys else asset for asset in stack.assets]
    return replace(stack, assets=tuple(assets))
