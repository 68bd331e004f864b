"""Votes from scores of judges and classifiers, by thresholds or ordinal bins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from flyingsquid._values import format_count, format_list, format_value, is_null, option_error, read_integer
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.codes import ABSTAIN, Label, read_names, smallest_dtype
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
) -> tuple[NDArray[Any], tuple[Label, ...], Names]:
    """Return codes (n, m), classes and names; the parameters are those of ``Votes.from_scores``."""
    if (thresholds is None) == (bins is None):
        raise OptionError(
            "Pass either `thresholds` or `bins`: thresholds=0.5 for two classes, thresholds=(0.3, 0.7) for "
            "no vote in between, bins=[2, 4] for three classes."
        )
    columns, found = _read_columns(scores, names)
    if bins is None:
        cuts = _read_thresholds(thresholds, found, len(columns))
    else:
        cuts = _read_bins(bins, found, len(columns))
    n_classes = len(cuts[0].edges) + 1
    labels = _read_labels(classes, n_classes)
    codes = np.empty((len(columns[0]), len(columns)), smallest_dtype(n_classes))
    for j, (column, cut) in enumerate(zip(columns, cuts, strict=True)):
        codes[:, j] = cut.codes(column)
    return codes, labels, found


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
    columns, found = _read_columns(scores, names)
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


def _read_columns(scores: Any, names: Iterable[str] | None) -> tuple[list[NDArray[Any]], Names]:
    """Return the scores of each source, m float arrays of shape (n,), NaN for no score."""
    if issparse(scores):
        raise VotesError(
            "`scores` must not be sparse, because missing scores and 0 look alike; pass scores.toarray()."
        )
    if frames.is_table(scores) or frames.is_lazy(scores):
        if names is not None:
            raise OptionError("`names` must be None for a table, whose columns are the names.")
        columns, found = frames.float_columns(scores)
        return [_as_floats(c, j, in_column(found)) for j, c in enumerate(columns)], found
    matrix = as_matrix(scores, "scores")
    declared = read_names(names, matrix.shape[1])
    locate = in_column(declared)
    _refuse_listed_booleans(scores, locate)
    return [_as_floats(matrix[:, j], j, locate) for j in range(matrix.shape[1])], declared


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
    """Return whether a value is a number, also a Decimal or a fraction, but not a boolean."""
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool)


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
