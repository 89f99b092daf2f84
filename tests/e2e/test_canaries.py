"""No value of a row is in an error, a log line, an item or a record: canaries in every kind of bad input tell.

A canary is a value that occurs nowhere else. Each kind of bad input has one in every column. Then everything that the
pipeline wrote is searched for them. Only the quarantine may have them, and the data files may have those in good rows.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdclake.commit.log import ChangeLog
from cdclake.errors import CdclakeError
from cdclake.lake.operations.direct.apply import DirectChange, change_directly
from cdclake.lake.spark.in_process import InProcessBackend
from cdclake.model.layout import LakeLayout
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.table.column_policy import ColumnPolicy
from cdclake.model.table.name import TableName
from cdclake_devkit.memory import ManualClock
from tests.builders import LAKE, RAW, FolderInstallation, parquet_bytes, table_run
from tests.conftest import COUNTS
from tests.e2e.orders import PATH, PREFIX, START
from tests.logged import logged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from cdclake.ports import ObjectStore

TYPES = {
    "id": "int",
    "name": "string",
    "amount": "decimal(10,2)",
    "ratio": "double",
    "day": "date",
    "at": "timestamp",
    "flag": "boolean",
    "city": "string",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
GOOD = {
    "id": "1",
    "name": "one",
    "amount": "1.50",
    "ratio": "0.5",
    "day": "2024-03-05",
    "at": "2024-03-05 10:00:00",
    "flag": "true",
    "city": "Ulm",
}
TYPED_CANARIES = {
    "id": "915173",
    "amount": "8361547.29",
    "ratio": "6.2951847",
    "day": "1987-11-23",
    "at": "1991-07-17 03:57:41",
}
"""Valid values that occur nowhere else."""
CHANGES = "20240305-101500000"


def canary(column: str) -> str:
    return f"CANARY.{column.upper()}.7f3a"


CANARIES = {
    **{name: canary(name) for name in (*TYPES, "extra", "op", "order", "sequence", "before")},
    **{f"{name}!": value for name, value in TYPED_CANARIES.items()},
}
MARKS = [*{value[:10] for value in CANARIES.values()}, "CANARY"]
"""Beginnings suffice: an error may show a part of a value."""


def row(**values: str) -> dict[str, str]:
    """A row of canaries of the right types, with other values in some columns."""
    return {**GOOD, "name": canary("name"), "city": canary("city"), **TYPED_CANARIES, **values}


def line(*before: str, **values: str) -> str:
    return ",".join([*before, *row(**values).values()]) + "\n"


GOOD_LINES = "".join(",".join(["U", *{**GOOD, "id": number}.values()]) + "\n" for number in "234")


@dataclass
class Case:
    """A kind of bad input.

    Attributes:
        files: Content of the raw files by name; `LOAD00000001` is there in any case.
        settings: Attributes of the table besides the key and the columns.
        fails: Whether the run must fail; else rows must be quarantined.
    """

    files: dict[str, bytes]
    settings: dict[str, str] = field(default_factory=dict)
    fails: bool = True

    @classmethod
    def csv(cls, content: str | bytes, *, fails: bool = True, name: str = f"{CHANGES}.csv", **settings: str) -> Case:
        return cls({name: content if isinstance(content, bytes) else content.encode()}, settings, fails=fails)

    @classmethod
    def parquet(cls, columns: Mapping[str, Any], *, fails: bool = True, **settings: str) -> Case:
        """A change file of one row."""
        arrays = {name: value if isinstance(value, pa.Array) else pa.array([value]) for name, value in columns.items()}
        return cls({f"{CHANGES}.parquet": parquet_bytes(pa.table({"Op": ["U"], **arrays}))}, settings, fails=fails)


OF_ROWS = ("/quarantine/", "/snapshots/")
"""Folders of what may contain values, besides data files: snapshots have the bounds and partitions of these."""
ALLOWED = {"MaxQuarantinedRows": "9"}
MANY = {"id": pa.array([1, 1]), "name": pa.array([canary("name")] * 2)}


def wider(op: str, column: str, value: str) -> str:
    """A header, and a row of canaries with one column more."""
    return ",".join(["Op", *TYPES, column]) + "\n" + line(op).strip() + f",{value}\n"


def bad_rows() -> Iterator[tuple[str, str | bytes, dict[str, str]]]:
    """Name, content and settings of each kind of bad row."""
    for name, kind in TYPES.items():
        content, mark = line("U", **{name: canary(name)}), canary(name).encode()
        if kind != "string":
            yield f"bad {kind}", content, {}
        yield f"bad UTF-8 in {name}", content.encode().replace(mark, mark + b"\xfc"), {}
    yield "null in the key", line("U", id="NULL"), {}
    yield "another operation", line(canary("op")), {}
    yield "too few fields", line("U").rpartition(",")[0] + "\n" + GOOD_LINES, {}
    yield "too many fields", line("U").strip() + f",{canary('extra')}\n" + GOOD_LINES, {}
    yield "Hive's null partition", line("U", city="__HIVE_DEFAULT_PARTITION__"), {"PartitionKey": "city"}
    yield "number too large", line("U", amount="83615470000000.29"), {}
    yield "bad sequence", wider("U", "AR_H_CHANGE_SEQ", canary("sequence")), {}
    yield "no sequence", wider("U", "AR_H_CHANGE_SEQ", ""), {}
    yield "null ordering value", line("U", day="NULL"), {"OrderColumn": "day"}
    yield "bad ordering value", line("U", day=canary("order")), {"OrderColumn": "day"}
    yield "bad before image", wider("U", "BI_id", canary("before")), {}


def cases() -> dict[str, Case]:
    """Kinds of bad input by name."""
    found: dict[str, Case] = {}
    for name, content, settings in bad_rows():
        found[f"{name}, refused"] = Case.csv(content, fails=True, **settings)
        found[f"{name}, quarantined"] = Case.csv(content, fails=False, **ALLOWED, **settings)
    found |= {
        "unclosed quote": Case.csv(line("U", name=f'"{canary("name")}')),
        "misplaced quote": Case.csv(line("U", name=f'{canary("name")}"x"')),
        "text after a quote": Case.csv(line("U", name=f'"{canary("name")}"{canary("extra")}')),
        "not gzip": Case.csv(line("U"), name=f"{CHANGES}.csv.gz"),
        "not Parquet": Case.csv(line("U"), name=f"{CHANGES}.parquet"),
        "another width": Case.csv((f"U,{canary('name')}\n") * 3),
        "a first line that may be names": Case.csv(
            f"{canary('name')},{canary('city')},{canary('extra')},d,e,f,g,h,i\n"
        ),
        "text that does not sort": Case.csv(wider("U", "AR_H_AT", canary("order")), OrderColumn="AR_H_AT"),
        "numbers as ordering text": Case.csv(line("U", name="9151730001"), OrderColumn="name"),
        "image of an insert": Case.csv(wider("I", "BI_name", canary("before"))),
        "too long partition value": Case.csv(line("U", city=canary("city") + "x" * 1100), PartitionKey="city"),
        "too long partition number": Case.csv(line("U", city=canary("city") + "x" * 250), PartitionKey="day,city"),
        "repeated column": Case.csv(wider("U", "NAME", canary("extra"))),
        "reserved column": Case.csv(wider("U", "_key", canary("extra"))),
        "repeated key in a load": Case.csv("".join(line() for _ in range(3)), name="LOAD00000002.csv"),
        "repeated key in a load, quarantined": Case.csv(
            "".join(line(name=f"{canary('name')}{i}") for i in range(3)),
            name="LOAD00000002.csv",
            fails=False,
            **ALLOWED,
        ),
        "a key that two rows have": Case.csv(wider("I", "BI_id", "") + line("U").strip() + ",1\n"),
        "declared type of another kind": Case.parquet(
            {"id": 1, "name": canary("name"), "amount": canary("amount"), "day": canary("day")}
        ),
        "text for a number": Case.parquet({"id": canary("id"), "name": canary("name")}),
        "nested values": Case.parquet({"id": 1, "name": pa.array([[canary("name")]])}),
        "decimal that does not fit": Case.parquet(
            {"id": 1, "amount": pa.array(["83615472900.123"]).cast(pa.decimal128(20, 3))}
        ),
        "timestamp with nanoseconds": Case.parquet({"id": 1, "at": pa.array([679722001123456789], pa.timestamp("ns"))}),
        "timestamp for a date": Case.parquet({"id": 1, "day": pa.array([679722001123456], pa.timestamp("us"))}),
        "float for an integer": Case.parquet({"id": pa.array([915173.25])}),
        "integer that does not fit": Case.parquet({"id": pa.array([9151730000000], pa.int64())}),
        "string that is not UTF-8": Case.parquet(
            {"id": 1, "name": pa.array([canary("name").encode() + b"\xfc"], pa.binary())}
        ),
        "null key": Case.parquet({"id": pa.array([None], pa.int32()), "name": canary("name")}),
        "null ordering": Case.parquet(
            {"id": 1, "name": canary("name"), "day": pa.array([None], pa.date32())}, OrderColumn="day"
        ),
        "missing ordering column": Case.parquet({"id": 1, "name": canary("name")}, OrderColumn="day"),
        "missing key": Case.parquet({"name": canary("name")}),
    }
    for name, case in list(found.items()):
        if next(iter(case.files)).endswith(".parquet") and case.fails:
            damaged = bytearray(next(iter(case.files.values())))
            damaged[len(damaged) // 3] ^= 0xFF
            found[f"{name}, damaged"] = Case({next(iter(case.files)): bytes(damaged)}, case.settings)
    return found


class Installation(FolderInstallation):
    """One table of the canaries' columns. It records all that is written to the lake, also what is deleted later."""

    def __init__(self, root: Path, case: Case) -> None:
        super().__init__(root, clock=ManualClock(START))
        self.written: dict[str, bytes] = {}
        self.put("LOAD00000001.csv", (",".join(GOOD.values()) + "\n").encode())
        self.run_controller()
        columns = {"PrimaryKey": "id", "Schema": SCHEMA, "FullLoadQuietMinutes": "0", "History": "false"}
        if any(name.startswith("LOAD") for name in case.files):
            self.put_all(case)
        self.activate(PATH, **{**columns, **case.settings})
        self.run()
        self.put_all(case)

    def put(self, name: str, content: bytes) -> None:
        path = self.root / RAW / PREFIX / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (self.clock().timestamp(), self.clock().timestamp()))

    def put_all(self, case: Case) -> None:
        for name, content in case.files.items():
            self.put(name, content)

    def bucket(self, name: str) -> ObjectStore:
        store: Any = super().bucket(name)
        if name == LAKE:
            for method in ("put", "put_if_absent", "put_if_unchanged"):
                setattr(store, method, self._recording(getattr(store, method)))
        found: ObjectStore = store
        return found

    def _recording(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(key: str, data: bytes, *more: bytes) -> Any:
            self.written[f"{key} {len(self.written)}"] = data
            return write(key, data, *more)

        return recorded

    def run(self) -> None:
        clock: Any = self.clock
        clock.advance(3600)
        self.run_controller()
        clock.advance(60)


def texts_of(installation: Installation) -> Iterator[tuple[str, str]]:
    """Everything that a run wrote, by what it is, except the quarantine and data files."""
    for name, data in installation.written.items():
        if not any(folder in name for folder in OF_ROWS):
            yield f"written: {name}", data.decode("latin-1")
    for path in sorted((installation.root / LAKE).rglob("*")):
        relative = path.relative_to(installation.root / LAKE).as_posix()
        if path.is_file() and path.suffix != ".parquet" and not any(folder in relative for folder in OF_ROWS):
            yield f"stored: {relative}", path.read_bytes().decode("latin-1")
    for state in installation.states.all():
        for name, value in state.item.items():
            yield f"item: {name}", value
    yield "metrics", str(installation.metrics.metrics)
    yield "status", json.dumps([asdict(one) for one in installation.statuses().values()], default=str)


def leaks_in(texts: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> list[str]:
    return [
        f"{what}: {text[max(0, text.find(mark) - 80) :][:200]}"
        for what, text in texts
        for mark in MARKS
        if mark in text
    ]


@pytest.mark.slow
def test_no_value_of_bad_input_is_stored_or_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    leaks: dict[str, list[str]] = {}
    unexpected: dict[str, str] = {}
    searched = size = 0
    all_cases = cases()
    for number, (name, case) in enumerate(all_cases.items()):
        root = tmp_path / str(number)
        root.mkdir()
        with logged() as stream:
            installation = Installation(root, case)
            installation.run()
            texts = [
                *texts_of(installation),
                ("log", stream.getvalue()),
                *zip(("stdout", "stderr"), capfd.readouterr()),
            ]
        found = leaks_in(texts)
        if found:
            leaks[name] = found
        searched, size = searched + len(texts), size + sum(len(text) for _, text in texts)
        failed = installation.state(PATH).item.get("LastRunState") == "FAILED"
        quarantined = list((root / LAKE).rglob("quarantine/*/*.jsonl"))
        if "damaged" not in name and failed != case.fails:
            unexpected[name] = installation.state(PATH).item.get("LastError", "")
        if not case.fails and not quarantined:
            unexpected[name] = "nothing was quarantined"
    counts = {"kinds of bad input": len(all_cases), "texts searched": searched, "characters searched": size}
    record_property(
        COUNTS, {**counts, "canaries and their beginnings": len(MARKS), "found": sum(map(len, leaks.values()))}
    )
    assert unexpected == {}
    assert leaks == {}


RULES = "hash id, exclude name, redact amount, truncate ratio 2, hash day, truncate at 4, redact flag, hash city"


RULES_IN_ORDER = str(ColumnPolicy.parse(RULES))


def all_bytes(installation: Installation) -> Iterator[tuple[str, str]]:
    """All that a run wrote, quarantine and data files included; rows of Parquet files as text besides."""
    yield from texts_of(installation)
    for name, data in installation.written.items():
        yield f"written: {name}", (gzip.decompress(data) if name.split()[0].endswith(".gz") else data).decode("latin-1")
    for path in sorted((installation.root / LAKE).rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield (
                f"stored: {path.name}",
                (gzip.decompress(content) if path.suffix == ".gz" else content).decode("latin-1"),
            )
            if path.suffix == ".parquet":
                yield f"rows: {path.name}", str(pq.read_table(path, partitioning=None).to_pylist())


@pytest.mark.slow
def test_no_value_of_a_column_with_a_rule_is_in_any_byte_whatever_is_wrong_with_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, "0123456789abcdef0123456789abcdef")
    known = [value for name, value in CANARIES.items() if name not in ("extra", "order", "sequence")]
    leaks: dict[str, list[str]] = {}
    states = Counter[str]()
    kept = {
        name: case  # whose bad rows are stored
        for name, case in cases().items()
        if not (case.fails or name.startswith("bad UTF-8"))
    }
    for number, (name, case) in enumerate(kept.items()):
        case.settings["ColumnPolicy"] = RULES
        root = tmp_path / str(number)
        root.mkdir()
        with logged() as stream:
            installation = Installation(root, case)
            installation.run()
            texts = [
                *all_bytes(installation),
                ("log", stream.getvalue()),
                *zip(("stdout", "stderr"), capfd.readouterr()),
            ]
        found = [f"{what}: {mark}" for what, text in texts for mark in known if mark in text]
        if found:
            leaks[name] = found
        states[installation.state(PATH).item.get("LastRunState", "")] += 1
    assert leaks == {}
    assert states["SUCCEEDED"] >= len(kept) - 2  # OrderColumn may have no rule


def test_a_run_loads_a_table_and_its_history_again_under_another_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HASH_SECRET_VARIABLE, "0123456789abcdef0123456789abcdef")
    installation = Installation(tmp_path, Case.csv(line("I"), History="true"))
    installation.run()
    assert leaks_in(all_bytes(installation))
    installation.activate(PATH, ColumnPolicy=RULES)
    installation.put("20240305-111500000.csv", line("U").encode())
    installation.run()
    assert "The lake table was created with ColumnPolicy ''" in str(installation.plan().tables[0].error)
    installation.activate(PATH, LastFullLoadDate="1900-01-01 00:00:00")
    installation.written.clear()
    installation.run()
    item = installation.state(PATH).item
    assert (item["LastRunState"], item["LastError"]) == ("SUCCEEDED", "")
    lake = installation.log(PATH).snapshot(int(item["LastChangeId"]))
    assert (lake.policy.text, len(lake.schema)) == (RULES_IN_ORDER, 7)
    assert lake.history is not None
    assert len(lake.history.open) == 1
    written = [(name, data.decode("latin-1")) for name, data in installation.written.items() if ".gz" not in name]
    assert leaks_in(written) == []


@pytest.mark.parametrize(
    ("op", "columns"),
    [
        ("I", {"id": [canary("id")], "name": [canary("name")]}),
        ("I", {"id": [915173, 915173], "name": [canary("name"), canary("name")]}),
        ("I", {"id": pa.array([None], pa.int32()), "name": [canary("name")]}),
        ("I", {"id": [1], "name": [canary("name")]}),
        ("U", {"id": [915173], "name": [canary("name")]}),
        ("U", {"id": [1], "amount": [canary("amount")]}),
        ("U", {"id": [1], "day": [canary("day")]}),
        ("U", {"id": [1], "unknown": [canary("extra")]}),
        ("I", {"id": [2**40 + 915173], "name": [canary("name")]}),
        ("I", {"id": [9], "name": [canary("name").encode() + b"\xfc"]}),
        ("I", {"id": [9], "city": [canary("city") + "x" * 1100]}),
        ("D", {"id": [canary("id")]}),
    ],
)
def test_no_value_of_a_direct_change_is_in_its_error(
    tmp_path: Path, op: str, columns: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    installation = Installation(tmp_path, Case({}, {"PartitionKey": "city"}))
    layout = LakeLayout(LAKE, "", TableName("shop", "orders"))
    item = dict(installation.state(PATH).item)
    log = ChangeLog(installation.bucket(LAKE), layout)
    run = table_run(tmp_path / RAW, tmp_path / LAKE, PREFIX, layout, item, log=log, run_id="by-hand", fencing_token=9)
    with logged() as stream, pytest.raises(CdclakeError) as refused:
        change_directly(run, InProcessBackend(), DirectChange(op, lambda _: [pa.table(columns)]))
    error = refused.value
    texts = [("error", str(error)), ("details", repr(error.details)), ("log", stream.getvalue())]
    assert leaks_in([*texts, *zip(("stdout", "stderr"), capfd.readouterr()), *texts_of(installation)]) == []


def test_the_text_of_an_unexpected_error_is_neither_logged_nor_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's errors quote values. One that nobody expects is a defect: its place is logged, not its text."""

    def fail(*_: object, **__: object) -> None:
        pa.array([canary("name")]).cast(pa.int32())

    installation = Installation(tmp_path, Case.csv(line("U")))
    monkeypatch.setattr("cdclake.lake.raw.reader.convert", fail)
    monkeypatch.setattr("cdclake.lake.raw.read_ahead.convert", fail)
    with logged() as stream:
        installation.run()
        texts = [*texts_of(installation), ("log", stream.getvalue())]
    assert leaks_in(texts) == []
    assert "ArrowInvalid: an unexpected error in" in installation.state(PATH).item["LastError"]
    assert "test_canaries.py" in stream.getvalue()
