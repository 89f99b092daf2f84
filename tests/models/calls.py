"""The calls that writers make to the stores of one lake table, in the model of the commit model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.models.world import ANY, NOBODY, Change, World

if TYPE_CHECKING:
    from collections.abc import Callable


class Call(NamedTuple):
    """One call to a store.

    Attributes:
        label: What it does, for time lines, and for the comparison with the code.
        act: Returns the world afterwards, and the answer; None instead: the call waits.
        if_lost: Whether its answer may be lost without the writer's death.
    """

    label: str
    act: Callable[[World, int], tuple[World, Any] | None]
    if_lost: bool = False


class Setting(NamedTuple):
    """What is searched.

    Attributes:
        writers: What each writer does once: `run`, `rollback to N` or `clean-up`.
        before: Changes that were made before, one after the other.
        versions: Whether the bucket has versions.
        iceberg: Whether readers open the table as an Iceberg table, and not as a folder.
        gap: Whether others may work between a look for later changes and the call that follows. No store can prevent
            that, see docs/guarantees.md: readers of a folder may then see wrong files until the next run or command.
        deaths, pauses, losses: How many of each may happen.
    """

    writers: tuple[str, ...]
    before: int = 3
    versions: bool = True
    iceberg: bool = False
    gap: bool = False
    deaths: int = 1
    pauses: int = 1
    losses: int = 0


class Calls:
    """The calls, on a table as a setting has it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def acquire(self) -> Call:
        """Take the lease if nobody has it, or it has expired: one conditional write. Tells the holder before."""

        def act(world: World, me: int) -> tuple[World, Any] | None:
            if world.holder not in (NOBODY, me) and not world.expired:
                return None
            taken = world._replace(holder=me, token=world.token + 1, expired=False)
            return taken, (taken.token, world.holder, world.active, world.known)

        return Call("take the lease", act, if_lost=True)

    def renew(self, token: int) -> Call:
        """Extend the lease."""

        def act(world: World, me: int) -> tuple[World, Any]:
            is_held = world.holder == me and world.token == token
            return (world._replace(expired=False) if is_held else world), is_held

        return Call("renew the lease", act)

    def release(self, token: int) -> Call:
        """Give the lease back, unless another writer has it."""

        def act(world: World, me: int) -> tuple[World, Any]:
            is_held = world.holder == me and world.token == token
            return (world._replace(holder=NOBODY, expired=False) if is_held else world), None

        return Call("release the lease", act)

    def record(self, number: int, token: int) -> Call:
        """Let the item know the newest change. A run does so only if it has the lease."""

        def act(world: World, me: int) -> tuple[World, Any]:
            may_write = token == ANY or (world.holder == me and world.token == token)
            return (world._replace(known=number) if may_write else world), None

        return Call(f"record {number}", act)

    def turn_off(self) -> Call:
        """Let no run work on the table."""
        return Call("turn the table off", lambda world, _: (world._replace(active=False), None))

    def read_head(self) -> Call:
        """Read the newest change, and whether it is published."""
        return Call("read the head", lambda world, _: (world, (world.head, world.head.number in world.published)))

    def read_token(self, number: int) -> Call:
        """Read the fencing token of a change."""
        return Call(f"read the token of {number}", lambda world, _: (world, world.change(number).token))

    def read_later(self, number: int) -> Call:
        """Look whether there is a change after one."""
        return Call(f"look after {number}", lambda world, _: (world, len(world.log) > number))

    def read_rollback(self, known: int) -> Call:
        """Look for a rollback among the changes after one, and after the last run."""

        def act(world: World, _: int) -> tuple[World, Any]:
            kinds = [change.kind for change in world.log[known:]]
            return world, "rollback" in kinds and "run" not in kinds[len(kinds) - kinds[::-1].index("rollback") :]

        return Call("look for a rollback", act)

    def read_published(self, number: int) -> Call:
        """Look whether a change is marked as published."""
        return Call(f"is {number} published", lambda world, _: (world, number in world.published))

    def unless_later(self, number: int, call: Call) -> Call:
        """A look for a later change and a call, without time in between."""

        def act(world: World, me: int) -> tuple[World, Any] | None:
            return (world, False) if len(world.log) > number else call.act(world, me)

        return Call(call.label, act)

    def read_retained(self, number: int) -> Call:
        """Read a change that is to come back; None if it is not retained."""

        def act(world: World, _: int) -> tuple[World, Any]:
            is_there = number <= len(world.log) and number not in world.dropped
            return world, world.change(number) if is_there else None

        return Call(f"read change {number}", act)

    def stage(self, number: int) -> Call:
        """Write the data files of a change where no reader looks."""
        return Call(f"stage {number}", lambda world, me: (world._replace(staged=world.staged | {(number, me)}), None))

    def write_snapshot(self, number: int) -> Call:
        """Write the snapshot of a change to come."""

        def act(world: World, _: int) -> tuple[World, Any]:
            is_to_come = number > len(world.log)
            return (world._replace(drafts=world.drafts | {number}) if is_to_come else world), None

        return Call(f"write snapshot {number}", act)

    def remove_staging(self, number: int) -> Call:
        """Delete what was staged for changes up to one."""

        def act(world: World, _: int) -> tuple[World, Any]:
            return world._replace(staged=frozenset(one for one in world.staged if one[0] > number)), None

        return Call(f"remove staging {number}", act)

    def put_change(self, change: Change) -> Call:
        """The commit: put the change record if absent."""

        def act(world: World, _: int) -> tuple[World, Any]:
            if len(world.log) >= change.number:
                return world, False
            after = world._replace(log=(*world.log, change), snapshots=world.snapshots | {change.number})
            after = after._replace(drafts=frozenset(one for one in world.drafts if one > change.number))
            is_in_place = self.setting.iceberg and (change.number, change.writer) in world.staged
            return (after.with_file(change.number, ("data",)) if is_in_place else after), True

        return Call(f"commit {change.number}", act, if_lost=True)

    def mark_published(self, number: int) -> Call:
        """Record that a change is fully visible."""
        return Call(f"mark {number}", lambda world, _: (world._replace(published=world.published | {number}), None))

    def copy(self, change: Change, number: int) -> Call:
        """Copy a staged file to its place; fails if it is no longer staged."""

        def act(world: World, _: int) -> tuple[World, Any]:
            if (change.number, change.writer) not in world.staged:
                return world, False
            file = world.files[number] if number < len(world.files) else ()
            return world.with_file(number, file if file[:1] == ("data",) else ("data", *file)), True

        return Call(f"publish file {number}", act)

    def begin_restoring(self, numbers: tuple[int, ...]) -> Call:
        """Find the delete markers of files. One that is added later is not among them."""

        def act(world: World, _: int) -> tuple[World, Any]:
            return world, tuple((one, entry) for one in numbers for entry in world.files[one] if entry != "data")

        return Call("find delete markers", act)

    def restore(self, number: int, markers: tuple[tuple[int, Any], ...]) -> Call:
        """Make a retired file visible: delete the markers that were found, or move the file back."""

        def act(world: World, _: int) -> tuple[World, Any]:
            file = world.files[number]
            if not self.setting.versions:
                return world.with_file(number, ("data",) if file else ()), bool(file)
            left = [entry for entry in file if entry == "data" or (number, entry) not in markers]
            once = tuple(entry for place, entry in enumerate(left) if entry != "data" or "data" not in left[:place])
            return world.with_file(number, once), "data" in file

        return Call(f"restore file {number}", act)

    def retire(self, number: int) -> Call:
        """Hide a file: add a delete marker, or move the file aside."""

        def act(world: World, _: int) -> tuple[World, Any]:
            file = world.files[number]
            if file[:1] != ("data",):
                return world, True
            marker = 1 + max((entry for entry in file if isinstance(entry, int)), default=0)
            return world.with_file(number, (marker, *file) if self.setting.versions else ("retired",)), True

        return Call(f"retire file {number}", act)

    def discard(self, number: int) -> Call:
        """Delete a file for good, unless readers of the folder see it."""

        def act(world: World, _: int) -> tuple[World, Any]:
            is_live = not self.setting.iceberg and number in world.visible
            return (world if is_live else world.with_file(number, ())), True

        return Call(f"delete file {number}", act)

    def discard_unneeded(self, number: int) -> Call:
        """Delete a retired file for good that no retained change needs."""

        def act(world: World, me: int) -> tuple[World, Any] | None:
            is_needed = number in world.needed(world.retained)
            return (world, True) if is_needed else self.discard(number).act(world, me)

        return Call(f"delete file {number} unless needed", act)

    def list_files(self) -> Call:
        """List the folder."""
        return Call("list the folder", lambda world, _: (world, world.visible))

    def read_metadata(self, number: int) -> Call:
        """Read which changes the Iceberg metadata of a change offers."""
        return Call(f"read metadata {number}", lambda world, _: (world, world.offers(number)))

    def write_metadata(self, number: int, offered: frozenset[int]) -> Call:
        """Write the Iceberg metadata of a change."""
        return Call(f"write metadata {number}", lambda world, _: (world.with_offer(number, offered), None))

    def write_first_metadata(self, number: int, offered: frozenset[int]) -> Call:
        """Write the Iceberg metadata of a change, unless another writer has."""

        def act(world: World, _: int) -> tuple[World, Any]:
            return world if world.offers(number) else world.with_offer(number, offered), None

        return Call(f"write metadata {number}", act)

    def move_pointer(self, number: int) -> Call:
        """Let the version hint name a change, unless it names a later one: put if unchanged."""
        return Call(f"point to {number}", lambda world, _: (world.with_pointer(max(number, world.pointer)), True))

    def has_leftovers(self, number: int) -> Call:
        """Look for what was written for a later change."""

        def act(world: World, _: int) -> tuple[World, Any]:
            written = (*world.drafts, *world.snapshots, *(change for change, _ in world.staged))
            return world, any(one > number for one in written)

        return Call("look for leftovers", act)

    def to_drop(self, head: int) -> frozenset[int]:
        """Which changes a clean-up drops: all but the first and the newest two."""
        return frozenset(range(2, head - 1))

    def plan_clean_up(self, head: int) -> Call:
        """Choose the changes to drop, and the files to delete.

        Of an Iceberg table, files stay that a change needs which this clean-up drops: readers may have it open.
        """

        def act(world: World, _: int) -> tuple[World, Any]:
            drops = world.dropped | self.to_drop(head)
            kept = [number for number in range(1, head + 1) if number not in drops]
            if self.setting.iceberg:
                kept = [number for number in range(1, head + 1) if number not in world.dropped]
            has_grace = self.setting.iceberg and not world.aged
            files = frozenset() if has_grace else world.needed(drops) - world.needed(kept)
            there = sorted(number for number in files if number < len(world.files) and world.files[number])
            return world, (drops, tuple(there))

        return Call("plan the clean-up", act)

    def read_dropped(self) -> Call:
        """Read which changes are not retained."""
        return Call("read retained", lambda world, _: (world, world.dropped))

    def put_dropped(self, dropped: frozenset[int], old: frozenset[int]) -> Call:
        """Record it, unless another writer did meanwhile: put if unchanged."""

        def act(world: World, _: int) -> tuple[World, Any]:
            if world.dropped != old:
                return world, False
            return world._replace(dropped=dropped, aged=False), True

        return Call("mark retained", act)

    def delete_objects(self, head: int, drops: frozenset[int]) -> Call:
        """Delete snapshots of dropped changes, marks of changes before the newest, and what was staged."""

        def act(world: World, _: int) -> tuple[World, Any]:
            left = world._replace(
                snapshots=world.snapshots - drops,
                published=frozenset(one for one in world.published if one >= head),
                staged=frozenset(one for one in world.staged if one[0] > head),
            )
            return left, None

        return Call("delete objects", act)
