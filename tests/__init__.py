"""Tests of cdclake. The folders are those of the code."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The root of the repository."""
