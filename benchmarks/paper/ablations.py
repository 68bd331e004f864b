"""The paper's ablations: random votes in place of abstains, and single triplets.

First, every missing vote is replaced by a fair coin, for fitting and for labeling. Second, the accuracy of
each source is estimated from one random triplet, many times, and compared with the mean and the median over
all triplets. Label models only, scored by F1 of class 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.paper.artifact import BLUE, GRAY, RED, Artifact, Outcome, Setting, percent, table
from benchmarks.paper.data import ABLATIONS, Array, Codes, available, load_uncut
from benchmarks.paper.triplet_search import log_odds, second_moments, signed, triplet_estimate
from benchmarks.quality.scores import f1
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.models import LabelModel
from flyingsquid.solvers import Triplet
from flyingsquid.votes import Votes

DATASETS = ("spouse", "youtube", "weather")
DRAWS = 100
CLASSES = (0, 1)


def without_abstains(votes: Codes, rng: np.random.Generator) -> Codes:
    """Replace every missing vote by a fair coin."""
    return np.where(votes < 0, rng.integers(0, 2, votes.shape), votes).astype(np.int8)


def one_triplet_per_source(fit: Codes, votes: Codes, rng: np.random.Generator) -> Array:
    """Return P(class 1) of ``votes``, shape (n,), with accuracies from one random triplet per source.

    All signs are taken to be positive. ``LabelModel`` would refuse most such draws.
    """
    second, m = second_moments(fit), fit.shape[1]
    triplets = ((i, *rng.choice(np.delete(np.arange(m), i), 2, replace=False)) for i in range(m))
    accuracies = np.array([triplet_estimate(second, *triplet) for triplet in triplets])
    return np.asarray((1 + np.tanh(signed(votes) @ log_odds(accuracies, fit) / 2)) / 2)


def score(fit: Codes, votes: Codes, y: Codes, **options: Any) -> float | None:
    """Return F1 of a label model, or None if it refuses the votes."""
    try:
        model = LabelModel(**options).fit(Votes.from_classes(fit, classes=CLASSES))
    except NotIdentifiableError:
        return None
    proba = model.predict_proba(Votes.from_classes(votes, classes=CLASSES))
    return f1(proba[y >= 0], y[y >= 0])


def over_draws(draw: Callable[[np.random.Generator], float | None], draws: int) -> dict[str, Any]:
    """Return the worst, average and best of many draws; refused ones count as 0."""
    found = [draw(np.random.default_rng(seed)) for seed in range(draws)]
    values = np.array([value or 0.0 for value in found])
    return {
        "worst": round(float(values.min()), 4),
        "average": round(float(values.mean()), 4),
        "best": round(float(values.max()), 4),
        "refused": sum(value is None for value in found),
    }


def measure(setting: Setting) -> Outcome:
    """Measure every dataset that was found."""
    if setting.data is None:
        raise ValueError("The ablations need real votes.")
    draws = 3 if setting.quick else DRAWS
    results: dict[str, Any] = {"draws": draws, "sets": {}}
    for name in available(setting.data, DATASETS):
        fit, votes, y = load_uncut(setting.data, name)
        results["sets"][name] = _measure(fit, votes, y, draws)
    return Outcome(results)


def _measure(fit: Codes, votes: Codes, y: Codes, draws: int) -> dict[str, Any]:
    def random_votes(rng: np.random.Generator) -> float | None:
        return score(without_abstains(fit, rng), without_abstains(votes, rng), y, method="triplet")

    def one_triplet(rng: np.random.Generator) -> float | None:
        p = one_triplet_per_source(fit, votes, rng)[y >= 0]
        return f1(np.stack([1 - p, p], axis=1), y[y >= 0])

    over_triplets = {
        "mean": score(fit, votes, y, method="triplet"),
        "median": score(fit, votes, y, method=Triplet("median")),
    }
    return {
        "items": len(fit),
        "sources": fit.shape[1],
        **{name: None if value is None else round(value, 4) for name, value in over_triplets.items()},
        "random votes": over_draws(random_votes, draws),
        "one triplet": over_draws(one_triplet, draws),
    }


_NOTES = """\
Differences from the paper: `youtube` has the splits and rules of WRENCH; `spouse` is its test split, fitted
without gold labels and then scored; the gold labels of `weather` are an aggregate of these votes, so
majority vote is near 100 and there is little to lose. The paper's first ablation scores end models, this
page label models. Single triplets use the formula without checks, as in the paper; `LabelModel` raises an
error if triplets do not determine an accuracy. Mean and median hardly differ; on weather the paper states
that medians are more accurate, but the reason it gives implies that they are less accurate.
"""


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""
    datasets = results["sets"]
    rows = [
        [
            f"{method} over all triplets",
            *(percent(one[method], missing="refused") for one in datasets.values()),
        ]
        for method in ("mean", "median")
    ]
    titles = {"one triplet": "one random triplet per source", "random votes": "random votes for abstains"}
    rows += [
        [f"{title}, {which}", *(percent(one[key][which]) for one in datasets.values())]
        for key, title in titles.items()
        for which in ("worst", "average", "best")
    ]
    paper = [[name, *(f"{value:.1f}" for value in row)] for name, row in ABLATIONS.items()]
    return f"""\
The table shows the F1 of class 1 in %, for label models without an end model, with a uniform class balance;
a tie counts as half right. Rows with a worst, average and best value are over {results["draws"]} draws;
random votes that the label model cannot fit count as 0.

{table(["", *(f"`{name}`" for name in datasets)], rows)}

The paper, on its own splits:

{table(["", "spouse", "spam", "weather"], paper)}

{_NOTES}"""


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw for each dataset the mean over triplets, and the range of both kinds of draws."""
    axis, datasets = figure.subplots(), results["sets"]
    for place, one in enumerate(datasets.values()):
        for shift, key, color in ((-0.15, "one triplet", GRAY), (0.15, "random votes", RED)):
            low, middle, high = (100 * one[key][which] for which in ("worst", "average", "best"))
            label = key if place == 0 else None
            axis.plot([place + shift] * 2, [low, high], color=color, linewidth=5, alpha=0.5)
            axis.plot(place + shift, middle, "o", color=color, label=label)
        if one["mean"] is not None:
            label = "all triplets" if place == 0 else None
            axis.plot([place - 0.3, place + 0.3], [100 * one["mean"]] * 2, color=BLUE, label=label)
    axis.set_xticks(range(len(datasets)), list(datasets))
    axis.set_ylabel("F1, % (bars: worst to best)")
    axis.legend(fontsize=8)


ARTIFACT = Artifact("ablations", "The paper's ablations", DATASETS, measure, render, draw, (5.5, 3.2))
