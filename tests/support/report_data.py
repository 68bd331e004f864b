"""For tests of the report: ordinary votes, hostile votes, and a reader of pages."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np

import flyingsquid as fs

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "</script></style></title><script>alert(3)</script>",
    "x" * 100_000,
    "abc\u202efed\u2066 and \u2067",
    "\x00\x01\x1b[31mred\x07\x7f\x85",
    "𝕬𝖘𝖙𝖗𝖆𝖑 🦑 👨\u200d👩\u200d👧",
    "a lone \ud800 surrogate",
    "عربي مع اسم طويل جدا جدا جدا جدا جدا",
    "漢字" * 40,
    "Z" + "\u0335\u0301\u0316" * 40 + "algo",
    "&lt;b&gt; {{x}} ${y} <!-- --> %s ]]>",
    "--><svg/onload=alert(4)>",
    "W" * 60,
    "javascript:alert(5)",
]
HOSTILE_CLASSES = ("<b onclick=alert(6)>ham</b>" + "h" * 500, "'\"</title>\u202espam")
HOSTILE_TITLE = "</title><script>alert(7)</script>" + "T" * 100_000


def hostile() -> dict[str, Any]:
    """Arguments of ``fs.report``: names, classes, texts, fields and a title that try to break out."""
    rng = np.random.default_rng(0)
    accuracies = np.linspace(0.9, 0.55, len(HOSTILE))
    sample = fs.datasets.simulate(1_200, accuracies, coverage=0.8, random_state=rng)
    codes, labels = np.asarray(sample.votes.codes), np.array(HOSTILE_CLASSES, object)
    raw: Any = labels[np.maximum(codes, 0)]
    raw[codes < 0] = None
    raw[rng.random(raw.shape) < 0.02] = "REFUSED"
    votes = fs.Votes.from_classes(raw, classes=HOSTILE_CLASSES, names=HOSTILE, reasons={"REFUSED": "refused"})
    fields = {f"field {k}": k for k in range(40)}
    count = len(HOSTILE)
    data = [
        {HOSTILE[i % count]: HOSTILE[(i + 1) % count], **fields} if i % 2 else HOSTILE[i % count]
        for i in range(votes.n_items)
    ]
    return {"votes": votes, "y": labels[sample.y], "data": data, "title": HOSTILE_TITLE, "ordered": True}


def ordinary() -> dict[str, Any]:
    """Arguments of ``fs.report``: eight sources, one worse than chance, two that share errors, texts."""
    graph = fs.DependencyGraph(8, source_edges=[(0, 1)])
    accuracies = [0.8, 0.8, 0.85, 0.75, 0.7, 0.65, 0.75, 0.4]
    sample = fs.datasets.simulate_graph(2_000, graph, accuracies, coverage=0.8, random_state=3)
    names = [f"judge {letter}" for letter in "ABCDEFGH"]
    votes = fs.Votes(sample.votes.codes, ("ham", "spam"), tuple(names))
    data = [{"text": f"The text of item {i}, which goes on for a while.", "length": i} for i in range(2_000)]
    y = np.array(["ham", "spam"], object)[sample.y]
    return {"votes": votes, "y": y, "data": data, "title": "Eight judges"}


# Elements that have no end.
VOID = {"meta", "input", "br", "link", "img"}


class Reader(HTMLParser):
    """Elements with their attributes, texts, and whether everything that opens is closed."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def of(self, tag):
        return [attributes for found, attributes in self.elements if found == tag]
