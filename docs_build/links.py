"""Adapts links between pages of the site, some of which are outside `docs/` in the repository."""

from __future__ import annotations

import posixpath
import re

DOCS = "docs/"
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "sample_db/README.md")
"""Pages outside `docs/`: their paths in the repository and on the site."""

_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")


def with_site_links(markdown: str, page: str) -> str:
    """Markdown with links adapted to the site.

    Args:
        markdown: Text of a page, with links relative to its place in the repository.
        page: Path of the page on the site.
    """
    source = page if page in ROOT_PAGES else DOCS + page

    def on_site(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if target not in ROOT_PAGES:
            if not target.startswith(DOCS):
                return match[1]
            target = target[len(DOCS) :]
        return posixpath.relpath(target, posixpath.dirname(page) or ".")

    return _LINK.sub(on_site, markdown)
