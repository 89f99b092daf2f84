"""The faults. Each is a mistake that a review might miss, and breaks a guarantee while the program keeps running."""

from __future__ import annotations

from dataclasses import dataclass

AREAS = ("merge", "commit", "publish", "plan", "run", "undo", "erase")
PACKAGE = "glue_jobs/cdclake"
_ERASE = "tests/cdclake/lake/operations/erase/test_erase.py"
_DIFFERENCE = "tests/cdclake/lake/merge/test_reload_by_difference.py"
_POLICY = "tests/cdclake/lake/operations/test_column_policy.py"


@dataclass(frozen=True)
class Fault:
    """One fault: a text of one file that is replaced.

    Attributes:
        name: What goes wrong.
        area: One of `AREAS`.
        path: The file, below `PACKAGE`.
        before: Text that occurs once in it.
        after: What replaces it.
        near: Test files and folders that most likely catch it. They run first.
    """

    name: str
    area: str
    path: str
    before: str
    after: str
    near: tuple[str, ...]


_MERGE = (
    Fault(
        "version-keeps-a-value-that-a-late-row-sent",
        "merge",
        "lake/scd2/versions.py",
        "from_new = exists & unsent[:, i] & is_sent & ~exists[sent_at]",
        "from_new = exists & unsent[:, i] & is_sent & exists[sent_at]",
        ("tests/cdclake/lake/scd2/test_history.py",),
    ),
    Fault(
        "row-is-a-header-because-of-a-name",
        "merge",
        "lake/raw/csv_layout.py",
        "        if not are_names:\n",
        "        if not are_names and first[0].lower() not in known:\n",
        ("tests/cdclake/lake/raw/test_csv_layout.py",),
    ),
    Fault(
        "deletes-after-inserts",
        "merge",
        "lake/merge/resolve.py",
        "    winners = _last_of_each_key(new_rows, live, shape)\n",
        "    deletes = pc.equal(new_rows[OP_COLUMN], DELETE)\n"
        "    new_rows = pa.concat_tables([new_rows.filter(pc.invert(deletes)), new_rows.filter(deletes)])\n"
        "    winners = _last_of_each_key(in_order(new_rows, (LEADING_KEY, KEY)), live, shape)\n",
        ("tests/cdclake/lake/merge/test_partial_rows.py", "tests/cdclake/lake/merge/test_key_updates.py"),
    ),
    Fault(
        "loose-files-taken-as-apart",
        "merge",
        "lake/merge/file_ranges.py",
        "            loose.append(smaller)\n            apart[-1] = larger\n",
        "            apart.append(i)\n",
        ("tests/cdclake/lake/merge/test_loose_files.py",),
    ),
    Fault(
        "function-rewrites-without-bounds",
        "merge",
        "lake/operations/write_rows.py",
        "    request.limits.check_rewritten(rewritten.values())\n",
        "",
        ("tests/lambdas/test_small_changes.py",),
    ),
    Fault(
        "tombstones-forgotten",
        "merge",
        "lake/merge/resolve.py",
        "_not_after(rows, _last_tombstones(tombstones))\n    check_positioned",
        "_not_after(rows, _last_tombstones(tombstones.slice(0, 0)))\n    check_positioned",
        ("tests/cdclake/lake/merge/test_late_files.py",),
    ),
    Fault(
        "deletes-of-absent-rows-not-remembered",
        "merge",
        "lake/merge/resolve.py",
        "winners.filter(is_delete)\n    if shape.soft_delete:",
        "winners.filter(pc.and_(is_delete, is_present))\n    if shape.soft_delete:",
        ("tests/cdclake/lake/merge/test_late_files.py",),
    ),
    Fault(
        "superseded-rows-applied",
        "merge",
        "lake/merge/resolve.py",
        "is_known, has_tombstone = _not_after(rows, existing_rows),",
        "is_known, has_tombstone = _not_after(rows, existing_rows.slice(0, 0)),",
        ("tests/cdclake/lake/merge/test_late_files.py",),
    ),
    Fault(
        "old-row-stays-when-its-partition-changes",
        "merge",
        "lake/merge/resolve.py",
        "_removed_rows(existing_rows, stored, deleted, shape)),",
        "_removed_rows(existing_rows, where(stored, in_place), deleted, shape)),",
        ("tests/cdclake/lake/merge/test_scd_type_1.py", "tests/cdclake/lake/merge/test_odd_partitions.py"),
    ),
    Fault(
        "old-key-stays",
        "merge",
        "lake/raw/normalize.py",
        "wanted = (BEFORE_PREFIX + column.name).lower()",
        "wanted = BEFORE_PREFIX + column.name",
        ("tests/cdclake/lake/merge/test_key_updates.py",),
    ),
    Fault(
        "last-key-of-a-file-not-looked-up",
        "merge",
        "lake/storage/key_ranges.py",
        'np.array([files[i].key_max for i in known], values.dtype), "right")',
        'np.array([files[i].key_max for i in known], values.dtype), "left")',
        ("tests/cdclake/lake/merge/test_odd_partitions.py", "tests/cdclake/lake/merge/test_several_key_columns.py"),
    ),
    Fault(
        "last-key-of-a-file-not-merged-in-place",
        "merge",
        "lake/storage/keys.py",
        "file.key_min <= high and low <= file.key_max)",
        "file.key_min <= high and low < file.key_max)",
        ("tests/cdclake/lake/merge/test_late_files.py", "tests/cdclake/lake/merge/test_in_place.py"),
    ),
    Fault(
        "files-of-spread-changes-are-cut",
        "merge",
        "lake/merge/tasks/cuts.py",
        "if len(runs) * len(hot) <= cells:",
        "if len(hot) <= cells:",
        ("tests/cdclake/lake/merge/test_adaptive_sizes.py",),
    ),
    Fault(
        "small-changes-merge-any-settled-files",
        "merge",
        "lake/merge/file_sizes.py",
        "        if size_bytes <= own_bytes:\n",
        "        if own_bytes > 0:\n",
        ("tests/cdclake/lake/merge/test_adaptive_sizes.py",),
    ),
    Fault(
        "key-that-two-tasks-load-stays-twice",
        "merge",
        "lake/storage/key_ranges.py",
        "files[i].key_min <= files[furthest].key_max",
        "files[i].key_min < files[furthest].key_max",
        ("tests/cdclake/lake/merge/test_full_load.py",),
    ),
    Fault(
        "values-not-sent-become-null",
        "merge",
        "lake/merge/resolve.py",
        "pc.if_else(pa.array(was_sent), picked, before[column.name])",
        "pc.if_else(pa.array(was_sent), picked, pa.scalar(None, picked.type))",
        ("tests/cdclake/lake/merge/test_partial_rows.py",),
    ),
    Fault(
        "rows-older-than-a-forgotten-delete-applied",
        "merge",
        "lake/merge/resolve.py",
        "first is None or first > forgotten:",
        "first is None or first <= forgotten:",
        ("tests/cdclake/lake/merge/test_forgotten_deletes.py",),
    ),
    Fault(
        "soft-deleted-rows-count-as-live",
        "merge",
        "lake/merge/resolve.py",
        "in_order(rows), where(existing_rows, pc.invert(existing_rows[SOFT_DELETED]))",
        "in_order(rows), existing_rows",
        ("tests/cdclake/lake/merge/test_soft_delete.py",),
    ),
    Fault(
        "old-version-stays-open",
        "merge",
        "lake/scd2/versions.py",
        "changed = exists & (has_other_values | as_flags(_differ(rows, before)))",
        "changed = exists & has_other_values",
        ("tests/cdclake/lake/scd2/test_history.py",),
    ),
    Fault(
        "released-rows-count-all-rows-of-their-files",
        "merge",
        "lake/raw/reader.py",
        "raw if part.only_rows is None else raw.select(part.only_rows)",
        "raw",
        ("tests/cdclake/lake/operations/test_release.py",),
    ),
    Fault(
        "files-that-a-reload-leaves-keep-their-positions",
        "merge",
        "lake/operations/compute.py",
        "replace(file, counts_as_loaded=True)",
        "file",
        (_DIFFERENCE,),
    ),
    Fault(
        "equal-row-of-a-repeated-key-stays-beside-the-last",
        "merge",
        "lake/merge/resolve.py",
        "is_equal = pc.and_not(was_live, is_repeated)",
        "is_equal = was_live",
        (_DIFFERENCE,),
    ),
)

