"""Goal: ScoreModel ranks at least as well as the mean of z-scores and better than voting, and as the median.

Run ``python -m benchmarks.quality.scores_panels``; ``--save`` writes the results file and the page. Reads the
directory ``panels`` next to the one named by FLYINGSQUID_DATA: ``asset_scores`` (scores from 0 to 100 of 11
judges, with human ratings) and ``rewardbench2_scores`` (scores of 22 judges for four answers to each prompt).
Both are for design. Ordinal panels, intervals and preferences with ties are simulated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

import flyingsquid as fs
from benchmarks.harness import save, save_parser
from benchmarks.quality.data_directory import data_directory, find
from flyingsquid.estimation.scores import fit_scores
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.inference.scores import robust_posterior
from flyingsquid.moments.scores import ScoreMoments
from flyingsquid.votes.decisions import expected_credit

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "scores.md"
NAME = "scores_panels"
DRAWS, SIZES = 200, (3, 5, 11)
CHOICES = ("voting", "mean of z-scores", "ScoreModel", "without shrinkage")
POINTS, FIVES, TENS = range(101), range(0, 101, 5), range(0, 101, 10)
LEVELS = np.arange(1, 6)
Array = NDArray[np.float64]


def load(name: str) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a panel."""
    return dict(np.load(find(data_directory().parent / "panels", name)))


def standardized(scores: Array) -> Array:
    """Return z-scores per judge."""
    spread = np.nanstd(scores, axis=0)
    return np.asarray((scores - np.nanmean(scores, axis=0)) / np.where(spread > 0, spread, 1))


# ---------------------------------------------------------------------- ratings


def tau(found: Array, gold: Array) -> float:
    return float(kendalltau(found, gold).statistic)


def tau_without_ties(found: Array, gold: Array, rng: np.random.Generator) -> float:
    """Return Kendall's tau with ties of ``found`` broken at random, the mean of 50 draws."""
    order = [np.lexsort((rng.random(len(found)), found)) for _ in range(50)]
    return float(np.mean([tau(np.argsort(each).astype(np.float64), gold) for each in order]))


def tau_in_steps(found: Array, gold: Array, step: int = 10) -> float:
    """Return Kendall's tau of estimates in steps, the mean over ten positions of their limits.

    With one position, the tau of a median of asset_scores, which has few values, is .557 to .599.
    """
    starts = step * np.arange(10) / 10
    return float(np.mean([tau(np.round((found + start) / step), gold) for start in starts]))


def weighted_median(scores: Array, weights: Array) -> Array:
    """Return the lowest score of each item such that judges with half of the weight are at or below it."""
    order = np.argsort(scores, axis=1)
    reached = np.cumsum(np.maximum(weights, 0)[order], axis=1)
    at = (reached >= reached[:, -1:] / 2).argmax(axis=1)
    return np.asarray(np.take_along_axis(scores, order, axis=1)[np.arange(len(scores)), at])


def ranks(scores: Array) -> Array:
    """Return the share of items with a lower score by the same judge, ties counting one half."""
    return np.asarray((rankdata(scores, axis=0) - 0.5) / len(scores))


RATINGS: dict[str, Callable[[Array], Array]] = {
    "mean": lambda s: s.mean(axis=1),
    "median": lambda s: np.median(s, axis=1),
    "mean of z-scores": lambda s: standardized(s).mean(axis=1),
    "`predict`": lambda s: fs.ScoreModel().fit(s).predict(s),
    "`predict_class`, steps of 5": lambda s: fs.ScoreModel().fit(s).predict_class(s, FIVES),
    "`predict_class`, steps of 10": lambda s: fs.ScoreModel().fit(s).predict_class(s, TENS),
    "heavy tails": lambda s: fs.ScoreModel().fit(s).predict_proba(s, POINTS) @ np.array(POINTS),
    "weighted median": lambda s: weighted_median(s, fs.ScoreModel().fit(s).weights_),
    "model of ranks": lambda s: fs.ScoreModel().fit(ranks(s)).predict(ranks(s)),
}


OTHER_UNITS = ("mean of z-scores", "model of ranks")


