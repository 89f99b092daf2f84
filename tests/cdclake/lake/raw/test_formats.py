"""A raw format is one object, and nothing else tells formats apart."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from cdclake.lake.raw.formats import format_of
from cdclake.model.raw.files import ListedObject, RawFile, RawFormat, parse_raw_file
from cdclake.model.table.settings import CsvDialect
from cdclake.model.times import parse_iso_utc
from tests import CODE, ROOT

MODULES = sorted(path for name in CODE for path in (ROOT / name).glob("*/**/*.py"))
READ_THE_LAKE = {"devkit/cdclake_devkit/shop/checksum.py", "devkit/cdclake_devkit/verbs/query.py"}
"""They name the format of the lake's data files."""
NAMES_ONE = {
    "glue_jobs/cdclake/model/raw/files.py",
    "glue_jobs/cdclake/lake/raw/formats.py",
    "glue_jobs/cdclake/model/direct.py",
    "cli/cdclake_cli/dms/settings.py",
    "cli/cdclake_cli/dms/names.py",
}
"""What defines formats, and what writes files of one."""


def raw_file(extension: str) -> RawFile:
    entry = ListedObject(f"shop/orders/20240305-101500123.{extension}", 1, parse_iso_utc("2024-03-05T10:15:01Z"))
    file = parse_raw_file(entry, "shop/orders/")
    assert file
    return file


def test_modules_ask_a_format_and_do_not_name_it() -> None:
    named = re.compile(r"RawFormat\.[A-Z]|endswith\(.*\.(csv|parquet)\b")
    naming = {str(path.relative_to(ROOT)) for path in MODULES if named.search(path.read_text(encoding="utf-8"))}
    assert naming - READ_THE_LAKE == NAMES_ONE


@pytest.mark.parametrize("extension", [one.value for one in RawFormat])
def test_a_file_of_every_format_is_recognized_and_has_an_object(extension: str) -> None:
    file = raw_file(extension)
    assert file.format.value == extension
    assert format_of(file).text(b"abc") == ("abc" if file.format.is_text else "616263")


@pytest.mark.parametrize(("extension", "unsent", "absent"), [("parquet", None, 1), ("csv", 1, 3), ("csv.gz", 1, 3)])
def test_a_format_tells_values_that_were_not_sent(extension: str, unsent: int | None, absent: int) -> None:
    values, dialect = pa.array([b"a", b"", b"?", None]), CsvDialect(no_sup_value="?")
    found = format_of(raw_file(extension)).unsent(values, dialect)
    assert (found and found.true_count) == unsent
    assert format_of(raw_file(extension)).without_image(values, dialect).true_count == absent
    assert format_of(raw_file(extension)).unsent(values, CsvDialect()) is None
