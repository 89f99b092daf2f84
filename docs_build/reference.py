"""`make reference`: writes the pages of `docs/reference` from the code."""

from __future__ import annotations

from pathlib import Path

from docs_build import attributes, command

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


def pages() -> dict[str, str]:
    """Each page's name and expected text."""
    return {"attributes.md": attributes.page(), "command.md": command.page()}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
