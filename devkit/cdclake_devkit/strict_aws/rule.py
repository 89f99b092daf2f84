"""What a rule is: a behavior of AWS, where it is documented, and how moto is made to have it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from cdclake_devkit.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_MEASURED = "not measured"
"""Nobody has compared the rule with the real service: it follows the documentation alone."""


class Patch(NamedTuple):
    """The replacement of one function or property of moto.

    Attributes:
        owner: The class.
        name: Its name.
        wrap: Makes the replacement from it.
    """

    owner: type
    name: str
    wrap: Callable[[Any], Any]


@dataclass(frozen=True)
class Rule:
    """A behavior of AWS that moto does not have.

    Attributes:
        name: Short name for summaries.
        aws: What AWS does.
        source: Address of the documentation.
        measured: Who has seen the real service do it, as an address; or `NOT_MEASURED`.
        patches: Functions of moto to replace.
    """

    name: str
    aws: str
    source: str
    measured: str
    patches: tuple[Patch, ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let moto follow the rule within the block, in this process and behind the local server."""
        with ExitStack() as stack:
            for owner, name, wrap in self.patches:
                stack.enter_context(replaced(owner, name, wrap(getattr(owner, name))))
            yield
