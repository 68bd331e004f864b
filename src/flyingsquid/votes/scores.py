"""Scores of judges and classifiers: arrays and tables as users pass them, and votes by thresholds or bins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from flyingsquid._registry import on_cluster
from flyingsquid._values import format_count, format_list, format_value, is_null, option_error, read_integer
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.codes import ABSTAIN, Label, read_array, read_names, shown_names, smallest_dtype
from flyingsquid.votes.conventions import (
    ITEM_NAMES,
    SOURCE_NAMES,
    find_item_column,
    find_roles,
    is_gold_name,
    is_missing_text,
    is_row_number,
)
from flyingsquid.votes.encode import Convention, Locate, as_float, as_matrix, in_column, without_mask

Threshold: TypeAlias = float | tuple[float, float]
"""One number, or (low, high) with no vote in between."""
Thresholds: TypeAlias = Threshold | Sequence[Threshold] | Mapping[str, Threshold]
Edges: TypeAlias = Sequence[float] | NDArray[Any]
Bins: TypeAlias = Edges | Sequence[Edges] | Mapping[str, Edges]

Names: TypeAlias = tuple[str, ...] | None
_ADVICE = " Use Votes.from_classes for classes."


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Edges between the classes for the scores of one source.

    Attributes
    ----------
    edges : increasing float64 array of shape (K - 1,)
        The class of a score is the number of edges that it reaches.
    low : float, or None
        Scores of class 0 above it are missing votes.
    """

    edges: NDArray[np.float64]
    low: float | None = None

    def codes(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return codes of ``scores``, floats of shape (n,)."""
        # In the type of the scores, because 0.7 in float32 is less than 0.7 in float64.
        with np.errstate(over="ignore"):
            edges = self.edges.astype(scores.dtype)
            low = None if self.low is None else scores.dtype.type(self.low)
        codes = np.searchsorted(edges, scores, side="right")
        codes[np.isnan(scores)] = ABSTAIN
        if low is not None:
            codes[(codes == 0) & (scores > low)] = ABSTAIN
        return codes


def read_scores(
    scores: Any,
    thresholds: Any,
    bins: Any,
    classes: Iterable[Label] | None,
    names: Iterable[str] | None,
) -> tuple[NDArray[Any], tuple[Label, ...], Names, NDArray[Any] | None]:
    """Return codes (n, m), classes, names and items; the parameters are those of ``Votes.from_scores``."""
    if (thresholds is None) == (bins is None):
        raise OptionError(
            "Pass either `thresholds` or `bins`: thresholds=0.5 for two classes, thresholds=(0.3, 0.7) for "
            "no vote in between, bins=[2, 4] for three classes."
        )
    by_source = thresholds if bins is None else bins
    known = by_source if isinstance(by_source, Mapping) else ()
    columns, found, items = _read_columns(scores, names, known)
    if bins is None:
        cuts = _read_thresholds(thresholds, found, len(columns))
    else:
        cuts = _read_bins(bins, found, len(columns))
    n_classes = len(cuts[0].edges) + 1
    labels = _read_labels(classes, n_classes)
    codes = np.empty((len(columns[0]), len(columns)), smallest_dtype(n_classes))
    for j, (column, cut) in enumerate(zip(columns, cuts, strict=True)):
        codes[:, j] = cut.codes(column)
    return codes, labels, found, items


def score_bins(
    scores: Any, n_bins: int, *, names: Iterable[str] | None = None
) -> dict[str, list[float]] | list[list[float]]:
    """Return edges that divide the scores of each source into bins of equal size.

    Pass the edges to ``Votes.from_scores(scores, bins=edges)``. They depend on the scores: compute them once,
    keep them with the model, and use them for later scores. Edges are scores that occur, so any increasing
    change of scale changes edges and scores alike.

    Parameters
    ----------
    scores : as in :meth:`Votes.from_scores`
    n_bins : int
        Number of classes K, at least 2.
    names : sequence of m str, optional
        Names of the sources of an array.

    Returns
    -------
    K - 1 increasing edges for each source: a dict by name if the sources have names, otherwise a list

    Raises
    ------
    VotesError
        If a source has too few different scores, because equal scores are not divided.

    Examples
    --------
    >>> edges = score_bins([[0.1, 1], [0.5, 3], [0.6, 2], [0.9, 5]], 2, names=["a", "b"])
    >>> edges
    {'a': [0.6], 'b': [3.0]}
    """
    n_bins = read_integer("n_bins", n_bins, 2)
    columns, found, _ = _read_columns(scores, names)
    edges = [_even_edges(column, n_bins, _source(found, j)) for j, column in enumerate(columns)]
    return edges if found is None else dict(zip(found, edges, strict=True))


def _even_edges(scores: NDArray[Any], n_bins: int, source: str) -> list[float]:
    known = np.sort(scores[~np.isnan(scores)])
    if len(known) < n_bins:
        raise VotesError(
            f"`n_bins` must be at most the number of scores; got {format_value(n_bins, 30)} bins, and "
            f"{source} has {len(known)} scores."
        )
    edges = known[np.arange(1, n_bins) * len(known) // n_bins].tolist()
    if any(a >= b for a, b in pairwise([known[0].item(), *edges])):
        raise VotesError(
            f"{source} has too many equal scores for {n_bins} bins of equal size: the lowest score "
            f"is {known[0]:g}, and the edges would be {', '.join(format(e, 'g') for e in edges)}. Use fewer "
            "bins, or choose the edges yourself."
        )
    return edges


# ---------------------------------------------------------------------- scores


def _read_columns(
    scores: Any, names: Iterable[str] | None, known: Collection[str] = ()
) -> tuple[list[NDArray[Any]], Names, NDArray[Any] | None]:
    """Return the scores of each source, m float arrays of shape (n,), NaN for no score; names; items.

    ``known`` are columns of a table that hold scores.
    """
    if issparse(scores):
        raise VotesError(
            "`scores` must not be sparse, because missing scores and 0 look alike; pass scores.toarray()."
        )
    if frames.is_table(scores) or frames.is_lazy(scores):
        if names is not None:
            raise OptionError("`names` must be None for a table, whose columns are the names.")
        cells, items = frames.score_columns(scores)
        item, chosen = _split_columns(cells, known)
        _refuse_gold(chosen, known)
        if item is not None:
            items = frames.as_identifiers(list(cells[item]), item)
        columns, found = frames.float_columns(scores, chosen)
        return [_as_floats(c, j, in_column(found)) for j, c in enumerate(columns)], found, items
    matrix = as_matrix(scores, "scores")
    declared = read_names(names, matrix.shape[1])
    locate = in_column(declared)
    _refuse_listed_booleans(scores, locate)
    return [_as_floats(matrix[:, j], j, locate) for j in range(matrix.shape[1])], declared, None


def _as_floats(column: NDArray[Any], j: int, locate: Locate) -> NDArray[Any]:
    return score_array(column, lambda at: locate(at[0], j), _ADVICE)


def score_array(
    values: NDArray[Any], locate: Callable[[tuple[int, ...]], str], advice: str = ""
) -> NDArray[Any]:
    """Return scores as floats, NaN for missing ones.

    ``locate`` describes the position of a score in an error, and ``advice`` ends it.
    """
    if values.dtype.kind in "iuf":
        floats = values if values.dtype.kind == "f" else values.astype(np.float64)
        return floats.filled(np.nan) if isinstance(floats, np.ma.MaskedArray) else floats
    numbers = np.full(values.shape, np.nan)
    for at, value in np.ndenumerate(without_mask(values)):
        if is_null(value):
            continue
        if not is_score(value):
            _refuse(value, locate(at), advice)
        numbers[at] = as_float(value)
    return numbers


def _refuse(value: Any, where: str, advice: str) -> NoReturn:
    raise VotesError(
        f"{where}: scores must be numbers, with None or NaN for missing ones; got {format_value(value)} of "
        f"type {type(value).__name__}.{advice}"
    )


def _refuse_listed_booleans(scores: Any, locate: Locate) -> None:
    """Raise an error for booleans in a list, which NumPy would turn into numbers."""
    for row, cells in enumerate(scores if isinstance(scores, (list, tuple)) else ()):
        for j, cell in enumerate(cells if isinstance(cells, (list, tuple)) else ()):
            if isinstance(cell, (bool, np.bool_)):
                _refuse(cell, locate(row, j), _ADVICE)


def is_score(value: Any) -> bool:
    """Return whether a value is a number, also a Decimal or a fraction, but not a boolean or a duration."""
    return isinstance(value, (Real, Decimal)) and not isinstance(value, (bool, np.timedelta64))


# ---------------------------------------------------------------------- options


def _read_thresholds(thresholds: Any, names: Names, n_sources: int) -> list[Cut]:
    if is_score(thresholds) or isinstance(thresholds, tuple):
        return [_threshold(thresholds, "thresholds")] * n_sources
    each = _by_source(thresholds, names, n_sources, "thresholds")
    return [_threshold(t, f"thresholds of {_source(names, j)}") for j, t in enumerate(each)]


def _threshold(value: Any, option: str) -> Cut:
    if is_score(value):
        return Cut(_increasing([value], option))
    pair = _as_list(value)
    if pair is None or len(pair) != 2:
        advice = " Pass a list for one entry per source." if isinstance(value, tuple) else ""
        raise OptionError(
            f"{option} must be a number or a pair (low, high); got {format_value(value)}.{advice}"
        )
    low, high = _increasing(pair, option).tolist()
    return Cut(np.array([high]), low)


def _read_bins(bins: Any, names: Names, n_sources: int) -> list[Cut]:
    if is_score(bins):
        raise OptionError(
            f"`bins` must be edges; got the number {format_value(bins)}. Pass fs.score_bins(scores, "
            f"{format_value(bins)}), or [{format_value(bins)}] for one edge."
        )
    entries = _as_list(bins) if frames.named_row(bins, names) is None else None
    if entries is not None and all(is_score(edge) for edge in entries):
        return [Cut(_increasing(entries, "bins"))] * n_sources
    cuts = []
    for j, edges in enumerate(_by_source(bins if entries is None else entries, names, n_sources, "bins")):
        option = f"bins of {_source(names, j)}"
        found = _as_list(edges)
        if found is None:
            raise OptionError(f"{option} must be a sequence of edges; got {format_value(edges)}.")
        cuts.append(Cut(_increasing(found, option)))
    for j, cut in enumerate(cuts):
        if len(cut.edges) != len(cuts[0].edges):
            raise OptionError(
                "`bins` must have the same number of edges for all sources; got "
                f"{len(cut.edges)} for {_source(names, j)} and {len(cuts[0].edges)} for {_source(names, 0)}."
            )
    return cuts


def _by_source(given: Any, names: Names, n_sources: int, option: str) -> list[Any]:
    """Return one entry for each source, from a list or from a mapping by name."""
    by_name = given if isinstance(given, Mapping) else frames.named_row(given, names)
    if by_name is None:
        entries = _as_list(given)
        if entries is None:
            raise option_error(option, "one entry for all sources, a list or a mapping", given)
        if len(entries) != n_sources:
            is_pair = option == "thresholds" and len(entries) == 2
            hint = " Pass a tuple for one pair (low, high) for all sources." if is_pair else ""
            raise OptionError(
                f"`{option}` must have one entry per source; got {len(entries)} for "
                f"{format_count(n_sources, 'source')}.{hint}"
            )
        return entries
    if names is None:
        raise OptionError(
            f"`{option}` is given by name, but the sources have no names; pass `names`, or a list."
        )
    unknown = [name for name in by_name if name not in names]
    absent = [name for name in names if name not in by_name]
    if unknown:
        raise OptionError(
            f"`{option}` must name sources among {format_list(names)}; got {format_value(unknown[0])}."
        )
    if absent:
        raise OptionError(f"`{option}` must name every source; {format_value(absent[0])} is missing.")
    return [by_name[name] for name in names]


def _increasing(values: list[Any], option: str) -> NDArray[np.float64]:
    """Return strictly increasing numbers as an array; raise an error for others."""
    if not values:
        raise OptionError(f"{option} must have at least one edge; K classes have K - 1 edges.")
    wrong = next((v for v in values if not is_score(v) or is_null(v)), None)
    if wrong is not None or None in values:
        raise OptionError(f"{option} must be numbers; got {format_value(wrong)}.")
    edges = np.array([as_float(v) for v in values])
    if not (edges[1:] > edges[:-1]).all():
        shown = ", ".join(format(edge, "g") for edge in edges)
        raise OptionError(f"{option} must increase strictly; got {shown}.")
    return edges


def _read_labels(classes: Iterable[Label] | None, n_classes: int) -> tuple[Label, ...]:
    if classes is None:
        return tuple(range(n_classes))
    labels = Convention.read(None, classes, None).classes or ()
    if len(labels) != n_classes:
        raise option_error("classes", f"{format_count(n_classes, 'label')}, lowest first", list(labels))
    return labels


def _as_list(values: Any) -> list[Any] | None:
    """Return the entries of a sequence; None for other values."""
    if isinstance(values, (str, bytes, Mapping)) or getattr(values, "ndim", 1) == 0:
        return None
    try:
        return list(values) if isinstance(values, Iterable) else None
    except Exception:  # user objects may raise any exception
        return None


def _source(names: Names, j: int) -> str:
    return f"source {j}" if names is None else f"source {names[j]!r}"


# ---------------------------------------------------------------------- arrays and tables of scores

SCORE_NAMES = frozenset({"score", "rating", "value", "points", "grade"})
_TABLE_ADVICE = (
    " Leave out columns without scores. If each row is one score, name its columns item, judge and score."
)
REPEAT_NAMES = frozenset({"repeat", "repetition", "run", "sample", "call", "attempt", "trial"})
# Products of four larger numbers overflow when they are added.
LARGEST_SCORE = 1e60


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of all sources on all items.

    Attributes
    ----------
    values : float64 array of shape (n, m, r)
        Up to r repeated scores of each source, NaN for missing ones.
    names : tuple of m str, or None
    items : array of n identifiers, or None
    item_name : str or None
        Column of the identifiers.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...] | None = None
    items: NDArray[Any] | None = None
    item_name: str | None = None

    @property
    def n_items(self) -> int:
        return len(self.values)

    @property
    def source_names(self) -> tuple[str, ...]:
        return shown_names(self.names, self.values.shape[1])

    def matched_to(self, names: tuple[str, ...] | None, n_sources: int) -> Scores:
        """Return scores in the order of the sources of an earlier fit; missing sources have no scores."""
        if names is None or self.names is None:
            if self.values.shape[1] != n_sources:
                raise IncompatibleError(
                    f"`scores` must have the {format_count(n_sources, 'source')} of the fitted model; got "
                    f"{self.values.shape[1]}."
                )
            return self
        unknown = [name for name in self.names if name not in names]
        if unknown:
            raise IncompatibleError(
                f"`scores` must come from sources of the fitted model, such as {format_list(names, 3)}; got "
                f"{format_list(unknown, 3)}."
            )
        if self.names == names:
            return self
        position = {name: at for at, name in enumerate(names)}
        values = np.full((len(self.values), n_sources, self.values.shape[2]), np.nan)
        values[:, [position[name] for name in self.names]] = self.values
        return Scores(values, names, self.items, self.item_name)


def read_score_table(
    scores: Any, names: Iterable[str] | None = None, fitted: Sequence[str] | None = None
) -> Scores:
    """Return scores in memory as :class:`Scores`.

    Parameters
    ----------
    scores : array of shape (n, m) or (n, m, r), table, or mapping of columns
        A table with columns for items, sources and scores is in long form; any other has one column per
        source, apart from item identifiers.
    names : names of the sources of an array
    fitted : names of the sources of an earlier fit; other columns of a wide table are left out
    """
    if issparse(scores) or on_cluster(scores):
        raise VotesError(
            f"`scores` must be a dense array or a table in memory; got {type(scores).__name__}.",
            parameter="scores",
        )
    if frames.is_frame(scores) or frames.is_lazy(scores) or isinstance(scores, Mapping):
        if names is not None:
            raise VotesError("`names` is supported only for arrays; a table has column names.")
        return _read_table(*_columns_of(scores), fitted=fitted)
    if isinstance(scores, Scores):
        return scores
    array = read_array(scores, "scores", "a rectangular array")
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise VotesError(
            "`scores` must have one row per item and one column per source, (n, m), or repeats as a third "
            f"dimension, (n, m, r), each at least 1; got shape {array.shape}.",
            parameter="scores",
        )
    values = _finite_floats(array, lambda at: f"scores{list(at)}")
    values = values if values.ndim == 3 else values[:, :, None]
    return Scores(values, read_names(names, values.shape[1]))


def _finite_floats(array: NDArray[Any], locate: Any, advice: str = "") -> NDArray[np.float64]:
    """Return finite floats of the same shape, NaN for missing scores."""
    values = np.array(score_array(array, locate, advice), np.float64)
    wrong = ~(np.abs(values) <= LARGEST_SCORE) & ~np.isnan(values)
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise VotesError(
            f"{locate(at)}: scores must be finite and at most {LARGEST_SCORE:g} in absolute value; got "
            f"{format_value(values[at].item())}.",
            parameter="scores",
        )
    return values


# ---------------------------------------------------------------------- codes for missing scores

# The lowest score may be a code for "no score" if it is one of these. The lowest and the highest score may be
# one if they are further from the other scores than these are from each other.
_USUAL_CODES = (-1.0, 0.0)
# With fewer of them, or fewer other scores of the judge, the scores of other judges may be chance.
_MIN_CODES, _MIN_OTHERS = 10, 50
# Other judges must differ by this many standard errors from half of what a real score predicts, because
# extreme scores are mistakes more often than others.
_CODE_SHARE, _CODE_ERRORS = 0.5, 3.0


def find_missing_scores(values: NDArray[np.float64]) -> tuple[float, list[int]] | None:
    """Return a number that is probably a code for "no score", and the sources that use it; None without one.

    If a judge gives an item the lowest score, other judges usually give it low scores, too. A code tells
    nothing about the item.

    Parameters
    ----------
    values : array of shape (n, m, r), NaN for missing scores

    Examples
    --------
    >>> truth = np.arange(400) % 7 + 2.0
    >>> scores = np.stack([truth, truth + 1, truth - 1], axis=1)[:, :, None]
    >>> find_missing_scores(scores) is None
    True
    >>> scores[::30, 0] = -1
    >>> find_missing_scores(scores)
    (-1.0, [0])
    """
    known = values[~np.isnan(values)]
    extremes = (float(known.min()), float(known.max())) if known.size else ()
    for code in extremes:
        rest = known[known != code]
        if len(known) - len(rest) < _MIN_CODES or not rest.size:
            continue
        low, high = rest.min(), rest.max()
        if (code < low and code in _USUAL_CODES) or max(low - code, code - high) > high - low > 0:
            found = _sources_with_code(values, code)
            if found:
                return code, found
    return None


def _sources_with_code(values: NDArray[np.float64], code: float) -> list[int]:
    """Return the sources whose ``code`` tells nothing about the scores of others, while their scores do."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = np.where(values == code, np.nan, values)
        own = np.nansum(scores, axis=2) / np.count_nonzero(~np.isnan(scores), axis=2)  # shape (n, m)
        has = ~np.isnan(own)
        n_scores = has.sum(axis=0)
        own -= np.nansum(own, axis=0) / n_scores
        spread = np.sqrt(np.nansum(own**2, axis=0) / n_scores)
        own = np.where(has & (spread > 0), own / spread, 0.0)
        others = (own.sum(axis=1, keepdims=True) - own) / (has.sum(axis=1, keepdims=True) - has)
    found = []
    for j in np.flatnonzero((n_scores >= _MIN_OTHERS) & (spread > 0)):
        compared = np.isfinite(others[:, j])
        with_code = compared & (values[:, j] == code).any(axis=1)
        with_score = compared & has[:, j] & ~with_code
        if np.count_nonzero(with_code) < _MIN_CODES or np.count_nonzero(with_score) < _MIN_OTHERS:
            continue
        # By how much the others move with this judge, in the direction of the code.
        steps = own[with_score, j] * others[with_score, j]
        slope, slope_error = steps.mean(), steps.std() / np.sqrt(len(steps))
        center = np.nanmean(scores[:, j])
        expected = slope * (code - center) / spread[j]
        excess = (others[with_code, j] - _CODE_SHARE * expected) * -np.sign(expected)
        excess_error = excess.std() / np.sqrt(len(excess))
        if slope > _CODE_ERRORS * slope_error and excess.mean() > _CODE_ERRORS * excess_error:
            found.append(int(j))
    return found


# ---------------------------------------------------------------------- tables


def _columns_of(scores: Any) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Return the columns of a table or mapping, and the index of a pandas table unless it is 0, 1, 2, ..."""
    if isinstance(scores, Mapping):
        columns: dict[str, Any] = {str(name): list(cells) for name, cells in scores.items()}
        if len({len(cells) for cells in columns.values()}) > 1:
            raise VotesError("Columns of `scores` must have equal lengths.", parameter="scores")
        return columns, None
    return frames.score_columns(scores)


def _read_table(columns: dict[str, Any], index: NDArray[Any] | None, fitted: Sequence[str] | None) -> Scores:
    long = None if set(columns) <= set(fitted or ()) else _find_long(list(columns))
    if long is not None:
        return _read_long(columns, *long)
    item, chosen = _split_columns(columns, fitted or ())
    if fitted is not None and set(fitted) & set(chosen):
        chosen = [name for name in chosen if name in fitted]
    _refuse_gold(chosen, fitted or ())
    if not chosen or not len(columns[chosen[0]]):
        raise VotesError("`scores` must have at least one item and one source.", parameter="scores")
    values = np.stack([_parse(columns[name], name) for name in chosen], axis=1)
    items = index if item is None else frames.as_identifiers(list(columns[item]), item)
    return Scores(values[:, :, None], tuple(chosen), items, item)


def _split_columns(columns: dict[str, Any], known: Collection[str]) -> tuple[str | None, list[str]]:
    """Return the column of identifiers, or None, and the others; ``known`` are columns of scores."""
    names, item = list(columns), _find_item(columns, known)
    return item, [name for name in names if name != item and not is_row_number(name, names, item)]


def _refuse_gold(names: Sequence[str], known: Collection[str]) -> None:
    """Raise an error for a column that looks like gold labels and is not ``known`` as scores."""
    gold = next((name for name in names if is_gold_name(name) and name not in known), None)
    if gold is not None:
        raise VotesError(
            f"Column {format_value(gold)} looks like gold labels; leave it out of `scores`.",
            parameter="scores",
        )


def _find_item(columns: dict[str, Any], fitted: Collection[str]) -> str | None:
    """Return the column of identifiers: by its name, or the first one if it holds distinct strings."""
    others = [name for name in columns if name not in fitted]
    named, _ = find_item_column(others, others, None)
    if named is not None or not others:
        return named
    cells = columns[others[0]]
    is_id = others[0].strip().lower().endswith("_id")
    is_text = all(isinstance(cell, str) and isinstance(_parsed(cell), str) for cell in cells)
    try:
        distinct = len(set(cells)) == len(cells)
    except TypeError:
        return None
    return others[0] if distinct and len(columns) > 1 and (is_id or is_text) else None


def _parse(cells: Any, name: str) -> NDArray[np.float64]:
    """Return a column as floats; strings are numbers, as in files, or words for missing scores."""
    array = cells
    if not isinstance(cells, np.ndarray):
        array = np.empty(len(cells), object)
        array[:] = [_parsed(cell) for cell in cells]
    return _finite_floats(array, lambda at: f"row {at[0]}, column {format_value(name)}", _TABLE_ADVICE)


def _parsed(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    try:
        return float(cell)
    except ValueError:
        return None if is_missing_text(cell) else cell


def _find_long(names: list[str]) -> tuple[str, str, str, str | None] | None:
    """Return the columns of items, sources, scores and repeats, or None if the table is not in long form."""
    item, source, score, repeat = find_roles(names, (ITEM_NAMES, SOURCE_NAMES, SCORE_NAMES, REPEAT_NAMES))
    if source is None or score is None:
        return None
    if item is None:
        raise VotesError(
            f"`scores` must have a column of items, such as 'item', next to the columns "
            f"{format_value(source)} and {format_value(score)}; got only {format_list(names)}. Rename the "
            "column of items, or these two columns if each of them has the scores of one judge.",
            parameter="scores",
        )
    return item, source, score, repeat


def _read_long(columns: dict[str, Any], item: str, source: str, score: str, repeat: str | None) -> Scores:
    """Return scores of a table with one row per score. Rows of one item and source are repeats."""
    if not len(columns[item]):
        raise VotesError("`scores` must have at least one item and one source.", parameter="scores")
    items, rows = _numbered(list(columns[item]), item)
    sources, at = _numbered([str(cell) if not is_null(cell) else None for cell in columns[source]], source)
    values = _parse(columns[score], score)
    keys = [None] * len(rows) if repeat is None else list(columns[repeat])
    seen: dict[tuple[int, int], list[Any]] = {}
    order = np.empty(len(rows), np.intp)
    for k, cell in enumerate(zip(rows, at, strict=True)):
        earlier = seen.setdefault(cell, [])
        if repeat is not None and keys[k] in earlier:
            raise VotesError(
                f"row {k}: item {format_value(items[cell[0]])} and source {format_value(sources[cell[1]])} "
                f"must have different values in column {format_value(repeat)}; got {format_value(keys[k])} "
                "twice.",
                parameter="scores",
            )
        order[k] = len(earlier)
        earlier.append(keys[k])
    table = np.full((len(items), len(sources), int(order.max()) + 1), np.nan)
    table[rows, at, order] = values
    return Scores(table, tuple(sources), frames.as_identifiers(items, item), item)


def _numbered(cells: list[Any], name: str) -> tuple[list[Any], list[int]]:
    """Return the distinct values in the order of their first occurrence, and the number of each cell."""
    missing = next((k for k, cell in enumerate(cells) if is_null(cell)), None)
    if missing is not None:
        raise VotesError(f"row {missing}: column {format_value(name)} must not be empty.", parameter="scores")
    position: dict[Any, int] = {}
    try:
        numbers = [position.setdefault(cell, len(position)) for cell in cells]
    except TypeError as error:
        raise VotesError(
            f"Column {format_value(name)} must contain strings or numbers.", parameter="scores"
        ) from error
    return list(position), numbers
