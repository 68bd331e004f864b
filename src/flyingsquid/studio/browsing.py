"""Content of the page: votes and labels after a change, and lists of items with filters and orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, option_error
from flyingsquid.analysis import suggest_items
from flyingsquid.exceptions import OptionError
from flyingsquid.studio.columns import (
    Codes,
    Items,
    StudioFit,
    VoteSummary,
    as_text,
    fit_columns,
    gold_labels,
    stack,
)
from flyingsquid.studio.project import SourceEntry
from flyingsquid.votes import Votes

_LONGEST_TEXT, _LONGEST_FIELD, _NEIGHBORS = 2_000, 200, 5


def list_items(
    items: Items,
    view: View,
    filter: str = "all",
    *,
    source: str | None = None,
    label: int | None = None,
    search: str = "",
    order: str = "index",
    offset: int = 0,
    limit: int = 50,
    indexes: Sequence[int] = (),
) -> dict[str, Any]:
    """Return some items as JSON values.

    Parameters
    ----------
    filter : {"all", "disagreement", "uncertain", "uncovered", "source", "gold", "class", "indexes"}
    source : str, optional
        The source of the filter "source", whose votes may be restricted to the class ``label``.
    label : int, optional
        The class of the filters "class" and "source".
    search : str, optional
        Part of the text, ignoring case.
    order : {"index", "uncertain", "certain", "votes"}
    indexes : sequence of int
        The items of the filter "indexes", in this order.
    """
    if filter == "indexes":
        chosen: NDArray[np.intp] | None = np.array([i for i in indexes if 0 <= i < len(items)], np.intp)
    elif filter == "source":
        chosen = _of_source(view, source, label)
    elif filter in _FILTERS:
        chosen = _FILTERS[filter](view, label)
    else:
        known = format_list([*_FILTERS, "source", "indexes"])
        raise option_error("filter", f"one of {known}", filter)
    if search:
        found = items.search(search)
        chosen = found if chosen is None else chosen[np.isin(chosen, found)]
    total = len(items) if chosen is None else len(chosen)
    ordered = _order(view, chosen, order)
    if ordered is None:
        page = np.arange(min(offset, total), min(offset + limit, total))
    else:
        page = ordered[offset : offset + limit]
    shown = show_items(items, view, page)
    return {"total": total, "sources": [entry.id for entry in view.entries], "items": shown}


def _of_source(view: View, source: str | None, label: int | None) -> NDArray[np.intp]:
    for entry, column in zip(view.entries, view.columns, strict=True):
        if entry.id == source:
            return np.flatnonzero(column >= 0 if label is None else column == label)
    return np.arange(0)


def _of_class(view: View, label: int | None) -> NDArray[np.intp]:
    if view.proba is None:
        return np.arange(0)
    return np.flatnonzero(view.summary.covered & (view.proba.argmax(axis=1) == (label or 0)))


_FILTERS: dict[str, Callable[[View, int | None], NDArray[np.intp] | None]] = {
    "all": lambda _view, _label: None,
    "disagreement": lambda view, _label: np.flatnonzero(view.summary.disputed),
    "uncertain": lambda view, _label: np.flatnonzero(view.summary.covered),
    "uncovered": lambda view, _label: np.flatnonzero(~view.summary.covered),
    "gold": lambda view, _label: np.array(sorted(view.gold), np.intp),
    "class": _of_class,
}
_ORDERS = ("index", "uncertain", "certain", "votes")


def _order(view: View, chosen: NDArray[np.intp] | None, order: str) -> NDArray[np.intp] | None:
    if order not in _ORDERS:
        known = format_list(list(_ORDERS))
        raise option_error("order", f"one of {known}", order)
    n = len(view.summary.covered)
    items = np.arange(n) if chosen is None else chosen
    if order == "votes":
        counts = np.zeros(n, np.int16)
        for column in view.columns:
            counts += column >= 0
        return items[np.argsort(-counts[items], kind="stable")]
    if order == "index" or view.proba is None:
        return chosen
    confidence = np.where(view.summary.covered[items], view.proba[items].max(axis=1), 0)
    return items[np.argsort(confidence if order == "uncertain" else -confidence, kind="stable")]


def show_items(
    items: Items, view: View, positions: Sequence[int] | NDArray[np.intp], *, whole: bool = False
) -> list[dict[str, Any]]:
    """Return items as JSON values; long strings are shortened unless ``whole``."""
    at = np.asarray(positions, np.intp)
    codes = stack(view.columns, at)
    proba = view.predict(codes)
    shown = []
    for row, i in enumerate(at.tolist()):
        labeled = proba is not None and bool((codes[row] >= 0).any())
        shown.append(
            _fields(items, i, whole=whole)
            | {
                "votes": [None if code < 0 else code for code in codes[row].tolist()],
                "proba": proba[row].tolist() if proba is not None and labeled else None,
                "label": int(proba[row].argmax()) if proba is not None and labeled else None,
                "gold": view.gold.get(i),
            }
        )
    return shown


def _fields(items: Items, i: int, *, whole: bool) -> dict[str, Any]:
    text = "" if items.text is None else as_text(items.columns[items.text][i])
    fields = {
        name: as_text(values[i])[: None if whole else _LONGEST_FIELD]
        for name, values in items.columns.items()
        if name not in (items.text, items.id)
    }
    shown = text if whole else text[:_LONGEST_TEXT]
    return {"index": i, "id": items.identifier(i), "text": shown, "fields": fields}


def explain_item(items: Items, view: View, i: int) -> dict[str, Any]:
    """Return one item with the contributions of its votes, and similar items if there are features."""
    if not 0 <= i < len(items):
        raise OptionError(f"`item` must be a position from 0 to {len(items) - 1}; got {i}.", parameter="item")
    item = show_items(items, view, [i], whole=True)[0]
    found: dict[str, Any] = {"item": item, "explanation": []}
    if view.fit.model is not None and item["proba"] is not None:
        explanation = view.fit.model.explain(
            Votes(stack(view.columns, np.array([i])), view.classes, view.names)
        )
        votes = dict(zip(view.names, item["votes"], strict=True))
        found["explanation"] = [
            {"source": each.source, "vote": votes.get(each.source), "log_odds": float(each.adds)}
            for each in explanation.contributions
        ]
    if items.features is not None:
        similarity = items.features @ items.features[i]
        nearest = [int(j) for j in np.argsort(-similarity)[: _NEIGHBORS + 1] if j != i][:_NEIGHBORS]
        found["neighbors"] = [
            each | {"similarity": float(similarity[j])}
            for j, each in zip(nearest, show_items(items, view, nearest), strict=True)
        ]
    return found


def next_items(items: Items, view: View, limit: int) -> dict[str, Any]:
    """Return items whose gold labels would improve the labels most."""
    sources = [entry.id for entry in view.entries]
    if view.fit.model is None or view.fit.votes is None:
        return {"sources": sources, "items": []}
    labeled = gold_labels(view.gold, view.classes, view.fit.rows)
    found = suggest_items(view.fit.model, view.fit.votes, limit, labeled=labeled, random_state=len(view.gold))
    return {"sources": sources, "items": show_items(items, view, view.fit.rows[found.positions])}


# ---------------------------------------------------------------------- votes and labels after a change


@dataclass(frozen=True, eq=False)
class View:
    """Votes and labels after the same actions. Immutable."""

    change: int  # number of the change that it belongs to
    # The sources in use, their names, and their votes of shape (n,).
    entries: tuple[SourceEntry, ...]
    names: tuple[str, ...]
    columns: tuple[Codes, ...]
    summary: VoteSummary
    fit: StudioFit  # on all items, or on a sample
    gold: dict[int, int]  # class by item
    classes: tuple[str, ...]
    changed: int  # labels that differ from those before the change; estimated on the sample if there is one
    fit_ms: float
    table_ms: float
    # Dict from source to the number of labels that change without it, or None until known.
    effects: dict[str, int] | None = None

    @property
    def every_item(self) -> NDArray[np.intp]:
        """Positions of all items."""
        return np.arange(len(self.summary.covered))

    @property
    def is_sampled(self) -> bool:
        """True if the fit is on a sample of the items."""
        return len(self.fit.rows) < len(self.summary.covered)

    def full_fit(self) -> StudioFit:
        """Return the fit on all items."""
        return self.fit_on(self.every_item) if self.is_sampled else self.fit

    @cached_property
    def proba(self) -> NDArray[np.float32] | None:
        """Probabilities of all items, shape (n, K)."""
        return self.predict(stack(self.columns, self.every_item)) if self.is_sampled else self.fit.proba

    def predict(self, codes: Codes) -> NDArray[np.float32] | None:
        """Return the probabilities of items with these votes; None without a model."""
        if self.fit.model is None or not len(codes):
            return None
        return self.fit.model.predict_proba(Votes(codes, self.classes, self.names), dtype=np.float32)

    def fit_on(self, rows: NDArray[np.intp], left_out: int | None = None) -> StudioFit:
        """Fit the votes on some items, without one of the sources if ``left_out`` is given."""
        kept = [j for j in range(len(self.columns)) if j != left_out]
        columns, names = [self.columns[j] for j in kept], [self.names[j] for j in kept]
        return fit_columns(columns, self.classes, names, self.gold, rows)

    def source_numbers(self, id: str) -> dict[str, Any]:
        """Return the numbers of a source in the table; they are None if it is not in use."""
        numbers: dict[str, Any] = dict.fromkeys(
            ("coverage", "conflicts", "votes", "accuracy", "interval", "effect")
        )
        at = next((j for j, entry in enumerate(self.entries) if entry.id == id), None)
        if at is None:
            return numbers
        numbers["coverage"] = float(self.summary.coverage[at])
        numbers["conflicts"] = float(self.summary.conflicts[at])
        numbers["votes"] = self.summary.votes[at].tolist()
        model = self.fit.model
        if model is not None and numbers["coverage"] > 0:
            low, high = model.accuracies_interval_[at]
            if np.isfinite(low) and np.isfinite(high):
                numbers["accuracy"] = float(model.accuracies_[at])
                numbers["interval"] = [float(low), float(high)]
        if self.effects is not None and id in self.effects:
            numbers["effect"] = {"changed": self.effects[id]}
        return numbers

    def numbers(self) -> dict[str, Any]:
        """Return the results of the fit as JSON values."""
        fit, n = self.fit, len(self.summary.covered)
        by_class = np.bincount(fit.labels[fit.labels >= 0], minlength=len(self.classes))
        return {
            "balance": self._balance(),
            "labels": {
                "covered": int(np.count_nonzero(self.summary.covered)),
                "by_class": [round(float(each) * n / len(fit.labels)) for each in by_class],
                "changed": self.changed,
            },
            "verdict": self._verdict(),
            "comparison": self._comparison(),
            "timing": {"fit_ms": round(self.fit_ms, 1), "table_ms": round(self.table_ms, 1)},
            "sampled": len(fit.rows) if self.is_sampled else None,
        }

    def _balance(self) -> list[dict[str, Any]]:
        if self.fit.model is None:
            return []
        intervals = self.fit.model.class_balance_interval_
        return [
            {
                "class": k,
                "share": float(share),
                "interval": intervals[k].tolist() if np.isfinite(intervals[k]).all() else None,
            }
            for k, share in enumerate(self.fit.model.class_balance_)
        ]

    def _verdict(self) -> dict[str, str] | None:
        if self.fit.model is None:
            return None
        verdict = self.fit.model.diagnostics_.verdict
        return {"kind": verdict.kind, "text": verdict.text}

    def _comparison(self) -> dict[str, Any] | None:
        """Return cross-validated accuracies of the model and of majority vote on the gold labels."""
        gold = None if self.fit.model is None else self.fit.model.diagnostics_.gold
        if gold is None:
            return None
        return {"gold": gold.n_gold} | {
            name: {"accuracy": each.value, "interval": [each.low, each.high]}
            for name, each in (("model", gold.accuracy), ("majority", gold.majority_accuracy))
        }
