"""Proposals join what a source, DMS and raw files say; the file has as settings only what is sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdclake.errors import ConfigurationError, RetryableError
from cdclake.model.table.name import TableName
from cdclake.model.table.state import TableState
from cdclake_cli.config.read import read_config
from cdclake_cli.doctor.diagnose import RawBucket
from cdclake_cli.importing.document import document
from cdclake_cli.importing.proposal import ProposedSetting, TableProposal
from cdclake_cli.importing.propose import Import, RawFiles, propose
from tests.cdclake_cli.doctor.feed import GOOD, NAME, START, RawFolder, row
from tests.cdclake_cli.importing.tables import table, with_columns

if TYPE_CHECKING:
    from pathlib import Path

    from cdclake_cli.sources.catalog import CatalogTable

CSV = {**GOOD, "DataFormat": "csv"}
TYPES = "id bigint, name string, price decimal(12,2), day date"
ADDED = ("AR_H_CHANGE_SEQ", "BI_id")


def filled(folder: Path, **names: object) -> RawFolder:
    raw = RawFolder(folder, {**GOOD, **names})
    raw.load([row(number, name="Ada", price=None) for number in range(4)])
    raw.change(("U", row(1, price=3)), before=[row(1)])
    return raw


def found(raw: RawFolder | None, *catalog: CatalogTable, asked: bool = True, endpoint: bool = False) -> Import:
    files = None
    if raw:
        state = TableState.new("raw", f"{NAME.schema}/", f"{NAME.table}/")
        files = RawFiles(RawBucket.at(raw.root.as_uri()), [state], START, 4)
    return propose(catalog if asked else None, files, raw.settings if raw and endpoint else None)


def one(*arguments: object, **options: bool) -> TableProposal:
    (proposal,) = found(*arguments, **options).tables  # type: ignore[arg-type]
    return proposal


def unsure(proposal: TableProposal) -> dict[str, str]:
    return {one.attribute: one.value for one in reversed(proposal.settings) if not one.sure}


def test_parquet_files_need_no_more_than_the_catalog_says(tmp_path: Path) -> None:
    proposal = one(filled(tmp_path), table())
    assert proposal.attributes == {"PrimaryKey": "id", "UniqueChecks": "immediate"}
    assert (unsure(proposal), proposal.notes) == ({}, ())


def test_parquet_files_alone_suggest_keys_with_counts(tmp_path: Path) -> None:
    proposal = one(filled(tmp_path), asked=False)
    assert (proposal.attributes, unsure(proposal)) == ({}, {"PrimaryKey": "id"})
    assert proposal.settings[0].evidence == "4 distinct values in 4 LOAD rows, no nulls"


@pytest.mark.parametrize("header", [True, False])
def test_csv_files_get_the_types_of_the_source(tmp_path: Path, header: bool) -> None:
    names = {"DataFormat": "csv", "AddColumnName": header}
    raw = filled(tmp_path, **names, **({} if header else {"TimestampColumnName": ""}))
    proposal = one(raw, table(added=ADDED))
    added = "" if header else ", AR_H_CHANGE_SEQ string, BI_id string"
    assert proposal.attributes == {
        "PrimaryKey": "id",
        "UniqueChecks": "immediate",
        "Schema": TYPES + added,
        "AddColumnName": str(header).lower(),
    }
    assert proposal.notes == ()


@pytest.mark.parametrize(
    ("added", "schema", "reason"),
    [
        (ADDED, f"dms_timestamp timestamp, {TYPES}, AR_H_CHANGE_SEQ string, BI_id string", "TimestampColumnName"),
        ((), TYPES, "rows have 7 fields, the source has 4 columns"),
    ],
)
def test_columns_that_do_not_fit_the_files_are_for_a_person(
    tmp_path: Path, added: tuple[str, ...], schema: str, reason: str
) -> None:
    proposal = one(filled(tmp_path, DataFormat="csv"), table(added=added))
    assert unsure(proposal)["Schema"] == schema
    assert any(reason in one.evidence for one in proposal.settings)


def test_a_type_that_nobody_knows_is_for_a_person(tmp_path: Path) -> None:
    raw = filled(tmp_path, DataFormat="csv", AddColumnName=True)
    proposal = one(raw, with_columns(table(), price={"type": None, "declared": "number"}))
    assert unsure(proposal) == {"Schema": TYPES.replace("decimal(12,2)", "string")}
    assert any("price (number) is unknown" in one.evidence for one in proposal.settings)


def test_csv_files_alone_suggest_types_and_keys(tmp_path: Path) -> None:
    proposal = one(filled(tmp_path, DataFormat="csv", AddColumnName=True, CsvDelimiter=";"), asked=False)
    assert proposal.attributes == {"CsvDelimiter": ";"}
    assert unsure(proposal).keys() == {"Schema", "PrimaryKey"}
    assert unsure(proposal)["PrimaryKey"] == "id"


@pytest.mark.parametrize("null", ["\\N", "null"])
def test_the_settings_of_the_endpoint_order_the_columns(tmp_path: Path, null: str) -> None:
    raw = filled(tmp_path, DataFormat="csv", CsvNullValue=null)
    proposal = one(raw, table(added=ADDED), endpoint=True)
    assert proposal.attributes["Schema"] == f"ts string, {TYPES}, AR_H_CHANGE_SEQ string, BI_id string"
    assert proposal.attributes["CsvNullValue"] == null
    assert (unsure(proposal), proposal.notes) == ({}, ())


def test_times_order_changes_if_nothing_else_does(tmp_path: Path) -> None:
    assert unsure(one(filled(tmp_path, HeaderColumns=""), table())) == {"OrderColumn": "ts"}


def test_what_contradicts_the_catalog_is_told(tmp_path: Path) -> None:
    proposal = one(filled(tmp_path), table(key=("name",)))
    assert "cdclake doctor, key-not-unique: several rows" in proposal.notes[0]


def test_tables_without_raw_files_are_left_out_and_named(tmp_path: Path) -> None:
    imported = found(filled(tmp_path), table(), table("hr.people"))
    assert [str(one.name) for one in imported.tables] == ["shop.orders"]
    assert imported.without_files == [TableName("hr", "people")]
    assert "have no raw files: hr.people" in document(imported)


def test_a_bucket_that_does_not_answer_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(*_: object, **__: object) -> None:
        raise RetryableError("S3 did not respond")

    raw = filled(tmp_path)
    monkeypatch.setattr("cdclake_cli.importing.propose.examine", no_answer)
    with pytest.raises(RetryableError):
        found(raw, table())


class Denied:
    """A bucket that may be listed, and whose objects may not be read."""

    def open_input_file(self, path: str, **_: object) -> None:
        raise ConfigurationError("S3 answered AccessDenied to GetObject", remedy="Grant it", file=path)

    open_input_stream = open_input_file


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_files_that_may_not_be_read_are_named_with_the_reason(tmp_path: Path, format: str) -> None:
    raw = filled(tmp_path, DataFormat=format)
    state = TableState.new("raw", f"{NAME.schema}/", f"{NAME.table}/")
    bucket = RawBucket.at(raw.root.as_uri())._replace(fs=Denied())
    imported = propose([table()], RawFiles(bucket, [state], START, 4, ["folder x: AccessDenied"]))
    (error,) = imported.unread.values()
    assert "AccessDenied" in error.message
    assert imported.tables[0].attributes["PrimaryKey"] == "id"
    assert "Its raw files were not read: ConfigurationError: S3 answered" in imported.tables[0].notes[0]
    text = document(imported)
    assert "could not be read, so what is said of them is incomplete: shop.orders" in text
    assert "could not be listed, so its tables are missing: folder x" in text


def test_files_that_are_damaged_were_read(tmp_path: Path) -> None:
    raw = filled(tmp_path)
    for file in tmp_path.rglob("*.parquet"):
        file.write_bytes(b"damaged")
    assert found(raw, table()).unread == {}


def test_tables_that_the_catalog_lacks_are_proposed_from_their_files(tmp_path: Path) -> None:
    proposal = one(filled(tmp_path))
    assert proposal.notes == ("The source's catalog has no such table",)


def test_the_file_has_as_settings_what_is_sure_and_common_values_as_defaults(tmp_path: Path) -> None:
    tables = [table(f"shop.t{number}") for number in range(3)]
    tables.append(table("hr.people", key=(), unique_checks="deferred", comment="all of us"))
    text = document(found(None, *tables))
    file = tmp_path / "cdclake.yml"
    file.write_text(text)
    config = read_config(file, {})
    assert config.defaults == {"UniqueChecks": "immediate"}
    assert config.settings_of(TableName("shop", "t1")) == {"UniqueChecks": "immediate", "PrimaryKey": "id"}
    assert config.settings_of(TableName("hr", "people")) == {"UniqueChecks": "deferred"}
    assert "  # all of us\n" in text
    assert "    # primary key of the source\n    PrimaryKey: id\n" in text


def test_a_default_says_nothing_about_a_table_of_which_it_is_not_known() -> None:
    text = document(found(None, table("shop.a"), table("shop.b"), table("shop.c", unique_checks="")))
    assert "defaults:" not in text


def test_several_candidates_are_one_comment_each(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path)
    raw.load([row(number) for number in range(4)])
    text = document(found(raw, asked=False), "arn:aws:dms:task")
    assert text.count("PrimaryKey: id") == text.count("    # PrimaryKey: id") == 1
    assert "    # or name: 4 distinct values in 4 LOAD rows, no nulls\n" in text
    assert "DmsTask: arn:aws:dms:task" in text


def test_a_name_like_a_pattern_configures_no_other_table(tmp_path: Path) -> None:
    names = [TableName("shop", "t[1]"), TableName("shop", "t1"), TableName("shop", "*")]
    tables = [TableProposal(name, (ProposedSetting("PrimaryKey", f"id{i}", ""),)) for i, name in enumerate(names)]
    file = tmp_path / "cdclake.yml"
    file.write_text(document(Import(tables, [])), encoding="utf-8")
    config = read_config(file, {})
    assert [config.settings_of(name) for name in names] == [{"PrimaryKey": f"id{i}"} for i in range(3)]
    assert config.settings_of(TableName("shop", "other")) is None
