"""`make reference`: writes `docs/reference` from the code and its tests, fills docs/testing.md, and writes llms.txt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docs_build import attributes, command, file_schema, llms, proofs, testing

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "attributes.md": attributes.page,
    "cdclake.schema.json": file_schema.page,
    "command.md": command.page,
    "proofs.md": proofs.page,
}
"""Each page's name, and what returns its expected text."""


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
    testing.write()
    llms.FILE.write_text(llms.text(), encoding="utf-8")


if __name__ == "__main__":
    main()
