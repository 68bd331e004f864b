"""Table 1: F1 of label models and end models, and fit times of label models."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.paper import triplet_search
from benchmarks.paper.artifact import (
    AMBER,
    BLACK,
    BLUE,
    DARK,
    GRAY,
    LIGHT,
    RED,
    Artifact,
    Outcome,
    Setting,
    number,
    percent,
    table,
)
from benchmarks.paper.data import TABLE_1, Array, Dataset, available, in_clips, load
from benchmarks.quality import peers
from benchmarks.quality.scores import add_one_shares, f1
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import LabelModel, SequenceLabelModel
from flyingsquid.models.end_model import to_training_set

REPEATS = 7
SEEDS = range(5)
PEERS = {"snorkel": "DP", "hmm": "HMM"}
PEER_SECONDS = 300  # CPU seconds per dataset
# Why a row differs from the paper by more than two points.
LABEL_MODEL_REASONS = {
    "spouse": "the train split (22,254 items) is not public; fitted on the votes of the valid split",
    "youtube": "other rules and splits (WRENCH); no setting reaches the paper's number on these votes",
    "weather": "the public gold labels are an aggregate of these votes, so every label model is right",
    "basketball": "other frames, five times as many, in an order in which the label changes once",
}
END_MODEL_REASONS = {
    "spouse": "train split not public; features are those of the sentence, not of the pair of persons",
    "youtube": "other rules and splits (WRENCH); a linear model instead of a fine-tuned network",
    "weather": "50 items to score, gold labels that are an aggregate of the votes, no BERT fine-tuning",
}
NO_END_MODELS = (
    ("Interviews", "votes and frames are not public"),
    (
        "Commercial, Tennis Rally, Basketball",
        "images are not public; Table 2 has label models of real frames",
    ),
)
_METHODS = {
    "MV": "majority vote",
    "DP": "DP: Snorkel",
    "HMM": "HMM by EM",
    "untuned": "paper's, untuned",
    "tuned": "paper's, tuned",
    "default": "`LabelModel()`",
}
_TRIPLETS = {
    "mean": "the mean over triplets",
    "median": "the median over triplets",
    "one per source": "one triplet per source",
}


def measure(setting: Setting) -> Outcome:
    """Measure every task whose votes were found."""
    if setting.data is None:
        raise ValueError("Table 1 needs real votes.")
    datasets = [load(setting.data, name) for name in available(setting.data, ARTIFACT.datasets)]
    answers = _ask_peers(setting, datasets)
    results: dict[str, Any] = {"peers": setting.peers is not None, "tasks": {}, "end_models": {}}
    seconds: dict[str, Any] = {}
    for dataset in datasets:
        name, found = dataset.name, answers.get(dataset.name, {})
        labels = _labels_of(dataset, setting, found)
        results["tasks"][name] = _label_models(dataset, labels)
        # An end model needs items to train on that are not scored, and a valid split for the supervised one.
        if dataset.train is not dataset.test and dataset.valid is not None:
            seeds = SEEDS[:1] if setting.quick else SEEDS
            for features, X in _features(dataset).items():
                results["end_models"][f"{name}, {features}"] = _end_models(dataset, labels, X, seeds)
        seconds[name] = {
            **_fit_seconds(dataset, 1 if setting.quick else REPEATS),
            **{PEERS[peer]: answer.fit_seconds for peer, answer in found.items() if not answer.failed},
        }
    return Outcome(results, seconds)


def _ask_peers(setting: Setting, datasets: list[Dataset]) -> dict[str, dict[str, peers.Answer]]:
    """Return the answers of other label models by dataset and peer; measured now, because they are timed."""
    found: dict[str, dict[str, peers.Answer]] = {dataset.name: {} for dataset in datasets}
    if setting.peers is None:
        return found
    questions = {
        "snorkel": [
            peers.Question(d.name, d.train.votes, np.concatenate([d.train.votes, d.test.votes]), 2)
            for d in datasets
        ],
        # Train and test are two sequences; the labels of the train split are not needed.
        "hmm": [peers.Question(d.name, d.train.votes, d.test.votes, 2) for d in datasets if d.chain > 1],
    }
    with tempfile.TemporaryDirectory() as cache:
        for peer, asked in questions.items():
            answers = peers.answer(peer, asked, cache=Path(cache), limit=PEER_SECONDS, python=setting.peers)
            for question in asked:
                found[question.name][peer] = answers[question.key]
    return found


class _Labels:
    """Labels (n, 2) of the train and the test split by method; a string is the reason why there are none."""

    def __init__(self) -> None:
        self.train: dict[str, Array] = {}
        self.test: dict[str, Array | str] = {}
        self.search: triplet_search.Search | None = None


def _labels_of(dataset: Dataset, setting: Setting, answers: Mapping[str, peers.Answer]) -> _Labels:
    labels, splits = _Labels(), (dataset.train, dataset.test)
    labels.train["MV"], labels.test["MV"] = (add_one_shares(split.votes) for split in splits)
    for peer, answer in answers.items():
        column = PEERS[peer]
        if answer.posterior is None:
            labels.test[column] = answer.failed
        elif peer == "snorkel":
            labels.train[column], labels.test[column] = np.split(answer.posterior, [len(dataset.train.votes)])
        else:
            labels.test[column] = answer.posterior
    if dataset.valid is not None:
        labels.search = triplet_search.search(dataset, draws=5 if setting.quick else triplet_search.DRAWS)
        chosen = labels.search.candidates[labels.search.chosen]
        labels.train["tuned"], labels.test["tuned"] = (
            triplet_search.posterior(split.votes, chosen, dataset.chain, dataset.stickiness)
            for split in splits
        )
    try:
        model = LabelModel().fit(dataset.train.votes)
        labels.train["default"], labels.test["default"] = (
            model.predict_proba(split.votes) for split in splits
        )
    except NotIdentifiableError as error:
        labels.test["default"] = str(error)
    return labels


def _label_models(dataset: Dataset, labels: _Labels) -> dict[str, Any]:
    """Return test F1 of every label model, or why there is none; and the result of the search."""
    test, valid = dataset.test, dataset.valid
    row: dict[str, Any] = {
        "items": [len(dataset.train.y), 0 if valid is None else len(valid.y), len(test.y)],
        "sources": dataset.train.votes.shape[1],
        "chain": dataset.chain,
        "positives": round(float(test.balance[1]), 4),
        "f1": {
            name: proba if isinstance(proba, str) else round(triplet_search.f1_of(proba, test), 4)
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


def _features(dataset: Dataset) -> dict[str, tuple[Any, Any, Any]]:
    """Return features of the train, valid and test split by their name."""
    splits = [split for split in (dataset.train, dataset.valid, dataset.test) if split is not None]
    found: dict[str, Any] = {}
    if all(split.embeddings is not None for split in splits):
        found["embeddings"] = tuple(split.embeddings for split in splits)
    if all(split.texts is not None for split in splits):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(dataset.train.texts)
        found["words"] = tuple(words.transform(split.texts) for split in splits)
    return found


def _end_models(
    dataset: Dataset, labels: _Labels, X: tuple[Any, Any, Any], seeds: Iterable[int]
) -> dict[str, list[float]]:
    """Return test F1 of a logistic regression by the labels it is trained on: mean and standard deviation.

    Every seed draws the training items with replacement. Items without votes are not trained on. The
    supervised one is trained on the gold labels of the valid split.
    """
    X_train, X_valid, X_test = X
    gold = np.empty(0) if dataset.valid is None else dataset.valid.y
    found: dict[str, list[float]] = {}

    def score(method: str, rows: Any, y: Any, weight: Any = None) -> None:
        model = LogisticRegression(max_iter=2_000).fit(rows, y, sample_weight=weight)
        found.setdefault(method, []).append(f1(np.asarray(model.predict_proba(X_test)), dataset.test.y))

    for seed in seeds:
        rng = np.random.default_rng(seed)
        drawn = rng.integers(len(gold), size=len(gold))
        score("TS", X_valid[drawn], gold[drawn])
        drawn = rng.integers(len(dataset.train.votes), size=len(dataset.train.votes))
        for name, proba in labels.train.items():
            chosen = to_training_set(X_train[drawn], proba[drawn], votes=dataset.train.votes[drawn])
            score(name, *chosen.expanded())
    return {
        name: [round(float(np.mean(values)), 4), round(float(np.std(values)), 4)]
        for name, values in found.items()
    }


def _fit_seconds(dataset: Dataset, repeats: int) -> dict[str, float]:
    """Return median CPU seconds of a fit: of items, of clips as a chain of frames, of one sequence."""
    votes = dataset.train.votes
    balance = None if dataset.valid is None else dataset.valid.balance
    if dataset.chain == 1:
        return {"ours": _median_seconds(partial(LabelModel, class_balance=balance), votes, repeats)}
    graph = DependencyGraph.chain(dataset.chain, votes.shape[1])
    clips = in_clips(votes, dataset.chain)
    return {
        "ours": _median_seconds(partial(LabelModel, graph, class_balance=balance), clips, repeats),
        "sequence": _median_seconds(partial(SequenceLabelModel, class_balance=balance), votes, repeats),
    }


def _median_seconds(make: Callable[..., Any], votes: Any, repeats: int) -> float:
    """Time the mean over all triplets or, if triplets determine nothing, all pairs."""
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


# ---------------------------------------------------------------------- the page

_LABEL_MODELS = """\
The table shows the F1 of class 1 on the test split in %, for label models only. They are fitted to the train
split without gold labels. A tie counts as half right.

