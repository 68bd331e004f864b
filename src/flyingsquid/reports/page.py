"""The page: one file that needs nothing else, and runs nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from flyingsquid.reports.escape import name, safe


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: anchor, heading and HTML, which is empty where there is nothing to say."""

    anchor: str
    heading: str
    body: str


def page(title: str, facts: str, sections: Sequence[Section], ending: str) -> str:
    """The whole document. ``title`` is text; ``facts`` and ``ending`` are HTML."""
    style, script = _asset("page.css"), _asset("page.js")
    # Nothing may be loaded, and no style or script may run but these two, whatever the data hold.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = [section for section in sections if section.body]
    links = "".join(f'<a href="#{s.anchor}">{safe(s.heading)}</a>' for s in shown)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="generator" content="flyingsquid">\n'
        f"<title>{name(title, 120)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#summary">To the summary</a>\n'
        f'<header><div><h1><bdi>{name(title, 120)}</bdi></h1><p class="facts">{facts}</p></div>'
        '<button type="button" id="theme" hidden>Dark</button>'
        f'<nav aria-label="Contents">{links}</nav></header>\n'
        f"<main>\n{''.join(map(_section, shown))}</main>\n"
        f"<footer>{ending}</footer>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def figure(heading: str, drawing: str, caption: str, *, key: str = "", wide: bool = False) -> str:
    """A plot with its heading and the words that say how to read it. The heading is text, the rest HTML."""
    kind = ' class="wide"' if wide else ""
    return f"<figure{kind}><h3>{safe(heading)}</h3>{key}{drawing}<figcaption>{caption}</figcaption></figure>"


def key(entries: Iterable[tuple[str, str]]) -> str:
    """What the marks of a plot stand for: pairs of an SVG mark within 14 x 12 and words."""
    items = "".join(
        f'<li><svg class="plot" viewBox="0 0 14 12" aria-hidden="true">{mark}</svg>{safe(text)}</li>'
        for mark, text in entries
    )
    return f'<ul class="key">{items}</ul>'


def grid(figures: Iterable[str]) -> str:
    """Figures beside each other where there is room; empty without any."""
    shown = "".join(figures)
    return f'<div class="grid">{shown}</div>' if shown else ""


def _section(section: Section) -> str:
    return (
        f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-h">'
        f'<h2 id="{section.anchor}-h">{safe(section.heading)}</h2>\n{section.body}</section>\n'
    )


@cache
def _asset(file: str) -> str:
    return files("flyingsquid.reports").joinpath(file).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
