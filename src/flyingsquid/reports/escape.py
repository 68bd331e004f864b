"""Escaping of untrusted text: the only place where names and data become HTML."""

from __future__ import annotations

import re
import unicodedata
from html import escape
from typing import Any

# Unicode categories that are invisible or act on the page: controls, formats (bidirectional marks among
# them), surrogates.
_INVISIBLE = {"Cc", "Cf", "Cs"}
# Joiners keep emoji and some scripts together; line breaks and tabs are harmless.
_HARMLESS = {"\u200c", "\u200d", "\n", "\t"}
LONGEST_NAME = 60
# More accents on one letter than any language uses would cover the lines around it.
_ACCENT = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_ACCENTS = re.compile(f"({_ACCENT}{{2}}){_ACCENT}+")


def escape_text(value: Any, most: int = 500) -> str:
    """Return at most ``most`` characters of a text as HTML, for elements and quoted attributes.

    Markup has no effect. Control characters, lone surrogates and marks that change the direction of writing
    are shown by their codes.

    >>> escape_text("<script>alert('hi')</script>")
    '&lt;script&gt;alert(&#x27;hi&#x27;)&lt;/script&gt;'
    >>> escape_text("abc" + chr(0x202E) + "fed" + chr(0))
    'abc\\\\u202efed\\\\x00'
    >>> escape_text("x" * 100_000, 5)
    'xxxxx… (100,000 characters)'
    """
    text = str(value)
    more = f"… ({len(text):,} characters)" if len(text) > most else ""
    return escape(_show_invisible(text[:most]) + more)


def escape_name(value: Any, most: int = LONGEST_NAME) -> str:
    """Return a name as HTML on one line, shortened in the middle if it is long."""
    return escape(shorten(value, most))


def shorten(value: Any, most: int = LONGEST_NAME) -> str:
    """Return a name on one line, shortened in the middle if it is long. The result is not HTML.

    >>> shorten("a very long name of a source", 16)
    'a very l…source'
    """
    text = str(value)
    if len(text) > 4 * most:  # before looking at every character
        text = text[: 2 * most] + text[-2 * most :]
    line = _show_invisible(" ".join(text.split()))
    if len(line) <= most:
        return line
    tail = most - most // 2 - 1
    return line[: most // 2] + "…" + (line[-tail:].lstrip() if tail else "")


def _show_invisible(text: str) -> str:
    return _ACCENTS.sub(r"\1", "".join(map(_visible, text)))


def _visible(char: str) -> str:
    if char in _HARMLESS or unicodedata.category(char) not in _INVISIBLE:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65_536 else f"\\U{code:08x}"
