"""Text from outside is shown without anything that a terminal or a page would obey or hide."""

from __future__ import annotations

import ast
import os
import subprocess

import pytest

from cdclake.control.jobs.entry import error_line
from cdclake.errors import BadRowError, IntegrityError
from cdclake.model.table.name import TableName
from cdclake.printable import printable, shell_word
from cdclake_cli.doctor.fixes import tables_set

HIDDEN = [
    "\x1b",
    "\x07",
    "\x7f",
    "\x9b",
    "\u061c",
    "\u200b",
    "\u200e",
    "\u202e",
    "\u2066",
    "\u2028",
    "\ufeff",
    "\U000e0041",
]


@pytest.mark.parametrize("char", HIDDEN, ids=ascii)
def test_a_character_that_is_not_shown_is_escaped_and_can_be_read_back(char: str) -> None:
    shown = printable(f"a{char}b")
    assert shown.isprintable()
    assert shown.isascii()
    assert ast.literal_eval(f"'{shown}'") == f"a{char}b"


def test_a_shell_reads_back_what_a_command_quotes() -> None:
    texts = [
        "",
        "id",
        "a b",
        "it's",
        "\\N",
        "CsvDelimiter=\x01",
        "CsvRowDelimiter=\x1e'\\n",
        *(f"a'\\{char}b" for char in HIDDEN),
    ]
    command = " ".join(map(shell_word, texts))
    assert command.isprintable()
    shell = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"],
        capture_output=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert shell.stdout.decode().split("\0")[:-1] == texts


def test_a_command_of_the_doctor_quotes_what_is_not_shown() -> None:
    command = tables_set(TableName("shop", "orders"), "--set", "CsvDelimiter=\x01")
    assert command == r"cdclake tables set shop.orders --set $'CsvDelimiter=\x01'"


@pytest.mark.parametrize("text", ["", "größe", "注文", "🎁", "a b", "a\u00a0b", "e\u0301", "\ue000"])
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_newlines_stay_where_text_has_lines() -> None:
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
    assert printable("a\nb") == "a\\x0ab"


def test_half_a_character_is_escaped_so_that_it_can_be_printed() -> None:
    assert printable("a\udcff").encode() == b"a\\udcff"


def test_the_text_of_an_error_hides_nothing() -> None:
    name = TableName("shop", "a\u202eb")
    error = BadRowError("A row is wrong", remedy="Correct it", table=name, file="x\x1b[2J")
    assert str(error) == "A row is wrong (table shop.a\\u202eb, file x\\x1b[2J). Correct it"
    assert error_line(error) == f"BadRowError: {error}"
    missing = FileNotFoundError(2, "No such file", "x\u202ey")
    assert error_line(missing) == "FileNotFoundError: [Errno 2] No such file: 'x\\u202ey'"
    assert str(error.details["table"]) == str(name), "programs get the exact name"


def test_an_errors_line_has_no_line_breaks() -> None:
    assert error_line(IntegrityError("One\ntwo")) == "IntegrityError: One two"
