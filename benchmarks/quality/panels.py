"""Goal: with declared orders, at least 8 points above majority vote on LLMBar, and no loss on other panels.

Run ``python -m benchmarks.quality.panels``; ``--save`` writes the results file and the page. Reads the
directory ``panels`` next to the one named by FLYINGSQUID_DATA. ``--frozen`` adds a panel with repeats of the
frozen half, once, when there is nothing left to choose (docs/quality/halves.md).
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import half_parser, save_half
from benchmarks.quality.data_directory import data_directory, find, panel_directory
from flyingsquid.estimation.factors import fit_factors
from flyingsquid.estimation.replicates import compare_replicates
from flyingsquid.votes.decisions import expected_credit

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "panels.md"
NAMES = {"design": "panels", "frozen": "panels_frozen"}
PANELS, JUDGES, DRAWS = 200, 6, 50
# The difference between two fits has a standard deviation of 1 to 2 points on panels of 300 items.
SIMULATED = 40
GOLD = (5, 10, 20, 40)


def load_llmbar(directory: Path) -> tuple[fs.Votes, NDArray[np.intp], NDArray[Any]]:
    """Return votes with their structure, gold labels and the subset of each item.

    A judge that rates each answer alone has no order: its two columns are one source, which abstains if they
    differ.
    """
    data = np.load(directory / "llmbar" / "llmbar.npz")
    meta = json.loads((directory / "llmbar" / "meta.json").read_text(encoding="utf-8"))
    columns, described = [], []
    for first, second in zip(meta["columns"][::2], meta["columns"][1::2], strict=True):
        pair = [data["L"][:, each["column"]] for each in (first, second)]
        if not first["position_matters"]:
            columns.append(np.where(pair[0] == pair[1], pair[0], -1))
            described.append(fs.SourceInfo(first["judge"], model=first["model"], prompt=first["prompt"]))
            continue
        for order, codes in enumerate(pair):
            columns.append(codes)
            described.append(
                fs.SourceInfo(first["judge"], order, model=first["model"], prompt=first["prompt"])
            )
    votes = fs.Votes.from_classes(
        np.stack(columns, axis=1), classes=(0, 1), names=[info.name for info in described]
    )
    return votes.with_structure(described), data["Y"].astype(np.intp), data["subset"]


def of_judges(votes: fs.Votes, judges: Sequence[str]) -> fs.Votes:
    """Return the votes of some judges."""
    return votes.of_sources([j for j, info in enumerate(votes.structure or ()) if info.judge in judges])


def accuracy(labels: Any, y: NDArray[np.intp]) -> float:
    """Return the accuracy of probabilities; ties count one half."""
    return float(expected_credit(labels, y).mean())


def compare(votes: fs.Votes, y: NDArray[np.intp]) -> dict[str, Any]:
    """Return accuracies of majority vote, of the panel, and of the default without structure."""
    model = fs.LabelModel().fit(votes)
    plain = votes.with_structure(None)
    default = fs.LabelModel().fit(plain)
    return {
        "majority": accuracy(fs.MajorityVote().fit(plain).predict_proba(plain), y),
        "panel": accuracy(model.predict_proba(votes), y),
        "panel_verdict": model.diagnostics_.verdict.kind,
        "default": accuracy(default.predict_proba(plain), y),
        "default_verdict": default.diagnostics_.verdict.kind,
    }


def measure_llmbar(votes: fs.Votes, y: NDArray[np.intp], subset: NDArray[Any]) -> dict[str, Any]:
    """Return everything about LLMBar."""
    labels = fs.LabelModel().fit(votes).predict_proba(votes)
    found: dict[str, Any] = {"all": compare(votes, y), "subsets": {}}
    for name in np.unique(subset).tolist():
        at = np.flatnonzero(subset == name)
        own = compare(votes[at], y[at])
        found["subsets"][name] = {**own, "fitted_on_all": accuracy(labels[at], y[at]), "items": len(at)}
    rng, judges = np.random.default_rng(0), np.array(votes.structure.judges)  # type: ignore[union-attr]
    chosen = [rng.choice(judges, JUDGES, replace=False) for _ in range(PANELS)]
    found["random"] = [compare(of_judges(votes, each.tolist()), y) for each in chosen]
    agreement = compare_replicates(votes)
    known = agreement.n_swapped > 0
    realized = agreement.bound
    gold = np.array(fs.analysis.panel_report(votes, y).judges.to_dict()["gold_accuracy"], np.float64)
    found["bound"] = {"judges": int(known.sum()), "held": int((gold[known] <= realized[known]).sum())}
    found["gold"] = [measure_gold(each, y, n) for each in (votes, votes.with_structure(None)) for n in GOLD]
    found["suggested"] = measure_suggested(votes.with_structure(None), y)
    factors = fit_factors(fs.Moments.of(votes))
    found["rank"] = 1 if factors is None else factors.rank
    trusted = fs.solvers.Panel(trusted=["GPT-4/Vanilla"])
    found["trusted"] = accuracy(fs.LabelModel(method=trusted).fit(votes).predict_proba(votes), y)
    shared = fs.solvers.Panel(share_families=True)
    found["families"] = accuracy(fs.LabelModel(method=shared).fit(votes).predict_proba(votes), y)
    return found


def measure_gold(votes: fs.Votes, y: NDArray[np.intp], n_gold: int) -> dict[str, Any]:
    """Return the accuracy on the other items with random gold labels."""
    scores = []
    for draw in range(DRAWS):
        at = np.random.default_rng([draw, n_gold]).choice(len(y), n_gold, replace=False)
        scores.append(_with_gold(votes, y, at))
    low, high = np.quantile(scores, [0.1, 0.9])
    return {
        "declared": votes.structure is not None,
        "gold": n_gold,
        "accuracy": float(np.mean(scores)),
        "low": float(low),
        "high": float(high),
    }


def measure_suggested(votes: fs.Votes, y: NDArray[np.intp]) -> float:
    """Return the accuracy on the other items after ten labels of suggested items."""
    model = fs.LabelModel().fit(votes)
    return _with_gold(votes, y, fs.suggest_items(model, votes, 10, random_state=0).positions)


def _with_gold(votes: fs.Votes, y: NDArray[np.intp], at: NDArray[np.intp]) -> float:
    gold = np.full(len(y), -1)
    gold[at] = y[at]
    rest = np.setdiff1d(np.arange(len(y)), at)
    model = fs.LabelModel().fit(votes, gold=gold)
    return accuracy(model.predict_proba(votes[rest]), y[rest])


# ---------------------------------------------------------------------- panels without shared bias


def simulate(
    rng: np.random.Generator, n: int, n_judges: int, same: float, position: float
) -> tuple[fs.Votes, NDArray[np.intp]]:
    """Return independent judges in two orders.

    The second answer repeats the first with the probability ``same``; up to a share ``position`` of the items
    is decided by position.
    """
    y = rng.integers(0, 2, n)
    right = rng.random((n, n_judges, 2)) < rng.uniform(0.55, 0.9, n_judges)[:, None]
    right[:, :, 1] = np.where(rng.random((n, n_judges)) < same, right[:, :, 0], right[:, :, 1])
    codes = np.where(right, y[:, None, None], 1 - y[:, None, None])
    by_position = rng.random((n, n_judges)) < rng.uniform(0, position, n_judges)
    codes = np.where(by_position[:, :, None], [0, 1], codes)
    return fs.Votes.from_panel(codes, classes=(0, 1)), y


def measure_simulated() -> list[dict[str, Any]]:
    """Return mean accuracies of simulated panels of independent judges."""
    rows = []
    for n in (300, 1_000, 3_000):
        for n_judges in (4, 6, 12):
            for same, position in ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.5, 0.4)):
                rng = np.random.default_rng([n, n_judges, int(10 * same), int(10 * position)])
                found = [compare(*simulate(rng, n, n_judges, same, position)) for _ in range(SIMULATED)]
                gains = [each["panel"] - each["default"] for each in found]
                rows.append(
                    {
                        "items": n,
                        "judges": n_judges,
                        "same": same,
                        "position": position,
                        "difference": float(np.mean(gains)),
                        "error": float(np.std(gains) / np.sqrt(SIMULATED)),
                        **{
                            k: float(np.mean([f[k] for f in found])) for k in ("majority", "panel", "default")
                        },
                    }
                )
    return rows


def measure_civilcomments() -> dict[str, Any]:
    """Return a panel of judges that were asked once."""
    data = np.load(find(data_directory(), "llm_civilcomments"))
    votes = fs.Votes.from_classes(data["L"], classes=(0, 1))
    return compare(votes.with_structure(list(votes.source_names)), data["Y"].astype(np.intp))


def measure_repeats() -> dict[str, Any]:
    """Return RewardBench 2 with eight repeats of each judge: the right answer against each wrong one."""
    data = np.load(panel_directory() / "rewardbench2_scores" / "rewardbench2_scores.npz")
    scores, gold = data["scores"].astype(np.float64), data["gold"].astype(int)
    rng, pairs, y = np.random.default_rng(0), [], []
    for item, right in enumerate(gold):
        for wrong in (a for a in range(scores.shape[1]) if a != right):
            first = int(rng.integers(2))
            one, other = (right, wrong) if first == 0 else (wrong, right)
            difference = scores[item, other] - scores[item, one]  # judges, repeats
            pairs.append(np.where(difference > 0, 1, np.where(difference < 0, 0, -1)))
            y.append(first)
    codes = np.stack(pairs)[:, :, None, :]
    votes = fs.Votes.from_panel(codes, classes=(0, 1))
    repeats = [fs.SourceInfo(info.judge, repeat=info.repeat) for info in votes.structure or ()]
    return compare(votes.with_structure(repeats), np.array(y))


# ---------------------------------------------------------------------- page


def render(results: dict[str, Any]) -> str:
    """Return the page."""
    design = results["design"]
    bar, simulated = design["llmbar"], design["simulated"]
    gains = np.array([row["panel"] - row["majority"] for row in bar["random"]])
    lines = [
        "# Panels of judges",
        "",
        "Written by `python -m benchmarks.quality.panels --save` "
        "([script](../../benchmarks/quality/panels.py), [results](../../benchmarks/results/panels.json)). "
        "The method is described in [0016](../design/0016-panels.md).",
        "",
        "## Judges that share a bias: LLMBar",
        "",
        "LLMBar has 280 pairs of answers in three subsets, and 65 judges, 58 of them asked in both orders. "
        "In the adversarial subsets the wrong answer was chosen to look better. The table shows accuracy in "
        "percent; ties count one half. *No structure* treats every order as a separate source, *orders "
        "declared* combines the orders of each judge. Rules and constants were chosen on this panel.",
        "",
        "| items | majority vote | no structure | verdict | orders declared | verdict | fitted on all |",
        "| --- | ---: | ---: | --- | ---: | --- | ---: |",
        _row("all", bar["all"], bar["all"]["panel"]),
        *(_row(name, row, row["fitted_on_all"]) for name, row in bar["subsets"].items()),
        "",
        f"{PANELS} random panels of {JUDGES} judges with declared orders: mean gain over majority vote "
        f"{100 * gains.mean():.1f} points; more than one point below it on {np.mean(gains < -0.01):.1%} of "
        f"the panels, worst {100 * gains.min():.1f} points.",
        "",
        "| verdict | orders declared | below majority vote | no structure | below majority vote |",
        "| --- | ---: | ---: | ---: | ---: |",
        *_verdicts(bar["random"]),
        "",
        "Accuracy on the other items if some random items have gold labels: the mean, and the middle 80% of "
        f"{DRAWS} draws.",
        "",
        "| gold labels | no structure | orders declared |",
        "| ---: | ---: | ---: |",
        *_gold_rows(bar["gold"]),
        "",
        "| variant | accuracy |",
        "| --- | ---: |",
        f"| gold labels of the ten items that `fs.suggest_items` lists | {_percent(bar['suggested'])} |",
        f"| one trusted judge, GPT-4/Vanilla | {_percent(bar['trusted'])} |",
        f"| judges of one model share their weight | {_percent(bar['families'])} |",
        "",
        f"The votes have {bar['rank']} large factors. The accuracy of {bar['bound']['held']} of "
        f"{bar['bound']['judges']} judges is within the bound given by their self-agreement.",
        "",
        "## Judges without a shared bias",
        "",
        f"Simulated judges that are independent given the truth, in two orders, {SIMULATED} panels each. "
        "`same`: probability that the second answer repeats the first one. `position`: largest share of "
        "items decided by position. Differences with their standard errors over panels.",
        "",
        "| items | judges | same | position | majority vote | no structure | orders declared | difference |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {row['items']:,} | {row['judges']} | {row['same']} | {row['position']} | "
            f"{_percent(row['majority'])} | {_percent(row['default'])} | {_percent(row['panel'])} | "
            f"{100 * row['difference']:+.1f} ± {100 * row['error']:.1f} |"
            for row in simulated
        ),
        "",
        "| panel | majority vote | no structure | structure declared |",
        "| --- | ---: | ---: | ---: |",
        _other("llm_civilcomments, 24 judges asked once", design["civilcomments"]),
    ]
    if "frozen" in results:
        lines.append(
            _other(
                "RewardBench 2 pairs (frozen half), 22 judges, 8 repeats each", results["frozen"]["repeats"]
            )
        )
    return "\n".join(lines) + "\n"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _row(name: str, row: dict[str, Any], on_all: float) -> str:
    return (
        f"| {name} | {_percent(row['majority'])} | {_percent(row['default'])} | {row['default_verdict']} | "
        f"{_percent(row['panel'])} | {row['panel_verdict']} | {_percent(on_all)} |"
    )


def _other(name: str, row: dict[str, Any]) -> str:
    return f"| {name} | {_percent(row['majority'])} | {_percent(row['default'])} | {_percent(row['panel'])} |"


def _verdicts(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for kind in ("recommended", "unproven", "no better", "contradictory", "no signal"):
        cells = []
        for name in ("panel", "default"):
            of_kind = [row for row in rows if row[f"{name}_verdict"] == kind]
            below = Counter(row[name] < row["majority"] for row in of_kind)
            cells += [str(len(of_kind)), str(below[True])]
        if cells[0] != "0" or cells[2] != "0":
            lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


def _gold_rows(rows: list[dict[str, Any]]) -> list[str]:
    def cell(n_gold: int, declared: bool) -> str:
        row = next(r for r in rows if r["gold"] == n_gold and r["declared"] == declared)
        return f"{_percent(row['accuracy'])} ({_percent(row['low'])} to {_percent(row['high'])})"

    return [f"| {n} | {cell(n, False)} | {cell(n, True)} |" for n in GOLD]


def main() -> None:
    options = half_parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    if options.frozen:
        results: dict[str, Any] = {"repeats": measure_repeats()}
        print(results)
    else:
        results = {
            "llmbar": measure_llmbar(*load_llmbar(panel_directory())),
            "simulated": measure_simulated(),
            "civilcomments": measure_civilcomments(),
        }
        print(render({"design": results}))
    if options.save:
        save_half(NAMES, "frozen" if options.frozen else "design", results, PAGE, render)


if __name__ == "__main__":
    main()
