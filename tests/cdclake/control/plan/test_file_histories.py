"""Any history of raw files: the lake applies each file once, and the Controller's plan reports what changed since."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.ledger import all_entries
from cdclake.control.plan.decision import Decision, DecisionKind
from cdclake.control.plan.fates import Fate, FileFate, fates
from cdclake.model.raw.files import file_order
from cdclake.raw_listing import list_raw_files
from cdclake_devkit.memory import ManualClock
from tests.builders import recorded
from tests.cdclake.control.world import World
from tests.examples import examples

FOLDER = "dms/shop/orders/"
NAMES = [*(f"20240305-09{minute:02d}00000.csv" for minute in range(3)), "2024/3/5/20240305_090030.csv"]
LOAD = "LOAD00000001.csv"

STEPS = st.one_of(
    st.just(("run", "", 0)),
    st.tuples(st.sampled_from(["write", "copy", "remove"]), st.sampled_from(NAMES), st.integers(0, 1)),
    st.tuples(st.sampled_from(["write", "copy"]), st.just(LOAD), st.integers(0, 1)),
)


class Model:
    """What must be true of a table.

    Attributes:
        stored: Content of the raw files by name.
        written: The step in which each was last written.
        known: Content of the change files when they were applied or covered by a full load.
        loaded: Content of the LOAD file when it was loaded.
        floor: Order of the last change file that the full load covers.
        watermark: The last change file that was applied or is covered; a newer load covers it if it is gone.
    """

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}
        self.written: dict[str, int] = {}
        self.known: dict[str, str] = {}
        self.loaded = self.floor = self.watermark = ""

    def run(self) -> set[str]:
        """Bring the table up to date. Returns the change files to apply."""
        changes = self.stored.keys() - {LOAD}
        if self.stored[LOAD] != self.loaded:
            is_reload, self.loaded = bool(self.loaded), self.stored[LOAD]
            covered = [name for name in changes if self.written[name] < self.written[LOAD]] if is_reload else []
            gone = {self.watermark} - changes if is_reload else set()
            self.watermark = max([*covered, *gone], key=file_order, default="")
            self.floor = file_order(self.watermark)
            self.known = {name: self.stored[name] for name in covered}
        due = {name for name in changes - self.known.keys() if file_order(name) > self.floor}
        self.known.update({name: self.stored[name] for name in due})
        self.watermark = max([self.watermark, *due], key=file_order)
        return due

    def fates(self) -> dict[str, Fate]:
        """The fate of each raw file."""
        found = dict.fromkeys(self.known, Fate.GONE)
        for name, content in self.stored.items():
            in_load = file_order(name) <= self.floor
            if name == LOAD:
                found[name] = Fate.LOADED if content == self.loaded else Fate.DUE
            elif name not in self.known:
                found[name] = Fate.LATE if in_load else Fate.DUE
            elif self.known[name] != content:
                found[name] = Fate.OVERWRITTEN
            else:
                found[name] = Fate.COVERED if in_load else Fate.APPLIED
        return found

    @property
    def too_late(self) -> list[str]:
        new = self.stored.keys() - self.known.keys() - {LOAD}
        return sorted(name for name in new if file_order(name) <= self.floor)

    @property
    def overwritten(self) -> list[str]:
        return sorted(name for name, then in self.known.items() if self.stored.get(name, then) != then)


@examples(thorough=1000, ci=50, test=25)
@given(st.lists(STEPS, min_size=1, max_size=25))
def test_each_file_is_applied_once_and_overwritten_ones_are_reported(steps: list[tuple[str, str, int]]):
    world, model = World(ManualClock()), Model()
    world.register()
    for number, (kind, name, version) in enumerate([("write", LOAD, 0), *steps, ("run", "", 0)]):
        world.clock.advance(60)
        if kind == "write" or (kind == "copy" and name in model.stored):
            model.stored[name] = f"rows {version}" if kind == "write" else model.stored[name]
            model.written[name] = number
            world.raw.put(FOLDER + name, model.stored[name].encode())
        elif kind == "remove" and name in model.stored:
            world.raw.delete([FOLDER + name])
            del model.stored[name]
        elif kind == "run":
            applied = len(world.applied)
            if world.decision().work:
                world.process()
            assert sorted(world.applied[applied:]) == sorted(model.run())
            check(world.decision(), {"overwritten": model.overwritten, "too late": model.too_late})
        assert {one.file: one.fate for one in fates_of(world)} == model.fates()


def fates_of(world: World) -> list[FileFate]:
    state, log = world.state(), world.log()
    lake = log.snapshot(log.head())
    listed = list_raw_files(world.raw, state.raw_prefix, state.settings)
    return fates(state, listed, lake, all_entries(log, lake.ledger), recorded(lake, listed.changes))


def check(decision: Decision, left_out: dict[str, list[str]]) -> None:
    """The Controller's plan has no work, and reports exactly the files that are left out."""
    assert decision.kind is DecisionKind.NOTHING_NEW, decision.reason
    for what, names in left_out.items():
        texts = [text for text in decision.findings if what in text]
        assert len(texts) == bool(names)
        for text in texts:
            assert text.startswith(f"{len(names)} change file")
            assert all(name in text for name in names[:3])
