"""Label models in scikit-learn: cross-validation, grid search and pipelines, with gold labels for ``fit``."""

from __future__ import annotations

import argparse

import numpy as np
import sklearn
from comments import apply_rules, draw_comments
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import flyingsquid as fs


def main(n_items: int = 2_000) -> dict[str, float]:
    rng = np.random.default_rng(0)
    texts, y = draw_comments(n_items, rng)
    new_texts, new_y = draw_comments(1_000, rng)
    votes = apply_rules(texts)
    # Gold labels of a tenth of the comments; -1 is unknown.
    gold = np.where(rng.random(n_items) < 0.1, y, -1)

    with sklearn.config_context(enable_metadata_routing=True):
        # Gold labels are split together with the votes and passed to fit.
        label_model = fs.LabelModel().set_fit_request(gold=True)
        folds = cross_validate(label_model, votes, y, params={"gold": gold}, cv=5)
        search = GridSearchCV(label_model, {"method": ["auto", "triplet", "covariance"]}, cv=5).fit(
            votes, y, gold=gold
        )

        # From texts to labels in one pipeline: the rules are a step like any other.
        rules = FunctionTransformer(apply_rules)
        pipeline = make_pipeline(rules, clone(search.best_estimator_)).fit(texts, gold=gold)

    # A classifier of words, trained on the labels of all comments.
    rows, labels, weights = fs.to_training_set(texts, search.best_estimator_.predict_proba(votes))
    classifier = make_pipeline(TfidfVectorizer(), LogisticRegression())
    classifier.fit(rows, labels, logisticregression__sample_weight=weights)
    scores = {
        "label model, cross-validated": float(folds["test_score"].mean()),
        f"best method: {search.best_params_['method']}": float(search.best_score_),
        "rules and label model": pipeline.score(new_texts, new_y),
        "classifier": classifier.score(new_texts, new_y),
        "gold labels used": float(pipeline[-1].n_gold_),
    }
    for name, score in scores.items():
        print(f"{name:28} {score:.3f}")
    print(pipeline.predict_proba(new_texts, output="pandas").head(3).round(3))
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_000)
    main(parser.parse_args().items)