_COMMIT = (
    Fault(
        "token-of-the-lease-not-checked",
        "commit",
        "commit/log.py",
        "        self.check_fence(record.change - 1, record.fencing_token)\n",
        "",
        ("tests/cdclake/commit/test_undo.py",),
    ),
    Fault(
        "books-not-checked",
        "commit",
        "commit/log.py",
        "        record.check()\n",
        "",
        ("tests/cdclake/commit/test_publish.py",),
    ),
    Fault(
        "commit-that-lost-counts-as-one-that-won",
        "commit",
        "commit/log.py",
        "record.to_bytes()):\n            message",
        "record.to_bytes()) and not self.is_committed(record.change):\n            message",
        ("tests/cdclake/commit/test_publish.py",),
    ),
    Fault(
        "change-at-that-very-moment-not-found",
        "commit",
        "commit/log.py",
        "fromisoformat(self.record(middle).created_utc) <= moment:",
        "fromisoformat(self.record(middle).created_utc) < moment:",
        ("tests/cdclake/commit/test_clean_up.py", "tests/cdclake/lake/read/test_as_of.py"),
    ),
    Fault(
        "takeover-keeps-the-old-token",
        "commit",
        "commit/takeover.py",
        "            fencing_token=fencing_token,\n",
        "            fencing_token=log.fencing_token(change),\n",
        ("tests/cdclake/commit/test_undo.py", "tests/cdclake/control/run/test_bring_up_to_date.py"),
    ),
    Fault(
        "expired-run-not-fenced-off",
        "commit",
        "control/run/lease.py",
        "        if reason:\n            change = take_over(",
        "        if reason and self._fault:\n            change = take_over(",
        ("tests/cdclake/control/run/test_bring_up_to_date.py",),
    ),
    Fault(
        "only-the-first-files-of-a-large-table-compared",
        "commit",
        "commit/table_files.py",
        "    log.mark_files_checked_to(end)\n",
        "",
        ("tests/cdclake/commit/test_table_files.py",),
    ),
    Fault(
        "replaced-files-of-the-history-stay",
        "commit",
        "lake/operations/commit.py",
        "replaced = [file for file in before.all_files if",
        "replaced = [file for file in before.files if",
        ("tests/cdclake/lake/scd2/test_history.py",),
    ),
    Fault(
        "forgotten-deletes-forgotten-again",
        "commit",
        "lake/operations/commit.py",
        "forgotten=max(facts.forgotten, result.forgotten),",
        "forgotten=result.forgotten,",
        ("tests/cdclake/lake/merge/test_forgotten_deletes.py",),
    ),
)

