"""Makes Spark's Python workers start tasks quickly."""

from __future__ import annotations

import sys
from zipimport import zipimporter


def keep_archive_listings() -> None:
    """Stop this process from reading the listings of its zip archives again for each task.

    PySpark calls `importlib.invalidate_caches` before every task. Since Python 3.10 that makes each `zipimporter` list
    its archive anew, and Spark puts its own archives on the path, the 15 MB spark-core jar among them: about 0.1 s of
    each task, many times what a small task needs. The archives of a running worker do not change.
    """
    for importer in sys.path_importer_cache.values():
        if isinstance(importer, zipimporter):
            importer.invalidate_caches = _nothing  # type: ignore[method-assign]


def _nothing() -> None:
    pass
