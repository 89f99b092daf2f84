"""Faults of the protocol, put in on purpose: a simulation must find each. They are put in while modules are loaded."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from typing_extensions import Buffer


class Mutant(NamedTuple):
    """A text of one module that is replaced.

    Attributes:
        name: What is wrong.
        module: The module's name, below `cdclake`.
        before: Text that occurs once in it.
        after: What replaces it.
    """

    name: str
    module: str
    before: str
    after: str

    @property
    def full_module(self) -> str:
        """The module's whole name."""
        return f"cdclake.{self.module}"


MUTANTS = (
    Mutant(
        "commit without looking at the fencing token",
        "commit.log",
        "        self.check_fence(record.change - 1, record.fencing_token)\n",
        "",
    ),
    Mutant(
        "commit without condition",
        "commit.log",
        "if not self.store.put_if_absent(self.layout.change_key(record.change), record.to_bytes()):",
        "if self.store.put(self.layout.change_key(record.change), record.to_bytes()):",
    ),
    Mutant("leases renewed too late", "control.run.lease", "RENEW_AFTER_SECONDS = 60", "RENEW_AFTER_SECONDS = 900"),
    Mutant(
        "an expired lease is taken over without a takeover",
        "control.run.lease",
        'return f"the lease of run {self.taken_over_from} expired" if self.taken_over_from else ""',
        'return ""',
    ),
    Mutant(
        "a lost answer to the first request is forgotten",
        "control.run.lease",
        "        if self.taken_over_from == self._holder:\n",
        "        if self.taken_over_from == self._holder:\n            return ''\n        if False:\n",
    ),
    Mutant(
        "a run that fails before it has fenced its predecessor releases the lease",
        "control.run.lease",
        "        if not self._fenced and self._why_fence():\n",
        "        if False:\n",
    ),
    Mutant(
        "a Spark run begins although its lease is lost",
        "control.run.lease",
        "if not states.renew_lease(state.path, earlier, lease.token, now, LEASE_SECONDS, to=holder):",
        "earlier = state.item.get('LeaseHolder', earlier)\n"
        "        if not states.renew_lease(state.path, earlier, lease.token, now, LEASE_SECONDS, to=holder):",
    ),
    Mutant(
        "files are retired before new ones are there",
        "commit.publish",
        "    restores, retirements, removals, *_ = fence.around_all(calls, keep_alive)\n",
        "    fence.around_all(store.begin_retiring(layout.file_keys(retired)), keep_alive)\n"
        "    restores, retirements, removals, *_ = fence.around_all(calls, keep_alive)\n",
    ),
    Mutant(
        "publishers never look for later changes",
        "commit.publish",
        "        if self._log.is_committed(self._change + 1):\n",
        "        if False:\n",
    ),
    Mutant(
        "a look for later changes counts for an hour",
        "commit.publish",
        "FENCE_SECONDS = 1\n",
        "FENCE_SECONDS = 3600\n",
    ),
    Mutant(
        "a change counts as published before its files are live",
        "commit.publish",
        "    fence.check_if_due()\n    copied",
        "    log.mark_published(record.change, {})\n    fence.check_if_due()\n    copied",
    ),
    Mutant(
        "what a dead run committed is not published",
        "commit.roll_forward",
        "    if change and not newest.is_published:\n",
        "    if change and not newest.is_published and known < 0:\n",
    ),
    Mutant(
        "staged files of later changes are deleted",
        "commit.publish",
        "run_change(key) <= through",
        "run_change(key) <= through + 1",
    ),
    Mutant(
        "the ledger lacks what a change applied",
        "model.due_files",
        "ledger=snapshot.ledger.with_files(files, snapshot.change + 1))",
        "ledger=snapshot.ledger.with_files(files[1:], snapshot.change + 1))",
    ),
    Mutant(
        "late files count as applied",
        "model.due_files",
        "        elif file.order >= horizon:\n            pending.due.append(file)\n",
        "        elif file.order >= horizon:\n            continue\n",
    ),
    Mutant(
        "a rollback leaves the table on",
        "control.admin.table_admin",
        "pause = {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE, Attribute.LAST_OFF_BY_ROLLBACK: off_by_rollback}",
        "pause = {Attribute.LAST_OFF_BY_ROLLBACK: off_by_rollback}",
    ),
    Mutant(
        "a rollback keeps what runs have seen",
        "control.admin.table_admin",
        "lease.record({Attribute.LAST_SEEN: Sentinel.NONE})",
        "lease.record({})",
    ),
    Mutant(
        "a clean-up deletes what it retains",
        "commit.clean_up",
        "    discards = log.store.begin_discarding(layout.file_keys(plan.data_files))\n",
        "    retired = [e.key[len(layout.retired_folder):] for e in log.store.list(layout.retired_folder)]\n"
        "    discards = log.store.begin_discarding(layout.file_keys(retired))\n",
    ),
    Mutant(
        "a run writes the item of a table that it lost",
        "control.run.lease",
        "        lease = (self._holder, self.token)\n        state =",
        "        lease = None\n        state =",
    ),
    Mutant(
        "a late row replaces a newer one",
        "lake.merge.resolve",
        "    is_known, has_tombstone = _not_after(rows, existing_rows), ",
        "    is_known, has_tombstone = _not_after(rows, existing_rows.slice(0, 0)), ",
    ),
    Mutant(
        "late rows come back after a delete",
        "lake.merge.resolve",
        "_not_after(rows, _last_tombstones(tombstones))",
        "_not_after(rows, _last_tombstones(tombstones.slice(0, 0)))",
    ),
    Mutant(
        "an erasure leaves the snapshots of earlier changes alone",
        "lake.operations.erase.erase",
        "    snapshots = rewrite_snapshots(log, log.snapshot(change), replacement, raw.applied if raw else ())\n",
        "    snapshots = 0\n",
    ),
    Mutant(
        "erased keys are not remembered",
        "lake.operations.erase.erase",
        "        erased=[*usable, erased],\n",
        "        erased=[*usable, replace(erased, hashes=())],\n",
    ),
    Mutant(
        "a takeover does not finish the change before it",
        "commit.takeover",
        "        change = roll_forward(log, keep_alive)\n",
        "        change = log.head()\n",
    ),
    Mutant(
        "a run believes the item, not the log, which change is the newest",
        "commit.roll_forward",
        "record.result() is not None and not has_next.result()",
        "record.result() is not None",
    ),
)


