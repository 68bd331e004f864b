"""Claim: on real sequences the default is not worse than rows by themselves or majority vote.

Run ``python -m benchmarks.quality.sequences``; ``--save`` writes docs/quality/sequences.md. Reads the
directory named by FLYINGSQUID_DATA. Fits use no gold labels; rows named "balance given" use
the class balance. The train split is fitted, and the test split is scored. ``--frozen`` measures the frozen
half (docs/quality/halves.md) instead of the design half: it is reported, and nothing is chosen by it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import half_parser, save_half
from benchmarks.quality.data_directory import data_directory, find
from benchmarks.quality.scores import add_one_shares, log_loss
from flyingsquid.votes.decisions import is_tied, label_shares, winners

VIDEO = {"tennis": "design", "basketball": "design", "commercial": "frozen"}
TOKENS = {"seq_bc5cdr": ("design", 3), "seq_laptopreview": ("frozen", 2)}
NAMES = {"design": "sequences_real", "frozen": "sequences_real_frozen"}
PAGE = Path(__file__).parents[2] / "docs" / "quality" / "sequences.md"
Labels = NDArray[Any]
Array = NDArray[np.float64]


class Split(NamedTuple):
    """Rows of sequences with their gold; ``begins`` marks the first row of a gold span, None for video."""

    votes: NDArray[np.int8]
    y: Labels
    lengths: NDArray[np.intp]
    begins: NDArray[np.bool_] | None


class SequenceSet(NamedTuple):
    name: str
    half: str
    blanks: str
    train: Split
    test: Split
    n_classes: int = 2


Blanks = Literal["no_votes", "everywhere"]


def load(
    folder: Path, name: str, half: str, *, blanks_vote: Blanks | None = None, n_classes: int = 2
) -> SequenceSet:
    """Read a dataset; ``blanks_vote`` reads blanks as votes for class 0, as in ``Votes.fill_abstains``."""
    path = find(folder, name)
    with np.load(path) as data:
        parts = {split: _split(dict(data), split, blanks_vote, n_classes) for split in ("train", "test")}
    blanks = {
        None: "blanks abstain",
        "no_votes": "blanks vote O on tokens without votes",
        "everywhere": "blanks vote O",
    }[blanks_vote]
    return SequenceSet(name, half, blanks, **parts, n_classes=n_classes)


def _split(data: dict[str, Any], split: str, blanks_vote: Blanks | None, n_classes: int) -> Split:
    votes, y = data[f"L_{split}"], data[f"Y_{split}"]
    if blanks_vote is not None:
        read = fs.Votes.from_classes(votes, classes=list(range(n_classes)))
        votes = np.asarray(read.fill_abstains(0, where=blanks_vote).codes)
    # Boundaries of videos are not known: their frames are one sequence.
    offsets = data.get(f"offsets_{split}", np.array([0, len(votes)]))
    begins = data.get(f"begin_{split}")
    return Split(
        votes,
        y,
        np.diff(offsets).astype(np.intp),
        None if begins is None else begins == 1,
    )


# ---------------------------------------------------------------------- methods

# Hard labels of the test split, shape (T,), and probabilities, shape (T, K).
Method: TypeAlias = Callable[[SequenceSet], tuple[Labels, NDArray[np.float64]]]


def majority(s: SequenceSet) -> tuple[Labels, NDArray[np.float64]]:
    """The class with the most votes, and shares with one vote added per class."""
    shares = add_one_shares(s.test.votes, s.n_classes)
    return winners(shares), shares


def rows_alone(method: Any, *, told: bool = False) -> Method:
    def label(s: SequenceSet) -> tuple[Labels, NDArray[np.float64]]:
        balance = _balance(s.train, s.n_classes) if told else None
        model = fs.LabelModel(method=method, class_balance=balance).fit(_votes(s.train, s))
        return model.predict(_votes(s.test, s)), model.predict_proba(_votes(s.test, s))

    return label


def sequences(method: Any, *, told: bool = False, joint: bool = True, temper: Any = "auto") -> Method:
    def label(s: SequenceSet) -> tuple[Labels, NDArray[np.float64]]:
        balance = _balance(s.train, s.n_classes) if told else None
        model = fs.SequenceLabelModel(method=method, class_balance=balance, temper=temper)
        model.fit(_votes(s.train, s), s.train.lengths)
        votes, lengths = _votes(s.test, s), s.test.lengths
        return model.predict(votes, lengths, joint=joint), model.predict_proba(votes, lengths)

    return label


def _balance(split: Split, n_classes: int) -> NDArray[np.float64]:
    return np.bincount(split.y[split.y >= 0], minlength=n_classes) / (split.y >= 0).sum()


METHODS: dict[str, Method] = {
    "majority vote": majority,
    "`LabelModel`": rows_alone("auto"),
    "`LabelModel`, covariance": rows_alone("covariance"),
    "`LabelModel`, balance given": rows_alone("auto", told=True),
    "`LabelModel`, decomposition": rows_alone("decomposition"),
    "`SequenceLabelModel`": sequences("auto"),
    "`SequenceLabelModel`, `joint=False`": sequences("auto", joint=False),
    "`SequenceLabelModel`, decomposition": sequences("decomposition"),
    "`SequenceLabelModel`, covariance": sequences("covariance"),
    "`SequenceLabelModel`, balance given": sequences("auto", told=True),
    "`SequenceLabelModel`, covariance, `temper=None`": sequences("covariance", temper=None),
    "`SequenceLabelModel`, covariance, `joint=False`": sequences("covariance", joint=False),
}


def _votes(split: Split, s: SequenceSet) -> fs.Votes:
    return fs.Votes.from_classes(split.votes, classes=list(range(s.n_classes)))


# ---------------------------------------------------------------------- scores


def spans(
    labels: Labels, lengths: NDArray[np.intp], begins: NDArray[np.bool_] | None = None
) -> set[tuple[int, int, int]]:
    """First row, last row and class of each run of a class but 0; a row in ``begins`` begins a new one.

    >>> sorted(spans(np.array([1, 1, 0, 1, 1, 2], np.int8), np.array([4, 2])))
    [(0, 1, 1), (3, 3, 1), (4, 4, 1), (5, 5, 2)]
    """
    inside = labels > 0
    first = np.cumsum(lengths) - lengths
    fresh = np.r_[True, labels[1:] != labels[:-1]]
    fresh[first] = True
    if begins is not None:
        fresh |= begins
    starts = inside & (fresh | ~np.r_[False, inside[:-1]])
    ends = inside & ~np.r_[inside[1:] & ~fresh[1:], False]
    at = np.flatnonzero(starts)
    return set(zip(at.tolist(), np.flatnonzero(ends).tolist(), labels[at].tolist(), strict=True))


def f1(found: float, right: float, gold: float) -> float:
    return 2 * right / max(found + gold, 1)


def span_f1(shares: Array, test: Split) -> float:
    """Return the F1 of whole spans from expected counts, if every row is labeled by its shares (T, K)."""
    inside = shares[:, 1:]
    before, after = np.zeros_like(inside), np.zeros_like(inside)
    before[1:], after[:-1] = inside[:-1], inside[1:]
    ends = np.cumsum(test.lengths)
    before[ends - test.lengths], after[ends - 1] = 0, 0
    gold = spans(test.y, test.lengths, test.begins)
    right = sum(
        float(inside[first : last + 1, k - 1].prod() * (1 - before[first, k - 1]) * (1 - after[last, k - 1]))
        for first, last, k in gold
    )
    return f1(float((inside * (1 - before)).sum()), right, len(gold))


def scores(labels: Labels, p: Array, test: Split) -> dict[str, float]:
    """Score labels (T,) with probabilities (T, K); if classes tie, a row gets equal shares of them."""
    shares = np.where(is_tied(p)[:, None], label_shares(p), np.eye(p.shape[1])[labels])
    known = test.y >= 0
    y, answers = test.y[known].astype(np.intp), shares[known]
    right = answers[np.arange(len(y)), y]
    result = {
        "accuracy": float(right.mean()),
        "f1": f1(float(answers[:, 1:].sum()), float(right[y > 0].sum()), int((y > 0).sum())),
        "log_loss": log_loss(p[known], y),
    }
    if test.begins is not None:
        result["span_f1"] = span_f1(shares, test)
    return result


def measure(s: SequenceSet) -> dict[str, dict[str, float] | str]:
    """Scores of every method, or the reason why it refused."""
    results: dict[str, dict[str, float] | str] = {}
    for name, label in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
            try:
                results[name] = scores(*label(s), s.test)
            except (fs.exceptions.NotIdentifiableError, fs.exceptions.OptionError) as error:
                results[name] = str(error)
    return results


# ---------------------------------------------------------------------- the page

COMPARED = ("", "covariance", "decomposition", "balance given")  # methods with and without neighbors
INTRODUCTION = """\
# Sequence models on real video and tokens

