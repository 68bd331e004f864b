"""Table 1: F1 of label models and end models, and how long label models take to fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import LabelModel, SequenceLabelModel
from flyingsquid.reproduce import peers, triplet_search
from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.clips import in_clips
from flyingsquid.reproduce.published import TABLE_1
from flyingsquid.reproduce.real_sets import RealSet, available, load
from flyingsquid.reproduce.scores import add_one_shares, f1
from flyingsquid.reproduce.table_1_page import draw, render
from flyingsquid.reproduce.text_models import TextTask

Array = NDArray[np.float64]
REPEATS = 7
PEERS = {"snorkel": "DP", "hmm": "HMM"}


def measure(setting: Setting) -> Outcome:
    """Every task whose votes are at hand."""
    if setting.data is None:
        raise ValueError("Table 1 needs real votes")
    reals = [load(setting.data, name) for name in available(setting.data, ARTIFACT.sets)]
    answers = _ask_peers(setting, reals)
    results: dict[str, Any] = {"peers": setting.peers is not None, "tasks": {}, "end_models": {}}
    seconds: dict[str, Any] = {}
    for real in reals:
        labels = _labels_of(real, setting, answers)
        results["tasks"][real.name] = _label_models(real, labels)
        if real.train.texts is not None and real.valid is not None:
            results["end_models"][real.name] = _end_models(real, labels)
        seconds[real.name] = {
            **_fit_seconds(real, 1 if setting.quick else REPEATS),
            **{
                PEERS[peer]: found[real.name].fit_seconds
                for peer, found in answers.items()
                if real.name in found and not found[real.name].failed
            },
        }
    return Outcome(results, seconds)


def _ask_peers(setting: Setting, reals: list[RealSet]) -> dict[str, dict[str, peers.Answer]]:
    if setting.peers is None:
        return {}
    asked = {
        "snorkel": [peers.Question(r.name, r.train.votes, _both(r)) for r in reals],
        # Train and test are two sequences; the answer of the train split is not needed.
        "hmm": [peers.Question(r.name, r.train.votes, r.test.votes) for r in reals if r.chain > 1],
    }
    return {peer: peers.ask(setting.peers, peer, questions) for peer, questions in asked.items() if questions}


def _both(real: RealSet) -> NDArray[np.int8]:
    return np.concatenate([real.train.votes, real.test.votes])


class _Labels:
    """Labels (n, 2) of the train split, where an end model needs them, and of the test split, by method."""

    def __init__(self) -> None:
        self.train: dict[str, Array] = {}
        self.test: dict[str, Array | str] = {}
        self.search: triplet_search.Search | None = None


def _labels_of(real: RealSet, setting: Setting, answers: Mapping[str, Mapping[str, peers.Answer]]) -> _Labels:
    labels = _Labels()
    labels.train["MV"], labels.test["MV"] = (add_one_shares(split.votes) for split in (real.train, real.test))
    for peer, found in answers.items():
        if real.name not in found:
            continue
        answer, column = found[real.name], PEERS[peer]
        if answer.posterior is None:
            labels.test[column] = answer.failed
        elif peer == "snorkel":
            labels.train[column], labels.test[column] = np.split(answer.posterior, [len(real.train.votes)])
        else:
            labels.test[column] = answer.posterior
    if real.valid is not None:
        labels.search = triplet_search.search(real, draws=5 if setting.quick else triplet_search.DRAWS)
        chosen = labels.search.candidates[labels.search.chosen]
        sticky = triplet_search.stickiness_of(real.valid.y) if real.chain > 1 else 0.0
        labels.train["tuned"], labels.test["tuned"] = (
            triplet_search.posterior(split.votes, chosen, real.chain, sticky)
            for split in (real.train, real.test)
        )
    try:
        model = LabelModel().fit(real.train.votes)
        labels.train["default"], labels.test["default"] = (
            model.predict_proba(split.votes) for split in (real.train, real.test)
        )
    except NotIdentifiableError as error:
        labels.test["default"] = str(error)
    return labels


def _label_models(real: RealSet, labels: _Labels) -> dict[str, Any]:
    """Test F1 of every label model, or why there is none; and what the search chose."""
    known = real.test.y >= 0
    row: dict[str, Any] = {
        "items": [len(real.train.y), 0 if real.valid is None else len(real.valid.y), len(real.test.y)],
        "sources": real.train.votes.shape[1],
        "chain": real.chain,
        "positives": round(float(real.test.balance[1]), 4),
        "f1": {
            name: proba if isinstance(proba, str) else round(f1(proba[known], real.test.y[known]), 4)
            for name, proba in labels.test.items()
        },
    }
    if labels.search is not None:
        found = labels.search
        chosen = found.candidates[found.chosen]
        row["f1"]["untuned"] = round(float(found.test[0]), 4)
        row["search"] = {
            "candidates": len(found.candidates),
            "triplets": chosen.triplets,
            "balance": round(chosen.balance, 4),
            "valid_f1": round(float(found.valid[found.chosen]), 4),
            "best_on_test": round(float(found.test.max()), 4),
        }
    return row


def _end_models(real: RealSet, labels: _Labels) -> dict[str, float]:
    task = TextTask(real)
    found = {name: task.by_labels(proba) for name, proba in labels.train.items()}
    return {name: round(value, 4) for name, value in {"TS": task.by_gold(), **found}.items()}


def _fit_seconds(real: RealSet, repeats: int) -> dict[str, float]:
    """Median seconds of the processor of fitting all triplets, or, where these are refused, all pairs.

    Of items without order; of clips, as a chain of frames with sources of their own on every frame; and of
    all frames as one sequence.
    """
    votes = real.train.votes
    balance = None if real.valid is None else real.valid.balance
    if real.chain == 1:
        return {"ours": _median_seconds(partial(LabelModel, class_balance=balance), votes, repeats)}
    graph = DependencyGraph.chain(real.chain, votes.shape[1])
    clips = in_clips(votes, real.chain)
    return {
        "ours": _median_seconds(partial(LabelModel, graph, class_balance=balance), clips, repeats),
        "sequence": _median_seconds(partial(SequenceLabelModel, class_balance=balance), votes, repeats),
    }


def _median_seconds(make: Callable[..., Any], votes: Any, repeats: int) -> float:
    method, found = "triplet", []
    try:
        make(method=method).fit(votes)
    except NotIdentifiableError:
        method = "covariance"
    for _ in range(repeats):
        model = make(method=method)
        start = time.process_time()
        model.fit(votes)
        found.append(time.process_time() - start)
    return float(np.median(found))


ARTIFACT = Artifact(
    "table-1", "Table 1: label models and end models", tuple(TABLE_1), measure, render, draw, (7.5, 3.4)
)
