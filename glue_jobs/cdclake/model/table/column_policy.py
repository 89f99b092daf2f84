"""What a table does to the values of some columns before the lake gets them (masking, pseudonymization)."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field, replace
from enum import Enum

from cdclake.errors import ConfigurationError
from cdclake.model.names import HASH_SECRET_VARIABLE
from cdclake.model.schema import ADDED_PREFIXES, BEFORE_PREFIX, OP_COLUMN, Column, Schema

REDACTED = "***"
"""What stands for every value of a redacted column."""
MIN_SECRET_BYTES = 32
"""A shorter secret could be guessed, and with it the values: those of most columns are few."""
_ID_DIGITS = 16
_EXAMPLE = "exclude email, hash ssn, redact note, truncate name 3"
_RULE = re.compile(r"\s*(exclude|hash|redact)\s+(\S.*?)\s*|\s*(truncate)\s+(\S.*?)\s+([0-9]+)\s*", re.IGNORECASE)


class Action(Enum):
    """What happens to the values of a column. Null stays null."""

    EXCLUDE = "exclude"
    """The lake table has no such column."""
    HASH = "hash"
    """Each is replaced by the HMAC-SHA-256 of its text, as hexadecimal digits: equal ones by the same."""
    REDACT = "redact"
    """Each is replaced by `REDACTED`."""
    TRUNCATE = "truncate"
    """The first characters of its text stay."""


@dataclass(frozen=True)
class ColumnRule:
    """What happens to one column.

    Attributes:
        length: How many characters stay of a truncated value; 0 for other actions.
    """

    action: Action
    column: str
    length: int = 0

    def __str__(self) -> str:
        """As in the attribute."""
        return " ".join([self.action.value, self.column, *([str(self.length)] if self.length else [])])


@dataclass(frozen=True)
class AppliedPolicy:
    """The policy that a lake table was written under.

    Attributes:
        text: The policy as text; empty for none.
        secret_id: `ColumnPolicy.secret_id`.
        since: Number of the first change under it; 0 if the table never had another one.
    """

    text: str = ""
    secret_id: str = ""
    since: int = 0

    def with_secret(self, secret: bytes) -> ColumnPolicy:
        """The policy, to find values in the table.

        Raises:
            ConfigurationError: It hashes columns, and this is not the secret.
        """
        policy = replace(ColumnPolicy.parse(self.text), secret=secret)
        if policy.secret_id != self.secret_id:
            message = f"{HASH_SECRET_VARIABLE} is another secret than the lake table's columns are hashed with"
            raise ConfigurationError(message, remedy="Set it to the secret that the jobs have")
        return policy


@dataclass(frozen=True)
class ColumnPolicy:
    """The value of the attribute `ColumnPolicy`.

    Attributes:
        rules: By column in order of names, each column once.
        secret: Keys the hashes; empty until a run has it, and never part of an attribute.
    """

    rules: tuple[ColumnRule, ...] = ()
    secret: bytes = field(default=b"", repr=False)

    @classmethod
    def parse(cls, text: str) -> ColumnPolicy:
        """Read `exclude email, hash ssn, redact note, truncate name 3`.

        Raises:
            ConfigurationError: A part is no rule, or a column occurs twice, or DMS adds it.
        """
        rules = sorted((_rule(part) for part in text.split(",") if text), key=lambda rule: rule.column.lower())
        if len({rule.column.lower() for rule in rules}) != len(rules):
            raise ConfigurationError("ColumnPolicy names a column twice", remedy="Write one rule for each column")
        return cls(tuple(rules))

    def __str__(self) -> str:
        """The same text for equal policies."""
        return ", ".join(map(str, self.rules))

    @property
    def hashes(self) -> bool:
        """Whether it needs the secret."""
        return any(rule.action is Action.HASH for rule in self.rules)

    @property
    def secret_id(self) -> str:
        """Identifies the secret, but does not reveal it; empty if no column is hashed."""
        return self.hashed("")[:_ID_DIGITS] if self.hashes else ""

    def find(self, column: str) -> ColumnRule | None:
        """The rule of a column of the source, ignoring case; None if it has none."""
        if not self.rules:
            return None
        lower = column.lower()
        return next((rule for rule in self.rules if rule.column.lower() == lower), None)

    def rule_of(self, name: str) -> ColumnRule | None:
        """The rule of a column of a raw file: before images (`BI_...`) follow the rule of their column."""
        return self.find(name.removeprefix(BEFORE_PREFIX))

    def lake_columns(self, columns: Schema) -> Schema:
        """Columns of the source as the lake has them."""
        if not self.rules:
            return columns
        rules = {column.name: self.find(column.name) for column in columns}
        return Schema(
            tuple(
                Column(column.name, "string") if rules[column.name] else column
                for column in columns
                if not is_excluded(rules[column.name])
            )
        )

    def hashed(self, text: str) -> str:
        """The hash of a value, given its text.

        Raises:
            ConfigurationError: There is no secret.
        """
        if not self.secret:
            raise ConfigurationError(
                "ColumnPolicy hashes a column, and the secret is missing",
                remedy=f"Set {HASH_SECRET_VARIABLE} to the secret, or name it at deployment; see docs/column-policy.md",
            )
        return hmac.digest(self.secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def changed(self, text: str, rule: ColumnRule) -> str:
        """What the lake has for a value, given its text."""
        if rule.action is Action.HASH:
            return self.hashed(text)
        return text[: rule.length] if rule.action is Action.TRUNCATE else REDACTED

    def applied(self, before: AppliedPolicy, change: int) -> AppliedPolicy:
        """The policy of a table after a change of this number."""
        same = (str(self), self.secret_id) == (before.text, before.secret_id)
        return before if same else AppliedPolicy(str(self), self.secret_id, change)


NO_POLICY, NO_RULES = AppliedPolicy(), ColumnPolicy()


def is_excluded(rule: ColumnRule | None) -> bool:
    """Whether a column with this rule is left out."""
    return rule is not None and rule.action is Action.EXCLUDE


def _rule(part: str) -> ColumnRule:
    match = _RULE.fullmatch(part)
    if not match:
        message = f"'{part.strip()}' in ColumnPolicy is no rule"
        raise ConfigurationError(message, remedy=f"Write it as in: {_EXAMPLE}")
    rule = ColumnRule(Action((match[1] or match[3]).lower()), match[2] or match[4], int(match[5] or 0))
    if rule.action is Action.TRUNCATE and not rule.length:
        message = f"'{part.strip()}' in ColumnPolicy keeps nothing"
        raise ConfigurationError(message, remedy="Exclude or redact the column")
    if rule.column == OP_COLUMN or rule.column.startswith(ADDED_PREFIXES):
        message = f"ColumnPolicy names {rule.column}, which is no column of the source"
        raise ConfigurationError(message, remedy=f"Name the column itself: its {BEFORE_PREFIX} image follows it")
    return rule
