"""Truths that depend on each other: rows of a sequence and tasks of a graph; persistence of errors.

For different sources i and j, P(i votes a, j votes b in the next row) = Σ A_i[a, k] J[k, l] A_j[b, l], with A
the tables of the sources and J = P(now = k, next = l). That is linear in J: least squares over all pairs of
different sources, then the nearest table with the class balance on both margins. For two classes J has one
free parameter, the correlation of neighboring truths. It is the covariance of votes in neighboring rows
relative to that in the same row, so that no accuracy is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.proportional import fit_margins
from flyingsquid.estimation.sources import CenteredMoments, VoteRates, central_moments
from flyingsquid.estimation.units import Instruments
from flyingsquid.exceptions import OptionError
from flyingsquid.moments import Moments, SequenceMoments

if TYPE_CHECKING:
    from flyingsquid.estimation.binary import BinaryFit

Array = NDArray[np.float64]
# Correlations with a larger standard error are not used: two standard errors reach from -1 to 1.
LARGEST_ERROR = 0.5
# Lower bound of the noise of a pair, as a share of its variances: without it, pairs that always agree in a
# small sample would take all the weight.
_NOISE_FLOOR = 1e-3
# Upper bound of the persistence of errors, so that n rows count as at least n/200 independent ones.
_MOST_PERSISTENT = 0.99
# Neighbors count if confusion tables are trusted more than this, and in full from the second value on.
# Between them, the simulated chains of 300 rows and the short parts of tennis and bc5cdr are a trade-off
# (docs/design/0009-default.md).
_LEAST_TRUST, _TRUSTED = 0.1, 0.5
# Without a test, neighbors count as far as errors do not persist; not at all from this persistence on. It is
# at most .2 on simulated chains, and above .3 for most triples of detectors (docs/design/0009-default.md).
_PERSISTENT = 0.3


@dataclass(frozen=True, slots=True)
class Transition:
    """A stationary chain of K classes.

    Attributes
    ----------
    joint : array of shape (K, K)
        P(now = k, next = l); both margins are the class balance, all cells are above 0.
    correlation : float
        Correlation of neighboring truths, as estimated; 0 without evidence. ``joint`` contains as much of it
        as is possible, or independent rows if it is undetermined.
    error : float
        Its standard error; infinite without evidence.
    pairs : int
        Number of ordered pairs of different sources that were used.
    excess_correlation : array of shape (m,)
        Autocorrelation of each source between neighboring rows that the truths do not explain; 0 for a source
        whose errors do not vary.
    """

    joint: Array
    correlation: float
    error: float
    pairs: int
    excess_correlation: Array

    @property
    def balance(self) -> Array:
        """P(now = k), shape (K,)."""
        return np.asarray(self.joint.sum(axis=1))

    @property
    def matrix(self) -> Array:
        """P(next = l | now = k), shape (K, K)."""
        return np.asarray(self.joint / self.joint.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class LaggedMoments:
    """Central moments of signed votes in neighboring rows.

    Attributes
    ----------
    covariance : array of shape (m, m)
        Cov(λᵢ(t), λⱼ(t+1)); not symmetric.
    noise : array of shape (m, m)
        Number of pairs times the variance of ``covariance``.
    overlap : array of shape (m, m)
        P(i votes, and j votes in the next row).
    """

    covariance: Array
    noise: Array
    overlap: Array

    @classmethod
    def of(cls, moments: SequenceMoments) -> LaggedMoments:
        n = float(moments.n_pairs)
        now, later = (VoteRates(n, np.asarray(a / n)) for a in (moments.first, moments.second))
        both = np.array([[moments.lagged_rates(a, b) for b in (0, 1)] for a in (0, 1)])
        return cls(*central_moments(both, now, later), both.sum(axis=(0, 1)))


def fit_transition(moments: SequenceMoments, balance: Array, sources: BinaryFit) -> Transition:
    """Estimate the chain of truths from votes in neighboring rows, given the sources.

    Rows are assumed to be independent if no two different sources vote in neighboring rows, if there are no
    neighboring rows, or if the correlation has an error above :data:`LARGEST_ERROR`.
    """
    expected = float(balance[1] - balance[0])
    spread = 1 - expected**2
    m = moments.rows.n_sources
    if not moments.n_pairs > 0:
        return Transition(np.outer(balance, balance), 0.0, np.inf, 0, np.zeros(m))
    lagged, rows, slopes = LaggedMoments.of(moments), CenteredMoments.of(moments.rows), sources.slopes
    usable = _usable(lagged, sources)
    noise = np.maximum(lagged.noise, _NOISE_FLOOR * np.outer(rows.variance, rows.variance))
    pull = np.divide(np.outer(slopes, slopes), noise, out=np.zeros((m, m)), where=usable & (noise > 0))
    together = float((pull * rows.covariance).sum())
    correlation, error, pairs = 0.0, np.inf, 0
    # If pairs covary against the signs of their slopes overall, they are not evidence about the truths.
    if together > 0:
        pull, pairs = pull / together, int((pull != 0).sum())
        correlation = float((pull * lagged.covariance).sum())
        error = _standard_error(pull, slopes, rows.variance, spread, correlation, moments.n_pairs)
    known = correlation if error <= LARGEST_ERROR else 0.0
    joint = joint_table(known * spread, balance, balance, float(moments.n_pairs))
    kept = float(joint[1, 1] + joint[0, 0] - joint[0, 1] - joint[1, 0]) - expected**2
    left = rows.variance - slopes**2 * spread
    excess = np.diagonal(lagged.covariance) - slopes**2 * kept
    excess = np.divide(excess, left, out=np.zeros(m), where=left > _NOISE_FLOOR * rows.variance)
    return Transition(joint, correlation, error, pairs, np.clip(excess, -1.0, 1.0))


def persistence_of_errors(excess: Array, coverage: Array) -> float:
    """Return the mean over votes of the excess correlations above 0: the persistence of errors."""
    total = float(coverage.sum())
    mean = float(coverage @ np.maximum(excess, 0)) / total if total > 0 else 0.0
    return min(mean, _MOST_PERSISTENT)


def effective_row(persistence: float) -> float:
    """Return the number of independent rows that a row counts as, in (0, 1].

    Errors with autocorrelation r, r², r³, ... give the mean of n rows the variance of n(1 - r)/(1 + r)
    independent ones.

    >>> effective_row(0.0), round(effective_row(0.5), 3)
    (1.0, 0.333)
    """
    return (1 - persistence) / (1 + persistence)


def share_of_neighbors(trust: float, persistence: float, n_sources: int) -> float:
    """Return the weight of the evidence of neighboring rows, in [0, 1].

    If sources are not independent within a row, neighbors repeat their common errors, which votes cannot
    reveal. Three sources are too few to test that; then neighbors count to the extent that a source does not
    repeat its own errors.

    Parameters
    ----------
    trust : float
        Probability that the confusion tables explain the votes within rows.
    persistence : float
        Persistence of errors; see :func:`persistence_of_errors`.
    n_sources : int
        Number of sources that vote for several classes.

    Examples
    --------
    >>> [share_of_neighbors(trust, 0.0, n_sources=6) for trust in (0.1, 0.3, 0.9)]
    [0.0, 0.5, 1.0]
    >>> [share_of_neighbors(0.0, persistence, n_sources=3) for persistence in (0.0, 0.15, 0.5)]
    [1.0, 0.5, 0.0]
    """
    tested = float(np.clip(round((trust - _LEAST_TRUST) / (_TRUSTED - _LEAST_TRUST), 12), 0.0, 1.0))
    return max(tested, 1 - persistence / _PERSISTENT) if n_sources == 3 else tested


def transition_by_agreement(
    moments: SequenceMoments, balance: Array, accuracies: Array, usable: NDArray[np.bool_]
) -> Transition:
    """Estimate the chain of two truths by the agreement of different sources in neighboring rows.

    The correlation is the agreement of sources beyond chance in neighboring rows, divided by that in the same
    row, over the votes of all usable pairs, weighted by how much better than random both are. It is shrunk by
    its standard error. ``excess_correlation`` is left at 0.

    Parameters
    ----------
    moments : SequenceMoments of two classes
    balance : array of shape (2,)
        P(Y = k), the margins of the result.
    accuracies : array of shape (m,)
    usable : mask of shape (m, m)
        Ordered pairs of sources that may be compared.
    """
    rows, m = moments.rows, moments.rows.n_sources
    counts = np.asarray(rows.vote_counts, np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    by_chance = shares @ shares.T
    same_row, lagged = np.asarray(rows.overlap(), np.float64), np.asarray(moments.lagged, np.float64)
    next_row = lagged.sum(axis=(0, 1))
    skill = np.maximum(accuracies - 0.5, 0.0)
    weights = np.outer(skill, skill) * next_row * (usable & (same_row > 0))
    now = np.asarray(rows.agreement(), np.float64) / np.maximum(same_row, 1.0) - by_chance
    later = np.einsum("aaij->ij", lagged) / np.maximum(next_row, 1.0) - by_chance
    together, pairs = float((weights * now).sum()), int((weights > 0).sum())
    if not together > 0:
        return Transition(np.outer(balance, balance), 0.0, np.inf, pairs, np.zeros(m))
    correlation = float((weights * later).sum()) / together
    noise = weights**2 * by_chance * (1 - by_chance) / np.maximum(next_row, 1.0)
    error = float(np.sqrt(noise.sum())) / together
    known = 0.0
    if error <= LARGEST_ERROR and abs(correlation) > error:
        known = correlation * (1 - (error / correlation) ** 2)
    # In signs ±1, the variance of a truth is 4 P(Y = 0) P(Y = 1).
    joint = joint_table(4 * known * float(balance.prod()), balance, balance, float(moments.n_pairs))
    return Transition(joint, correlation, error, pairs, np.zeros(m))


def excess_correlations(moments: SequenceMoments, tables: Array, joint: Array) -> Array:
    """Return the autocorrelation of each source that the truths do not explain, shape (m,).

    Covariances of the indicators of all classes are summed. The part that the truths explain follows from the
    tables: between neighboring rows from ``joint``, within a row from its margin.

    Parameters
    ----------
    moments : SequenceMoments of K classes
    tables : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    joint : array of shape (K, K)
        P(now = k, next = l).
    """
    m = moments.rows.n_sources
    if not moments.n_pairs > 0:
        return np.zeros(m)
    votes, balance, n = tables[:, :, :-1], joint.sum(axis=1), float(moments.n_pairs)
    apart = np.outer(balance, balance)
    first, second = np.asarray(moments.first) / n, np.asarray(moments.second) / n
    again = np.einsum("aaii->i", np.asarray(moments.lagged)) / n - (first * second).sum(axis=1)
    # Sums over both truths and the vote, of which einsum would first search the best order for longer.
    by_truths, of_truths = (
        ((covariance.T @ votes) * votes).sum(axis=(1, 2))
        for covariance in (joint - apart, np.diag(balance) - apart)
    )
    rates = np.asarray(moments.rows.vote_counts, np.float64) / moments.rows.n_items
    variance = (rates * (1 - rates)).sum(axis=1)
    left = variance - of_truths
    excess = np.divide(again - by_truths, left, out=np.zeros(m), where=left > _NOISE_FLOOR * variance)
    return np.clip(excess, -1.0, 1.0)


def _usable(lagged: LaggedMoments, sources: BinaryFit) -> NDArray[np.bool_]:
    """Return ordered pairs of sources that measure how truths follow each other, shape (m, m)."""
    flags = sources.flags
    estimated = (sources.slopes != 0) & ~sources.unidentified & ~flags.silent
    copies = flags.copies
    usable = (lagged.overlap > 0) & np.outer(estimated, estimated) & (copies[:, None] != copies)
    two_sided = estimated & ~flags.one_sided
    if sources.conditional is None and two_sided.sum() >= 3:
        # As for accuracies, symmetric methods do not apply to one-sided sources.
        usable &= ~np.outer(flags.one_sided, flags.one_sided)
    return np.asarray(usable)


def _standard_error(
    pull: Array, slopes: Array, variance: Array, spread: float, correlation: float, n_pairs: float
) -> float:
    """Return the standard error of the ratio if Σ pullᵢⱼ Cov(λᵢ, λⱼ) = 1.

    Errors are independent between rows. With λ - E[λ] = βx + ε the ratio changes by Σ pullᵢⱼ(λᵢλⱼ' - ρλᵢλⱼ).
    The term in x gives Bartlett's 1 - ρ²; xε gives x(t-1) + x(t+1) - 2ρx(t), whose variance is 2(1 - ρ²)
    times that of x; εε gives both sums.
    """
    rho = float(np.clip(correlation, -1, 1))
    errors = np.maximum(variance - slopes**2 * spread, 0)
    reach = (pull + pull.T) @ slopes / 2
    by_truths = float(slopes @ pull @ slopes * spread) ** 2
    crossed = 2 * spread * float(reach**2 @ errors)
    by_errors = float(errors @ pull**2 @ errors)
    moved = (1 - rho**2) * (by_truths + crossed) + (1 + 2 * rho**2) * by_errors
    return float(np.sqrt(moved / n_pairs))


# The system has K² unknowns, all coupled.
MOST_CLASSES = 40
# Largest total variation distance between the class balance and the margins that the lagged votes imply.
_LARGEST_DISTANCE = 0.1


def require_few_classes(n_classes: int) -> None:
    """Raise OptionError for more classes than a chain supports, before anything is counted."""
    if n_classes > MOST_CLASSES:
        raise OptionError(
            f"SequenceLabelModel supports at most {MOST_CLASSES} classes; got {n_classes:,}. Use "
            "LabelModel, which ignores the order of the rows."
        )


def fit_transition_many(moments: SequenceMoments, tables: Array, balance: Array) -> Transition:
    """Estimate the chain of truths from lagged votes, for any number of classes.

    Rows are assumed to be independent if the estimate contradicts the class balance.

    Parameters
    ----------
    moments : SequenceMoments of K classes
    tables : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    balance : array of shape (K,)
    """
    m, n_classes = len(tables), len(balance)
    require_few_classes(n_classes)
    apart = np.outer(balance, balance)
    met = np.asarray(moments.lagged).sum(axis=(0, 1)) > 0
    pairs = int(met.sum() - np.trace(met))
    if not pairs:
        return Transition(apart, 0.0, np.inf, 0, np.zeros(m))
    votes = tables[:, :, :-1].transpose(0, 2, 1)  # (m, vote, truth)
    seen = np.asarray(moments.lagged / moments.n_pairs, np.float64)  # (now, next, i, j)
    pull = np.einsum("iak,abij,jbl->kl", votes, seen, votes, optimize=True)
    pull -= np.einsum("iak,abii,ibl->kl", votes, seen, votes, optimize=True)
    squares = np.einsum("iak,ial->ikl", votes, votes)
    total = squares.sum(axis=0)
    system = np.kron(total, total) - np.einsum("ikp,ilq->klpq", squares, squares).reshape(n_classes**2, -1)
    found = np.linalg.lstsq(system, pull.ravel(), rcond=1e-9)[0].reshape(n_classes, n_classes)
    if max(np.abs(found.sum(axis=axis) - balance).sum() / 2 for axis in (0, 1)) > _LARGEST_DISTANCE:
        # The lagged votes imply another balance than the given one, so the two cannot be combined.
        return Transition(apart, 0.0, np.inf, pairs, np.zeros(m))
    joint = with_margins(found, balance, float(moments.n_pairs))
    alike, chance = float(np.trace(joint)), float((balance**2).sum())
    return Transition(
        joint, (alike - chance) / (1 - chance), np.nan, pairs, excess_correlations(moments, tables, joint)
    )


def with_margins(joint: Array, balance: Array, n_pairs: float) -> Array:
    """Return a positive table near ``joint`` (K, K) with ``balance`` (K,) on both margins.

    No cell is below half a pair, because smaller probabilities cannot be observed.

    >>> with_margins(np.array([[0.5, -0.1], [0.1, 0.5]]), np.array([0.5, 0.5]), 50).round(2)
    array([[0.47, 0.03],
           [0.03, 0.47]])
    """
    floor = np.minimum(0.5 / n_pairs, np.outer(balance, balance) / 2)
    return fit_margins(np.maximum(joint, floor), balance, balance)


# ---------------------------------------------------------------------- pairs of tasks


@dataclass(frozen=True, slots=True)
class TaskPair:
    """Joint distribution of two neighboring truths.

    Attributes
    ----------
    table : array of shape (K, K)
        P(Y_a, Y_b), every cell above 0; independent if the votes do not determine it.
    excess : array of shape (pairs,), or empty
        For each pair of sources that is one detector on both tasks: the correlation of its errors that the
        truths do not explain.
    covariance, error : float
        Cov(Y_a, Y_b) of two classes as estimated, 0 without evidence, and its standard error given the
        estimated sources, infinite without evidence. NaN for more classes.
    """

    table: Array
    excess: Array
    covariance: float = np.nan
    error: float = np.nan


def pair_of_tasks(
    moments: Moments, strengths: tuple[Array, Array], balance: tuple[Array, Array], *, same_detectors: bool
) -> TaskPair:
    """Pool all pairs of sources across an edge, for two classes.

    Signed votes cancel coverage that persists from task to task; :func:`pair_of_many`, which does not, has 2
    points less accuracy on clips of three frames of tennis (docs/quality/video.md).

    Parameters
    ----------
    moments : counts of the sources of task a, then those of task b
    strengths : two arrays
        βᵢ of the sources of each task; 0 for sources that are not used.
    balance : two arrays of shape (2,)
    same_detectors : bool
        Whether source i of task a and source i of task b are one detector. Its errors persist from one frame
        to the next, so it is not used for the truths if other sources are available; its excess is reported.
    """
    first, second = strengths
    n_first = len(first)
    centered = CenteredMoments.of(moments)
    across = np.ix_(np.arange(n_first), np.arange(n_first, moments.n_sources))
    covariance, noise = centered.covariance[across], centered.noise[across]
    product = np.outer(first, second)
    scale = np.outer(centered.variance[:n_first], centered.variance[n_first:])
    weights = np.divide(
        1.0, np.maximum(noise, _NOISE_FLOOR * scale), out=np.zeros_like(noise), where=scale > 0
    )
    if same_detectors and (weights * ~np.eye(len(weights), dtype=bool) * product).any():
        np.fill_diagonal(weights, 0.0)
    evidence = float(np.sum(weights * product**2))
    spread = [float(4 * table.prod()) for table in balance]  # Var(Y)
    left = np.maximum(centered.variance[:n_first] - first**2 * spread[0], 0)
    right = np.maximum(centered.variance[n_first:] - second**2 * spread[1], 0)
    estimate, error, known = 0.0, np.inf, 0.0
    if evidence > 0:
        pull = weights * product / evidence
        estimate = float(np.sum(pull * covariance))
        moved = _variance_of_product(estimate, balance)
        moved += spread[0] * float((first @ pull) ** 2 @ right) + spread[1] * float(
            (pull @ second) ** 2 @ left
        )
        error = float(np.sqrt((moved + left @ pull**2 @ right) / moments.n_items))
        # A correlation with a larger error is undetermined.
        known = estimate if error <= LARGEST_ERROR * np.sqrt(spread[0] * spread[1]) else 0.0
    table = joint_table(known, *balance, float(moments.n_items))
    excess = np.zeros(0)
    if same_detectors:
        size = np.sqrt(left * right)
        beyond = np.diagonal(covariance) - first * second * known
        enough = size > _NOISE_FLOOR * np.sqrt(np.diagonal(scale))
        excess = np.clip(np.divide(beyond, size, out=np.full(n_first, np.nan), where=enough), -1.0, 1.0)
    return TaskPair(table, excess, estimate, error)


def _variance_of_product(covariance: float, balance: tuple[Array, Array]) -> float:
    """Return the variance of (Y_a - E[Y_a])(Y_b - E[Y_b]) for one item."""
    table = joint_table(covariance, *balance, np.inf)
    away = [np.array([-1.0, 1.0]) - (one[1] - one[0]) for one in balance]
    squares = np.outer(away[0] ** 2, away[1] ** 2)
    mean = float(np.sum(table * np.outer(*away)))
    return float(np.sum(table * squares)) - mean**2


def joint_table(covariance: float, first: Array, second: Array, n_items: float) -> Array:
    """Return P(Y_a, Y_b), shape (2, 2), for two margins and the covariance of truths in {-1, +1}.

    No cell is below half an item, because smaller probabilities cannot be observed. The covariance is reduced
    if necessary; the margins are kept.

    >>> joint_table(0.5, np.array([0.5, 0.5]), np.array([0.5, 0.5]), 1e9).round(3)
    array([[0.375, 0.125],
           [0.125, 0.375]])
    >>> joint_table(5.0, np.array([0.2, 0.8]), np.array([0.2, 0.8]), 50).round(3)
    array([[0.19, 0.01],
           [0.01, 0.79]])
    """
    apart = np.outer(first, second)
    rarest = min(0.5 / n_items, float(apart.min()) / 2)
    # In signs ±1, a covariance c moves c/4 onto the diagonal.
    least = rarest - min(apart[0, 0], apart[1, 1])
    most = min(apart[0, 1], apart[1, 0]) - rarest
    moved = float(np.clip(covariance / 4, least, most))
    return np.asarray(apart + moved * np.array([[1.0, -1.0], [-1.0, 1.0]]))


# For a detector with fewer errors than this, persistence is not estimated.
_LEAST_NOISE = 1e-6


def pair_of_many(
    moments: Moments,
    instruments: tuple[Instruments, Instruments],
    balance: tuple[Array, Array],
    margins: tuple[Array, Array],
    *,
    same_detectors: bool,
) -> TaskPair:
    """Estimate the table of one task edge.

    Parameters
    ----------
    moments : counts of the sources of task a, then those of task b
    instruments : the sources of both tasks
    balance : two arrays of shape (K,)
        P(Y = k) as estimated from the votes.
    margins : two arrays of shape (K,)
        P(Y = k) that the table must have.
    same_detectors : bool
        Whether source i of task a and source i of task b are one detector. Its errors persist from one frame
        to the next, so it is not used for the truths if other sources are available; its excess is reported.
    """
    first, second = instruments
    covariance = _cross_covariance(moments, len(first.tables))
    scaled = covariance * first.scale[:, :, None, None] * second.scale
    correlation = _correlation(scaled, first.design, second.design, moments.n_items, same_detectors)
    moved = first.basis @ correlation @ second.basis.T
    apart = np.outer(*balance)
    floor = np.minimum(0.5 / moments.n_items, apart / 2)
    table = fit_margins(np.maximum(apart + moved, floor), *margins)
    excess = _excess(covariance, moved, first, second) if same_detectors else np.zeros(0)
    return TaskPair(table, excess)


def _cross_covariance(moments: Moments, n_first: int) -> Array:
    """Return Cov(1{i votes v}, 1{j votes w}) of the first sources with the others, axes i, v, j, w."""
    pairs = moments.joint_counts(range(n_first), range(n_first, moments.n_sources))
    rates = np.asarray(moments.vote_counts) / moments.n_items
    return np.asarray(pairs / moments.n_items - rates[:n_first, :, None, None] * rates[n_first:])


def _correlation(scaled: Array, first: Array, second: Array, n_items: float, same_detectors: bool) -> Array:
    """Return the correlations of the contrasts of two truths, shape (K - 1, K - 1)."""
    size = first.shape[2]
    pull = np.einsum("ivc,ivjw,jwd->cd", first, scaled, second, optimize=True)
    left, right = (np.einsum("ivc,ivd->icd", design, design) for design in (first, second))
    system = np.kron(left.sum(axis=0), right.sum(axis=0))
    found, known = _solve(system, pull, n_items)
    if same_detectors:
        own = np.einsum("ivc,iviw,iwd->cd", first, scaled, second, optimize=True)
        same = np.einsum("icp,idq->cdpq", left, right).reshape(size**2, size**2)
        others, known_to_others = _solve(system - same, pull - own, n_items)
        if known_to_others == known:
            return others
    return found


def _solve(system: Array, pull: Array, n_items: float) -> tuple[Array, int]:
    """Solve least squares in the directions that the votes determine; also return their number."""
    sizes, directions = np.linalg.eigh(system)
    # Votes are scaled to noise of variance 1, so a correlation has variance 1/(n size). With a larger
    # standard error it is undetermined.
    known = n_items * sizes * LARGEST_ERROR**2 > 1
    weights = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=known)
    found = directions @ (weights * (directions.T @ pull.ravel()))
    return found.reshape(pull.shape), int(known.sum())


def _excess(covariance: Array, moved: Array, first: Instruments, second: Instruments) -> Array:
    explained = np.einsum("ikv,kl,ilv->iv", first.tables, moved, second.tables)
    beyond = np.einsum("iviv->iv", covariance) - explained
    size = np.sqrt(first.noise.sum(axis=1) * second.noise.sum(axis=1))
    share = np.divide(beyond.sum(axis=1), size, out=np.full(len(size), np.nan), where=size > _LEAST_NOISE)
    return np.clip(share, -1.0, 1.0)
