"""Records the commit of what is built, for `cdclake --version`. All else is in pyproject.toml."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

VERSION = Path(__file__).parent / "cdclake_cli" / "version.py"


class BuildWithCommit(build_py):  # type: ignore[misc]  # setuptools has no types
    """Copies the modules, and writes the commit beside them."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:  # then the checkout tells, at any time
            version = runpy.run_path(str(VERSION))
            file = Path(self.build_lib) / "cdclake_cli" / version["COMMIT_FILE"]
            file.write_text(version["commit_of_checkout"](VERSION.parent), encoding="utf-8")


setup(cmdclass={"build_py": BuildWithCommit})