def bootstrap_error(one: Array, other: Array, gold: Array, texts: NDArray[Any]) -> float:
    """Return the standard error of a difference between two methods, over draws of texts."""
    rng, names = np.random.default_rng(0), np.unique(texts)
    rows_of = {name: np.flatnonzero(texts == name) for name in names}
    found = []
    for _ in range(200):
        at = np.concatenate([rows_of[name] for name in rng.choice(names, len(names))])
        found.append(tau(one[at], gold[at]) - tau(other[at], gold[at]))
    return float(np.std(found))


def measure_ratings(scores: Array, gold: Array, texts: NDArray[Any], draws: int) -> dict[str, Any]:
    """Return Kendall's tau with the gold ratings, of all judges and of random panels."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {
        name: {
            "tau": tau(rate(scores), gold),
            "tens": None if name in OTHER_UNITS else tau_in_steps(rate(scores), gold),
            "without ties": tau_without_ties(rate(scores), gold, rng),
            "distinct": len(np.unique(rate(scores))),
        }
        for name, rate in RATINGS.items()
    }
    for size in (5, 8):
        panels = [rng.choice(scores.shape[1], size, replace=False) for _ in range(draws // 2)]
        for name, rate in RATINGS.items():
            found[name][f"panels of {size}"] = float(np.mean([tau(rate(scores[:, p]), gold) for p in panels]))
    model = fs.ScoreModel().fit(scores)
    low, high = model.predict_interval(scores).T
    moved = model.center_ + model.spread_ * (gold - gold.mean()) / gold.std()
    inside = float(np.mean((low <= moved) & (moved <= high)))
    error = bootstrap_error(model.predict(scores), RATINGS["median"](scores), gold, texts)
    steps = {
        str(step): tau(model.predict_class(scores, range(0, 101, step)), gold) for step in (1, 2, 20, 25)
    }
    return {
        "methods": found,
        "coverage": inside,
        "shrinkage": model.shrinkage_,
        "error": error,
        "steps": steps,
    }


# ---------------------------------------------------------------------- best of four


def accuracy_of_best(values: Array, gold: NDArray[Any]) -> float:
    """Return how often the highest of each row is right; ties share."""
    return float(expected_credit(values, gold).mean())


def votes_for_best(grid: Array) -> Array:
    """Return the number of judges that give an answer their highest score; ties are divided."""
    filled = np.where(np.isnan(grid), -np.inf, grid)
    top = (filled == filled.max(axis=1, keepdims=True)) & np.isfinite(filled)
    return np.asarray((top / np.maximum(top.sum(axis=1, keepdims=True), 1)).sum(axis=2))


def measure_best(scores: Array, gold: NDArray[Any], size: int, draws: int) -> dict[str, float]:
    """Return accuracies of the best answer by random panels, one repeat per judge."""
    rng = np.random.default_rng(size)
    n, answers, judges, repeats = scores.shape
    rows = []
    for _ in range(draws):
        panel, repeat = rng.choice(judges, size, replace=False), rng.integers(0, repeats, size)
        grid = scores[:, :, panel, repeat]
        flat = grid.reshape(n * answers, size)
        seen = np.isfinite(flat).sum(axis=1)
        z = np.nansum(standardized(flat), axis=1) / np.maximum(seen, 1)
        z = np.where(seen > 0, z, -9.0).reshape(n, answers)  # an answer without scores is not chosen
        model = fs.ScoreModel().fit(flat)
        best = model.best_of(grid)
        expected = np.nan_to_num(best.scores, nan=-1e9)
        rows.append(
            [
                accuracy_of_best(votes_for_best(grid), gold),
                accuracy_of_best(z, gold),
                accuracy_of_best(expected, gold),
                accuracy_of_best(
                    fs.ScoreModel(shrinkage=0).fit(flat).predict(flat).reshape(n, answers), gold
                ),
                float(np.nanmean(best.probability)),
                model.shrinkage_,
            ]
        )
    voting, mean, found, plain, probability, shrinkage = np.array(rows).T
    return {
        "voting": float(voting.mean()),
        "mean of z-scores": float(mean.mean()),
        "ScoreModel": float(found.mean()),
        "without shrinkage": float(plain.mean()),
        "difference": float((found - mean).mean()),
        "error": float((found - mean).std() / np.sqrt(draws)),
        "not below": float((found >= mean - 1e-12).mean()),
        "above voting": float((found > voting).mean()),
        "probability": float(probability.mean()),
        "shrinkage": float(shrinkage.mean()),
    }


# ---------------------------------------------------------------------- simulations


def gaussian(rng: np.random.Generator, truth: Array, low: float, high: float, bias: float) -> Array:
    noise = rng.uniform(low, high, 5) * rng.normal(size=(len(truth), 5))
    return np.clip(np.rint(truth[:, None] + bias * rng.normal(size=5) + noise), 1, 5)


def adjacent(rng: np.random.Generator, truth: Array) -> Array:
    wrong = rng.random((len(truth), 5)) > rng.uniform(0.5, 0.8, 5)
    return np.clip(truth[:, None] + wrong * rng.choice([-1, 1], (len(truth), 5)), 1, 5)


def compressed(rng: np.random.Generator, truth: Array) -> Array:
    scale, noise = rng.uniform(0.5, 1.3, 5), rng.uniform(0.5, 1, 5)
    return np.clip(np.rint(3 + scale * (truth[:, None] - 3) + noise * rng.normal(size=(len(truth), 5))), 1, 5)


def careless(rng: np.random.Generator, truth: Array) -> Array:
    scores = gaussian(rng, truth, 0.5, 1.0, 0.0)
    scores[:, 0] = rng.integers(1, 6, len(truth))
    scores[:, 1] = np.clip(np.rint(rng.normal(4, 0.5, len(truth))), 1, 5)
    return scores


def guessing(rng: np.random.Generator, truth: Array) -> Array:
    knows = rng.random((len(truth), 5)) < rng.uniform(0.4, 0.8, 5)
    return np.where(knows, truth[:, None], rng.integers(1, 6, (len(truth), 5))).astype(float)


PANELS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "equal noise 0.8": lambda rng, y: gaussian(rng, y, 0.8, 0.8, 0.0),
    "noise 0.5 to 1.2": lambda rng, y: gaussian(rng, y, 0.5, 1.2, 0.0),
    "noise 0.5 to 1.2, bias 0.3": lambda rng, y: gaussian(rng, y, 0.5, 1.2, 0.3),
    "noise 0.4 to 1.5, bias 0.5": lambda rng, y: gaussian(rng, y, 0.4, 1.5, 0.5),
    "one level too high or too low": adjacent,
    "compressed scales": compressed,
    "two careless judges": careless,
    "right, or any level at random": guessing,
}


def measure_levels(n_items: int, draws: int) -> dict[str, dict[str, float]]:
    """Return accuracies and coverage on simulated panels of five judges and five levels, even and skewed.

    Coverage is how often 95% intervals contain the level, moved to mean and spread of the estimated truth.
    """
    rng, found = np.random.default_rng(0), {}
    for name, simulate in PANELS.items():
        rows = []
        for draw in range(draws):
            shares = [0.2] * 5 if draw % 2 else [0.05, 0.1, 0.2, 0.35, 0.3]
            truth = rng.choice(LEVELS, n_items, p=shares).astype(float)
            scores = simulate(rng, truth)
            votes = fs.Votes.from_classes(scores.astype(int), classes=LEVELS.tolist())
            model = fs.ScoreModel().fit(scores)
            low, high = model.predict_interval(scores).T
            moved = model.center_ + model.spread_ * (truth - truth.mean()) / truth.std()
            rows.append(
                [
                    np.mean(np.median(scores, axis=1) == truth),
                    np.mean(np.rint(scores.mean(axis=1)) == truth),
                    np.mean(fs.LabelModel().fit(votes).predict(votes) == truth),
                    np.mean(model.predict_class(scores, LEVELS.tolist()) == truth),
                    np.mean((low <= moved) & (moved <= high)),
                    np.mean((low <= truth) & (truth <= high)),
                ]
            )
        names = ("median", "rounded mean", "LabelModel", "ScoreModel", "coverage", "of the level")
        found[name] = dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))
    return found


def measure_coverage(n_items: int, draws: int) -> dict[str, float]:
    """Return how often 95% intervals hold the simulated truth and the parameters of judges."""
    rng = np.random.default_rng(0)
    held: dict[str, list[float]] = {"items": [], "reliability": [], "noise": []}
    scale, noise = np.array([1, 1.2, 0.8, 1, 1]), np.array([0.5, 0.8, 1, 1.5, 2])
    for _ in range(draws):
        truth = rng.normal(size=n_items)
        scores = scale * truth[:, None] + noise * rng.normal(size=(n_items, 5))
        scores[rng.random(scores.shape) < 0.2] = np.nan
        model = fs.ScoreModel().fit(scores)
        low, high = model.predict_interval(scores).T
        moved = model.center_ + model.spread_ * truth
        held["items"].append(float(np.mean((low <= moved) & (moved <= high))))
        for name, value in (("reliability", scale**2 / (scale**2 + noise**2)), ("noise", noise)):
            ends = getattr(model, f"{name}_interval_")
            held[name].append(float(np.mean((ends[:, 0] <= value) & (value <= ends[:, 1]))))
    return {name: float(np.mean(each)) for name, each in held.items()}


def spread_by_item(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray(rng.normal(size=shape) * np.sqrt(rng.gamma(2, 0.5, (shape[0], 1))))


def contaminated(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.asarray(rng.normal(size=shape) * np.where(rng.random(shape) < 0.05, 4.0, 1.0) / np.sqrt(1.75))


# Noise of variance 1.
TAILS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "Gaussian": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, shape),
    "Student, 5 degrees of freedom": lambda rng, shape: rng.standard_t(5, shape) / np.sqrt(5 / 3),
    "Student, 3 degrees of freedom": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
    "Laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
    "5% of scores with four times the noise": contaminated,
    "skewed (exponential)": lambda rng, shape: rng.exponential(size=shape) - 1,
    "more noise of all judges on some items": spread_by_item,
    "Gaussian, truth with heavy tails": lambda rng, shape: rng.normal(size=shape),
}


def measure_tails(n_items: int, draws: int) -> dict[str, dict[str, float]]:
    """Return Kendall's tau with the truth and coverage of 95% intervals, robust and Gaussian."""
    found, scale = {}, np.array([1, 1.2, 0.8, 1, 1])
    for name, simulate in TAILS.items():
        rng, rows = np.random.default_rng(0), []
        for _ in range(draws):
            is_heavy = name.endswith("truth with heavy tails")
            truth = rng.standard_t(4, n_items) / np.sqrt(2) if is_heavy else rng.normal(size=n_items)
            scores = scale * truth[:, None] + rng.uniform(0.5, 1.5, 5) * simulate(rng, (n_items, 5))
            fit = fit_scores(ScoreMoments.of(scores[:, :, None]))
            ones, z = np.ones((n_items, 5), np.int64), (scores - fit.means) / fit.spreads
            row = [tau(np.median(z, axis=1), truth)]
            for tails in (np.zeros(5), fit.tails):
                mean, variance = robust_posterior(
                    z, fit.loadings, fit.noise_of(ones), fit.weights_of(ones), fit.shared, tails
                )
                inside = np.abs(truth / truth.std() - mean) <= NORMAL_95 * np.sqrt(variance)
                row += [tau(mean, truth), float(np.mean(inside))]
            rows.append(row)
        names = ("median", "Gaussian", "Gaussian coverage", "robust", "robust coverage")
        found[name] = dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))
    return found


