"""Writes `llms.txt`, an index of the documents for language models, from the menu in mkdocs.yml.

The format is that of https://llmstxt.org: a heading, a summary, and for each section links with a line of text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from docs_build.links import DOCS, ROOT_PAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
FILE = ROOT / "llms.txt"
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r".+?\.(?=\s|$)")
_BOLD_START = re.compile(r"^\*\*[^*]+\*\* ")
_NO_TEXT = ("#", "!", "|", "```", "*Decided", "* ", "- ", "1. ")
"""How what is no paragraph of text begins."""


class Page(NamedTuple):
    """A page of the menu.

    Attributes:
        section: The first level of the menu that it is in.
        path: Its path on the site.
    """

    section: str
    title: str
    path: str

    @property
    def source(self) -> str:
        """Its path in the repository."""
        return self.path if self.path in ROOT_PAGES else DOCS + self.path

    @property
    def line(self) -> str:
        """The first sentence of its text."""
        for paragraph in _paragraphs(self):
            if not paragraph.startswith(_NO_TEXT):
                text = _BOLD_START.sub("", " ".join(_LINK.sub(r"\1", paragraph).split()))
                first = _SENTENCE.match(text)
                return first[0] if first else text.replace(":", ".")
        return ""


def settings() -> dict[str, Any]:
    """The settings of the site."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return found


def pages(menu: Any, section: str = "", title: str = "") -> Iterator[Page]:  # noqa: ANN401 - as YAML has it
    """All pages of a menu, in its order. Where it has no title, the page's own counts."""
    if isinstance(menu, str):
        untitled = Page(section, title, menu)
        yield untitled._replace(title=title or _paragraphs(untitled)[0].partition("# ")[2])
        return
    for entry in menu.items() if isinstance(menu, dict) else (("", one) for one in menu):
        yield from pages(entry[1], section or entry[0], entry[0])


def text(link: Callable[[Page], str] = lambda page: page.source) -> str:
    """The file.

    Args:
        link: Returns the link to a page; to its file in the repository, if not said.
    """
    site = settings()
    lines, section = [f"# {site['site_name']}", "", f"> {site['site_description']}"], ""
    for page in pages(site["nav"]):
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({link(page)}): {page.line}")
    return "\n".join(lines) + "\n"


def on_site(page: Page) -> str:
    """The link to a page from the site's `llms.txt`, beside the first page."""
    folder, _, name = page.path.rpartition("/")
    name = "index" if name == "README.md" else name.removesuffix(".md")
    return f"{folder and f'{folder}/'}{name}.html"


def _paragraphs(page: Page) -> list[str]:
    content = _COMMENT.sub("", (ROOT / page.source).read_text(encoding="utf-8"))
    return [paragraph.strip() for paragraph in content.split("\n\n") if paragraph.strip()]
