"""Simulated comments, some of them spam, and labeling functions for them, shared by other examples."""

from __future__ import annotations

import numpy as np

import flyingsquid as fs
from flyingsquid.labeling import keywords

SPAM, HAM = 1, 0
SPAM_WORDS = ["subscribe", "check", "channel", "http://win.example", "free", "money", "click", "giveaway"]
HAM_WORDS = ["song", "love", "voice", "album", "dance", "lyrics", "beautiful", "concert"]
OTHER_WORDS = ["this", "the", "my", "so", "video", "and", "please", "best", "ever", "out", "you", "it"]


def draw_comments(n: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Return ``n`` comments, and whether each is spam. The labeling functions do not use the latter."""
    y = rng.integers(0, 2, n)
    texts = []
    for label in y:
        own, foreign = (SPAM_WORDS, HAM_WORDS) if label == SPAM else (HAM_WORDS, SPAM_WORDS)
        words = [*rng.choice(own, rng.integers(1, 4)), *rng.choice(OTHER_WORDS, rng.integers(2, 8))]
        words += list(rng.choice(foreign, int(rng.random() < 0.3)))
        texts.append(" ".join(rng.permutation(words)))
    return texts, y


# For each rule, the word that it looks for and the class that it votes for. No rule covers all words.
RULES = {
    "subscribe": ("subscribe", SPAM),
    "link": ("http", SPAM),
    "money": ("money", SPAM),
    "check out": ("check", SPAM),
    "song": ("song", HAM),
    "love": ("love", HAM),
    "voice": ("voice", HAM),
    "please": ("please", SPAM),  # a bad rule: "please" occurs in both classes
}


def apply_rules(texts: list[str]) -> fs.Votes:
    """Return the votes of all rules, shape (n, m)."""
    lfs = [keywords(word, label, whole_words=False, name=name) for name, (word, label) in RULES.items()]
    return fs.apply(lfs, texts, classes=(HAM, SPAM))