def measure_ties(draws: int) -> dict[str, float]:
    """Return accuracies on simulated pairs, whose integer scores often tie."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(draws):
        quality = rng.normal(5, 1.5, (1_500, 2))
        scores = np.rint(quality[:, :, None] + rng.normal(0, rng.uniform(0.8, 1.5, 6), (1_500, 2, 6)))
        second = quality[:, 1] > quality[:, 0]
        lead = np.sign(scores[:, 1] - scores[:, 0]).astype(int)
        missing = fs.Votes.from_signed(lead)
        named = fs.Votes.from_classes(np.where(lead == 0, "tie", np.where(lead > 0, "second", "first")))
        found = fs.ScoreModel().fit(scores.reshape(-1, 6)).best_of(scores)
        rows.append(
            [
                np.mean(lead == 0),
                np.mean(fs.LabelModel().fit(named).predict(named) == np.where(second, "second", "first")),
                np.mean(fs.LabelModel().fit(missing).predict(missing) == np.where(second, 1, -1)),
                np.mean(found.chosen == second),
            ]
        )
    names = ("ties", "ties as a class", "ties as missing votes", "ScoreModel.best_of")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


# ---------------------------------------------------------------------- page


def measure(draws: int) -> dict[str, Any]:
    """Return everything that the page shows."""
    asset, answers = load("asset_scores"), load("rewardbench2_scores")
    scores, gold = answers["scores"].astype(float), answers["gold"].astype(int)
    return {
        "draws": draws,
        "ratings": measure_ratings(
            asset["scores"].astype(float), asset["gold"].astype(float), asset["example"], draws
        ),
        "best": {str(size): measure_best(scores, gold, size, draws) for size in SIZES},
        "levels": measure_levels(1_000, 10),
        "coverage": {str(n): measure_coverage(n, 100) for n in (100, 1_000)},
        "tails": measure_tails(300, 100),
        "ties": measure_ties(5),
    }


HEADER = """# Scores of judges

