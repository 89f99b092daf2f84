"""Shows text from outside: names of tables, columns and files may contain anything.

A terminal obeys control characters, and a terminal or page shows text in another order after a character for
bidirectional text, and nothing for an invisible one. So two names could look alike, or one line like several.
"""

from __future__ import annotations

import shlex
from unicodedata import category

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of control characters, of characters that are not shown, of halves of characters, and of
separators of lines and paragraphs."""
_ASCII = 0x80
_BASIC = 0x10000


def printable(text: str, keep: str = "") -> str:
    r"""Escape what a terminal or a page would obey or not show: `\x1b`, `\u202e`, `\U000e0001`.

    bash, zsh and Python read the escapes, between `$'` and `'` or in a string.

    Args:
        keep: Characters to leave as they are, such as a newline.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(char) if category(char) in _HIDDEN and char not in keep else char for char in text)


def shell_word(text: str) -> str:
    """A text quoted for a shell, so that a command with it is safe to copy, and works, from a terminal or a page."""
    if printable(text) == text:
        return shlex.quote(text)
    escaped = printable(text.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{escaped}'"


def _escaped(char: str) -> str:
    code = ord(char)
    if code < _ASCII:  # a shell reads \x as a byte
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BASIC else f"\\U{code:08x}"
