"""Results go to stdout as a table or as JSON lines; a pipe gets neither colors nor cut cells."""

import io
import json
import logging
import re
import time

import pytest
from rich.console import Console

from cdclake_cli.printing.output import (
    JsonOutput,
    OutputColumn,
    OutputFormat,
    PrintableFormatter,
    TextOutput,
    output_for,
    progress,
)

COLUMNS = (OutputColumn("name", "Name"), OutputColumn("rows", "Rows", number=True), OutputColumn("ok", "Good"))
RECORDS: list[dict[str, object]] = [
    {"name": "shop.[bold]store[/bold] é", "rows": 1345, "ok": True, "more": [1]},
    {"name": "b", "rows": None},
]


def test_text_groups_digits_and_shows_nothing_for_null(capsys):
    TextOutput().records("Tables", COLUMNS, RECORDS)
    out = capsys.readouterr().out
    assert "1,345" in out
    assert "yes" in out
    assert "None" not in out


def test_a_table_whose_values_may_be_broken_stays_one_in_100_columns():
    columns = (OutputColumn("name", ""), OutputColumn("value", "", folds=True))
    written = io.StringIO()
    output = TextOutput(Console(file=written, width=100, force_terminal=True, color_system=None))
    output.records("State", columns, [{"name": "LastSeen", "value": "x" * 300}, {"name": "LastRunId", "value": "jr_7"}])
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert written.getvalue().count("x") == 300
    assert [line.split() for line in lines if "LastRunId" in line] == [["LastRunId", "jr_7"]]


def test_names_are_never_read_as_markup(capsys):
    TextOutput().records("Tables", COLUMNS, RECORDS)
    TextOutput().remark("[red]x[/red]")
    out = capsys.readouterr().out
    assert "shop.[bold]store[/bold] é" in out
    assert "[red]x[/red]" in out


def test_titles_and_column_names_are_never_read_as_markup(capsys):
    columns = [OutputColumn("0", "price [eur]"), OutputColumn("1", "[/x]")]
    TextOutput().records("History of a[red]b", columns, [{"0": 1, "1": 2}])
    out = capsys.readouterr().out
    assert "History of a[red]b" in out
    assert "price [eur]" in out
    assert "[/x]" in out


@pytest.mark.parametrize("width", [240, 20])
def test_control_characters_from_the_source_are_escaped(width):
    sent = "\x1b]0;title\x07\x9b2J\r\x7f\u202ex"
    written = io.StringIO()
    output = TextOutput(Console(file=written, width=width, force_terminal=True, color_system=None))
    output.records(sent, [OutputColumn("a", sent), OutputColumn("b", "B")], [{"a": sent, "b": sent}])
    output.remark(sent)
    output.verbatim(sent)
    shown = written.getvalue()
    assert [one for one in ("\x1b]", "\x07", "\x9b", "\r", "\x7f", "\u202e") if one in shown] == []
    assert r"\x1b]0;title\x07\u009b2J\x0d\x7f\u202ex" in shown.replace("\n", "").replace(" ", "")


def test_piped_text_has_no_colors_and_keeps_long_values_on_one_line(capsys):
    long_name = "s" * 100
    TextOutput().records("T", COLUMNS, [{"name": long_name, "rows": 1, "ok": False}])
    out = capsys.readouterr().out
    assert long_name in out
    assert "\x1b" not in out


def test_records_become_paragraphs_where_a_table_would_break_numbers():
    columns = (*COLUMNS, OutputColumn("bytes", "Bytes\nadded", number=True))
    records = [{"name": "store", "rows": 1345, "bytes": 123_456_789}]
    for width, shown in ((40, "store  1,345"), (20, "Name store, Rows")):
        written = io.StringIO()
        TextOutput(Console(file=written, width=width, force_terminal=True, color_system=None)).records(
            "T", columns, records
        )
        assert shown in written.getvalue()
        assert "123,456,789" in written.getvalue()


def test_json_contains_everything_with_one_object_per_line(capsys):
    JsonOutput().records("Tables", COLUMNS, RECORDS)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == RECORDS


def test_json_escapes_control_characters(capsys):
    record = {"name": "\x1b[2J\x9b2J\x7f\x85\u202e\U000e0041é"}
    JsonOutput().records("Tables", COLUMNS, [record])
    out = capsys.readouterr().out
    assert out == '{"name": "\\u001b[2J\\u009b2J\\u007f\\u0085\\u202e\\udb40\\udc41é"}\n'
    assert json.loads(out) == record


def test_remarks_stay_off_stdout_with_json(capsys):
    JsonOutput().remark("note")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "note" in captured.err


@pytest.mark.parametrize(("kind", "expected_type"), [(OutputFormat.JSON, JsonOutput), (OutputFormat.TABLE, TextOutput)])
def test_the_output_has_the_requested_format(kind, expected_type):
    assert isinstance(output_for(kind), expected_type)


def test_a_log_line_in_a_terminal_hides_nothing():
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(PrintableFormatter("%(levelname)s %(message)s"))
    handler.handle(logging.makeLogRecord({"msg": "load of %s", "args": ("shop.a\u202eb\x1b[2J",), "levelname": "INFO"}))
    assert written.getvalue() == "INFO load of shop.a\\u202eb\\x1b[2J\n"


def test_a_line_break_in_a_name_breaks_no_line(capsys):
    TextOutput().remark("shop.a\nshop.b is up to date")
    TextOutput().records("Tables", COLUMNS, [{"name": "a\nb"}])
    out = capsys.readouterr().out
    assert r"shop.a\x0ashop.b is up to date" in out
    assert r"a\x0ab" in out


def test_progress_shows_nothing_when_piped_unless_it_takes_long(capsys):
    with progress("working") as bar:
        bar.expect(2)
        bar.stage("first")
        bar.describe("still working")
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_long_work_prints_what_it_is_at_now_and_then_when_piped(capsys):
    seen = ""
    with progress("working", every_seconds=0.001) as bar:
        bar.count("shop.a\u202eb", 3, 10)
        begun = time.monotonic()
        while (seen.count("\n") < 2 or "3 of 10\n" not in seen) and time.monotonic() < begun + 20:
            seen += capsys.readouterr().err
            time.sleep(0.001)
    lines = seen[: seen.rindex("\n")].splitlines()  # the last one may be cut
    assert len(lines) >= 2
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC ", line) for line in lines)
    assert lines[-1].endswith(r"UTC shop.a\u202eb: 3 of 10")
    assert capsys.readouterr().out == ""


def test_a_note_is_printed_at_once_with_the_time(capsys):
    with progress("working") as bar:
        bar.note("shop.orders: done")
        captured = capsys.readouterr()
    assert captured.err.endswith("UTC shop.orders: done\n")
    assert captured.out == ""


def test_numbers_that_json_lacks_are_texts(capsys: pytest.CaptureFixture[str]) -> None:
    output_for(OutputFormat.JSON).records("", (), [{"x": float("nan"), "more": [float("-inf"), {"y": 1.5}]}])
    assert capsys.readouterr().out == '{"x": "nan", "more": ["-inf", {"y": 1.5}]}\n'