Printed by `python -m benchmarks.quality.scores_panels`
([script](../../benchmarks/quality/scores_panels.py)).

[`fs.ScoreModel`](../guides/scores.md) compared with common methods of combining scores. No method uses gold
labels. Both panels are in the design half ([halves](halves.md)), so these are results on the data on which
the shrinkage of weights was chosen.
"""
RATINGS_TEXT = """## Ratings: `asset_scores`

11 judges score 100 text simplifications from 0 to 100. 15 people rated three aspects of each text, which
gives 300 gold ratings; no method can distinguish the aspects. Kendall's tau-b with the gold rating.

{table}

The median takes {distinct} different values. Tau-b leaves out pairs that tie, and judges are most often
wrong about close items, so it favors coarse estimates: rounding alone changes it more than the choice of
the method. If ties are broken at random, the median is as good as the mean, and `predict` is {gain:.3f}
above both. Rounded alike, `predict` is above the median, too (the column is the mean over ten positions of
the limits between tens, because the result of the median depends on it). Without rounding, `predict` is
below the median, and `predict_class` is above it in steps of 5 and of 10. With other steps, its tau-b is
{steps}. The standard error of the difference between `predict` and the median is {error:.3f} (bootstrap
over texts).

The last three rows are other robust estimates that were tried: the posterior mean if noise has the heavy
tails of `predict_class`, the median of scores weighted by `weights_`, and the same model of the ranks that
each judge assigns. The weighted median reaches the tau-b of the median, with ties. The model of ranks needs
all scores at once, and its estimates have no unit. A one-factor model with Student noise, fitted by EM to
scores, to ranks or to normal scores, has a tau-b of .55 to .574. With the parameters of the closed form,
posterior means, medians and modes for Student noise (2.5 to 5 degrees of freedom), for 5% to 30% of wild
scores, and for noise that differs by item have .552 to .571. None of these
estimates reaches the tau-b of the median.

