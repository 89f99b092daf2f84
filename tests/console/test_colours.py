"""Texts of the style sheet stand out from what they stand on, by day and by night."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cdclake.console

SHEET = Path(cdclake.console.__file__).parent / "static" / "console.css"
ENOUGH = 4.5
"""Of the contrast ratio, for text of any size: https://www.w3.org/TR/WCAG22/#contrast-minimum."""
ENOUGH_FOR_SHAPES = 3.0
"""https://www.w3.org/TR/WCAG22/#non-text-contrast."""


def colours(night: bool) -> dict[str, str]:
    sheet = SHEET.read_text(encoding="utf-8")
    day, _, dark = sheet.partition("@media (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", day.partition("}")[0]))
    return found | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark.partition("}")[0])) if night else found


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("night", [False, True], ids=["day", "night"])
def test_texts_can_be_read(night: bool) -> None:
    known = colours(night)
    pairs = [(text, ground) for text in ("ink", "soft", "accent", "bad") for ground in ("paper", "ground", "faint")]
    pairs += [(kind, f"{kind}-ground") for kind in ("good", "bad", "warn", "info")]
    pairs += [("ink", f"{kind}-ground") for kind in ("good", "bad", "info")] + [("paper", "bad")]
    assert [pair for pair in pairs if contrast(known[pair[0]], known[pair[1]]) < ENOUGH] == []


@pytest.mark.parametrize("night", [False, True], ids=["day", "night"])
def test_bars_stand_out(night: bool) -> None:
    known = colours(night)
    shapes = [name for name in known if re.fullmatch(r"c\d", name)]
    assert len(shapes) == 7
    assert {
        name: round(contrast(known[name], known["paper"]), 2)
        for name in shapes
        if contrast(known[name], known["paper"]) < ENOUGH_FOR_SHAPES
    } == {}


def test_white_on_black_is_the_greatest_contrast() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
