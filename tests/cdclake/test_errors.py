"""Errors keep their kind from process to process, and an error of several tables has the kind of the gravest."""

from __future__ import annotations

import pickle

import pytest

from cdclake import errors
from cdclake.errors import (
    BadRowError,
    CdclakeError,
    ConfigurationError,
    IntegrityError,
    LeaseHeldError,
    error_of_kind,
    gravest_kind,
    similar_names,
)

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CdclakeError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_of_its_kind_in_another_process(kind: type[CdclakeError]) -> None:
    error = kind("Op is X", remedy="Correct it", file="LOAD00000001.csv", row=7, column=None)
    restored = pickle.loads(pickle.dumps(error))
    assert (type(restored), str(restored)) == (kind, str(error))
    assert error_of_kind(error.code) is kind


def test_a_kind_of_a_later_version_is_an_error_of_no_known_kind() -> None:
    assert error_of_kind("FutureError") is error_of_kind("get_close_matches") is CdclakeError


@pytest.mark.parametrize(
    ("several", "exit_code"),
    [
        ([LeaseHeldError("a"), BadRowError("b")], 3),
        ([ConfigurationError("a"), BadRowError("b"), LeaseHeldError("c")], 2),
        ([ConfigurationError("a"), IntegrityError("b")], 5),
        ([LeaseHeldError("a"), ZeroDivisionError("b")], 1),
        ([LeaseHeldError("a")], 4),
    ],
)
def test_several_errors_have_the_kind_of_the_gravest(several: list[Exception], exit_code: int) -> None:
    assert gravest_kind(several).exit_code == gravest_kind(several[::-1]).exit_code == exit_code


def test_similar_names_ignore_case_and_strangers() -> None:
    assert similar_names("primarykey", ["PrimaryKey", "PartitionKey", "Schema"]) == "Did you mean PrimaryKey? "
    assert similar_names("zzz", ["PrimaryKey"]) == ""