def by_name(name: str) -> Mutant:
    """A mutant.

    Raises:
        KeyError: There is none of that name.
    """
    return {mutant.name: mutant for mutant in MUTANTS}[name]


class _Loader(SourceFileLoader):
    mutant: Mutant

    def get_data(self, path: str) -> bytes:
        """The module's text with the fault in it, and nothing that was compiled before."""
        if not path.endswith(".py"):
            raise FileNotFoundError(path)
        text = super().get_data(path).decode()
        assert text.count(self.mutant.before) == 1, self.mutant.name
        return text.replace(self.mutant.before, self.mutant.after).encode()

    def set_data(self, path: str, data: Buffer, *, _mode: int = 0o666) -> None:
        """Store nothing."""


def put_in(mutant: Mutant) -> None:
    """Put a fault into this process, before the module is loaded."""
    assert mutant.full_module not in sys.modules, f"{mutant.full_module} is loaded"

    class Finder(PathFinder):
        @classmethod
        def find_spec(
            cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            if fullname != mutant.full_module:
                return None
            spec = super().find_spec(fullname, path, target)
            assert spec is not None and spec.origin is not None
            loader = _Loader(fullname, spec.origin)
            loader.mutant = mutant
            spec.loader = loader
            return spec

    sys.meta_path.insert(0, Finder)
