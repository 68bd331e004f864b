"""End models on texts: words and pairs of words, and a logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from flyingsquid.models import to_training_set
from flyingsquid.reproduce.real_sets import RealSet, Split
from flyingsquid.reproduce.scores import f1


class TextTask:
    """Features of all splits of a set with texts; words are those of the train split.

    A text nobody votes on is not trained on.
    """

    def __init__(self, real: RealSet) -> None:
        if real.train.texts is None or real.train is real.test:
            raise ValueError(f"{real.name} has no texts to train on")
        self.real = real
        self._words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(real.train.texts)

    def features(self, split: Split) -> Any:
        """One row a text."""
        return self._words.transform(split.texts or [])

    def by_labels(self, proba: NDArray[np.float64]) -> float:
        """Test F1 when trained on labels (n, 2) of the train split."""
        train = self.real.train
        chosen = to_training_set(self.features(train), proba, votes=train.votes)
        rows, y, weight = chosen.expanded()
        return self._score(LogisticRegression(max_iter=2_000).fit(rows, y, sample_weight=weight))

    def by_gold(self) -> float:
        """Test F1 when trained on the labels of the small valid split."""
        valid = self.real.valid
        if valid is None:
            raise ValueError(f"{self.real.name} has no labelled valid split")
        return self._score(LogisticRegression(max_iter=2_000).fit(self.features(valid), valid.y))

    def _score(self, model: Any) -> float:
        test = self.real.test
        return f1(np.asarray(model.predict_proba(self.features(test))), test.y)
