#!/bin/sh
# Prints a Python that can run cdclake: the one that is named, else the first on PATH, or of pyenv, that is 3.11, 3.12 or
# 3.13. It must be able to create virtual environments. If there is none, says how to get one, and fails.
set -eu
usable='import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
found=${1:-none on PATH}
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13 python3
for candidate in "$@"; do
  # Those of pyenv that are not the chosen one are not on PATH.
  for python in "$candidate" "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/*/bin/"$candidate"; do
    if "$python" -c "$usable" 2>/dev/null; then
      echo "$python"
      exit 0
    fi
  done
done

# uv's Pythons run on any Linux and macOS: https://docs.astral.sh/uv/guides/install-python/
install="curl -LsSf https://astral.sh/uv/install.sh | sh && ~/.local/bin/uv python install 3.13"
if command -v apt-cache >/dev/null; then
  for version in 3.13 3.12 3.11; do
    if apt-cache show "python$version-venv" >/dev/null 2>&1; then
      install="sudo apt-get install -y python$version-venv"
      break
    fi
  done
elif command -v dnf >/dev/null; then
  install="sudo dnf install -y python3.13"
elif command -v brew >/dev/null; then
  install="brew install python@3.13"
fi
{
  echo "cdclake needs Python 3.11, 3.12 or 3.13 with the module venv; found: $found."
  echo "Install one:  $install"
  echo "Or name one:  make PYTHON=/path/to/python3 ..."
} >&2
exit 1
