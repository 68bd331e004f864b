"""The page that compares the default with other label models, written from the saved results."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness import RESULTS
from benchmarks.quality.peers import PEERS
from benchmarks.quality.peers_run import EPOCHS
from benchmarks.quality.scores import METRICS
from benchmarks.quality.summary import COMPARED, DRAWS, MAJORITY, MARGIN

WIDTH = 115
HALF = 0.5  # of Snorkel's time, which ours should not exceed
PAGE = Path(__file__).parents[2] / "docs" / "quality" / "default.md"
FILES = {"design": "default_table.json", "frozen": "default_table_frozen.json"}
PROTOCOLS = {"split": "train to test", "merged": "merged covered items"}
Results: TypeAlias = Mapping[str, Any]

INTRODUCTION = """\
# Accuracy on real datasets

This page compares the default, `LabelModel()`, with majority vote, with the other methods of this package
and with other label models, on real votes. `auto` is the default. No method uses gold labels. {status}

Written by `python -m benchmarks.quality.default_table --save`
([script](../../benchmarks/quality/default_table.py); results: {files}).

There are two protocols:

- **train to test**: fitted on the train split and scored on the test split. Datasets without splits are
  fitted and scored on all items.
- **merged covered items**: all splits are merged, items without votes are dropped, and the rest is fitted
  and scored. Published comparisons of label models often use this protocol.

Every cell has the form

    accuracy in % / F1 in % / log loss in nats

- F1 is that of class 1 for two classes, and the mean over the classes otherwise. Ties, including items
  without votes, get the expected score of a random choice.
- The probabilities of majority vote are vote shares with one vote added for each class. All probabilities
  are clipped to [0.0001, 0.9999] for the log loss.
- Every dataset has the same weight in a mean. `weather` and `weather5` are not part of the means, because
  their gold labels are aggregates of the same votes. Sequences are scored by token, and a rule that
  leaves a token blank votes for "no entity".