The 95% intervals of items contain the gold rating, moved to the mean and the spread of the estimated truth,
for {coverage:.0%} of the items. They are intervals of what the judges have in common. An error that all
judges share is not visible in scores.
"""
BEST_TEXT = """## Best of four: `rewardbench2_scores`

1,763 prompts with four answers each, one of which is right. Random panels of judges, one of eight repeats
of each judge; {draws} panels of each size, the same for all methods. Voting counts the judges that give
an answer their highest score. z-scores are per judge over all answers. Ties share the credit.

{table}

Not below: share of panels on which `ScoreModel` is not below the mean of z-scores. Variants of one model
dominate these panels: a judge that agrees most with the others is not the best one, and the weights of the
plain one-factor model (`shrinkage=0`) are worse than equal ones. Their expected gain is small, so that by
default they are shrunk to nearly equal ones. The stated probability is the mean of those that `best_of`
returns for the chosen answers.
"""
LEVELS_TEXT = """## Ordinal scales

Simulated panels of five judges who give one to five stars to 1,000 items; levels are balanced in
half of the draws and imbalanced in the other half. Accuracy in percent. Coverage: how often the 95% intervals
of `predict_interval` contain the level, moved to mean and spread of the estimated truth; and how often they
contain the level itself.

{table}

`predict_class` is above the median on all of them. If a judge either knows the level or picks any level at
random, the order is meaningless, and scores are equal more often than noise would explain: `predict_class`
then counts agreement. `LabelModel`, which treats the levels as classes, is still better there.

Estimated true scores are on the common scale of the judges. Scores cannot exceed the ends of the scale, so
their means are closer to the middle than the levels, and intervals miss levels at the ends. If you know the
levels, use `predict_proba`, which takes the ends into account.
"""
COVERAGE_TEXT = """## Intervals

