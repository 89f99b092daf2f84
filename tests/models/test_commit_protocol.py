"""Whatever writers of a table do, and whenever they pause or die, what the guarantees say is true of the model.

`make test` searches two writers at a time, `make thorough` three, and more faults.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import COUNTS
from tests.models.calls import Setting
from tests.models.model import Model, violation
from tests.models.mutants import MUTANTS, Mutant
from tests.models.search import Found, search

if TYPE_CHECKING:
    from types import ModuleType

    from tests.models.world import World

MODULES = ("world", "calls", "commit_protocol", "model")
FOLDER, BUCKET, ICEBERG = Setting((), versions=False), Setting(()), Setting((), iceberg=True)
TASKS = (("run", "run"), ("run", "rollback to 1"), ("run", "clean-up"), ("rollback to 2", "clean-up"))
TWO = [
    kind._replace(writers=tasks, before=before, gap=gap)
    for tasks, before in zip(TASKS, (2, 3, 4, 5))
    for kind in (FOLDER, BUCKET, ICEBERG)
    for gap in (False, True)
]
MORE = [
    *(kind._replace(writers=("run", "rollback to 2", "clean-up"), before=4) for kind in (FOLDER, BUCKET, ICEBERG)),
    *(kind._replace(writers=("run", "rollback to 3"), before=4, pauses=2, losses=1) for kind in (FOLDER, BUCKET)),
    *(kind._replace(writers=("run", "run", "run"), before=2) for kind in (FOLDER, ICEBERG)),
    BUCKET._replace(writers=("rollback to 2", "clean-up"), before=5, deaths=2, pauses=2, losses=1, gap=True),
    BUCKET._replace(writers=("rollback to 3", "rollback to 2", "run"), before=4),
    ICEBERG._replace(writers=("run", "clean-up", "clean-up"), before=4),
    ICEBERG._replace(writers=("rollback to 2", "clean-up", "rollback to 3"), before=5),
]


def name(setting: Setting) -> str:
    store = "iceberg" if setting.iceberg else "bucket" if setting.versions else "folder"
    return f"{' and '.join(setting.writers)}, {store}{', gap' if setting.gap else ''}"


def searched(setting: Setting, module: ModuleType | None = None) -> Found[World]:
    make: Any = module.Model if module else Model
    wrong: Any = module.violation if module else violation
    model = make(setting)
    return search(model.start(), model.successors, lambda before, after: wrong(model, before, after))


def require_right(setting: Setting, request: pytest.FixtureRequest) -> None:
    found = searched(setting)
    assert not found.problem, f"\n{found}"
    assert found.states > 1000
    request.node.user_properties.append((COUNTS, {"states": found.states, "steps": found.steps}))


@pytest.mark.slow
@pytest.mark.sampled(test=6, ci=12)
@pytest.mark.parametrize("setting", TWO, ids=name)
def test_two_writers_with_a_pause_and_a_death_break_no_guarantee(
    setting: Setting, request: pytest.FixtureRequest
) -> None:
    require_right(setting, request)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("setting", MORE, ids=name)
def test_three_writers_or_more_faults_break_no_guarantee(setting: Setting, request: pytest.FixtureRequest) -> None:
    require_right(setting, request)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_forgotten_rule_has_a_counterexample(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched(mutant.setting, mutated(mutant, tmp_path, monkeypatch))
    assert mutant.problem in found.problem, f"\n{found}"
    assert str(found).splitlines()[1].startswith("  1 ")


def mutated(mutant: Mutant, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The model with a fault, as a package of its own."""
    package = f"mutant_{MUTANTS.index(mutant)}"
    (folder / package).mkdir()
    for module in MODULES:
        text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        if module == mutant.module:
            for old, new in mutant.changes:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
        (folder / package / f"{module}.py").write_text(text.replace("tests.models", package), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(f"{package}.model")


def test_a_counterexample_is_a_shortest_way_and_names_each_step() -> None:
    def successors(number: int) -> list[tuple[str, int]]:
        return [(f"to {number + step}", number + step) for step in (1, 3) if number + step < 20]

    found = search(0, successors, lambda _, after: "it is seven" if after == 7 else "")
    assert str(found) == "it is seven:\n  1 to 1\n  2 to 4\n  3 to 7"
    assert str(search(0, successors, lambda *_: "")) == "20 states, 36 steps"


def test_a_search_of_too_many_states_is_an_error() -> None:
    with pytest.raises(ValueError, match="more than 10 states"):
        search(0, lambda number: [("next", number + 1)], lambda *_: "", max_states=10)
