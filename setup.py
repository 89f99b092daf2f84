"""Builds the package of pyproject.toml: adds the commit, and what the devkit takes from a checkout."""

import runpy
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
VERSION = ROOT / "cli" / "cdclake_cli" / "version.py"
TAKEN = ("glue_jobs/*.py", "lambdas/*/*.py", "sample_db/**/*.sql")


class BuildWithCheckout(build_py):
    """Copies the modules, and writes the commit and copies of the checkout beside them."""

    def run(self) -> None:
        """Build."""
        super().run()
        if self.editable_mode:  # then the checkout has both
            return
        version = runpy.run_path(str(VERSION))
        files = {f"cdclake_cli/{version['COMMIT_FILE']}": version["commit_of_checkout"](VERSION.parent).encode()}
        for path in (path for pattern in TAKEN for path in ROOT.glob(pattern)):
            files[f"cdclake_devkit/checkout/{path.relative_to(ROOT)}"] = path.read_bytes()
        for name, content in files.items():
            file = Path(self.build_lib) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


with tempfile.TemporaryDirectory() as folder:  # not in the checkout, where the next build would find it
    setup(
        cmdclass={"build_py": BuildWithCheckout},
        options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}},
    )
