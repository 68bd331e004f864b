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


class Node:
    """An element of a page: tag, attributes, parent and children, which are nodes or strings."""

    def __init__(self, tag="", attributes=None, parent=None):
        self.tag, self.attributes, self.parent = tag, attributes or {}, parent
        self.children = []

    @property
    def text(self):
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(parts).split())

    def all(self, tag, **attributes):
        """Return the elements below this one; underscores in names of attributes are hyphens."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
                if child.tag == tag and all(child.attributes.get(n) == v for n, v in wanted.items()):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found


class Page(HTMLParser):
    """The tree of a report, and the parts that hold numbers."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.root = self._at = Node()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs), self._at)
        self._at.children.append(node)
        if tag not in VOID:
            self._at = node

    def handle_startendtag(self, tag, attrs):
        self._at.children.append(Node(tag, dict(attrs), self._at))

    def handle_endtag(self, tag):
        self._at = self._at.parent

    def handle_data(self, data):
        self._at.children.append(data)

    def section(self, anchor):
        """Return a section; None if the page does not have it."""
        return next(iter(self.root.all("section", id=anchor)), None)

    def facts(self):
        """Return the tiles of the summary by key."""
        return {
            tile.attributes["data-fact"]: tile.all("dd")[0].text
            for tile in self.section("summary").all("div")
            if "data-fact" in tile.attributes
        }

    def figure(self, heading):
        """Return a figure by its heading; None if the page does not have it."""
        found = (each for each in self.root.all("figure") if each.all("h3")[0].text == heading)
        return next(found, None)

    def hints(self, heading):
        """Return the texts that a chart shows on hovering."""
        figure = self.figure(heading)
        return [] if figure is None else [title.text for title in figure.all("title")]

    def table(self, where):
        """Return the first table below a node as one dictionary of texts per row."""
        head = [cell.text for cell in where.all("thead")[0].all("th")]
        rows = []
        for row in where.all("tbody")[0].all("tr"):
            cells = [child for child in row.children if isinstance(child, Node)]
            rows.append(dict(zip(head, cells, strict=True)))
        return rows


def watched_stream():
    """A stream whose first source changes, and an online model that has seen it."""
    stream = fs.datasets.simulate_drift(
        6_000, [0.9, 0.8, 0.7], [0.6, 0.8, 0.7], kind="sudden", random_state=0
    )
    online = fs.OnlineLabelModel(window=1_000, method="triplet")
    for start in range(0, 6_000, 200):
        online.partial_fit(stream.votes[start : start + 200])
    return stream, online