_PUBLISH = (
    Fault(
        "old-files-go-first",
        "publish",
        "commit/publish.py",
        "    restores, retirements, removals, *_ = fence.around_all(calls, keep_alive)\n",
        "    for path in retired:\n"
        "        store.retire(layout.data_key(path), layout.retired_key(path))\n"
        "    restores, retirements, removals, *_ = fence.around_all(calls, keep_alive)\n",
        ("tests/cdclake/commit/test_publish.py", "tests/cdclake/commit/test_readers.py"),
    ),
    Fault(
        "later-change-not-looked-for-before-files-go",
        "publish",
        "commit/publish.py",
        "    if copied or restored:\n        fence.check()\n",
        "",
        ("tests/cdclake/commit/test_undo.py", "tests/cdclake/commit/test_publish.py"),
    ),
    Fault(
        "finished-change-published-again",
        "publish",
        "commit/publish.py",
        "        if self._log.is_committed(self._change + 1):\n",
        "        if self._log.is_committed(self._change + 2):\n",
        ("tests/cdclake/commit/test_undo.py", "tests/cdclake/commit/test_publish.py"),
    ),
    Fault(
        "overtaken-publisher-looks-no-second-time",
        "publish",
        "commit/publish.py",
        "        if abs(time.time() - self._looked) > FENCE_SECONDS:\n",
        "        if not self._looked:\n",
        ("tests/cdclake/commit/test_publish.py", "tests/cdclake/commit/test_undo.py"),
    ),
    Fault(
        "file-restored-too-late-stays",
        "publish",
        "commit/table_files.py",
        "        store.retire(layout.data_key(path), layout.retired_key(path))\n",
        "",
        ("tests/cdclake/commit/test_pauses.py",),
    ),
    Fault(
        "marked-as-published-before-old-files-go",
        "publish",
        "commit/publish.py",
        "    fence.around_all(show_iceberg, keep_alive)\n",
        "    fence.around_all(show_iceberg, keep_alive)\n    log.mark_published(record.change, seconds)\n",
        ("tests/cdclake/commit/test_publish.py", "tests/cdclake/commit/test_undo.py"),
    ),
    Fault(
        "newest-change-believed-from-the-item",
        "publish",
        "commit/roll_forward.py",
        "record.result() is not None and not has_next.result()",
        "record.result() is not None",
        ("tests/cdclake/commit/test_publish.py",),
    ),
    Fault(
        "change-of-a-dead-run-stays-unpublished",
        "publish",
        "commit/roll_forward.py",
        "        publish(log, log.record(change), keep_alive)\n",
        "        pass\n",
        ("tests/cdclake/commit/test_publish.py",),
    ),
    Fault(
        "staged-files-of-the-next-change-deleted",
        "publish",
        "commit/publish.py",
        "run_change(key) <= through",
        "run_change(key) <= through + 1",
        ("tests/cdclake/commit/test_publish.py", "tests/cdclake/commit/test_clean_up.py"),
    ),
)

