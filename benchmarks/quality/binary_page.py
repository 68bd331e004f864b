"""The table of the binary sets as a page: every word that depends on a number is made from the numbers."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

WIDTH = 115
DOCS = Path(__file__).parents[2] / "docs" / "quality"
PAGES = {"design": "binary.md", "frozen": "binary-frozen.md"}

INTRODUCTION = """\
# Binary votes: every method beside majority vote, {half} half

Written by `python -m benchmarks.quality.binary_table --save{flag}`
([script](../../benchmarks/quality/binary_table.py), [results](../../benchmarks/results/{results})).
{status}

Every method is fitted without labels on the train split and scored on the test split; where there is one
pool, it is both. Each has its default class balance: even for the three triplet methods; for `covariance` and
`quadratic` estimated from the votes, or even where these say too little. `independencies` is left out, since
it needs a balance. A cell is

    accuracy in % / F1 of class 1 in % / log loss in nats

- Where both classes are as probable, or as often voted for, an item gets the credit that a coin would get on
  average, so no method gains by a lucky tie rule; that includes items nobody votes on.
- Majority vote's log loss is that of vote shares with one vote added for each class. Probabilities are
  clipped to [0.0001, 0.9999].
- *refused* is a `NotIdentifiableError`; the reasons are below. In the means it counts as the majority vote,
  which is what its user would fall back on.
- A mean counts every set once. {note}
"""
STATUS = {
    "design": """\
It shows the design half only; [which sets that is, and why](halves.md). The frozen half is not computed.
It is opened once, when the default method is settled.""",
    "frozen": "Nothing was or is chosen by looking at this page; [why](halves.md).",
}
NOTES = {
    "design": "`weather` is listed but in no mean: its gold is made of these same votes.",
    "frozen": "The sequence set is read with blanks as votes for class 0.",
}


def write(results: dict[str, Any]) -> Path:
    """Write the page of a half and return its path."""
    path = DOCS / PAGES[results["half"]]
    path.write_text(render(results), encoding="utf-8")
    return path


def render(results: dict[str, Any]) -> str:
    """The whole page."""
    frozen = results["half"] == "frozen"
    head = INTRODUCTION.format(
        half=results["half"],
        flag=" --frozen" if frozen else "",
        results="binary_table_frozen.json" if frozen else "binary_table.json",
        status=STATUS[results["half"]],
        note=NOTES[results["half"]],
    )
    parts = [head, _table(results), _losses(results), _refusals(results["sets"])]
    return "\n".join(part for part in parts if part)


def _table(results: dict[str, Any]) -> str:
    methods = list(results["means"]["all"])
    names = ["majority vote" if m == "majority" else f"`{m}`" for m in methods]
    rows = [["set", "items x sources", *names], ["---"] * (2 + len(names))]
    for kind in [k for k in results["means"] if k != "all"]:
        sets = [s for s in results["sets"] if s["kind"] == kind]
        rows += [[f"`{s['name']}`", _size(s), *(_cell(s["methods"][m]) for m in methods)] for s in sets]
        rows.append(_mean_row(f"mean of {kind}", results["means"][kind], methods))
    rows.append(_mean_row("mean of all sets", results["means"]["all"], methods))
    seconds = [sum(s["methods"][m].get("seconds", 0.0) for s in results["sets"]) for m in methods]
    rows.append(["seconds, all sets", "", *(f"{total:.2f}" for total in seconds)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _mean_row(name: str, means: dict[str, Any], methods: list[str]) -> list[str]:
    return [f"**{name}**", "", *(f"**{_cell(means[m])}**" for m in methods)]


def _size(s: dict[str, Any]) -> str:
    size = f"{s['items_fitted']:,} x {s['sources']}"
    whole = s["one_pool"] and s["items_scored"] == s["items_fitted"]
    return size if whole else f"{size}, {s['items_scored']:,} {'of them ' * s['one_pool']}scored"


def _cell(scores: dict[str, Any]) -> str:
    if "refused" in scores:
        return "refused"
    return f"{100 * scores['accuracy']:.1f} / {100 * scores['f1']:.1f} / {scores['log_loss']:.3f}"


def _losses(results: dict[str, Any]) -> str:
    counted = [s for s in results["sets"] if s["in_means"]]
    answered = [s for s in counted if "refused" not in s["methods"]["covariance"]]
    lost = sorted((s for s in answered if _ahead(s, "accuracy") < 0), key=lambda s: _ahead(s, "accuracy"))
    count = f"In accuracy it loses on {len(lost)} of the {len(answered)} sets that it answers and that count"
    parts = [
        "## Where `covariance` loses to majority vote",
        _wrapped(_overall(results["means"]["all"])),
        _wrapped(f"{count}, by points ± one standard error of the difference:" if lost else f"{count}."),
        "\n".join(_wrapped(_loss(s)) for s in lost),
        _wrapped(_listed("In F1 it loses on", answered, "f1")),
        _wrapped(_listed("In log loss it loses on", answered, "log_loss")),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _overall(means: dict[str, Any]) -> str:
    ours, majority = means["covariance"], means["majority"]
    points, loss = 100 * (ours["accuracy"] - majority["accuracy"]), ours["log_loss"] - majority["log_loss"]
    return (
        f"Over all sets its mean accuracy is {abs(points):.1f} points {_side(points)} that of majority vote, "
        f"and its mean log loss {abs(loss):.3f} nats {_side(loss)}."
    )


def _side(difference: float) -> str:
    return "above" if difference >= 0 else "below"


def _ahead(s: dict[str, Any], metric: str) -> float:
    """How much better covariance is than majority vote; log loss is better when lower."""
    ours, majority = (s["methods"][m][metric] for m in ("covariance", "majority"))
    return float(majority - ours if metric == "log_loss" else ours - majority)


def _loss(s: dict[str, Any]) -> str:
    ours = s["methods"]["covariance"]
    return (
        f"- `{s['name']}`: {-100 * ours['ahead']:.1f} ± {100 * ours['ahead_error']:.1f}; "
        f"it takes P(class 1) to be {ours['class_balance']:.2f}, the scored gold says {s['class_1']:.2f}"
    )


def _listed(opening: str, sets: list[dict[str, Any]], metric: str) -> str:
    behind = sorted((_ahead(s, metric), s["name"]) for s in sets if _ahead(s, metric) < 0)
    if not behind:
        return f"{opening} none."
    amounts = [f"{-v:.3f}" if metric == "log_loss" else f"{-100 * v:.1f} points" for v, _ in behind]
    named = (f"`{name}` (by {amount})" for (_, name), amount in zip(behind, amounts, strict=True))
    return f"{opening} {len(behind)}: {', '.join(named)}."


def _refusals(sets: list[dict[str, Any]]) -> str:
    reasons = [
        _wrapped(f"- `{method}` on `{s['name']}`: {scores['refused']}")
        for s in sets
        for method, scores in s["methods"].items()
        if "refused" in scores
    ]
    return "\n".join(["## Refusals", "", *reasons, ""]) if reasons else ""
