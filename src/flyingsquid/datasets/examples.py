"""Small datasets for examples: biopsies with hand-written rules, and simulated comments with spam.

The biopsies are the breast cancer dataset of scikit-learn: 569 items with 30 measurements each. The rules
were written from the meaning of the measurements (malignant cells are larger, darker in texture and more
irregular in outline); each has a gap in which it abstains. ``flyingsquid demo`` uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._values import is_integer, option_error
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


def load_breast_cancer() -> BreastCancer:
    """Load real measurements with the votes of seven rules and gold labels to compare with.

    >>> import flyingsquid as fs
    >>> data = load_breast_cancer()
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
    if not is_integer(n_items) or n_items < 1:
        raise option_error("n_items", "an integer >= 1", n_items)
    rng = read_random_state(random_state)
    y = (rng.random(n_items) < _SPAM_SHARE).astype(np.int64)
    return Comments([_comment(_SPAM if spam else _PRAISE, rng) for spam in y], y)


def _comment(phrases: tuple[str, ...], rng: np.random.Generator) -> str:
    phrase = phrases[rng.integers(len(phrases))]
    words = {slot: choices[rng.integers(len(choices))] for slot, choices in _WORDS.items()}
    text = phrase.format(**words).strip()
    return text.upper() if rng.random() < 0.05 else text