- *refused* means that a method raised an error, failed or ran out of time. It is scored as majority vote,
  which its user would use instead. The datasets are listed [below](#refusals).
- Intervals are 95% bootstrap intervals over datasets ({draws:,} draws). If an interval contains 0, the
  datasets do not show which of the two methods is better.

The other label models are the latest releases of their authors or of crowd-kit with default settings, in
a separate environment (`make peers`): Snorkel's LabelModel with the {epochs} epochs of its tutorials;
Dawid-Skene, GLAD, MACE and M-MSR from crowd-kit; and the hyper label model, a network trained offline,
from hyperlm. Snorkel is fitted on the train split, like our methods. The others can only label the items
that they are fitted to, so they are given train and test items together; items without votes get uniform
probabilities. M-MSR returns labels only, so its log loss is that of probabilities of 0 and 1, clipped.
Models that take minutes on one dataset are stopped. All methods use one thread, and times are CPU times
on the same machine.
"""
REFUSALS = """\
Methods of this package raise an error if the votes do not determine their parameters. Other label models
failed or were stopped after some minutes. The results files contain the messages.
"""
STATUS = {
    True: """The
[frozen half](halves.md) of the datasets is reserved for reporting.""",
    False: """This is the
[design half](halves.md). The frozen half is measured once, when nothing is left to choose.""",
}
# Results were recorded under the names that methods had when the table was first measured.
NAMES = {
    "refined": "em",
    "consensus": "weighted",
    "triplet_mean": "triplet",
    "triplet_median": 'Triplet("median")',
    "triplet": 'Triplet("best")',
}


def write() -> Path:
    """Write the page of all saved results and return its path."""
    PAGE.write_text(render(saved()), encoding="utf-8")
    return PAGE


def saved() -> dict[str, Results]:
    """Return the results of each half that has been computed."""
    paths = {half: RESULTS / name for half, name in FILES.items()}
    return {h: json.loads(p.read_text("utf-8"))["results"] for h, p in paths.items() if p.is_file()}


def render(halves: Mapping[str, Results]) -> str:
    """Return the page, with one half or both halves."""
    files = (f"[{half}](../../benchmarks/results/{FILES[half]})" for half in halves)
    head = INTRODUCTION.format(
        files=", ".join(files),
        status=STATUS["frozen" in halves],
        draws=DRAWS,
        epochs=EPOCHS,
    )
    parts = [head]
    for protocol, title in PROTOCOLS.items():
        tables = {half: results[protocol] for half, results in halves.items()}
        parts.append(f"## Means, {title}\n")
        parts.append(_overall(tables))
        parts += _each(tables, "Means by kind", _means_by_kind)
        parts += _each(tables, "Difference from majority vote", _ahead_of_majority)
        parts += _each(tables, "Difference of `auto` from other label models", _default_ahead)
        parts += _each(tables, "Datasets on which `auto` is below majority vote", _losses)
    for protocol, title in PROTOCOLS.items():
        tables = {half: results[protocol] for half, results in halves.items()}
        parts.append(f"## Every dataset, {title}\n")
        parts += _each(
            tables, "Default and other label models", lambda t: _sets(t, [MAJORITY, "auto", *PEERS])
        )
        parts += _each(
            tables,
            "All methods of this package",
            lambda t: _sets(t, [c for c in _contenders(t) if c not in PEERS]),
        )
        parts += _each(tables, "CPU seconds", _seconds)
    parts += ["## Refusals\n", _refusals(halves)]
    return "\n".join(parts)


def _each(tables: Mapping[str, Results], title: str, part: Callable[[Results], str]) -> list[str]:
    return [f"### {title}, {half} half\n\n{part(table)}" for half, table in tables.items()]


# ---------------------------------------------------------------------- means


def _overall(tables: Mapping[str, Results]) -> str:
    """Return means over all datasets, and the number of datasets below majority vote, by method and half."""
    columns = [c for half in tables for c in (f"{half} half", "datasets below majority vote")]
    first = next(iter(tables.values()))
    rows = []
    for contender in first["means"]["all"]:
        cells = [_name(contender)]
        for table in tables.values():
            cells.append(_cell(table["means"]["all"].get(contender)))
            lost = table["below"].get(contender)
            cells.append(f"{len(lost['sets'])} of {lost['of']}" if lost else "")
        rows.append(cells)
    return _markdown(["", *columns], rows) + "\n" + _explain_below()


def _explain_below() -> str:
    margin = f"{100 * MARGIN:.1f} points"
    return _wrapped(f"A dataset is below majority vote if its accuracy is more than {margin} lower.") + "\n"


def _means_by_kind(table: Results) -> str:
    groups = list(table["means"])
    titles = [f"{group} ({table['counts'][group]})" for group in groups]
    rows = [[_name(c), *(_cell(table["means"][g].get(c)) for g in groups)] for c in _contenders(table)]
    return _markdown(["", *titles], rows)


def _ahead_of_majority(table: Results) -> str:
    return "\n".join(_gaps(table, table["ahead_of_majority"], group) for group in COMPARED)


def _default_ahead(table: Results) -> str:
    return "\n".join(_gaps(table, table["default_ahead_of"], group) for group in COMPARED)


def _gaps(table: Results, all_gaps: Mapping[str, Any], group: str) -> str:
    """Return the differences of one group: points of accuracy and F1, nats of log loss."""
    gaps = all_gaps.get(group)
    if not gaps:
        return ""
    title = f"{group} ({table['counts'][group]} datasets)"
    rows = [[_name(c), *(_gap(gap[m], m) for m in METRICS)] for c, gap in gaps.items()]
    return _markdown([title, "accuracy, points", "F1, points", "log loss (lower is better)"], rows)


def _gap(value: Sequence[float], metric: str) -> str:
    scale, digits = (1, 3) if metric == "log_loss" else (100, 1)
    mean, low, high = (f"{scale * v:+.{digits}f}" for v in value)
    return f"{mean} [{low}, {high}]"


def _losses(table: Results) -> str:
    lost = table["below"]["auto"]
    share = f"{len(lost['sets'])} of {lost['of']} datasets"
    opening = f"`auto` loses more than {100 * MARGIN:.1f} points on {share}"
    if not lost["sets"]:
        return opening + ".\n"
    by_name = {s["name"]: s for s in table["sets"]}
    lines = [_wrapped(f"{opening} (loss ± one standard error, in points):"), ""]
    for name, gap in lost["sets"].items():
        error = by_name[name]["scores"]["auto"]["ahead_error"]
        lines.append(f"- `{name}`: {-100 * gap:.1f} ± {100 * error:.1f}")
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------- sets


def _sets(table: Results, contenders: Iterable[str]) -> str:
    shown = [c for c in contenders if any(c in s["scores"] for s in table["sets"])]
    rows = [[f"`{s['name']}`", _size(s), *(_cell(s["scores"].get(c)) for c in shown)] for s in table["sets"]]
    return _markdown(["dataset", "items x sources, K", *map(_name, shown)], rows)


def _seconds(table: Results) -> str:
    """Return the time of every method, and the ratio of `auto` to Snorkel."""
    shown = [c for c in ("auto", *PEERS) if any(c in s["scores"] for s in table["sets"])]
    rows = []
    for s in table["sets"]:
        seconds = [s["scores"][c].get("seconds") for c in shown]
        rows.append([f"`{s['name']}`", *("refused" if v is None else f"{v:.2f}" for v in seconds)])
        ratio = _ratio(s)
        rows[-1].append("" if ratio is None else f"{ratio:.3f}")
    return _markdown(["dataset", *map(_name, shown), "`auto` / Snorkel"], rows) + "\n" + _slow(table["sets"])


def _ratio(s: Results) -> float | None:
    ours, theirs = (s["scores"].get(c, {}).get("seconds") for c in ("auto", "snorkel"))
    return ours / theirs if ours is not None and theirs else None


def _slow(sets: Sequence[Results]) -> str:
    """Return the datasets on which `auto` takes more than half of Snorkel's time."""
    ratios = {s["name"]: _ratio(s) for s in sets}
    slow = [f"`{name}`" for name, ratio in ratios.items() if ratio is not None and ratio > HALF]
    shown = ", ".join(slow) or "no dataset"
    return _wrapped(f"`auto` takes more than half of Snorkel's time on {shown}.") + "\n"


def _size(s: Results) -> str:
    size = f"{s['items_fitted']:,} x {s['sources']}, {s['n_classes']}"
    whole = s["one_pool"] and s["items_scored"] == s["items_fitted"]
    return size if whole else f"{size}; {s['items_scored']:,} {'of them ' * s['one_pool']}scored"


def _refusals(halves: Mapping[str, Results]) -> str:
    """Return a table of the datasets that each method refused; the messages are in the results files."""
    found: dict[str, dict[str, list[str]]] = {}
    for results in halves.values():
        for protocol, title in PROTOCOLS.items():
            for s in results[protocol]["sets"]:
                for contender, scores in s["scores"].items():
                    if "refused" in scores:
                        found.setdefault(_name(contender), {}).setdefault(s["name"], []).append(title)
    rows = []
    for contender, datasets in found.items():
        shown = [
            f"`{name}`" + ("" if len(titles) == len(PROTOCOLS) else f" ({titles[0]})")
            for name, titles in datasets.items()
        ]
        rows.append([contender, ", ".join(shown)])
    return f"{REFUSALS}\n{_markdown(['method', 'datasets'], rows)}" if rows else "None.\n"


# ---------------------------------------------------------------------- formatting


def _contenders(table: Results) -> list[str]:
    return list(dict.fromkeys(c for s in table["sets"] for c in s["scores"]))


def _name(contender: str) -> str:
    if contender == MAJORITY:
        return "majority vote"
    return PEERS.get(contender, f"`{NAMES.get(contender, contender)}`")


def _cell(scores: Mapping[str, Any] | None) -> str:
    if scores is None:
        return ""
    if "refused" in scores:
        return "refused"
    return f"{100 * scores['accuracy']:.1f} / {100 * scores['f1']:.1f} / {scores['log_loss']:.3f}"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
