"""The style sheet's colors have enough contrast in the light and dark schemes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cdclake_cli.console

SHEET = Path(cdclake_cli.console.__file__).parent / "static" / "console.css"
MIN_TEXT_CONTRAST = 4.5
"""For text of any size: https://www.w3.org/TR/WCAG22/#contrast-minimum."""
MIN_SHAPE_CONTRAST = 3.0
"""https://www.w3.org/TR/WCAG22/#non-text-contrast."""


def read_colors(dark: bool) -> dict[str, str]:
    sheet = SHEET.read_text(encoding="utf-8")
    light_part, _, dark_part = sheet.partition("@media (prefers-color-scheme: dark)")
    light_colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light_part.partition("}")[0]))
    dark_colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark_part.partition("}")[0]))
    return light_colors | dark_colors if dark else light_colors


def luminance(color: str) -> float:
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_enough_contrast(dark: bool) -> None:
    colors = read_colors(dark)
    pairs = [(text, ground) for text in ("ink", "soft", "accent", "bad") for ground in ("paper", "ground", "faint")]
    pairs += [(kind, f"{kind}-ground") for kind in ("good", "bad", "warn", "info")]
    pairs += [("ink", f"{kind}-ground") for kind in ("good", "bad", "info")] + [("paper", "bad")]
    assert [pair for pair in pairs if contrast(colors[pair[0]], colors[pair[1]]) < MIN_TEXT_CONTRAST] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_bars_have_enough_contrast(dark: bool) -> None:
    colors = read_colors(dark)
    contrasts = {name: contrast(colors[name], colors["paper"]) for name in colors if re.fullmatch(r"c\d", name)}
    assert len(contrasts) == 7
    assert min(contrasts.values()) >= MIN_SHAPE_CONTRAST


def test_white_on_black_has_the_maximum_contrast() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
