"""The version of the command, and the commit that it was built from."""

import subprocess
from pathlib import Path

COMMIT_FILE = "commit.txt"
"""Written into this package when it is built; a checkout has none."""


def version_text(version: str) -> str:
    """The version with the commit, as `0.1.0 (3e4445dd1c2b)`; the version alone if nothing tells the commit."""
    folder = Path(__file__).parent
    file = folder / COMMIT_FILE
    commit = file.read_text(encoding="utf-8") if file.exists() else commit_of_checkout(folder)
    return f"{version} ({commit})" if commit else version


def commit_of_checkout(folder: Path) -> str:
    """The commit of the checkout that a folder is in, with `-dirty` if files differ from it; empty if it is in none."""
    if not (folder.resolve().parents[1] / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return ""
    return done.stdout.strip()