_PLAN = (
    Fault(
        "late-files-lost",
        "plan",
        "model/due_files.py",
        "        elif file.order >= horizon:\n            pending.due.append(file)\n",
        "        elif file.order >= horizon:\n            continue\n",
        ("tests/cdclake/model/test_due_files.py",),
    ),
    Fault(
        "files-that-the-full-load-contains-are-late",
        "plan",
        "model/due_files.py",
        "        elif file.order <= floor:\n            if snapshot.ledger.covers_floor:\n",
        "        elif file.order <= floor:\n            if True:\n",
        ("tests/cdclake/model/test_due_files.py",),
    ),
    Fault(
        "new-files-that-the-full-load-may-lack-are-contained",
        "plan",
        "model/due_files.py",
        "            if snapshot.ledger.covers_floor:\n                pending.too_late.append(file)\n",
        "            continue\n",
        ("tests/cdclake/model/test_due_files.py",),
    ),
    Fault(
        "late-file-goes-to-a-new-segment",
        "plan",
        "model/raw/ledger.py",
        "bisect_right(firsts, order) - 1, 0)] if order <= end else None",
        "bisect_right(firsts, order) - 1, 0)] if not order else None",
        ("tests/cdclake/commit/test_ledger.py",),
    ),
    Fault(
        "digest-without-identities",
        "plan",
        "model/raw/ledger.py",
        'f"{name}\\0{identity}" for name, identity in files',
        "name for name, _ in files",
        ("tests/cdclake/commit/test_ledger.py",),
    ),
    Fault(
        "sealed-files-lost",
        "plan",
        "commit/ledger.py",
        "{**(before[segment] if segment else {}), **newer}",
        "newer",
        ("tests/cdclake/commit/test_ledger.py",),
    ),
    Fault(
        "longer-window-brings-dropped-files-back",
        "plan",
        "model/due_files.py",
        'return max(snapshot.horizon, f"{begin.year:04d}{begin:%m%d-%H%M%S}")',
        'return f"{begin.year:04d}{begin:%m%d-%H%M%S}"',
        ("tests/cdclake/model/test_due_files.py",),
    ),
    Fault(
        "late-file-moves-the-watermark-back",
        "plan",
        "model/due_files.py",
        "watermark = max([snapshot.watermark, *(file.relative for file in files)], key=file_order)",
        "watermark = files[-1].relative",
        ("tests/cdclake/model/test_due_files.py",),
    ),
    Fault(
        "full-load-covers-changes-written-at-its-time",
        "plan",
        "model/due_files.py",
        "if file.modified_utc < oldest and not file.stamped_ahead",
        "if file.modified_utc <= oldest and not file.stamped_ahead",
        ("tests/cdclake/model/test_due_files.py",),
    ),
    Fault(
        "one-file-too-many-in-a-batch",
        "plan",
        "model/due_files.py",
        "(count == max_files or size_bytes > max_bytes)",
        "(count > max_files or size_bytes > max_bytes)",
        ("tests/cdclake/control/plan/test_bounded_batches.py", "tests/cdclake/lake/merge/test_late_files.py"),
    ),
    Fault(
        "full-load-taken-while-it-arrives",
        "plan",
        "control/plan/full_load_gate.py",
        "quiet, newest = quiet_time(state, files), max(file.modified_utc for file in files)",
        "quiet, newest = quiet_time(state, files), min(file.modified_utc for file in files)",
        ("tests/cdclake/control/plan/test_full_load_gate.py",),
    ),
    Fault(
        "first-load-file-may-be-missing",
        "plan",
        "model/raw/files.py",
        "zip([0, *there], there)",
        "zip(there, there[1:])",
        ("tests/cdclake/model/raw/test_files.py", "tests/cdclake/control/plan/test_full_load_gate.py"),
    ),
    Fault(
        "new-files-hide-vanished-ones",
        "plan",
        "control/plan/lost_files.py",
        "note.others - sum(named_to < file.order <= end for file in listed)",
        "note.others - len(listed)",
        ("tests/cdclake/control/plan/test_lost_files.py",),
    ),
    Fault(
        "globs-of-ignored-files-compared-with-whole-keys",
        "plan",
        "model/raw/files.py",
        "if ignore and is_covered(relative, ignore):",
        "if ignore and is_covered(entry.key, ignore):",
        ("tests/cdclake/model/raw/test_files.py", "tests/cdclake/control/plan"),
    ),
    Fault(
        "leased-table-gets-another-run",
        "plan",
        "control/plan/plan_table.py",
        "    if state.leased(now) and decision.work:\n",
        "    if state.leased(now) and not decision.work:\n",
        ("tests/cdclake/control/plan/test_plan_table.py",),
    ),
    Fault(
        "dead-run-goes-unnoticed",
        "plan",
        "control/plan/plan_table.py",
        "elif Attribute.LEASE_HOLDER in item:  # any other run cleans up after the dead one too",
        "elif Attribute.LEASE_HOLDER in item and decision.work:",
        ("tests/cdclake/control/plan", "tests/cdclake/control/run", "tests/cdclake/control/test_controller.py"),
    ),
)

