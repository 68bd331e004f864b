"""Lists of items: filters, orders, search, explanations, and items to label next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.analysis import suggest_items
from flyingsquid.exceptions import OptionError
from flyingsquid.studio.fitting import gold_labels
from flyingsquid.studio.items import Items, as_text
from flyingsquid.studio.view import View, stack
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
        raise OptionError(f"`filter` must be one of {known}; got {format_value(filter)}.", parameter="filter")
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
        raise OptionError(f"`order` must be one of {known}; got {format_value(order)}.", parameter="order")
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
    rows = view.fit.rows
    labeled = gold_labels(view.gold, view.classes, rows, len(view.fit.labels))
    found = suggest_items(view.fit.model, view.fit.votes, limit, labeled=labeled, random_state=len(view.gold))
    positions = [each.item if rows is None else int(rows[each.item]) for each in found]
    return {"sources": sources, "items": show_items(items, view, positions)}