This page compares `SequenceLabelModel`, which uses neighboring rows, with `LabelModel`, which labels
every row by itself. Every method is fitted without gold labels on the train split and scored on the test
split; *balance given* passes the class balance of the train split.

Written by `python -m benchmarks.quality.sequences --save`
([script](../../benchmarks/quality/sequences.py)). Every cell has the form

    accuracy in % / F1 of all classes but 0 in % / F1 of whole spans in % (tokens only) / log loss in nats

By default, neighbors are used to the extent that the votes fit a model of sources that are independent
within a row ([details](../design/0009-default.md)). If the cells of `LabelModel` and `SequenceLabelModel` are
equal, neighbors are not used. Other methods always use neighbors, which helps on some datasets and hurts
on others.

Ties and rows without votes get the expected score of a random choice, for models and for majority vote, so
if blanks abstain, most tokens are chosen at random. Spans are runs of one class, and must match from the
first row to the last; F1 counts all classes but 0 together, and is computed from expected counts. *refused*
includes methods for two classes on datasets with three. Probabilities are clipped to [0.0001, 0.9999] for the
log loss.

- `tennis`, `basketball` and `commercial` are video. The ends of videos are not known. In `basketball` one
  source votes for both classes and three vote for one class each, so accuracies cannot be estimated; the
  weights break the ties of majority vote the wrong way.