Five simulated judges with different scale and noise, 20% of the scores missing: how often 95% intervals
contain the truth.

{table}
"""
TAILS_TEXT = """## Heavy tails

Five simulated judges with different noise, 300 items. Kendall's tau with the truth, of the median of
z-scores, of the posterior with Gaussian noise, and of `predict`, whose noise has the kurtosis that was
measured; and how often the 95% intervals of the last two contain the truth.

{table}

Scores far from the others count less only if the fourth moments show that the noise of their judge has
heavy tails, so Gaussian noise loses hardly anything. The rule assumes that judges are far off on different
items, and that the truth is Gaussian. If all judges have more noise on the same items, or if the truth has
heavy tails, it loses about .2 points.
"""
TIES_TEXT = """## Preferences with ties

Six simulated judges score two answers with integers, and {ties:.0%} of their preferences are ties. Accuracy
in percent of the preferred answer:

{table}
"""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def render(found: Mapping[str, Any]) -> str:
    """Return the page."""
    ratings, best = found["ratings"], found["best"]
    methods = ratings["methods"]
    columns = ("tau", "tens", "without ties", "panels of 5", "panels of 8")
    rated = _table(
        [
            "",
            "tau-b",
            "rounded to tens",
            "ties broken",
            "random panels of 5",
            "random panels of 8",
            "distinct values",
        ],
        [
            [name, *(_decimals(each[column]) for column in columns), f"{each['distinct']}"]
            for name, each in methods.items()
        ],
    )
    others = max(methods[name]["without ties"] for name in ("mean", "median"))
    shown = [
        [
            f"{size} judges",
            *(f"{100 * each[name]:.2f}" for name in CHOICES),
            f"{100 * each['difference']:+.3f} ± {100 * each['error']:.3f}",
            f"{each['not below']:.0%}",
            f"{each['probability']:.3f}",
        ]
        for size, each in best.items()
    ]
    chosen = _table(
        [
            "",
            "voting",
            "mean of z-scores",
            "`ScoreModel`",
            "`shrinkage=0`",
            "difference to the mean",
            "not below",
            "stated probability",
        ],
        shown,
    )
    names = list(next(iter(found["levels"].values())))
    levels = _table(
        ["judges", *names],
        [[kind, *(f"{100 * each[name]:.1f}" for name in names)] for kind, each in found["levels"].items()],
    )
    coverage = _table(
        ["items", "truth of items", "reliability of judges", "noise of judges"],
        [
            [f"{int(n):,}", *(f"{value:.1%}" for value in each.values())]
            for n, each in found["coverage"].items()
        ],
    )
    tails = _table(
        ["noise", "median", "Gaussian noise", "`predict`", "coverage, Gaussian noise", "coverage, `predict`"],
        [
            [
                kind,
                *(_decimals(each[name]) for name in ("median", "Gaussian", "robust")),
                *(f"{each[f'{name} coverage']:.1%}" for name in ("Gaussian", "robust")),
            ]
            for kind, each in found["tails"].items()
        ],
    )
    tied = {name: value for name, value in found["ties"].items() if name != "ties"}
    ties = _table(list(tied), [[f"{100 * value:.1f}" for value in tied.values()]])
    parts = [
        HEADER,
        RATINGS_TEXT.format(
            table=rated,
            gain=methods["`predict`"]["without ties"] - others,
            coverage=ratings["coverage"],
            error=ratings["error"],
            distinct=methods["median"]["distinct"],
            steps=", ".join(f"{value:.3f} ({step})" for step, value in ratings["steps"].items()),
        ),
        BEST_TEXT.format(table=chosen, draws=found["draws"]),
        LEVELS_TEXT.format(table=levels),
        COVERAGE_TEXT.format(table=coverage),
        TAILS_TEXT.format(table=tails),
        TIES_TEXT.format(table=ties, ties=found["ties"]["ties"]),
    ]
    return "\n".join(parts)


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="random panels of each size")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = measure(options.draws)
    print(render(results))
    if options.save:
        print(f"saved to {save(NAME, results).name} and {PAGE.name}")
        PAGE.write_text(render(results), encoding="utf-8")


if __name__ == "__main__":
    main()
