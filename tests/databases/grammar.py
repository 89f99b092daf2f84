"""Draws histories: tables, statements, DMS settings and deliveries. Each database adds the statements only it has.

Statements are drawn without knowing the rows. One that the database refuses (a duplicate key, a value out of range)
does nothing, in the lake as in the database. Keys come from small pools, so that statements meet the same rows again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from hypothesis import strategies as st

from tests.databases.columns import ColumnType, Texts
from tests.databases.history import History, Phase, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

Drawn = TypeVar("Drawn")
Statement = Callable[["TableDraft"], list[str]]

MAX_ROWS = 4
NAMES = ("c1", "Name", "order", "größe", "with space", "x.y", "c7", "c8", "c9")
"""Names of value columns, in order of their creation."""
TOUCHED, PART = "touched", "part"
NEWEST_FIRST = tuple(range(14, -2, -2))
"""Delays with which every eight files arrive in reverse order."""


@dataclass
class TableDraft:
    """A table while its history is drawn.

    Attributes:
        key: Types of the key columns, by name.
        pools: SQL literals of keys that statements use, one tuple each for the columns.
        values: Types of the other columns, by name, but for `touched`.
        altered: Columns that were altered.
        names: Names for columns to come.
        is_deferrable: Whether the database checks the key at the end of a statement or transaction.
        fixed: Value columns that ALTER TABLE leaves alone.
    """

    name: str
    key: dict[str, ColumnType]
    pools: list[tuple[str, ...]]
    values: dict[str, ColumnType]
    attributes: dict[str, str]
    altered: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    is_deferrable: bool = False
    fixed: set[str] = field(default_factory=lambda: {PART})


@dataclass(frozen=True)
class Tellable:
    """What the raw files of some DMS settings can tell, and a history may therefore contain.

    Attributes:
        texts: Texts of values.
        key_texts: Texts of keys.
        old_keys: Whether an update of a key tells the old key.
        columns: Whether files tell which columns they have, so that ALTER TABLE needs no full load.
        types: Whether files tell the types of columns, so that a key may be widened without the operator.
        lobs: Whether before images include large objects, such as PostgreSQL's TEXT.
        repeats: Whether rows that are sent again under another file name can be recognized.
    """

    texts: Texts
    key_texts: Texts
    old_keys: bool
    columns: bool
    types: bool
    lobs: bool
    repeats: bool


class Grammar(ABC):
    """Draws statements for one database.

    Args:
        draw: Draws from a strategy.
        tellable: What the raw files can tell.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], tellable: Tellable) -> None:
        self.draw, self.tellable = draw, tellable
        self.tables: list[TableDraft] = []
        self.is_in_order = False  # whether raw files must arrive in order

    # What differs between databases

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name as an SQL identifier."""

    @abstractmethod
    def key_types(self) -> dict[str, ColumnType]:
        """Types of key columns, with how often they are drawn as their number of names."""

    @abstractmethod
    def value_types(self) -> list[ColumnType]:
        """Types of the other columns."""

    @abstractmethod
    def part_types(self) -> list[ColumnType]:
        """Types of the column that a lake table may be partitioned by."""

    @abstractmethod
    def own_statements(self) -> list[Statement]:
        """Statements that only this database has."""

    @abstractmethod
    def retyped(self, table: TableDraft, name: str, kind: ColumnType) -> str:
        """ALTER TABLE that gives a column another type."""

    @abstractmethod
    def create_options(self, table: TableDraft) -> tuple[str, str]:
        """What follows PRIMARY KEY (...) inside and outside the parentheses of CREATE TABLE."""

    # Tables

    def one_of(self, values: Sequence[Drawn]) -> Drawn:
        drawn: Drawn = self.draw(st.sampled_from(values))
        return drawn

    def chance(self, one_in: int) -> bool:
        """True once in that many times; shrinks to False."""
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def create(self) -> list[str]:
        """Statements that create the tables."""
        kinds = list(self.key_types().items())
        key = [self.one_of(kinds)[1]]
        if self.chance(3):
            key.append(self.one_of(kinds)[1])
        statements = []
        for name in ("a", "b_2")[: 1 + self.chance(3)]:
            names = list(NAMES)
            values = {PART: self.one_of(self.part_types())}
            for _ in range(self.number(1, 4)):
                values[names.pop(0)] = self.one_of(self.value_types())
            columns = {f"k{number}": kind for number, kind in enumerate(key)}
            literals = [self.draw(st.lists(kind.literals, min_size=3, max_size=7, unique=True)) for kind in key]
            size = max(map(len, literals))
            pools = [tuple(texts[i % len(texts)] for texts in literals) for i in range(size)]
            if len(key) > 1:
                pools += [tuple(self.one_of(texts) for texts in literals) for _ in range(2)]
            table = TableDraft(name, columns, pools, values, self.attributes(), names=names)
            self.tables.append(table)
            statements.append(self.create_table(table))
        return statements

    def create_table(self, table: TableDraft) -> str:
        columns = [f"{self.quoted(name)} {kind.sql} not null" for name, kind in table.key.items()]
        values = [f"{self.quoted(name)} {kind.sql} null" for name, kind in table.values.items()]
        inside, outside = self.create_options(table)
        key = ", ".join(map(self.quoted, table.key))
        lines = [*columns, *values, f"{TOUCHED} smallint not null default 0", f"primary key ({key}){inside}"]
        return f"create table {table.name} ({', '.join(lines)}){outside}"

    def attributes(self) -> dict[str, str]:
        attributes = {}
        if self.chance(2):
            attributes["PartitionKey"] = PART
        if self.chance(5):
            attributes["DeleteMode"] = "soft"
        if self.chance(5):
            attributes["MaxFilesPerRun"] = str(self.number(1, 3))
        if self.chance(3):
            attributes["TargetFileBytes"] = "1000"
        if self.chance(5):
            attributes["History"] = "true"
        if self.chance(2):
            attributes["ReloadMode"] = "diff"
        if self.tellable.old_keys or self.chance(2):
            # These sources log whole rows, so a missing column was dropped. By default an update of a key is refused
            # then, because the lake cannot keep the value of another key.
            attributes["MissingColumns"] = "null"
        return attributes

    # Values

    def key_of(self, table: TableDraft) -> tuple[str, ...]:
        """Literals of a key, mostly one that is used again."""
        if self.tellable.old_keys and self.chance(8):
            return tuple(self.draw(kind.literals) for kind in table.key.values())
        return self.one_of(table.pools)

    def value(self, kind: ColumnType) -> str:
        return "null" if kind.is_nulled and self.chance(5) else str(self.draw(kind.literals))

    def some_columns(self, table: TableDraft) -> list[str]:
        names = list(table.values)
        return [name for name in names if not self.chance(4)] or names[:1]

    def rows(self, table: TableDraft, names: Sequence[str]) -> str:
        keys = self.draw(st.lists(st.sampled_from(table.pools), min_size=1, max_size=MAX_ROWS, unique=True))
        if self.chance(4):
            keys.append(self.key_of(table))
        return ", ".join(self.row(table, key, names) for key in keys)

    def row(self, table: TableDraft, key: Sequence[str], names: Sequence[str]) -> str:
        return f"({', '.join([*key, *(self.value(table.values[name]) for name in names)])})"

    def is_key(self, table: TableDraft, key: Sequence[str], prefix: str = "") -> str:
        parts = zip(table.key, key, strict=True)
        return " and ".join(f"{prefix}{self.quoted(name)} = {literal}" for name, literal in parts)

    def where(self, table: TableDraft) -> str:
        first = self.quoted(next(iter(table.key)))
        kind = self.number(0, 7)
        if kind <= 3:
            return f" where {self.is_key(table, self.key_of(table))}"
        if kind == 4:
            return f" where {first} in ({', '.join(self.key_of(table)[0] for _ in range(2))})"
        if kind == 5:
            return f" where {first} {self.one_of(['>=', '<', '<>'])} {self.key_of(table)[0]}"
        if kind == 6:
            return f" where {self.quoted(self.one_of(list(table.values)))} is {self.one_of(['', 'not '])}null"
        return ""

    def assignments(self, table: TableDraft) -> str:
        names = self.some_columns(table)
        parts = [f"{self.quoted(name)} = {self.value(table.values[name])}" for name in names]
        return ", ".join([*parts, f"{TOUCHED} = 1 - {TOUCHED}"] if self.chance(3) else parts)

    # Statements that every database has

    def insert(self, table: TableDraft) -> list[str]:
        names = self.some_columns(table)
        columns = ", ".join(map(self.quoted, [*table.key, *names]))
        return [f"insert into {table.name} ({columns}) values {self.rows(table, names)}"]

    def fill(self, table: TableDraft) -> str:
        """Insert a row for each key of the pool."""
        names = list(table.values)
        columns = ", ".join(map(self.quoted, [*table.key, *names]))
        rows = ", ".join(self.row(table, key, names) for key in dict.fromkeys(table.pools))
        return f"insert into {table.name} ({columns}) values {rows}"

    def update(self, table: TableDraft) -> list[str]:
        return [f"update {table.name} set {self.assignments(table)}{self.where(table)}"]

    def delete(self, table: TableDraft) -> list[str]:
        return [f"delete from {table.name}{self.where(table)}"]

    def touch(self, table: TableDraft) -> list[str]:
        """Change every row. Statements that change rows without telling anyone are followed by this."""
        return [f"update {table.name} set {TOUCHED} = 1 - {TOUCHED}"]

    def delete_then_insert(self, table: TableDraft) -> list[str]:
        key = self.key_of(table)
        names = self.some_columns(table)
        columns = ", ".join(map(self.quoted, [*table.key, *names]))
        values = ", ".join([*key, *(self.value(table.values[name]) for name in names)])
        statements = [
            f"delete from {table.name} where {self.is_key(table, key)}",
            f"insert into {table.name} ({columns}) values ({values})",
        ]
        return statements if self.chance(2) else statements[::-1]

    def move_key(self, table: TableDraft) -> list[str]:
        old, new = self.key_of(table), self.key_of(table)
        sets = ", ".join(f"{self.quoted(name)} = {text}" for name, text in zip(table.key, new, strict=True))
        return [f"update {table.name} set {sets} where {self.is_key(table, old)}"]

    def swap_keys(self, table: TableDraft) -> list[str]:
        """Swap two keys through a third, with the values that the rows have."""
        one, other, third = (self.key_of(table) for _ in range(3))
        moves = [(one, third), (other, one), (third, other)]
        statements = []
        for old, new in moves:
            sets = ", ".join(f"{self.quoted(name)} = {text}" for name, text in zip(table.key, new, strict=True))
            statements.append(f"update {table.name} set {sets} where {self.is_key(table, old)}")
        return statements

    def copy_rows(self, table: TableDraft) -> list[str]:
        """Insert rows of another table, or of the same one under other keys."""
        other = self.one_of(self.tables)
        names = [name for name in table.values if other.values.get(name) == table.values[name]]
        key = list(map(self.quoted, table.key))
        if other is table:
            key[0] = next((f"{self.quoted(n)} + 3" for n, kind in table.key.items() if kind.is_number), key[0])
        columns = ", ".join(map(self.quoted, [*table.key, *names]))
        selected = ", ".join([*key, *map(self.quoted, names)])
        return [f"insert into {table.name} ({columns}) select {selected} from {other.name}{self.where(other)}"]

    def statements(self) -> list[Statement]:
        """All kinds of statements, the frequent ones several times."""
        kinds: list[Statement] = [self.insert, self.update, self.delete, self.insert, self.update]
        kinds += [self.delete_then_insert, self.delete_then_insert, self.copy_rows, *self.own_statements()]
        return [*kinds, self.move_key, self.move_key, self.swap_keys] if self.tellable.old_keys else kinds

    def transaction(self) -> list[str]:
        """A statement, or a transaction with a commit or a rollback, and with savepoints."""
        kinds = self.statements()
        if not self.chance(2):
            return self.one_of(kinds)(self.one_of(self.tables))
        sql = ["begin"]
        for _ in range(self.number(1, 3)):
            statement = self.one_of(kinds)(self.one_of(self.tables))
            undone = self.chance(6)
            sql += ["savepoint s", *statement, "rollback to savepoint s"] if undone else statement
        return [*sql, "rollback" if self.chance(6) else "commit"]

    # ALTER TABLE

    def alter(self) -> tuple[list[str], bool]:
        """Statements that alter a table, and whether the full load must be repeated after them."""
        table = self.one_of(self.tables)
        kinds = [self.add_column, self.add_column, self.drop_column, self.widen, self.widen, self.rename_column]
        kinds += [self.add_column_with_default, self.recreate_column]
        sql = self.one_of(kinds)(table)
        return sql, not self.tellable.columns or self.chance(8)

    def add_column(self, table: TableDraft) -> list[str]:
        if not table.names:
            return []
        name, kind = table.names.pop(0), self.one_of(self.value_types())
        table.values[name] = kind
        table.altered.add(name)
        return [f"alter table {table.name} add column {self.quoted(name)} {kind.sql} null{self.place(table)}"]

    def place(self, table: TableDraft) -> str:
        """Where a new column goes: MySQL's FIRST or AFTER."""
        return ""

    def add_column_with_default(self, table: TableDraft) -> list[str]:
        if not table.names:
            return []
        name, kind = table.names.pop(0), self.one_of([kind for kind in self.value_types() if kind.has_default])
        table.values[name] = kind
        table.altered.add(name)
        default = self.draw(kind.literals)
        sql = f"alter table {table.name} add column {self.quoted(name)} {kind.sql} default {default}"
        return [sql, *self.touch(table)]

    def may_drop(self, kind: ColumnType) -> bool:
        """Whether a column of this type may be dropped while the log still has rows with it."""
        return True

    def drop_column(self, table: TableDraft) -> list[str]:
        name = self.alterable(table)
        if name is None or not self.may_drop(table.values[name]):
            return []
        del table.values[name]
        return [f"alter table {table.name} drop column {self.quoted(name)}"]

    def recreate_column(self, table: TableDraft) -> list[str]:
        """Drop a column and add one of that name: all its values are null again."""
        name = self.alterable(table)
        if name is None:
            return []
        kind = table.values[name]
        return [
            f"alter table {table.name} drop column {self.quoted(name)}",
            f"alter table {table.name} add column {self.quoted(name)} {kind.sql} null",
            *self.touch(table),
        ]

    def rename_column(self, table: TableDraft) -> list[str]:
        name = self.alterable(table)
        if name is None or not table.names:
            return []
        new = table.names.pop(0)
        table.values[new] = table.values.pop(name)
        table.altered.add(new)
        sql = f"alter table {table.name} rename column {self.quoted(name)} to {self.quoted(new)}"
        return [sql, *self.touch(table)]

    def widen(self, table: TableDraft) -> list[str]:
        columns = {**(table.key if self.tellable.types else {}), **table.values}
        names = [name for name, kind in columns.items() if kind.wider]
        if not names:
            return []
        name = self.one_of(names)
        kind = self.one_of(columns[name].wider)
        (table.key if name in table.key else table.values)[name] = kind
        table.altered.add(name)
        return [self.retyped(table, name, kind)]

    def alterable(self, table: TableDraft) -> str | None:
        """A column to drop or rename; None if there is none."""
        names = [name for name in table.values if name not in table.fixed]
        if len(names) < 2:
            return None
        name = self.one_of(names)
        table.altered.add(name)
        return name

    # Deliveries

    def transactions(self, at_least: int, at_most: int) -> list[str]:
        return [sql for _ in range(self.number(at_least, at_most)) for sql in self.transaction()]

    def phase(self) -> Phase:
        sql = self.transactions(2, 8)
        alter, reload = self.alter() if self.chance(2) else ([], False)
        then = self.transactions(0, 3) if alter else []
        ticks = self.list_of(st.sampled_from([61, 0, 61, 61, 1]))
        delays = self.list_of(st.sampled_from([0, 0, 2, 4, 6, 1]), 4)
        runs = self.list_of(st.booleans(), 2)
        # Sent again, an update may seem to move a row to a key in use, see docs/guarantees.md.
        may_die = self.tellable.repeats or not any(table.is_deferrable for table in self.tables)
        if self.is_in_order:
            delays = (0,)
        elif self.chance(2):
            ticks, delays, runs = (61,), NEWEST_FIRST, (True,)
        return Phase(
            tuple(sql),
            tuple(alter),
            reload,
            tuple(then),
            ticks=ticks,
            delays=delays,
            runs=runs,
            repeats=self.list_of(st.sampled_from([-1, -1, 0, 1, 2, 3, 5, 8])),
            holds=self.chance(3),
            dies=self.chance(5) and may_die and not self.is_in_order,
        )

    def list_of(self, elements: st.SearchStrategy[Drawn], at_least: int = 1) -> tuple[Drawn, ...]:
        return tuple(self.draw(st.lists(elements, min_size=at_least, max_size=8)))

    def history(self, settings: dict[str, str]) -> History:
        create = self.create()
        for table in self.tables:
            if not self.chance(4):
                create.append(self.fill(table))
        for table in self.tables:
            checks = "deferred" if table.is_deferrable else "immediate"
            if not table.is_deferrable or self.chance(2):
                table.attributes["UniqueChecks"] = checks
        overlap = self.transactions(1, 3) if self.chance(3) else []
        if not self.tellable.old_keys:  # these sources update no keys, which only the operator knows
            self.is_in_order |= not overlap and self.chance(2)
            if overlap or not self.is_in_order:  # an update may come before its insert, or of a row that is gone again
                for table in self.tables:
                    table.attributes["UnknownKeys"] = "insert"
        phases = tuple(self.phase() for _ in range(self.number(1, 3)))
        tables = tuple(
            Table(table.name, tuple(table.key), tuple(sorted(table.altered)), tuple(sorted(table.attributes.items())))
            for table in self.tables
        )
        return History(
            tables,
            tuple(sorted(settings.items())),
            tuple(create),
            tuple(overlap),
            phases,
            load_delays=self.list_of(st.integers(0, 3)),
            small_changes=self.one_of([(0, 0, 0), (0, 0, 1 << 20), (1 << 20, 0, 0), (1 << 20, 1 << 30, 0)]),
            in_place_bytes=self.one_of([0, 1 << 30]),
        )