- *DP* is Snorkel 0.10.0, 500 epochs. *HMM by EM* is hmmlearn 0.3.3 on the frames as one sequence, with
  sources that are independent given the class, started from majority vote. It is an iterative model of
  sequences that is used instead of SDP.
- *Paper's, untuned*: the mean over all triplets, the class balance of the valid split, chains of the paper's
  length D.
- *Paper's, tuned*: class balance and triplets by F1 on the valid split, among {candidates} settings (20
  balances; the mean, the median, or one triplet per source: all such choices, or {draws} random ones).
  Nothing else is tuned.
- `LabelModel()` is this package's default: no gold labels, no tuning, single frames.
"""
_COMPARISON = """\
The label model as the paper tunes it, next to the paper's number. A reason is given if they differ by more
than two points.
"""
_END_MODELS = """\
The table shows the F1 on the test split in % of a logistic regression that is trained on labels of the train
split: the mean and the standard deviation over {seeds} seeds, each of which draws the training items with
replacement. *TS* is trained on the gold labels of the valid split. Features are sentence embeddings (MiniLM,
not fine-tuned), or words and pairs of words. The paper's numbers are in parentheses. `spouse` has no train
split, so the votes of the valid split take its place. Only *TS* and the tuning use its gold labels.
"""
_TIMES = """\
The table shows CPU seconds with one thread. *Ours* is the median of repeated fits by the mean over all
triplets (by `method="covariance"` on basketball, because triplets fail there). On video,
*ours* is a chain of D frames with separate sources for every frame, as in the paper; *one sequence* is
`SequenceLabelModel`, whose sources are the same for all frames. *Speedup* is the ratio to Snorkel, which
models single frames. The paper's speedup is relative to the software of 2020.
"""


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:
    """Return the body of the page."""
    tasks = results["tasks"]
    size = max((row["search"]["candidates"] for row in tasks.values() if "search" in row), default=0)
    intro = _LABEL_MODELS.format(candidates=f"{size:,}", draws=size // 20 - 2)
    parts = ["## Label models", "", intro, _label_model_table(results), ""]
    parts += ["## Compared with the paper", "", _COMPARISON, _comparison(tasks), ""]
    if results["end_models"]:
        intro = _END_MODELS.format(seeds=len(SEEDS))
        parts += ["## End models", "", intro, _end_model_table(results["end_models"]), ""]
        parts += ["Rows of the paper without end models here:", ""]
        parts += [f"- {task}: {reason}." for task, reason in NO_END_MODELS] + [""]
    parts += ["## Fit time", "", _TIMES, _time_table(timings), ""]
    return "\n".join(parts)


def _label_model_table(results: Mapping[str, Any]) -> str:
    rows = []
    for name, row in results["tasks"].items():
        cells = [_cell(row["f1"].get(method), results["peers"], method, row["chain"]) for method in _METHODS]
        sizes = " / ".join(f"{n:,}" for n in row["items"])
        facts = [f"`{name}`", sizes, str(row["sources"]), str(row["chain"]), percent(row["positives"])]
        rows.append([*facts, *cells, f"{TABLE_1[name].label_model:.1f}"])
    facts = ["task", "train / valid / test", "sources", "D", "positives"]
    return table([*facts, *_METHODS.values(), "paper, label model"], rows)


def _cell(value: float | str | None, peers_ran: bool, method: str, chain: int) -> str:
    is_peer = method in PEERS.values()
    if isinstance(value, str):
        return "failed" if is_peer else "refused"
    if value is not None:
        return percent(value)
    if is_peer and not peers_ran:
        return "not installed"
    return "no order" if method == "HMM" and chain == 1 else "no valid split"


def _comparison(tasks: Mapping[str, Any]) -> str:
    """Compare the tuned label model with the paper's, with a reason for each larger difference."""
    rows = []
    for name, row in tasks.items():
        paper, tuned = TABLE_1[name].label_model, row["f1"].get("tuned")
        if tuned is None:
            rows.append([f"`{name}`", "-", f"{paper:.1f}", "-", "-", "no valid split to tune on"])
            continue
        search, difference = row["search"], 100 * tuned - paper
        setting = f"{_TRIPLETS[search['triplets']]}, P(class 1) = {search['balance']:.2f}"
        reason = LABEL_MODEL_REASONS.get(name, "") if abs(difference) > 2 else ""
        if difference < -2:
            reason += f" (best setting on the test split: {percent(search['best_on_test'])})"
        rows.append(
            [f"`{name}`", percent(tuned), f"{paper:.1f}", f"{difference:+.1f}", setting, reason.strip()]
        )
    head = ["task", "tuned", "paper", "difference", "chosen on the valid split", "reason"]
    return table(head, rows)


