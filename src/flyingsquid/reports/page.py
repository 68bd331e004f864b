"""The HTML page: document, sections, figures and tables. It loads nothing and runs only its own script.

Names and data become HTML only in :func:`escape_text` and :func:`escape_name`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from flyingsquid._table import Scalar, Table

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


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page: anchor, heading and HTML. A section with an empty body is left out."""

    anchor: str
    heading: str
    body: str


def render_page(title: str, facts: str, sections: Sequence[Section]) -> str:
    """Return the document. ``title`` is text; ``facts`` is HTML."""
    style, script = _read_asset("page.css"), _read_asset("page.js")
    # Nothing may be loaded, and only this style and this script may run, whatever the data contain.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = [section for section in sections if section.body]
    links = "".join(f'<a href="#{s.anchor}">{escape_text(s.heading)}</a>' for s in shown)
    name = escape_name(title, 120)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="generator" content="flyingsquid">\n'
        f"<title>{name}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#summary">Skip to the summary</a>\n'
        f'<header><div><h1><bdi>{name}</bdi></h1><p class="facts">{facts}</p></div>'
        '<button type="button" id="theme" hidden>Dark</button>'
        f'<nav aria-label="Contents">{links}</nav></header>\n'
        f"<main>\n{''.join(map(_render_section, shown))}</main>\n"
        '<footer><p class="note">Made with flyingsquid. This file is self-contained.</p></footer>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def figure(heading: str, content: str, caption: str, *, key: str = "", wide: bool = False) -> str:
    """Return a figure with a heading, a legend and a caption. The heading is text, the rest HTML."""
    kind = ' class="wide"' if wide else ""
    heading = escape_text(heading)
    return f"<figure{kind}><h3>{heading}</h3>{key}{content}<figcaption>{caption}</figcaption></figure>"


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return a legend of pairs of an SVG mark of 14 x 12 and a text; empty if there are none."""
    items = "".join(
        f'<li><svg class="plot" viewBox="0 0 14 12" aria-hidden="true">{mark}</svg>{escape_text(text)}</li>'
        for mark, text in entries
    )
    return f'<ul class="key">{items}</ul>' if items else ""


def grid(figures: Iterable[str]) -> str:
    """Return figures next to each other if there is room; empty if there are none."""
    shown = "".join(figures)
    return f'<div class="grid">{shown}</div>' if shown else ""


def table(headings: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. ``headings`` are strings and whether the column is numeric; cells are HTML."""
    numeric = [' class="n"' if is_numeric else "" for _, is_numeric in headings]
    head = "".join(
        f'<th scope="col"{kind}>{escape_text(text)}</th>'
        for (text, _), kind in zip(headings, numeric, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, numeric, strict=True))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="full"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def render_table(found: Table, headings: Mapping[str, str]) -> str:
    """Return a table of the library without its empty columns; the first column holds names."""
    kept = [at for at, _ in enumerate(found.columns) if any(row[at] not in (None, "") for row in found.rows)]
    shown = [headings.get(found.columns[at], found.columns[at].capitalize()) for at in kept]
    rows = [[_render_value(row[at], found.formats[at]) for at in kept] for row in found.rows]
    return table([(heading, at > 0) for at, heading in enumerate(shown)], rows)


def _render_value(value: Scalar, spec: str) -> str:
    if isinstance(value, (int, float)):
        return escape_text(format(value, spec))
    return "" if value is None else f"<bdi>{escape_name(str(value), LONGEST_NAME)}</bdi>"


def _render_section(section: Section) -> str:
    return (
        f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-h">'
        f'<h2 id="{section.anchor}-h">{escape_text(section.heading)}</h2>\n{section.body}</section>\n'
    )


@cache
def _read_asset(file: str) -> str:
    return files("flyingsquid.reports").joinpath(file).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