_RUN = (
    Fault(
        "lease-of-any-holder-adopted",
        "run",
        "control/run/lease.py",
        "renew_lease(state.path, earlier, lease.token",
        'renew_lease(state.path, state.item["LeaseHolder"], lease.token',
        ("tests/cdclake/control/run/test_process_table.py",),
    ),
    Fault(
        "outcome-written-without-the-lease",
        "run",
        "control/run/lease.py",
        "self._path, attributes, lease, clears_request",
        "self._path, attributes, clears_request",
        ("tests/cdclake/control/run/test_process_table.py", "tests/cdclake/control/run/test_bring_up_to_date.py"),
    ),
    Fault(
        "edits-of-operators-overwritten",
        "run",
        "control/run/table_item.py",
        "self.lease.record(changed, unless_edited=read)",
        "self.lease.record(changed)",
        ("tests/cdclake/control/run/test_bring_up_to_date.py",),
    ),
    Fault(
        "death-at-a-table-not-counted",
        "run",
        "control/run/spark_run.py",
        "return Aftermath(died=True, fails=deaths > 0)",
        "return Aftermath(fails=deaths > 0)",
        ("tests/cdclake/control/run/test_process_table.py",),
    ),
    Fault(
        "tables-blamed-that-no-run-reached",
        "run",
        "control/run/spark_run.py",
        "if had_lease and not run.began:",
        "if had_lease and run.began:",
        ("tests/cdclake/control/run/test_process_table.py",),
    ),
    Fault(
        "dead-run-keeps-its-leases",
        "run",
        "control/run/dead_spark_run.py",
        "if not state or holder not in holders:",
        "if not state or holder in holders:",
        ("tests/cdclake/control/run/test_process_table.py",),
    ),
    Fault(
        "queued-run-overtaken",
        "run",
        "control/run/bring_up_to_date.py",
        "return run.run if waits and may_adopt else",
        "return run.run if may_adopt and not waits else",
        ("tests/cdclake/control/run/test_process_table.py",),
    ),
    Fault(
        "full-load-in-the-time-of-an-incremental",
        "run",
        "control/run/bring_up_to_date.py",
        "if table.due_job == JOB_LOAD_INITIAL and host.job == JOB_LOAD_INCREMENTAL:",
        "if table.due_job == JOB_LOAD_INITIAL == host.job == JOB_LOAD_INCREMENTAL:",
        ("tests/cdclake/control/run/test_process_table.py",),
    ),
    Fault(
        "function-does-not-count-its-deaths",
        "run",
        "control/run/small_loads.py",
        "            table.count_death()\n",
        "            pass\n",
        ("tests/cdclake/control/run/test_small_loads.py",),
    ),
    Fault(
        "function-tries-where-spark-died",
        "run",
        "control/run/small_loads.py",
        "max(others, 0)",
        "max(others - 1, 0)",
        ("tests/cdclake/control/run/test_small_loads.py",),
    ),
    Fault(
        "reason-for-spark-forgotten",
        "run",
        "control/run/table_work.py",
        "self._note._replace(starts=begun.starts, reason=begun.reason)",
        "self._note._replace(starts=begun.starts)",
        ("tests/lambdas/test_small_changes.py",),
    ),
    Fault(
        "delays-of-reloaded-files",
        "run",
        "model/change/delay.py",
        " if up_to_date_utc and file.modified_utc >= up_to_date_utc]",
        " if up_to_date_utc]",
        ("tests/cdclake/control/run/test_delays.py",),
    ),
    Fault(
        "late-files-not-listed",
        "run",
        "control/plan/raw_scan.py",
        "    stamp = min(ledger.segments[-1].last[:_STAMP_CHARACTERS], ",
        "    stamp = max(ledger.segments[-1].last[:_STAMP_CHARACTERS], ",
        ("tests/cdclake/control/run/test_newest_listed.py",),
    ),
    Fault(
        "old-files-never-compared-while-new-ones-come",
        "run",
        "control/plan/raw_scan.py",
        "if not listed_utc or not listed_utc <= now < listed_utc + RECONCILED_EVERY:",
        "if not listed_utc:",
        ("tests/cdclake/control/run/test_newest_listed.py",),
    ),
    Fault(
        "findings-forgotten-that-were-not-listed",
        "run",
        "control/plan/left_out.py",
        "        late, changed = {**earlier.too_late, **late}, {**earlier.overwritten, **changed}\n",
        "",
        ("tests/cdclake/control/run/test_newest_listed.py",),
    ),
    Fault(
        "nothing-found-among-the-newest-means-nothing-due",
        "run",
        "control/run/planned_round.py",
        "        if begin and decision.kind is not DecisionKind.INCREMENTAL:\n",
        "        if begin and decision.full_load:\n",
        ("tests/cdclake/control/run/test_newest_listed.py",),
    ),
)

