"""Datasets: biopsies with hand-written rules, simulated comments with spam, and the WRENCH benchmark.

The biopsies are the breast cancer dataset of scikit-learn: 569 items with 30 measurements each. The rules
were written from the meaning of the measurements (malignant cells are larger, darker in texture and more
irregular in outline); each has a gap in which it abstains. ``flyingsquid demo`` uses them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import RandomState, format_value, read_integer, read_random_state
from flyingsquid.exceptions import VoteFileError, VotesError
from flyingsquid.files.arrays import WrenchItems, read_class_names, read_items
from flyingsquid.votes import Votes

# ---------------------------------------------------------------------- biopsies

# Name, measurement, and the values up to which a rule votes benign and from which it votes malignant. The
# last two rules are as plausible as the others, but hardly better than chance.
_RULES = (
    ("large nuclei", "worst radius", (15.0, 18.0)),
    ("coarse texture", "mean texture", (17.0, 21.0)),
    ("dented outline", "mean concave points", (0.035, 0.06)),
    ("asymmetric", "worst symmetry", (0.26, 0.31)),
    ("uneven sizes", "area error", (25.0, 50.0)),
    ("uneven roughness", "smoothness error", (0.0055, 0.0075)),
    ("ragged edge", "mean fractal dimension", (0.06, 0.065)),
)


@dataclass(frozen=True, slots=True)
class BreastCancer:
    """Measurements, votes of the rules, and gold labels.

    Attributes
    ----------
    features : array of shape (569, 30)
    votes : Votes of shape (569, 7)
    y : array of shape (569,)
        ``"benign"`` or ``"malignant"``, the classes of the votes.
    """

    features: NDArray[np.float64]
    votes: Votes
    y: NDArray[Any]

    def __repr__(self) -> str:
        return f"BreastCancer({self.features.shape[1]} features, {self.votes})"


def load_breast_cancer() -> BreastCancer:
    """Load real measurements with the votes of seven rules and gold labels to compare with.

    Returns
    -------
    BreastCancer
        569 biopsies with their features, votes and diagnoses.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> data = fs.datasets.load_breast_cancer()
    >>> data.votes
    Votes(569 items x 7 sources, classes 'benign', 'malignant', 71% voted, dense int8)
    >>> bool(fs.LabelModel().fit(data.votes).score(data.votes, data.y) > 0.9)
    True
    """
    # Imported here, because scikit-learn's datasets take longer to import than this package.
    from sklearn.datasets import load_breast_cancer as load

    data = load()
    names, columns, thresholds = zip(*_RULES, strict=True)
    at = [data.feature_names.tolist().index(column) for column in columns]
    classes = ("benign", "malignant")
    votes = Votes.from_scores(data.data[:, at], thresholds=list(thresholds), classes=classes, names=names)
    # scikit-learn codes malignant as 0.
    return BreastCancer(data.data, votes, np.array(votes.classes)[1 - data.target])


# ---------------------------------------------------------------------- comments

# Phrases with slots for words. Both classes share some of the words, so no rule is always right.
_PRAISE = (
    "I love this {thing} {mark}",
    "best {thing} ever",
    "{singer} has such a beautiful voice",
    "this {thing} is {good} {mark}",
    "who else is listening in {year}?",
    "{count} views and it is still {good}",
    "my {relative} and I dance to this every morning, please never stop singing",
    "came here because of {singer} {mark}",
    "the lyrics make me cry every time I hear them",
    "{good} {mark}",
    "I have not heard a {thing} like this for years, the way {singer} sings the second part is {good}",
)
_SPAM = (
    "check out my {place} {mark}",
    "subscribe to my {place} please",
    "check this out {link} {mark}",
    "please visit {link}, it takes a second and helps me a lot",
    "win a free {prize} at {link}, check it out",
    "hey guys, I make {thing}s too, please check out my {place} and subscribe",
    "make money at home as {count} people do, subscribe to my {place} and click {link}",
    "I know nobody reads this but I am a young singer with a dream and no money for a studio, so if you have "
    "a minute please visit my {place}, leave a like, and tell your friends, it would mean the world to me",
    "love this {thing}, now listen to mine on my {place}",
    "plz sub to me {mark}",
    "follow {singer} fans here {link}, and please look at my {place} too",
)
_WORDS = {
    "thing": ("song", "track", "video", "cover", "beat"),
    "mark": ("!!!", "<3", ":)", "", "lol", "."),
    "singer": ("Shakira", "Eminem", "Katy Perry", "Rihanna", "Adele"),
    "good": ("amazing", "awesome", "so nice", "the best", "beautiful"),
    "year": ("2014", "2015"),
    "count": ("2 billion", "10,000", "a million"),
    "relative": ("sister", "dad", "best friend"),
    "place": ("channel", "page", "new video", "music", "blog"),
    "link": ("http://win.example/x", "www.free.example", "https://tube.example/watch"),
    "prize": ("phone", "gift card", "shirt"),
}
_SPAM_SHARE = 0.45


@dataclass(frozen=True, slots=True)
class Comments:
    """Comments and their true classes.

    Attributes
    ----------
    texts : list of n str
    y : integer array of shape (n,)
        0 for a real comment, 1 for spam.
    """

    texts: list[str]
    y: NDArray[np.int64]


def simulate_comments(n_items: int, *, random_state: RandomState = None) -> Comments:
    """Simulate comments on music videos, some of them spam, as items for labeling functions.

    Parameters
    ----------
    n_items : int
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the draws. None uses a new seed on every call.

    Examples
    --------
    >>> sample = simulate_comments(3, random_state=4)
    >>> len(sample.texts), sample.y.shape
    (3, (3,))
    """
    n_items = read_integer("n_items", n_items, 1)
    rng = read_random_state(random_state)
    y = (rng.random(n_items) < _SPAM_SHARE).astype(np.int64)
    return Comments([_comment(_SPAM if spam else _PRAISE, rng) for spam in y], y)


def _comment(phrases: tuple[str, ...], rng: np.random.Generator) -> str:
    phrase = phrases[rng.integers(len(phrases))]
    words = {slot: choices[rng.integers(len(choices))] for slot, choices in _WORDS.items()}
    text = phrase.format(**words).strip()
    return text.upper() if rng.random() < 0.05 else text


# ---------------------------------------------------------------------- WRENCH


_SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True, eq=False)
class WrenchSplit:
    """One split of a WRENCH dataset.

    Attributes
    ----------
    votes : Votes of shape (n, m)
        Classes 0..K-1.
    y : integer array of shape (n,)
        True classes, -1 for unknown ones.
    ids : tuple of n str
    data : tuple of n dict
        The content of the items, as in the file.
    """

    votes: Votes
    y: NDArray[Any]
    ids: tuple[str, ...]
    data: tuple[dict[str, Any], ...]

    @property
    def texts(self) -> list[str]:
        """The text of every item."""
        for key, content in zip(self.ids, self.data, strict=True):
            if not isinstance(content.get("text"), str):
                keys = ", ".join(map(repr, content)) or "nothing"
                raise VotesError(f"Item {format_value(key)} has no text; its `data` contains {keys}.")
        return [content["text"] for content in self.data]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Wrench:
    """A WRENCH dataset.

    Attributes
    ----------
    splits : mapping of str to WrenchSplit
        The splits "train", "valid" and "test", if they have a file.
    class_names : tuple of K str
        The name of each class; its number if there is no ``label.json``.
    """

    splits: Mapping[str, WrenchSplit]
    class_names: tuple[str, ...]

    def __getitem__(self, split: str) -> WrenchSplit:
        if split not in self.splits:
            raise VotesError(f"`split` must be one of {', '.join(self.splits)}; got {format_value(split)}.")
        return self.splits[split]

    @property
    def train(self) -> WrenchSplit:
        return self["train"]

    @property
    def valid(self) -> WrenchSplit:
        return self["valid"]

    @property
    def test(self) -> WrenchSplit:
        return self["test"]


def load_wrench(directory: str | os.PathLike[str]) -> Wrench:
    """Read a directory of the WRENCH benchmark: train.json, valid.json, test.json and label.json.

    Parameters
    ----------
    directory : path-like
        Splits without a file are left out. Without ``label.json`` the classes are those that occur.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import flyingsquid as fs
    >>> item = {"label": 1, "weak_labels": [1, -1, 0], "data": {"text": "win a prize"}}
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = pathlib.Path(directory, "train.json").write_text(json.dumps({"0": item}))
    ...     _ = pathlib.Path(directory, "label.json").write_text('{"0": "ham", "1": "spam"}')
    ...     spam = fs.datasets.load_wrench(directory)
    >>> spam.train.votes
    Votes(1 item x 3 sources, classes 0, 1, 67% voted, dense int8)
    >>> spam.train.y, spam.train.texts, spam.class_names
    (array([1], dtype=int16), ['win a prize'], ('ham', 'spam'))
    """
    home = Path(directory)
    files = {split: home / f"{split}.json" for split in _SPLITS}
    found = {split: read_items(path) for split, path in files.items() if path.is_file()}
    if not found:
        raise VoteFileError(
            "The directory contains none of train.json, valid.json and test.json.", path=str(home)
        )
    widths = {split: items.weak_labels.shape[1] for split, items in found.items()}
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{width} in {split}" for split, width in widths.items())
        raise VoteFileError(f"The splits have different numbers of weak labels: {shown}.", path=str(home))
    label_file = home / "label.json"
    n_classes = 1 + max(int(max(items.weak_labels.max(), items.labels.max())) for items in found.values())
    names = (
        read_class_names(label_file)
        if label_file.is_file()
        else tuple(str(k) for k in range(max(2, n_classes)))
    )
    if n_classes > len(names):
        raise VoteFileError(
            f"label.json names {len(names)} classes, counted from 0, but class {n_classes - 1} occurs.",
            path=str(home),
        )
    splits = {split: _split(items, len(names)) for split, items in found.items()}
    return Wrench(MappingProxyType(splits), names)


def _split(items: WrenchItems, n_classes: int) -> WrenchSplit:
    votes = Votes.from_classes(items.weak_labels, classes=tuple(range(n_classes)))
    return WrenchSplit(votes, np.asarray(items.labels), items.ids, items.data)
