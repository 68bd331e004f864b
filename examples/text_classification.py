"""Label comments with rules, and train a linear model of n-grams on the labels. It also uses other words."""

from __future__ import annotations

import argparse

import numpy as np
from comments import apply_rules, draw_comments
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

import flyingsquid as fs


def main(n_items: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    texts, y = draw_comments(n_items, rng)
    new_texts, new_y = draw_comments(1_000, rng)
    votes = apply_rules(texts)

    def ngrams() -> Pipeline:
        return make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression())

    label_model = fs.LabelModel(method="covariance")  # supports rules that vote for one class only
    weak = fs.WeaklySupervisedClassifier(ngrams(), label_model).fit(texts, votes)
    majority = fs.WeaklySupervisedClassifier(ngrams(), fs.MajorityVote()).fit(texts, votes)
    gold = ngrams().fit(texts, y)
    scores = {
        "the rules alone": weak.label_model_.score(apply_rules(new_texts), new_y),
        "n-grams on majority votes": majority.score(new_texts, new_y),
        "n-grams on our labels": weak.score(new_texts, new_y),
        "n-grams on gold": gold.score(new_texts, new_y),
    }
    print(weak.label_model_.summary())
    for name, accuracy in scores.items():
        print(f"{name:28} {accuracy:.3f}")
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=5_000)
    main(parser.parse_args().items)
