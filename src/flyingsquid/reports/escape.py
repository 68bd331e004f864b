"""Texts of strangers on a page: the one place where they become HTML."""

from __future__ import annotations

import re
import unicodedata
from html import escape
from typing import Any

# Unicode categories that a page would obey and not show: controls, formats (bidirectional marks among them),
# surrogates.
_UNSEEN = {"Cc", "Cf", "Cs"}
# Joiners hold emoji and some scripts together, and move nothing.
_HARMLESS = {"\u200c", "\u200d", "\n", "\t"}
_LONGEST_NAME = 60
# More accents on one letter than any language sets would paint over the lines around it.
_ACCENT = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_ACCENTS = re.compile(f"({_ACCENT}{{2}}){_ACCENT}+")


def safe(value: Any, most: int = 500) -> str:
    """A text as HTML, fit for an element and for a quoted attribute, at most ``most`` characters of it.

    Nothing in it is markup any more. What would not be seen is shown by its code: controls, lone surrogates
    and marks that turn the direction of writing, which could make a page show what it does not say.

    >>> safe("<script>alert('hi')</script>")
    '&lt;script&gt;alert(&#x27;hi&#x27;)&lt;/script&gt;'
    >>> safe("abc" + chr(0x202E) + "fed" + chr(0))
    'abc\\\\u202efed\\\\x00'
    >>> safe("x" * 100_000, 5)
    'xxxxx… (100,000 characters)'
    """
    text = value if isinstance(value, str) else str(value)
    shown = _seen(text[:most])
    more = f"… ({len(text):,} characters)" if len(text) > most else ""
    return escape(shown + more)


def plain(value: Any, most: int = _LONGEST_NAME) -> str:
    """A name on one line as text that is not yet HTML, cut in the middle where it is long.

    >>> plain("a very long name of a source", 16)
    'a very l…source'
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > 4 * most:  # before every character is looked at
        text = text[: 2 * most] + text[-2 * most :]
    line = _seen(" ".join(text.split()))
    if len(line) <= most:
        return line
    tail = most - most // 2 - 1
    return line[: most // 2] + "…" + (line[-tail:].lstrip() if tail else "")


def name(value: Any, most: int = _LONGEST_NAME) -> str:
    """A name as HTML on one line, cut in the middle where it is long."""
    return escape(plain(value, most))


def _seen(text: str) -> str:
    return _ACCENTS.sub(r"\1", "".join(map(_visible, text)))


def _visible(char: str) -> str:
    if char in _HARMLESS or unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65_536 else f"\\U{code:08x}"
