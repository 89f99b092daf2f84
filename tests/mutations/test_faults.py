"""The faults fit the code: each can be put in, and changes what runs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import ROOT
from tests.mutations.faults import AREAS, FAULTS, PACKAGE, Fault

FEWEST, FEWEST_OF_AN_AREA = 30, 5


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_replaces_a_text_that_occurs_once_and_leaves_a_program(fault: Fault) -> None:
    text = (ROOT / PACKAGE / fault.path).read_text(encoding="utf-8")
    assert text.count(fault.before) == 1
    assert fault.after != fault.before
    compile(text.replace(fault.before, fault.after), fault.path, "exec")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_near_a_fault_exist(fault: Fault) -> None:
    assert fault.near
    assert [path for path in fault.near if not (ROOT / path).exists()] == []


def test_there_are_many_faults_in_each_area_with_different_names_and_texts() -> None:
    areas = Counter(fault.area for fault in FAULTS)
    assert areas.keys() == set(AREAS)
    assert min(areas.values()) >= FEWEST_OF_AN_AREA
    assert len(FAULTS) >= FEWEST
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({(fault.path, fault.before, fault.after) for fault in FAULTS}) == len(FAULTS)
