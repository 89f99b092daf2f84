"""What all stores without versions do alike: they move data files one by one, and have no versions to look up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdclake.model.layout import FileKeys
    from cdclake.ports import OldVersion


class UnversionedStore(ABC):
    """The methods of an `ObjectStore` without versions that follow from its others."""

    @abstractmethod
    def remove(self, prefix: str, is_protected: Callable[[str], bool]) -> None:
        """Permanently delete objects."""

    @abstractmethod
    def retire(self, key: str, retired_key: str) -> None:
        """Move a live data file aside."""

    @abstractmethod
    def restore(self, key: str, retired_key: str) -> None:
        """Make a retired data file live again."""

    @abstractmethod
    def discard(self, key: str, retired_key: str) -> None:
        """Permanently delete a retired data file."""

    @abstractmethod
    def is_retained(self, key: str, retired_key: str) -> bool:
        """Whether a data file is live, or retired so that `restore` would succeed."""

    def begin_removing(self, prefix: str, is_protected: Callable[[str], bool]) -> Sequence[Callable[[], None]]:
        """Prepare to `remove` objects, which changes nothing. The returned function removes them."""
        return [partial(self.remove, prefix, is_protected)]

    def begin_retiring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Find out how to `retire` data files, which changes nothing. Each returned function retires some of them."""
        return [partial(self.retire, file.key, file.retired_key) for file in files]

    def begin_restoring(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Find out how to `restore` data files, which changes nothing. Each returned function restores some of them."""
        return [partial(self.restore, file.key, file.retired_key) for file in files]

    def not_retained(self, files: Sequence[FileKeys]) -> Sequence[FileKeys]:
        """The data files that are neither live, nor retired so that `restore` would succeed."""
        return [file for file in files if not self.is_retained(file.key, file.retired_key)]

    def begin_discarding(self, files: Sequence[FileKeys]) -> Sequence[Callable[[], None]]:
        """Prepare to `discard` data files, which changes nothing. Each returned function discards some of them."""
        return [partial(self.discard, file.key, file.retired_key) for file in files]

    def purge(self, prefix: str, is_protected: Callable[[str], bool]) -> int:  # noqa: ARG002 - there are no versions
        """Delete nothing, because there are no versions."""
        return 0

    def old_versions(self, prefix: str) -> Iterator[OldVersion]:  # noqa: ARG002 - there are no versions
        """None, because there are no versions."""
        return iter(())

    def get_version(self, version: OldVersion) -> bytes | None:  # noqa: ARG002 - there are no versions
        """None, because there are no versions."""
        return None

    def delete_versions(self, versions: Sequence[OldVersion]) -> None:  # noqa: B027 - there are no versions
        """Delete nothing, because there are no versions."""
