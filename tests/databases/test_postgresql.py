"""Any history of SQL on PostgreSQL, replicated in any shape, delivered in any order: the lake equals the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.databases.grammar import dms_settings, tellable
from tests.databases.postgresql import PostgresDatabase, PostgresGrammar, quote
from tests.databases.replay import Tally, check
from tests.examples import examples

if TYPE_CHECKING:
    from cdclake_devkit.shop.postgresql import PrivatePostgresql
    from tests.databases.history import History


@st.composite
def histories(draw: st.DrawFn) -> History:
    settings = draw(dms_settings())
    return PostgresGrammar(draw, tellable(settings, quote)).history(settings)


@examples(thorough=1_000, ci=15, test=15)
@given(history=histories())
def test_the_lake_equals_the_database(postgres_server: PrivatePostgresql, tally: Tally, history: History) -> None:
    with PostgresDatabase(postgres_server.connection_options, "shop") as database:
        check(history, database, tally)
