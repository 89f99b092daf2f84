"""Verbs work on several tables: they ask once, an error stops no other table, and each error is named."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import typer
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from cdclake.commit.log import ChangeLog
from cdclake.errors import (
    AttentionError,
    BadRowError,
    CdclakeError,
    ConfigurationError,
    IntegrityError,
    LeaseHeldError,
    UnknownTableError,
)
from cdclake.model.change.record import ChangeKind
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_cli.aws.services import Services, connect
from cdclake_cli.printing.output import OutputFormat
from cdclake_cli.several import Step, change_each, for_each, limited_to, matching_names
from cdclake_cli.target import Target
from tests.builders import LakeBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

A, B, C, D = (TableName("shop", name) for name in "abcd")
STORE = "cdclake-raw/shop/store/"
PRODUCT = "cdclake-raw/shop/product/"


class Work:
    """Works on tables, and raises the errors of some."""

    def __init__(self, errors: Mapping[TableName, Exception]) -> None:
        self.done: list[TableName] = []
        self._errors = errors

    def __call__(self, name: TableName) -> str:
        self.done.append(name)
        if name in self._errors:
            raise self._errors[name]
        return str(name)


def test_the_error_of_one_table_does_not_stop_the_others_and_each_is_named(capsys: pytest.CaptureFixture[str]):
    work = Work({A: AttentionError("1 finding"), C: BadRowError("Op is X", remedy="Correct it")})
    shown: list[str] = []
    with pytest.raises(CdclakeError, match=r"2 of 4 tables failed: shop\.a, shop\.c") as error:
        for_each([A, B, C, D], work, shown.extend)
    assert (work.done, error.value.exit_code, shown) == ([A, B, C, D], 3, ["shop.b", "shop.d"])
    assert capsys.readouterr().err.splitlines() == [
        "shop.a: AttentionError: 1 finding",
        "shop.c: BadRowError: Op is X. Correct it",
    ]


ERRORS = (AttentionError("a"), BadRowError("b"), ConfigurationError("c"), IntegrityError("d"), LeaseHeldError("e"))
GRAVEST_FIRST = (5, 2, 3, 6, 4)


@given(st.lists(st.one_of(st.none(), st.sampled_from(ERRORS)), min_size=2, max_size=6))
def test_every_table_has_its_turn_and_the_gravest_error_counts(errors: list[CdclakeError | None]):
    names = [TableName("shop", str(number)) for number in range(len(errors))]
    failing = {name: error for name, error in zip(names, errors, strict=True) if error}
    work = Work(failing)
    status = 0
    try:
        for_each(names, work)
    except CdclakeError as error:
        status = error.exit_code
    assert work.done == names
    assert status == next((one for one in GRAVEST_FIRST if one in {e.exit_code for e in failing.values()}), 0)


def test_the_error_of_a_single_table_stays_as_it_is():
    with pytest.raises(BadRowError):
        for_each([A], Work({A: BadRowError("Op is X")}))


def test_what_aws_refuses_for_one_table_stops_no_other(capsys: pytest.CaptureFixture[str]):
    refused = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")
    work = Work({A: refused})
    with pytest.raises(CdclakeError, match="1 of 2 tables failed"):
        for_each([A, B], work)
    assert work.done == [A, B]
    assert "AWS answered AccessDenied to GetObject" in capsys.readouterr().err


def test_an_error_that_every_table_would_have_ends_the_work_and_what_failed_before_is_named(
    capsys: pytest.CaptureFixture[str],
):
    work = Work({A: BadRowError("Op is X"), B: EndpointConnectionError(endpoint_url="http://nowhere")})
    with pytest.raises(EndpointConnectionError):
        for_each([A, B, C], work)
    assert work.done == [A, B]
    assert capsys.readouterr().err == "shop.a: BadRowError: Op is X\n"


def carry_out(work: Work, *, yes: bool = True, dry_run: bool = False, prepared: Work | None = None) -> None:
    def prepare(name: TableName) -> Step | None:
        if prepared:
            prepared(name)
        return None if name == D else Step(f"Undo {name}", lambda: {"table": work(name)}, {"table": str(name)})

    change_each([A, B, C, D], prepare, OutputFormat.TABLE, yes=yes, dry_run=dry_run)


def test_a_change_lists_everything_and_nothing_is_done_to_a_table_that_cannot_be_prepared(
    capsys: pytest.CaptureFixture[str],
):
    work = Work({C: IntegrityError("A file is gone")})
    with pytest.raises(CdclakeError, match=r"2 of 4 tables failed: shop\.b, shop\.c") as error:
        carry_out(work, prepared=Work({B: LeaseHeldError("busy")}))
    assert (work.done, error.value.exit_code) == ([A, C], 5)
    listed = capsys.readouterr().out
    assert ("Undo shop.a" in listed, "Undo shop.b" in listed, "Undo shop.c" in listed) == (True, False, True)


def test_a_dry_run_of_several_tables_does_nothing(capsys: pytest.CaptureFixture[str]):
    work = Work({})
    carry_out(work, dry_run=True)
    assert work.done == []
    assert capsys.readouterr().out.count("Dry run: nothing was changed.") == 1


@pytest.mark.parametrize(("answer", "done"), [(True, [A, B, C]), (False, [])])
def test_one_question_is_asked_for_all_tables(monkeypatch: pytest.MonkeyPatch, answer: bool, done: list[TableName]):
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def ask(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(typer, "confirm", ask)
    work = Work({})
    try:
        carry_out(work, yes=False)
    except typer.Exit as end:
        assert end.exit_code == 1
    assert (work.done, asked) == (done, ["Do this to 3 tables?"])


def test_names_and_patterns_are_each_table_once(state: Any):
    state.register(TableState.new("cdclake-raw", "hr/", "t[1]/"))
    names = matching_names(Target(), ["shop.store", "shop.*", "shop/store", "hr.t[1]"])
    assert list(map(str, names)) == ["shop.store", "shop.product", "hr.t[1]"]
    assert list(map(str, matching_names(Target(), ["*"]))) == ["hr.t[1]", "shop.product", "shop.store"]
    assert limited_to(Target(), ["*"]) == limited_to(Target(), None) == ()


@pytest.mark.parametrize(
    ("pattern", "similar"),
    [("shp.*", "'shop.*'"), ("shop.stroe*", "shop.store"), ("shopp.s*", "'shop.s*'"), ("zzz.*", "")],
)
def test_a_pattern_that_matches_no_table_suggests_what_would(state: Any, pattern: str, similar: str):
    with pytest.raises(UnknownTableError, match="No registered table matches the pattern") as error:
        matching_names(Target(), ["shop.store", pattern])
    assert error.value.details == {"pattern": pattern}
    assert error.value.remedy.startswith(f"Did you mean {similar}" if similar else "cdclake tables lists")


def test_an_unknown_name_suggests_the_near_one(cdclake: Any, state: Any):
    state.register(TableState.new("cdclake-raw", "hr/", "t01/"))
    for verb in ("files", "status"):
        assert "Did you mean hr.t01?" in cdclake.refused(verb, "hr.t0l")
    assert "Did you mean hr.t01? Did you mean shop.store?" in cdclake.refused("plan", "hr.t0l", "shop.stroe")


@pytest.mark.parametrize(
    "arguments",
    [
        ("rollback", "*", "--to", "1", "--yes"),
        ("files", "*", "--row", "5"),
        ("export", "*", "--to", "/tmp/nothing-is-written", "--as-of", "3"),
        ("quarantine", "show", "*", "--change", "2"),
    ],
    ids=" ".join,
)
def test_options_of_one_table_are_refused_with_several(cdclake: Any, store: Any, arguments: tuple[str, ...]):
    assert "is for one table, and 2 are named" in cdclake.refused(*arguments)
    assert store.log.head() == 3


@pytest.fixture
def product(state: Any, store: Any) -> LakeBuilder:
    """A second lake table, with one change."""
    name = TableName("shop", "product")
    table = LakeBuilder(ChangeLog(store.log.store, Target().installation.layout(name)))
    table.change(rows=5, kind=ChangeKind.FULL_LOAD)
    state.record_run(PRODUCT, {"LastChangeId": "1"})
    return table


def test_a_rollback_of_several_tables_shows_all_asks_once_and_undoes_all(cdclake: Any, store: Any, product: Any):
    dry = cdclake.ok("rollback", "shop.*", "--dry-run")
    for text in ("Roll shop.store back to change 2", "Roll shop.product back to the table before any change"):
        assert text in dry.stdout
    assert [one["table"] for one in cdclake.records("rollback", "*", "--dry-run")] == ["shop.product", "shop.store"]
    assert (store.log.head(), product.log.head()) == (3, 1)
    assert cdclake("rollback", "shop.store", "shop.product").exit_code == 2  # nobody can answer
    result = cdclake.at_terminal("rollback", "shop.store", "shop.product", answer="y")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Do this to 2 tables?") == 1
    assert (store.log.head(), product.log.head()) == (4, 2)


def test_a_table_that_cannot_be_rolled_back_stops_no_other(cdclake: Any, store: Any):
    result = cdclake("rollback", "*", "--yes")
    assert result.exit_code == 2
    assert "1 of 2 tables failed: shop.product" in result.stderr
    assert store.log.head() == 4


def test_the_counts_of_some_tables_differ_and_another_is_unknown(cdclake: Any, store: Any):
    result = cdclake("verify", "--expect", "shop.stor=5", "--expect", "shop.store=5")
    assert result.exit_code == 2
    assert "1 of 2 tables failed: shop.stor; 1 of 1 tables differ from their source" in result.stderr
    assert "Did you mean shop.store?" in result.stderr


def test_reading_verbs_show_each_table(cdclake: Any, store: Any, product: Any):
    counts = {
        ("changes", "*"): ["shop.product", *["shop.store"] * 3],
        ("tables", "show", "shop.store", "shop.p*"): ["shop.store", "shop.product"],
        ("tables", "list", "shop.s*"): ["shop.store"],
        ("quarantine", "show", "*"): ["shop.store"],
        ("quarantine", "list", "*"): ["shop.store"],
        ("plan", "shop.store", "shop.p*"): ["shop.product", "shop.store"],
    }
    shown = {words: [one["table"] for one in cdclake.records(*words)] for words in counts}
    assert shown == counts


def test_verify_refuses_a_pattern_without_tables(cdclake: Any, state: Any):
    error = cdclake.refused("verify", "shp.*", "--source", "mysql://reader@localhost/shop")
    assert "No registered table matches the pattern" in error


def test_threads_share_the_clients_of_a_command():
    making, most_at_once, made = 0, 0, []

    def create(service: str) -> object:
        nonlocal making, most_at_once
        making += 1
        most_at_once = max(making, most_at_once)
        time.sleep(0.02)
        making -= 1
        made.append(service)
        return object()

    services = Services(Target(), create)
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda number: services.lake if number % 2 else services.state, range(16)))
    assert (most_at_once, sorted(made), len(stores)) == (1, ["dynamodb", "s3"], 16)


def test_a_command_connects_once_for_all_its_tables(cdclake: Any):
    target = Target()
    assert connect(target).lake is connect(target).lake
    assert connect(Target()) is not connect(target)  # another command may have other credentials
    assert Target() == target
