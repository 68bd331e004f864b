"""The HTML page: document, sections, figures and tables. It loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from flyingsquid.reports.escape import escape_name, escape_text


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
