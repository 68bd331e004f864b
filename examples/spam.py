"""Label comments with ten labeling functions, compare with majority vote, and write a report.

The comments are those of the YouTube spam dataset if FLYINGSQUID_DATA names a directory that has it
(``youtube/texts.jsonl.gz`` and ``youtube/youtube.npz``), and simulated otherwise.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

import flyingsquid as fs
from flyingsquid.labeling import keywords, regex

HAM, SPAM = 0, 1


@fs.labeling_function
def link(x: Any) -> int | None:
    """Spam contains links."""
    return SPAM if re.search(r"https?:|www\.|\.com\b|href=", x.text) else None


@fs.labeling_function
def short(x: Any) -> int | None:
    """Praise is usually short."""
    return HAM if len(x.text.split()) < 7 else None


@fs.labeling_function
def long(x: Any) -> int | None:
    """Advertisements are longer than praise."""
    return SPAM if len(x.text.split()) > 40 else None


@fs.labeling_function
def feeling(x: Any) -> int | None:
    return (
        HAM if re.search(r"(?i)\b(love|best|beautiful|awesome|amazing|nice|lol)\b|<3|:\)", x.text) else None
    )


LFS = [
    link,
    short,
    long,
    feeling,
    keywords(["subscribe", "suscribe", "sub"], SPAM, name="subscribe"),
    keywords(["please", "pls", "plz", "help me"], SPAM, name="begs"),
    keywords(["song", "voice", "lyrics", "music", "listening", "dance", "singer"], HAM, name="the song"),
    regex(r"(?i)\bcheck\b.{0,30}\b(out|my|this)\b", SPAM, name="check out"),
    regex(r"(?i)\bmy\b.{0,20}\b(channel|videos?|page|music|covers?|blog|site)\b", SPAM, name="my channel"),
    regex(r"(?i)\b(billion|million|views?|20\d\d|years? old)\b", HAM, name="counts views"),
]


def main(n_items: int, report: Path | None = None) -> dict[str, float]:
    comments, y = load(n_items)
    votes = fs.apply(LFS, comments)
    model = fs.LabelModel().fit(votes)
    scores = {
        "label model": model.score(votes, y),
        "majority vote": fs.MajorityVote().fit(votes).score(votes, y),
    }
    print(model.summary())
    for name, accuracy in scores.items():
        print(f"{name:14} {accuracy:.3f}")
    if report is not None:
        print(fs.report(votes, model=model, data=comments, path=report, title="Spam by ten functions"))
    return scores


def load(n_items: int) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return comments, and whether each is spam, which is used only for scoring."""
    directory = Path(os.environ.get("FLYINGSQUID_DATA", "")) / "youtube"
    if not (directory / "texts.jsonl.gz").is_file():
        made = fs.datasets.simulate_comments(n_items, random_state=0)
        return [{"text": text} for text in made.texts], made.y
    with gzip.open(directory / "texts.jsonl.gz", "rt", encoding="utf-8") as file:
        comments = [json.loads(line) for line in file]  # text, split and position in the split
    with np.load(directory / "youtube.npz") as gold:
        y = np.array([gold[f"Y_{comment['split']}"][comment["i"]] for comment in comments])
    return comments, y


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_000, help="number of comments to simulate")
    parser.add_argument("--report", type=Path, default=Path("spam.html"), help="where to write the report")
    given = parser.parse_args()
    main(given.items, given.report)
