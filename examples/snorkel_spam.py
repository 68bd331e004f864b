"""Snorkel's spam tutorial, ported with docs/guides/from-snorkel.md: rules, errors, labels, a classifier.

The comments are those of the YouTube spam dataset if FLYINGSQUID_DATA names a directory that has it, and
simulated otherwise. Needs pandas.
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
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

import flyingsquid as fs

ABSTAIN, HAM, SPAM = -1, 0, 1
NICE = {
    "love",
    "best",
    "great",
    "awesome",
    "amazing",
    "beautiful",
    "nice",
    "cool",
    "good",
    "perfect",
}


# ---------------------------------------------------------------------- labeling functions


@fs.labeling_function()
def check(x: Any) -> int:
    return SPAM if "check" in x.text.lower() else ABSTAIN


@fs.labeling_function()
def regex_check_out(x: Any) -> int:
    return SPAM if re.search(r"check.*out", x.text, flags=re.IGNORECASE) else ABSTAIN


@fs.labeling_function()
def short_comment(x: Any) -> int:
    return HAM if len(x.text.split()) < 5 else ABSTAIN


def sentiment(x: Any) -> Any:
    """Preprocessor: the share of words that praise; called once per comment for both functions below."""
    words = re.findall(r"[a-z]+", x.text.lower())
    x.polarity = sum(word in NICE for word in words) / max(1, len(words))
    return x


@fs.labeling_function(pre=[sentiment])
def sentiment_polarity(x: Any) -> int:
    return HAM if x.polarity >= 0.15 else ABSTAIN


@fs.labeling_function(pre=[sentiment])
def no_praise_but_long(x: Any) -> int:
    return SPAM if x.polarity == 0 and len(x.text.split()) > 25 else ABSTAIN


def keyword_lookup(x: Any, keywords: list[str], label: int) -> int:
    return label if any(word in x.text.lower() for word in keywords) else ABSTAIN


def make_keyword_lf(keywords: list[str], label: int = SPAM) -> fs.labeling.LabelingFunction:
    return fs.labeling.LabelingFunction(
        name=f"keyword_{keywords[0]}",
        function=keyword_lookup,
        resources={"keywords": keywords, "label": label},
    )


LFS = [
    make_keyword_lf(["my"]),
    make_keyword_lf(["subscribe"]),
    make_keyword_lf(["http"]),
    make_keyword_lf(["please", "plz"]),
    make_keyword_lf(["song"], HAM),
    check,
    regex_check_out,
    short_comment,
    sentiment_polarity,
    no_praise_but_long,
]


# ---------------------------------------------------------------------- the steps of the tutorial


def main(n_items: int = 2_000) -> dict[str, float]:
    train, dev, test = load(n_items)
    y_dev, y_test = dev["label"].to_numpy(), test["label"].to_numpy()

    # PandasLFApplier(lfs).apply(df)
    L_train, L_dev, L_test = (fs.apply(LFS, df) for df in (train, dev, test))
    coverage = (L_train.to_numpy() != ABSTAIN).mean(axis=0)
    print("coverage of the first rules:", coverage[:3].round(3))

    # LFAnalysis(L, lfs).lf_summary(Y)
    print(fs.summarize(L_dev, y_dev))

    # get_label_buckets(Y_dev, L_dev[:, 1]): comments that a rule calls spam, although they are not
    buckets = fs.analysis.label_buckets(y_dev, L_dev[:, ["keyword_my"]])
    wrong = dev.iloc[buckets.get((HAM, SPAM), [])]
    print(f"keyword_my: {len(wrong)} errors", *wrong["text"].head(2), sep="\n  ")

    # MajorityLabelVoter and LabelModel(cardinality=2).fit(L_train)
    majority = fs.MajorityVote().fit(L_train)
    label_model = fs.LabelModel().fit(L_train)
    scores = {
        "majority vote": majority.score(L_test, y_test),
        "label model": label_model.score(L_test, y_test),
    }

    # filter_unlabeled_dataframe and probs_to_preds, then a classifier of words
    texts, labels, weights = fs.to_training_set(
        train["text"].tolist(),
        label_model.predict_proba(L_train),
        drop_uncovered=True,
        votes=L_train,
        classes=label_model.classes_,
    )
    vectorizer = CountVectorizer(ngram_range=(1, 5))
    classifier = LogisticRegression(C=1e3, solver="liblinear")
    classifier.fit(vectorizer.fit_transform(texts), labels, sample_weight=weights)
    scores["classifier"] = classifier.score(vectorizer.transform(test["text"]), y_test)
    for name, score in scores.items():
        print(f"{name:14} {score:.1%} of test comments correct")
    return scores


def load(n_items: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return comments for training, development and tests; labels of training comments are not used."""
    folder = Path(os.environ.get("FLYINGSQUID_DATA", "")) / "youtube"
    if not (folder / "texts.jsonl.gz").is_file():
        made = fs.datasets.simulate_comments(n_items, random_state=0)
        frame = pd.DataFrame({"text": made.texts, "label": made.y})
        ends = np.cumsum([int(0.7 * n_items), int(0.1 * n_items)])
        return frame[: ends[0]], frame[ends[0] : ends[1]], frame[ends[1] :]
    with gzip.open(folder / "texts.jsonl.gz", "rt", encoding="utf-8") as file:
        frame = pd.DataFrame([json.loads(line) for line in file])
    with np.load(folder / "youtube.npz") as gold:
        frame["label"] = [gold[f"Y_{split}"][i] for split, i in zip(frame["split"], frame["i"], strict=True)]
    train, dev, test = (frame[frame["split"] == split] for split in ("train", "valid", "test"))
    return train, dev, test


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_000, help="how many comments to simulate")
    main(parser.parse_args().items)
