"""Faults put into the model of the commit protocol: each of them must lead to a state that is wrong.

This shows that the model notices what it should, and what each rule of the protocol is for.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.models.calls import Setting

TWO_RUNS = Setting(("run", "run"), before=2)
UNDO = Setting(("run", "rollback to 1"))
UNDO_OR_CLEAN = Setting(("rollback to 2", "clean-up"), before=5)
CLEAN = Setting(("run", "clean-up"), before=4)
ICEBERG_CLEAN = CLEAN._replace(iceberg=True)
WRITERS = "commit_protocol"


class Mutant(NamedTuple):
    """A fault.

    Attributes:
        name: What is forgotten.
        module: The module of the model that is changed.
        changes: What is replaced, which occurs once, and by what. More than one, if a rule is there twice.
        setting: Where it shows.
        problem: A part of what is wrong then.
    """

    name: str
    module: str
    changes: tuple[tuple[str, str], ...]
    setting: Setting
    problem: str


MUTANTS = (
    Mutant(
        "the commit is not conditional",
        "calls",
        (
            (
                "            if len(world.log) >= change.number:\n                return world, False\n"
                "            after = world._replace(log=(*world.log, change),",
                "            after = world._replace(log=(*world.log[: change.number - 1], change),",
            ),
        ),
        TWO_RUNS,
        "two changes have one number",
    ),
    Mutant(
        "whoever moves files does not look for later changes",
        "calls",
        (
            (
                "            return (world, False) if len(world.log) > number else call.act(world, me)",
                "            return call.act(world, me)",
            ),
        ),
        Setting(("run", "rollback to 3"), deaths=0),
        "readers",
    ),
    Mutant(
        "files are retired before the new ones are published",
        WRITERS,
        (
            (
                "        for file in added:\n            yield from self.fenced(change, self.copy(change, file))\n",
                "        for file in retired:\n            yield from self.fenced(change, self.retire(file))\n"
                "        for file in added:\n            yield from self.fenced(change, self.copy(change, file))\n",
            ),
        ),
        TWO_RUNS,
        "readers miss rows",
    ),
    Mutant(
        "files are retired before others are restored",
        WRITERS,
        (
            (
                "        for file in restored:\n"
                "            yield from self.fenced(change, self.restore(file, markers))\n",
                "        for file in (*retired, *restored):\n"
                "            move = self.restore(file, markers) if file in restored else self.retire(file)\n"
                "            yield from self.fenced(change, move)\n",
            ),
        ),
        UNDO,
        "readers miss rows",
    ),
    Mutant(
        "a change is marked as published before its files have moved",
        WRITERS,
        (
            (
                "        markers = yield self.begin_restoring(restored)\n",
                "        markers = yield self.begin_restoring(restored)\n"
                "        yield self.mark_published(change.number)\n",
            ),
        ),
        TWO_RUNS,
        "readers see files",
    ),
    Mutant(
        "the next writer does not finish what a dead one committed",
        WRITERS,
        (("        if head.number and not is_published:", "        if False:"),),
        TWO_RUNS,
        "is retained, and its file",
    ),
    Mutant(
        "whoever takes an expired lease commits nothing first",
        WRITERS,
        (("                if earlier != NOBODY:", "                if False:"),),
        UNDO_OR_CLEAN,
        "is retained, and its file",
    ),
    Mutant(
        "a writer may commit with an older token, and does not renew its lease before",
        WRITERS,
        (
            ("        if change.token < newest:", "        if False:"),
            (
                "        yield self.turn_off()\n        yield from self.keep_alive(token)\n",
                "        yield self.turn_off()\n",
            ),
        ),
        UNDO_OR_CLEAN,
        "is retained, and its file",
    ),
    Mutant(
        "a rollback commits although its lease was lost, and runs do not look for one",
        WRITERS,
        (
            (
                "        yield self.turn_off()\n        yield from self.keep_alive(token)\n",
                "        yield self.turn_off()\n",
            ),
            ("                    yield from self.refuse_rollback(known)\n", "                    pass\n"),
        ),
        UNDO,
        "applies what was undone",
    ),
    Mutant(
        "a rollback turns the table off after its commit, and runs do not look for one",
        WRITERS,
        (
            (
                "        yield self.turn_off()\n        yield from self.keep_alive(token)\n"
                "        yield from self.commit(change)\n",
                "        yield from self.commit(change)\n        yield self.turn_off()\n",
            ),
            ("                    yield from self.refuse_rollback(known)\n", "                    pass\n"),
        ),
        UNDO,
        "applies what was undone",
    ),
    Mutant(
        "what is due follows from the item and not from the ledger",
        WRITERS,
        (
            (
                "                    yield from self.run(me, token, head)",
                "                    known_raw = frozenset(range(1, known + 1))\n"
                "                    yield from self.run(me, token, head._replace(ledger=known_raw))",
            ),
        ),
        TWO_RUNS,
        "or one twice",
    ),
    Mutant(
        "the next writer does not compare the files",
        WRITERS,
        (("        if self.setting.iceberg or visible == head.numbers:", "        if True:"),),
        Setting(("run", "rollback to 3"), gap=True, deaths=0),
        "after the next command, readers see files",
    ),
    Mutant(
        "files are deleted before the changes that have them are no longer retained",
        WRITERS,
        (
            (
                "        drops, unneeded = yield self.plan_clean_up(head.number)\n",
                "        drops, unneeded = yield self.plan_clean_up(head.number)\n"
                "        for file in unneeded:\n            yield self.discard(file)\n",
            ),
        ),
        CLEAN,
        "is retained, and its file",
    ),
    Mutant(
        "files are deleted that a retained change needs",
        "calls",
        (
            (
                "            files = frozenset() if has_grace else world.needed(drops) - world.needed(kept)",
                "            files = frozenset() if has_grace else world.needed(drops) - world.needed([head])",
            ),
        ),
        CLEAN,
        "is retained, and its file",
    ),
    Mutant(
        "what a paused run has staged is deleted without a takeover",
        WRITERS,
        (
            (
                "        if (yield self.has_leftovers(head.number)):  # their writer must not commit them any more\n"
                "            head = yield from self.take_over(me, token)\n"
                "            yield self.record(head.number, ANY)\n",
                "        yield self.remove_staging(head.number + 1)\n",
            ),
        ),
        CLEAN._replace(losses=1),
        "is retained, and its file",
    ),
    Mutant(
        "what is retained is written whatever others wrote",
        "calls",
        (("            if world.dropped != old:\n                return world, False\n", ""),),
        Setting(("clean-up", "clean-up"), before=4, deaths=0),
        "a change is retained again",
    ),
    Mutant(
        "the version hint is written whatever it names",
        "calls",
        (("world.with_pointer(max(number, world.pointer))", "world.with_pointer(number)"),),
        TWO_RUNS._replace(iceberg=True, gap=True),
        "the version hint goes back",
    ),
    Mutant(
        "the version hint is moved before there is metadata",
        WRITERS,
        (
            (
                "            offered = yield self.read_metadata(change.number - 1)\n",
                "            yield self.move_pointer(change.number)\n"
                "            offered = yield self.read_metadata(change.number - 1)\n",
            ),
        ),
        TWO_RUNS._replace(iceberg=True),
        "which has no metadata",
    ),
    Mutant(
        "metadata is written whatever another writer made of it",
        WRITERS,
        (("self.write_first_metadata(", "self.write_metadata("),),
        Setting(("run", "clean-up", "clean-up"), before=4, iceberg=True, deaths=0),
        "readers may have change 2 open",
    ),
    Mutant(
        "files are deleted although their change was offered again after it was dropped",
        WRITERS,
        (("        if not expired & old:", "        if True:"),),
        Setting(("clean-up", "clean-up"), before=5, iceberg=True, deaths=0),
        "readers may have change",
    ),
    Mutant(
        "files that Iceberg readers may have open are deleted",
        "calls",
        (
            (
                "            if self.setting.iceberg:\n"
                "                kept = [number for number in range(1, head + 1) if number not in world.dropped]\n",
                "",
            ),
        ),
        ICEBERG_CLEAN,
        "readers may have change",
    ),
)
