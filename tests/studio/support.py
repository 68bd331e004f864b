"""A small dataset and a workspace for tests of the studio."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from flyingsquid.studio.columns import read_items
from flyingsquid.studio.project import Project
from flyingsquid.studio.workspace import Workspace

SPAM = ["check out my channel", "subscribe now", "free money", "like and share", "visit my page"]
HAM = ["great song", "love this video", "what a voice", "best chorus ever", "amazing drums"]
RULES = [
    {"kind": "keywords", "words": ["subscribe", "channel"], "label": 1},
    {"kind": "regex", "pattern": r"free|visit\s", "label": 1},
    {"kind": "keywords", "words": ["song", "voice"], "label": 0},
    {"kind": "comparison", "column": "likes", "operator": ">=", "value": 12, "label": 0},
]


def write_comments(path: Path, n: int = 400, *, with_votes: bool = False) -> Path:
    """Write comments in two classes with likes, and optionally a column of votes."""
    rng = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "likes", *(["annotator"] if with_votes else [])])
        for i in range(n):
            spam = i % 5 < 2
            words = [*rng.sample(SPAM if spam else HAM, 2), f"word{rng.randrange(30)}"]
            if rng.random() < 0.1:
                words.append(rng.choice(HAM if spam else SPAM))
            likes = "" if i % 50 == 3 else str(rng.randrange(5) if spam else rng.randrange(30))
            vote = ["spam" if (rng.random() < 0.8) == spam else "ham"] if with_votes else []
            rows.writerow([f"c{i}", " ".join(words), likes, *vote])
    return path


@contextmanager
def open_workspace(directory: Path, *, rules=RULES, n=400, with_votes=False, **options):
    """Open a workspace on comments, with rules that were applied."""
    data = directory / "comments.csv"
    if not data.exists():
        write_comments(data, n, with_votes=with_votes)
    features = options.pop("features", None)
    items = read_items(data, features=features)
    project = Project.open(directory / "comments.studio.json", len(items), items.name)
    options = {"background": False, **options}
    with Workspace(items, project, **options) as workspace:
        if not project.state.classes:
            workspace.act({"type": "set_classes", "classes": ["ham", "spam"]})
        if not project.state.sources or with_votes:
            for rule in rules:
                workspace.act({"type": "add_source", "source": rule})
        workspace.wait()
        yield workspace


def spam_features(n: int = 400) -> np.ndarray:
    """Return embeddings that tell the classes of the comments apart."""
    rng = np.random.default_rng(0)
    spam = np.arange(n) % 5 < 2
    return np.column_stack([spam, ~spam]) + 0.1 * rng.random((n, 2))


@contextmanager
def run_python(*arguments: str, **options):
    """Start Python in another process, which is killed at the end if it still runs."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()
