"""The site: its menu, its images, and links between pages inside and outside `docs/`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from docs_build import llms
from docs_build.links import ROOT_PAGES, with_site_links

from tests import ROOT

DOCS = ROOT / "docs"
SETTINGS = llms.settings()


def pages_of(menu: Any) -> list[str]:
    """Every page in a menu."""
    if isinstance(menu, str):
        return [menu]
    return [page for entry in (menu.values() if isinstance(menu, dict) else menu) for page in pages_of(entry)]


def test_the_menu_contains_every_document_once_and_nothing_else() -> None:
    documents = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(pages_of(SETTINGS["nav"])) == sorted([*documents, *ROOT_PAGES])
    assert [page for page in ROOT_PAGES if not (ROOT / page).is_file()] == []


def test_the_index_for_language_models_is_up_to_date_and_has_a_line_for_every_page() -> None:
    text = llms.FILE.read_text(encoding="utf-8")
    assert text == llms.text(), "run make reference"
    entries = re.findall(r"^- \[(.+?)\]\((\S+)\): (.+\.)$", text, re.MULTILINE)
    assert [(title, path) for title, path, _ in entries] == [
        (one.title, one.source) for one in llms.pages(SETTINGS["nav"])
    ]
    assert [path for _, path, _ in entries if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("index.md", "index.html"),
        ("quickstart.md", "quickstart.html"),
        ("decisions/README.md", "decisions/index.html"),
        ("reference/command.md", "reference/command.html"),
        ("CHANGELOG.md", "CHANGELOG.html"),
    ],
)
def test_the_index_on_the_site_links_to_its_pages(page: str, link: str) -> None:
    assert f"]({link}): " in llms.text(llms.on_site)
    assert llms.on_site(llms.Page("", "", page)) == link


def test_broken_links_and_anchors_fail_the_build_and_no_font_is_fetched() -> None:
    assert SETTINGS["strict"] is True
    assert {level for kind in SETTINGS["validation"].values() for level in kind.values()} == {"warn"}
    assert {"omitted_files", "not_found"} <= SETTINGS["validation"]["nav"].keys()
    assert {"anchors", "not_found", "unrecognized_links"} <= SETTINGS["validation"]["links"].keys()
    assert SETTINGS["theme"]["font"] is False


def test_every_image_is_shown_or_linked_with_a_text() -> None:
    documents = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    images = sorted((DOCS / "images").iterdir())
    assert images
    for image in images:
        assert re.search(rf"\[[^\]]+\]\(images/{re.escape(image.name)}\)", documents), image.name


def test_drawings_have_a_title_and_a_description_and_no_external_references() -> None:
    drawings = sorted((DOCS / "images").glob("*.svg"))
    assert drawings
    for picture in drawings:
        svg = picture.read_text(encoding="utf-8")
        assert re.search(r"<title id=.*>.+</title>\s*<desc id=.*>.+</desc>", svg), picture.name
        assert not re.search(r"(?:href|src|url)\W+https?:", svg), picture.name


@pytest.mark.parametrize(
    ("page", "link", "on_site"),
    [
        ("index.md", "../CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("decisions/README.md", "../undo.md#undo", "../undo.md#undo"),
        ("decisions/README.md", "../../CHANGELOG.md", "../CHANGELOG.md"),
        ("CONTRIBUTING.md", "docs/architecture.md#parts", "architecture.md#parts"),
        ("CONTRIBUTING.md", "CHANGELOG.md", "CHANGELOG.md"),
        ("sample_db/README.md", "../docs/deploy.md", "../deploy.md"),
        ("sample-database.md", "../sample_db/README.md", "sample_db/README.md"),
        ("CONTRIBUTING.md", "#the-rules", "#the-rules"),
        ("CONTRIBUTING.md", "https://pre-commit.com", "https://pre-commit.com"),
        ("CONTRIBUTING.md", "no-page-of-the-site.py", "no-page-of-the-site.py"),
    ],
)
def test_links_lead_to_the_same_page_on_the_site_and_in_the_repository(page: str, link: str, on_site: str) -> None:
    assert with_site_links(f"See [it]({link}), and (that)", page) == f"See [it]({on_site}), and (that)"