_UNDO = (
    Fault(
        "load-after-nothing-forgets-what-it-contained",
        "undo",
        "lake/operations/load.py",
        "states = map(run.log.snapshot, range(before.change, first - 1, -1))",
        "states = map(run.log.snapshot, range(first - 1, first - 2, -1))",
        ("tests/cdclake/lake/operations/test_reload.py",),
    ),
    Fault(
        "rows-are-released-by-numbers-of-another-split",
        "undo",
        "lake/operations/release.py",
        "if edited or (file.relative in split_otherwise and file.format.is_text):",
        "if edited:",
        ("tests/cdclake/lake/operations/test_release.py",),
    ),
    Fault(
        "rollback-leaves-out-the-history",
        "undo",
        "commit/undo.py",
        "restored=tuple(file for file in after.all_files if file.path not in now),",
        "restored=tuple(file for file in after.files if file.path not in now),",
        ("tests/cdclake/lake/scd2/test_history.py",),
    ),
    Fault(
        "last-undone-change-reapplied-first",
        "undo",
        "commit/ancestry.py",
        "    return undone[::-1] if change == current else []\n",
        "    return undone if change == current else []\n",
        ("tests/cdclake/commit/test_undo.py", "tests/cdclake/commit/test_ancestry.py"),
    ),
    Fault(
        "undone-changes-still-count",
        "undo",
        "commit/ancestry.py",
        "            change = record.as_of\n",
        "            change -= 1\n",
        ("tests/cdclake/lake/operations/test_release.py", "tests/cdclake/commit/test_ancestry.py"),
    ),
    Fault(
        "takeover-counts-as-a-change-to-undo",
        "undo",
        "commit/undo.py",
        "to = current - 1  # the newest",
        "to = head - 1  # the newest",
        ("tests/cdclake/commit/test_undo.py",),
    ),
    Fault(
        "rollback-restores-the-content-of-a-rollback",
        "undo",
        "commit/undo.py",
        "return _plan(log, ChangeKind.ROLLBACK, head, to, as_of, undone)",
        "return _plan(log, ChangeKind.ROLLBACK, head, to, to, undone)",
        ("tests/cdclake/commit/test_undo.py",),
    ),
    Fault(
        "files-to-restore-not-looked-for",
        "undo",
        "commit/undo.py",
        "    check_files_retained(log, plan, keep_alive)\n    now, then",
        "    now, then",
        ("tests/cdclake/commit/test_undo.py",),
    ),
    Fault(
        "watermark-stays-when-rows-go-back",
        "undo",
        "commit/undo.py",
        "after = replace(after, change=head + 1, field_ids=ids).with_erased",
        "after = replace(after, change=head + 1, field_ids=ids, watermark=before.watermark).with_erased",
        ("tests/cdclake/commit/test_undo.py",),
    ),
    Fault(
        "table-turned-off-after-its-rollback",
        "undo",
        "control/admin/table_admin.py",
        "            if settings:\n"
        "                self.states.set_attributes(self.state.path, settings)\n"
        "            noted = PendingNote.of_item(lease.record({Attribute.LAST_SEEN: Sentinel.NONE}).item)\n"
        "            if contained := entries(self.log, snapshot.ledger, noted.names):\n"
        "                lease.record({Attribute.LAST_PENDING: str(noted.without(contained))})\n"
        "            record = apply_undo(\n"
        "                self.log,\n"
        "                plan,\n"
        "                self.run_id,\n"
        "                lease.token,\n"
        "                self.clock,\n"
        "                reason=reason,\n"
        "                made_by=self.made_by,\n"
        "                keep_alive=lease.renew_if_due,\n"
        "            )\n",
        "            noted = PendingNote.of_item(lease.record({Attribute.LAST_SEEN: Sentinel.NONE}).item)\n"
        "            if contained := entries(self.log, snapshot.ledger, noted.names):\n"
        "                lease.record({Attribute.LAST_PENDING: str(noted.without(contained))})\n"
        "            record = apply_undo(\n"
        "                self.log,\n"
        "                plan,\n"
        "                self.run_id,\n"
        "                lease.token,\n"
        "                self.clock,\n"
        "                reason=reason,\n"
        "                made_by=self.made_by,\n"
        "                keep_alive=lease.renew_if_due,\n"
        "            )\n"
        "            if pause:\n"
        "                self.states.set_attributes(self.state.path, {Attribute.ACTIVE_FLAG: Sentinel.INACTIVE})\n",
        ("tests/cdclake/control/admin/test_table_admin.py",),
    ),
    Fault(
        "oldest-retained-change-out-of-reach",
        "undo",
        "commit/log.py",
        "        if change in retained:\n",
        "        if change > retained.first:\n",
        ("tests/cdclake/commit/test_clean_up.py",),
    ),
    Fault(
        "clean-up-deletes-the-oldest-retained-change",
        "undo",
        "model/retained.py",
        "return later | set(",
        "return later or set(",
        ("tests/cdclake/commit/test_clean_up.py", "tests/cdclake/model/test_retained.py"),
    ),
    Fault(
        "clean-up-forgets-files-of-thinned-states",
        "undo",
        "commit/clean_up.py",
        "paths.update(file.path for file in log.snapshot(number).all_files)",
        "paths.update(file.path for file in log.snapshot(number).files[:0])",
        ("tests/cdclake/commit/test_thinning.py",),
    ),
    Fault(
        "clean-up-deletes-files-of-kept-states",
        "undo",
        "commit/clean_up.py",
        "changes = {*retained.kept, *([first] if first <= head else []), *others} - self.changes",
        "changes = {*([first] if first <= head else []), *others} - self.changes",
        ("tests/cdclake/commit/test_thinning.py",),
    ),
    Fault(
        "clean-up-deletes-what-a-rollback-restored",
        "undo",
        "commit/clean_up.py",
        "ChangeKind.DIRECT, ChangeKind.RELEASE)\n",
        "ChangeKind.DIRECT, ChangeKind.RELEASE, ChangeKind.ROLLBACK)\n",
        ("tests/cdclake/commit/test_clean_up.py",),
    ),
)

