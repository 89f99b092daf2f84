"""Replaces the archive of the function of small changes by one for this machine.

The deployed one has compiled libraries for arm64 and Python 3.13, which do not run here. This one is packed in the same
way, from wheels in the same lock for this processor and this Python. So it is trimmed as the deployed one is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdclake.model.names import FUNCTION_SMALL_CHANGES
from cdclake_infra.library import build_small_changes
from cdclake_infra.wheels import SMALL_CHANGES, of_this_machine
from deploy_local.unsupported import FUNCTION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from deploy_local.assembly import StackToDeploy


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