- `seq_bc5cdr` has three classes: chemicals, diseases, and neither. Its rules mark spans and leave other
  tokens blank. *Blanks vote O on tokens without votes* is `votes.fill_abstains(0)`, and *blanks vote O*
  is `votes.fill_abstains(0, where="everywhere")` ([guide](../guides/sequences.md)).
- `commercial` and `seq_laptopreview` belong to the [frozen half](halves.md).
- Two things changed after a first look at `seq_laptopreview`. The rows *balance given* were added, to
  show the effect of the class balance; only they use gold labels. And a correlation of neighboring truths
  with a standard error above 0.5 is no longer used: on this dataset it was estimated as -0.06 with a
  standard error of 1,600, and was used (token F1 28). The threshold follows from the range of a
  correlation, -1 to 1, and not from this table. If blanks abstain, every vote is for class 1 and there is
  nothing to compare. If blanks vote O, sixteen rules that are mostly blank outvote all others, so the
  meaningful majority vote is the one in which blanks vote O on tokens without votes.
"""


TIES_AS_0 = """
These results were measured before ties were shared: ties and rows without votes count as class 0."""


def render(halves: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page, from results by half."""
    lines = [INTRODUCTION]
    for half, results in halves.items():
        lines += [f"## {half.capitalize()} half", *([TIES_AS_0] if results["ties"] == "class 0" else []), ""]
        lines += _table(results["scores"], {m: partial(_cell_of, method=m) for m in METHODS})
    design = halves["design"]["scores"]
    lines += ["## Difference from the same method on single rows, design half", ""]
    lines += _table(design, {of or "default": partial(_gain, of=of) for of in COMPARED})
    return "\n".join(lines)


def _table(results: Mapping[str, Any], rows: Mapping[str, Callable[[dict[str, Any]], str]]) -> list[str]:
    lines = [f"| | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    lines += [
        f"| {name} | {' | '.join(cell(methods) for methods in results.values())} |"
        for name, cell in rows.items()
    ]
    return [*lines, ""]


def _cell_of(methods: dict[str, Any], method: str) -> str:
    return _cell(methods[method])


def _title(s: SequenceSet) -> str:
    return f"`{s.name}`, {s.blanks}" if s.test.begins is not None else f"`{s.name}`"


def _cell(result: dict[str, float] | str) -> str:
    if isinstance(result, str):
        return "refused"
    values = [100 * result[k] for k in ("accuracy", "f1", "span_f1") if k in result]
    return " / ".join([*(f"{v:.1f}" for v in values), f"{result['log_loss']:.3f}"])


def _gain(methods: dict[str, Any], of: str) -> str:
    """Return the differences in the metrics of a cell."""
    suffix = f", {of}" if of else ""
    ours, alone = methods[f"`SequenceLabelModel`{suffix}"], methods[f"`LabelModel`{suffix}"]
    if isinstance(ours, str) or isinstance(alone, str):
        return "refused"
    points = [f"{100 * (ours[k] - alone[k]):+.1f}" for k in ("accuracy", "f1", "span_f1") if k in ours]
    return " / ".join([*points, f"{ours['log_loss'] - alone['log_loss']:+.3f}"])


def run(folder: Path, half: str) -> dict[str, Any]:
    """Measure one half."""
    sets = [load(folder, name, of) for name, of in VIDEO.items() if of == half]
    for name, (of, n_classes) in TOKENS.items():
        ways: tuple[Blanks | None, ...] = (None, "no_votes", "everywhere") if of == half else ()
        sets += [load(folder, name, half, blanks_vote=each, n_classes=n_classes) for each in ways]
    return {"ties": "shared", "scores": {_title(s): measure(s) for s in sets}}


def main() -> None:
    options = half_parser("Compare sequence models with models of single rows on real votes.").parse_args()
    half = "frozen" if options.frozen else "design"
    results = run(data_directory(), half)
    print(json.dumps(results["scores"], indent=1))
    if options.save:
        save_half(NAMES, half, results, PAGE, render)


if __name__ == "__main__":
    main()