_ERASE_FAULTS = (
    Fault(
        "load-files-are-deleted-while-one-is-due",
        "erase",
        "lake/operations/erase/raw_files.py",
        "if not all(is_contained(lake, file) for file in files.full_load):",
        "if not any(is_contained(lake, file) for file in files.full_load):",
        ("tests/cdclake/lake/operations/erase/test_erase_raw.py",),
    ),
    Fault(
        "tombstones-of-earlier-changes-stay",
        "erase",
        "lake/operations/erase/data_files.py",
        "        for tombstones in snapshot.tombstones:\n",
        "        for tombstones in snapshot.tombstones if record.change == head else ():\n",
        (_ERASE,),
    ),
    Fault(
        "retired-files-not-searched",
        "erase",
        "lake/operations/erase/data_files.py",
        "elif key_filter.may_match(file):",
        "elif key_filter.may_match(file) and record.change == head:",
        (_ERASE,),
    ),
    Fault(
        "key-bounds-of-missing-files-stay",
        "erase",
        "lake/operations/erase/data_files.py",
        "replace(file, key_min=None, key_max=None) for file in matches.missing)",
        "replace(file) for file in matches.missing)",
        (_ERASE,),
    ),
    Fault(
        "bad-rows-stay",
        "erase",
        "lake/operations/erase/erase.py",
        "    quarantine.rewrite(log.store, found.bad_rows.files)\n",
        "",
        (_ERASE,),
    ),
    Fault(
        "copies-for-readers-stay",
        "erase",
        "commit/erasure.py",
        "        layout.as_of_folder,\n        layout.staging_folder,\n    )\n    found",
        "        layout.staging_folder,\n    )\n    found",
        (_ERASE,),
    ),
    Fault(
        "oldest-retained-change-not-searched",
        "erase",
        "commit/erasure.py",
        "reversed(log.retained().up_to(head))",
        "reversed(log.retained().up_to(head)[1:])",
        (_ERASE,),
    ),
    Fault(
        "closed-versions-stay",
        "erase",
        "commit/erasure.py",
        "closed=self._files(history.closed),",
        "closed=history.closed,",
        (_ERASE,),
    ),
    Fault(
        "old-object-versions-stay",
        "erase",
        "commit/erasure.py",
        "    versions = store.purge(layout.table_prefix, is_protected)\n",
        "    versions = 0\n",
        ("tests/cdclake/commit/test_erasure.py",),
    ),
    Fault(
        "files-of-a-later-run-deleted",
        "erase",
        "commit/erasure.py",
        "            or _change_of(layouts, key) > head\n",
        "",
        ("tests/cdclake/commit/test_erasure.py",),
    ),
    Fault(
        "unfinished-run-not-fenced-off",
        "erase",
        "lake/operations/erase/erase.py",
        "    if not has_leftovers(log, head) and not is_unfinished:\n        return head\n",
        "    if head or not has_leftovers(log, head):\n        return head\n",
        (_ERASE,),
    ),
    Fault(
        "snapshot-awaited-by-an-unfinished-erasure",
        "erase",
        "commit/erasure.py",
        "        return snapshot.with_erased(lake.erased) if is_known else snapshot\n",
        "        return snapshot\n",
        ("tests/cdclake/commit/test_erasure.py",),
    ),
    Fault(
        "value-stays-where-the-comparison-of-files-ended",
        "erase",
        "lake/operations/erase/erase.py",
        '    log.mark_files_checked_to("")  # it may name the folder of a value to erase\n',
        "",
        (_ERASE,),
    ),
    Fault(
        "row-that-does-not-split-is-kept-whole",
        "erase",
        "lake/raw/policy/treat.py",
        'replace(bad, content="", reason=bad.reason + WITHOUT_CONTENT)',
        "bad",
        (_POLICY,),
    ),
    Fault(
        "manifest-tells-bounds-from-before-the-policy",
        "erase",
        "lake/storage/iceberg_manifests.py",
        "if deleted and before.policy == after.policy:",
        "if deleted:",
        (_POLICY,),
    ),
    Fault(
        "history-goes-on-under-another-policy",
        "erase",
        "lake/operations/load.py",
        "lake = history_to_continue(run, before, loaded)",
        "lake = before",
        (_POLICY,),
    ),
)

FAULTS = (*_MERGE, *_COMMIT, *_PUBLISH, *_PLAN, *_RUN, *_UNDO, *_ERASE_FAULTS)