@st.composite
def dms_settings(draw: st.DrawFn) -> dict[str, str]:
    """DMS settings by name, of those that affect the files."""
    settings = {"DataFormat": draw(st.sampled_from(["parquet", "csv"]))}

    def sometimes(name: str, values: st.SearchStrategy[str], one_in: int = 3) -> None:
        if draw(st.integers(0, one_in - 1)) == one_in - 1:
            settings[name] = draw(values)

    true = st.just("true")
    sometimes("CompressionType", st.just("gzip"))
    sometimes("TimestampColumnName", st.just("sent"), 2)
    sometimes("HeaderColumns", st.just("AR_H_CHANGE_SEQ"), 2)
    sometimes("IncludeOpForFullLoad", true)
    settings["BeforeImages"] = draw(st.sampled_from(["pk-only", "none", "all", "non-lob", "pk-only"]))
    sometimes("MaxFileSize", st.just("1"))
    sometimes("CdcMinFileSize", st.just("1"))
    if settings["DataFormat"] == "parquet":
        sometimes("ParquetVersion", st.just("parquet-2-0"))
        sometimes("EncodingType", st.sampled_from(["plain", "plain-dictionary"]))
        sometimes("EnableStatistics", st.just("false"))
        sometimes("RowGroupLength", st.sampled_from(["1", "2"]))
        sometimes("ParquetTimestampInMillisecond", true, 4)
    else:
        sometimes("CsvDelimiter", st.sampled_from([";", "\t", "|", "\x01"]))
        sometimes("CsvRowDelimiter", st.sampled_from(["\r\n", "\x02", "<end>\n"]), 4)
        sometimes("CsvNullValue", st.sampled_from(["", "\\N", "nil", "0"]))
        if settings.get("CsvNullValue") not in {"0", ""}:  # would equal a number or empty bytes
            sometimes("Rfc4180", st.just("false"), 4)
        sometimes("AddColumnName", true, 2)
    sometimes("AddTrailingPaddingCharacter", true, 4)
    # With full loads in Parquet, a binary column would have two types, because it is text in transaction files.
    if settings["DataFormat"] == "csv" and "AddColumnName" not in settings and draw(st.integers(0, 3)) == 3:
        settings |= {"PreserveTransactions": "true", "CdcPath": "changes/all"}
    else:
        sometimes("DatePartitionEnabled", true)
        if "DatePartitionEnabled" in settings:
            sequences = ["YYYYMMDD", "YYYYMMDDHH", "YYYYMM", "MMYYYYDD", "DDMMYYYY"]
            settings["DatePartitionSequence"] = draw(st.sampled_from(sequences))
            settings["DatePartitionDelimiter"] = draw(st.sampled_from(["SLASH", "DASH", "UNDERSCORE", "NONE"]))
            sometimes("DatePartitionTimezone", st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata"]))
    return settings


def tellable(settings: dict[str, str], quote: Callable[[str], str]) -> Tellable:
    """What raw files with these settings can tell."""
    transactions = settings.get("PreserveTransactions") == "true"
    is_csv = settings["DataFormat"] == "csv" or transactions
    texts = Texts(quote)
    if is_csv:
        delimiters = (settings.get("CsvDelimiter", ","), settings.get("CsvRowDelimiter", "\n"))
        if settings.get("Rfc4180") == "false":
            unusable = frozenset({settings.get("CsvNullValue", "NULL")})
            # A carriage return at the end of the last field belongs to the row delimiter.
            texts = replace(texts, forbidden=(*delimiters, *"\r\n"), unusable=unusable)
    # DMS writes an empty field for a missing before image, which an empty old key therefore equals.
    key_texts = replace(texts, unusable=texts.unusable | {""}) if is_csv else texts
    return Tellable(
        texts,
        key_texts,
        old_keys=settings["BeforeImages"] != "none",
        columns=not is_csv or settings.get("AddColumnName") == "true",
        types=not is_csv,
        lobs=settings["BeforeImages"] != "non-lob",
        repeats="HeaderColumns" in settings,
    )
