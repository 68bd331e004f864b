"""Made-up comments under music videos, some of them spam: texts to write labeling functions for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid._random import RandomState, read_random_state

# What people write, with places for words. Both sides beg, feel and count now and then, so no rule is always
# right.
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
    """Comments, and the truth to compare with.

    Attributes
    ----------
    texts : list of n texts
    y : integer array of shape (n,)
        0 a real comment, 1 spam.
    """

    texts: list[str]
    y: NDArray[np.int64]


def simulate_comments(n_items: int, *, random_state: RandomState = None) -> Comments:
    """Draw comments from two lists of phrases.

    Parameters
    ----------
    n_items : int
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the draws. None draws differently every time.

    Examples
    --------
    >>> sample = simulate_comments(3, random_state=4)
    >>> len(sample.texts), sample.y.shape
    (3, (3,))
    """
    rng = read_random_state(random_state)
    y = (rng.random(n_items) < _SPAM_SHARE).astype(np.int64)
    return Comments([_comment(_SPAM if spam else _PRAISE, rng) for spam in y], y)


def _comment(phrases: tuple[str, ...], rng: np.random.Generator) -> str:
    phrase = phrases[rng.integers(len(phrases))]
    words = {slot: choices[rng.integers(len(choices))] for slot, choices in _WORDS.items()}
    text = phrase.format(**words).strip()
    return text.upper() if rng.random() < 0.05 else text
