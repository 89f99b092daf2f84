"""What a share of the seeds has besides: it happens, and a mistake in it is found."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from cdclake.control.plan import plan_table
from cdclake.control.plan.left_out import LeftOut
from cdclake.control.plan.lost_files import Vanished
from cdclake.lake.operations import release
from cdclake.lake.operations.adopt.foreign_rows import ForeignRows
from cdclake.lake.operations.direct import apply
from cdclake.lake.raw import csv, normalize
from cdclake.lake.raw.rows import RawRows, Slice
from cdclake.model.table.attributes import Attribute
from cdclake_devkit.oracle import ChangeRow
from cdclake_devkit.patching import replaced
from cdclake_devkit.simulate.case import (
    ADOPT,
    ADOPTED,
    BAD_ROWS,
    CHANGE_ROW,
    CSV_FILES,
    KEY_UPDATES,
    LOSE,
    OVERWRITE,
    RELEASE,
    Case,
    Step,
    drawn,
)
from cdclake_devkit.simulate.faults import Fault, FaultPlan, Kind
from cdclake_devkit.simulate.lake_state import LakeState
from cdclake_devkit.simulate.simulation import Outcome, simulate
from cdclake_devkit.simulate.source import TYPES, SourceTable

KEY = {Attribute.PRIMARY_KEY: "id"}
UPDATES = {**KEY, KEY_UPDATES: "true", Attribute.UNIQUE_CHECKS: "immediate"}
BAD = {**KEY, BAD_ROWS: "true", Attribute.MAX_QUARANTINED_ROWS: "100"}
CSV = {**KEY, CSV_FILES: "true", Attribute.ADD_COLUMN_NAME: "true", Attribute.SCHEMA: TYPES}
ADOPTABLE = {**KEY, ADOPTED: "true", Attribute.SCHEMA: TYPES}
LOAD = Step(0.0, "load", 0, 1)


def changes(count: int) -> tuple[Step, ...]:
    """Change files, ten minutes apart."""
    return tuple(Step(600.0 * number, "change", 0, number, number) for number in range(1, count + 1))


def simulated(
    settings: dict[str, str],
    *steps: Step,
    load: tuple[Step, ...] = (LOAD,),
    faults: tuple[Fault, ...] = (),
    seed: int = 1,
) -> Outcome:
    """What comes of steps of one table."""
    return simulate(Case(seed, 2.0, (settings,), (*load, *steps), FaultPlan(1, 0.0, (), 0.02), faults))


def test_some_seeds_have_each_feature() -> None:
    found: Counter[str] = Counter()
    for seed in range(200):
        case = drawn(seed)
        found.update({*(name for settings in case.tables for name in settings), *(step.kind for step in case.steps)})
    for feature in (KEY_UPDATES, LOSE, OVERWRITE, BAD_ROWS, RELEASE, CHANGE_ROW, CSV_FILES, ADOPTED, ADOPT):
        assert 10 < found[feature] < 50, found


def test_keys_are_updated() -> None:
    assert not simulated(UPDATES, *changes(8)).violations
    with replaced(normalize, "BEFORE_PREFIX", "BEFORE_"):  # the key before is not seen
        (violation, *_) = simulated(UPDATES, *changes(8)).violations
    assert violation.name == "each state equals the oracle"


def test_a_lost_file_is_missed() -> None:
    """A run dies that has noted it, and it goes before the next one."""
    steps = (Step(4000.0, "change", 0, 1, 1), Step(4400.0, LOSE, 0, 1, 2))
    dies = Fault("change1.file0.event0.process1.load1", 14, Kind.KILL_BEFORE)
    outcome = simulated(KEY, *steps, faults=(dies,))
    assert not outcome.violations
    assert any("RawFilesLostError" in one.text for one in outcome.time_line)
    with replaced(plan_table, "vanished", lambda *_: Vanished((), 0)):
        assert simulated(KEY, *steps, faults=(dies,)).violations[0].name == "damage is shown"


def test_an_overwritten_file_is_shown_until_a_reload_or_until_it_is_back() -> None:
    steps, remedies = (*changes(2), Step(2400.0, OVERWRITE, 0, 1, 7)), set[str]()
    for seed in range(8):
        outcome = simulated(KEY, *steps, seed=seed)
        assert not outcome.violations
        remedies.update(name for name in outcome.counts if name.startswith("damaged tables: "))
    assert remedies == {"damaged tables: files are put back", "damaged tables: loaded again"}
    with replaced(LeftOut, "findings", lambda *_: ()):
        assert simulated(KEY, *steps).violations[0].name == "damage is shown"


def test_rows_are_changed_by_hand() -> None:
    steps = (*changes(3), *(Step(3000.0 + number, CHANGE_ROW, 0, number, number) for number in range(10, 16)))
    outcome = simulated(KEY, *steps)
    assert not outcome.violations
    assert outcome.counts["changes: direct"] == 5
    with replaced(apply, "accumulate", lambda rows, initial: accumulate(rows, initial=initial + 1)):
        assert simulated(KEY, *steps).violations[0].name == "each state equals the oracle"


def test_rows_are_released_from_quarantine() -> None:
    steps = (*changes(6), Step(4000.0, RELEASE, 0, 1, 20))
    outcome = simulated(BAD, *steps)
    assert not outcome.violations
    assert outcome.counts["changes: release"] == 1
    with replaced(
        release, "Slice", lambda file, size, **_: Slice(file, size, only_rows=frozenset())
    ):  # no row is read again
        assert simulated(BAD, *steps).violations[0].name == "each state equals the oracle"


def test_csv_files_are_loaded_beside_parquet_files() -> None:
    outcome = simulated(CSV, *changes(8))
    assert not outcome.violations
    applied = " ".join(one.text for one in outcome.time_line if "commits" in one.text)
    assert "LOAD00000001.csv" in applied
    assert applied.count(".csv") > 2 < applied.count(".parquet")

    def without_first(parser: csv._Parser, chunk: bytes, *, is_tail: bool) -> RawRows:
        rows = parse(parser, chunk, is_tail=is_tail)
        return rows.select(frozenset(rows.numbers.tolist()[1:]))

    parse = csv._Parser.parse
    with replaced(csv._Parser, "parse", without_first):
        assert simulated(CSV, *changes(8)).violations[0].name == "each state equals the oracle"


def test_a_row_by_hand_before_the_full_load_gives_a_table_no_column_that_updates_of_keys_lack() -> None:
    by_hand, load = Step(60.0, CHANGE_ROW, 0, 1, 1), Step(120.0, "load", 0, 1, 2)
    outcome = simulated({**CSV, **UPDATES, Attribute.HISTORY: "true"}, *changes(12), load=(by_hand, load))
    assert outcome.counts["changes: direct"] == 1
    assert outcome.counts["changes: incremental"]
    assert not outcome.violations


def test_an_insert_sets_a_column_that_it_lacks_to_null_and_an_update_keeps_its_value() -> None:
    row = {"id": 1, "name": "new", "region": "north"}
    rows = [ChangeRow(op, op, {**row, "id": key}) for key, op in ((1, "I"), (2, "U"))]
    table = SourceTable("a", changes={"file": rows})
    state = LakeState([{**row, "id": key, "note": "old"} for key in (1, 2)], frozenset({"file"}))
    assert [one.row["note"] for one in state.rows(table, soft_delete=False)] == [None, "old"]


def test_files_of_another_program_are_adopted() -> None:
    steps = (Step(0.0, ADOPT, 0, 1), *changes(6))
    for settings in (ADOPTABLE, {**ADOPTABLE, Attribute.PARTITION_KEY: "region"}):
        outcome = simulated(settings, *steps, load=())
        assert not outcome.violations
        assert outcome.counts["changes: adoption"] == 1
        assert outcome.counts["changes: full load"] == 0
    with replaced(ForeignRows, "check", lambda _: [(99, 99), (99, 99)]):  # no change finds its row
        assert simulated(ADOPTABLE, *steps, load=()).violations[0].name == "each state equals the oracle"


def test_an_operator_who_died_adopts_again() -> None:
    dies = Fault("adopt0", 12, Kind.KILL_BEFORE)
    outcome = simulated(ADOPTABLE, Step(0.0, ADOPT, 0, 1), *changes(2), load=(), faults=(dies,))
    assert not outcome.violations
    assert outcome.faults == (dies,)
    assert outcome.counts["changes: adoption"] == 1