def _end_model_table(found: Mapping[str, Any]) -> str:
    methods = ("TS", "MV", "DP", "tuned", "default")
    rows = []
    for name, row in found.items():
        task = name.split(",")[0]
        paper = TABLE_1[task]
        printed = (paper.supervised, paper.majority, paper.programming, paper.end_model)
        notes = [*(f" ({value:.1f})" for value in printed), ""]
        cells = [
            ("-" if method not in row else f"{percent(row[method][0])} ± {percent(row[method][1])}") + note
            for method, note in zip(methods, notes, strict=True)
        ]
        scores = (row.get(method) for method in methods[:4])
        differs = any(
            score is not None and abs(100 * score[0] - value) > 2
            for score, value in zip(scores, printed, strict=True)
        )
        rows.append([name, *cells, END_MODEL_REASONS.get(task, "") if differs else ""])
    heads = ["TS: gold of valid", "majority vote", "DP: Snorkel", "paper's, tuned", "`LabelModel()`"]
    return table(["task, features", *heads, "reason for differences"], rows)


def _time_table(timings: Mapping[str, Any]) -> str:
    rows = []
    for name, row in timings.items():
        snorkel = row.get("DP")
        seconds = [row["ours"], row.get("sequence"), snorkel, row.get("HMM")]
        speedups = [
            "-" if each is None or snorkel is None else f"{number(snorkel / each)}×" for each in seconds[:2]
        ]
        cells = ["-" if each is None else f"{each:.4f}" for each in seconds]
        rows.append([f"`{name}`", *cells, *speedups, f"{number(TABLE_1[name].speedup)}×"])
    head = ["task", "ours", "ours, one sequence", "Snorkel", "HMM by EM", "speedup", "speedup, one sequence"]
    return table([*head, "paper's speedup"], rows)


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw bars of F1 by task and label model, with the paper's label model as a line."""
    axis, tasks = figure.subplots(), results["tasks"]
    colors = (GRAY, RED, AMBER, LIGHT, BLUE, DARK)
    width, at = 0.8 / len(colors), np.arange(len(tasks))
    for position, ((method, title), color) in enumerate(zip(_METHODS.items(), colors, strict=True)):
        values = [row["f1"].get(method) for row in tasks.values()]
        heights = [100 * v if isinstance(v, float) else 0.0 for v in values]
        axis.bar(at + (position - 2.5) * width, heights, width, color=color, label=title.strip("`"))
    for place, name in enumerate(tasks):
        ends, paper = [place - 0.45, place + 0.45], TABLE_1[name].label_model
        label = "paper, label model" if place == 0 else None
        axis.plot(ends, [paper, paper], color=BLACK, linewidth=1.2, linestyle=":", label=label)
    axis.set_xticks(at, list(tasks))
    axis.set_ylabel("F1 on the test split, %")
    axis.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.22))


ARTIFACT = Artifact(
    "table-1", "Table 1: label models and end models", tuple(TABLE_1), measure, render, draw, (7.5, 3.4)
)
