"""MkDocs hooks of the site: add pages from outside `docs/`, and `llms.txt`.

Files such as CHANGELOG.md stay at the root of the repository, where their links must work too. On the site each becomes
a page of the same name, with adapted links.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from docs_build import llms
from docs_build.links import ROOT_PAGES, with_site_links

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside `docs/`."""
    for path in ROOT_PAGES:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs's signature
    """Adapt links between pages inside and outside `docs/`."""
    return with_site_links(markdown, page.file.src_uri)


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt` with links to the pages of the site."""
    (Path(config.site_dir) / llms.FILE.name).write_text(llms.text(llms.on_site), encoding="utf-8")
