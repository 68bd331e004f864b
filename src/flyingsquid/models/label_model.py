"""The batch label model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.analysis import (
    Diagnostics,
    Explanation,
    Table,
    concerns,
    diagnose,
    explain_item,
    summarize_sources,
)
from flyingsquid.estimate import (
    METHODS,
    BinaryFit,
    Evidence,
    GoldCounts,
    accuracy_errors,
    fit_binary,
    resolve_balance,
    with_gold,
)
from flyingsquid.exceptions import IncompatibleError, NotIdentifiableError, OptionError, SourceWarning
from flyingsquid.infer import binary_posterior
from flyingsquid.models import _options
from flyingsquid.models._base import VoteEstimator, read_gold
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.states import listed
from flyingsquid.votes.weights import read_weights

Method: TypeAlias = Literal[
    "auto", "triplet_mean", "triplet_median", "triplet", "independencies", "covariance", "quadratic"
]
Source: TypeAlias = int | str
_NORMAL_95 = 1.959963984540054


class LabelModel(VoteEstimator):
    """Combine noisy votes into probabilistic labels, in closed form and without gold labels.

    For one binary task whose sources err independently given the truth, and may abstain.

    Parameters
    ----------
    method : text
        How sources are judged. For sources that err and abstain equally often on both classes:
        ``"triplet_mean"`` and ``"triplet_median"`` average over all triplets of sources; ``"triplet"``
        uses the strongest one for each source, or those in ``triplets``; ``"independencies"`` divides by
        a known, lopsided class balance and needs no triplets. For sources of any kind:
        ``"covariance"`` fits all pairs at once; ``"quadratic"`` averages triplets vote by vote.
        ``"auto"`` is ``"triplet_mean"``.
    class_balance : None, "uniform", "estimate" or array of K numbers
        P(Y = k) in the order of ``classes_``. ``"estimate"`` reads it off triples of votes, and keeps
        an even balance where those say too little (a standard error of P above 0.075). None is the
        method's own choice: even for symmetric methods; for ``"covariance"`` and ``"quadratic"``
        estimated by ``fit``, even in ``fit_moments`` and ``partial_fit``, which see no triples.
    signs : "average" or mapping {source: +1 | -1}
        ``"average"`` takes the sources to be better than random on average. Anchors name sources
        known to be better (+1) or worse (-1) than random, by name or position.
    screen : float
        Triplets whose denominator is below this many standard errors are skipped; 0 uses all.
    triplets : sequence of (source, source, source), for ``method="triplet"``
        Names or positions. Each triplet is solved for its three sources.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m texts
    class_balance_ : array of shape (K,)
    accuracies_ : array of shape (m,)
        P(vote is right | source votes); 0.5 for a source that never votes.
    accuracies_interval_ : array of shape (m, 2)
        95% intervals of ``accuracies_``; NaN where there is none (see the docs). Computed when asked.
    coverage_ : array of shape (m,)
        P(source votes).
    confusion_ : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last. With ``class_balance_`` it gives every posterior.
    moments_ : Moments
        The counts that were fitted.
    diagnostics_ : Diagnostics
        Sources that deserve a look, a test of independence, and a verdict beside majority vote. Computed
        when asked.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(
    ...     5_000, accuracies=[0.9, 0.8, 0.7, 0.6], coverage=0.8, rng=np.random.default_rng(0))
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> model.accuracies_.round(1)
    array([0.9, 0.8, 0.7, 0.6])
    >>> model.predict_proba([[1, -1, 0, 1], [-1, -1, -1, -1]]).round(2)
    array([[0.15, 0.85],
           [0.5 , 0.5 ]])
    """

    moments_: Moments
    class_balance_: NDArray[np.float64]
    accuracies_: NDArray[np.float64]
    coverage_: NDArray[np.float64]
    confusion_: NDArray[np.float64]

    def __init__(
        self,
        *,
        method: Method = "auto",
        class_balance: Literal["uniform", "estimate"] | ArrayLike | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        screen: float = 1.0,
        triplets: Sequence[tuple[Source, Source, Source]] | None = None,
    ) -> None:
        self.method = method
        self.class_balance = class_balance
        self.signs = signs
        self.screen = screen
        self.triplets = triplets

    def fit(
        self, votes: Any, y: object = None, *, gold: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Count the votes, then solve.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
            Keep items that nobody votes on: dropping them biases every rate.
        y : ignored
            For scikit-learn's signature.
        gold : sequence of n labels, optional
            Known classes of some items; None, NaN and masked where unknown, and -1 unless it is a class.
            They settle signs, join the estimate of the class balance unless it was given, and correct
            the sources by their weight. They should be a random sample of the items.
        sample_weight : array of shape (n,) or number, optional
            How often each item counts.
        """
        self._check_options()
        read = as_votes(votes)
        _require_binary(read)
        weights = None if sample_weight is None else read_weights(sample_weight, read.n_items)
        known = None if gold is None else read_gold(gold, read.classes, read.n_items, "gold")
        counts = None
        if known is not None and (known >= 0).any():
            counts = GoldCounts.of(read, known, weights)
        self._solve(Evidence(Moments.of(read, sample_weight=weights), read, weights, counts))
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Solve from counts alone, wherever they were gathered."""
        self._check_options()
        _options.require_moments(moments)
        _require_binary(moments)
        self._solve(Evidence(moments))
        return self

    def partial_fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Add the votes to the counts of earlier calls, then solve again.

        The counts are kept even when they do not determine the accuracies yet and
        :class:`~flyingsquid.exceptions.NotIdentifiableError` is raised, so that a stream can go on. Known
        labels of an earlier ``fit`` keep their say.
        """
        self._check_options()
        before: Moments | None = getattr(self, "_pending", None) or getattr(self, "moments_", None)
        chunk = as_votes(votes, None if before is None else before.classes)
        _require_binary(chunk)
        total = Moments.of(chunk, sample_weight=sample_weight)
        if before is not None:
            total = before + total
        try:
            self._solve(Evidence(total, gold=getattr(self, "_gold", None)))
        except NotIdentifiableError:
            # Apart from the counts of the last fit, which its parameters belong to.
            self._pending: Moments | None = total
            raise
        return self

    def explain(self, votes_row: Any) -> Explanation:
        """Why one item got its label: what each source adds to the log odds, strongest first.

        Parameters
        ----------
        votes_row : the votes on one item
            ``Votes`` or a table with one row, an array of shape (1, m) or (m,), a sequence of m votes,
            or a mapping or pandas row from names to votes.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> why = fs.LabelModel().fit(votes).explain(votes[[2]])
        >>> why.predicted, why.contributions[0].source
        ('malignant', 'large nuclei')
        """
        codes = self._read_row(votes_row)
        return explain_item(codes, self._classes, self.source_names_, self.class_balance_, self._weights)

    def summary(self) -> Table:
        """What each source is worth, one row a source. Prints; ``.to_dict()``, ``.to_pandas()``.

        The columns are those of :func:`~flyingsquid.analysis.summarize_sources`.
        """
        self._require_fitted()
        return summarize_sources(
            self.moments_, self.accuracies_, self.accuracies_interval_, self.diagnostics_
        )

    def _solve(self, evidence: Evidence) -> None:
        moments = evidence.moments
        names = moments.source_names
        method, reason = self.method, ""
        if method == "auto":
            method, reason = "triplet_mean", "the mean over all triplets"
        fit = fit_binary(
            evidence,
            resolve_balance(self.class_balance, moments.classes),
            method=method,
            anchors=_options.read_anchors(self.signs, names),
            screen=self.screen,
            triplets=_options.read_triplets(self.triplets, names),
        )
        self._keep(moments, with_gold(fit, evidence, method=method, screen=self.screen), method, reason)
        self._gold = evidence.gold
        worth_a_look = concerns(fit, names)
        if worth_a_look:
            # Two frames up is the caller of fit, fit_moments or partial_fit.
            warnings.warn(f"{worth_a_look}. See diagnostics_", SourceWarning, stacklevel=3)

    def _keep(self, moments: Moments, fit: BinaryFit, method: str, reason: str) -> None:
        self._remember(moments.classes, moments.names, moments.source_names)
        self.moments_ = moments
        self._pending = None
        self.class_balance_ = fit.balance
        self.coverage_ = np.minimum(moments.coverage, 1.0)
        share = np.divide(
            fit.mean_parameters,
            self.coverage_,
            out=np.zeros_like(fit.mean_parameters),
            where=self.coverage_ > 0,
        )
        self.accuracies_ = np.clip((1 + share) / 2, 0.0, 1.0)
        self.confusion_ = fit.tables
        self._weights = fit.weights
        self._fit = fit
        self._interval: NDArray[np.float64] | None = None
        self._diagnostics: Diagnostics | None = None
        # Options may be set anew after the fit; what belongs to the fit is kept with it.
        self._fitted_with: dict[str, Any] = {
            "method": str(method),
            "reason": reason,
            "screen": float(self.screen),
            "by_hand": self.triplets is not None,
        }

    @property
    def accuracies_interval_(self) -> NDArray[np.float64]:
        """95% intervals of ``accuracies_``, shape (m, 2); NaN for a source or method without a formula."""
        self._require_fitted()
        if self._interval is None:
            used = self._fitted_with
            errors = accuracy_errors(
                self.moments_,
                self._fit,
                method=used["method"],
                screen=used["screen"],
                by_hand=used["by_hand"],
            )
            reach = _NORMAL_95 * errors[:, None] * np.array([-1.0, 1.0])
            self._interval = np.clip(self.accuracies_[:, None] + reach, 0.0, 1.0)
            self._interval.flags.writeable = False
        return self._interval

    @property
    def diagnostics_(self) -> Diagnostics:
        """What the fit noticed; computed when asked."""
        self._require_fitted()
        if self._diagnostics is None:
            used = self._fitted_with
            self._diagnostics = diagnose(
                self.moments_,
                self._fit,
                self.accuracies_,
                self.accuracies_interval_,
                method=used["method"],
                reason=used["reason"],
            )
        return self._diagnostics

    def _posterior(self, votes: Votes) -> NDArray[np.float64]:
        return binary_posterior(votes.codes, self.class_balance_, self._weights)

    def _check_options(self) -> None:
        if self.method not in ("auto", *METHODS):
            raise OptionError(f"method={self.method!r} is unknown; one of auto, {', '.join(METHODS)}")
        _options.check_screen(self.screen)
        if self.triplets is not None and self.method != "triplet":
            raise OptionError(f"triplets= is used by method='triplet' only, not by {self.method!r}")
        if self.method == "independencies" and not isinstance(self.signs, str):
            raise OptionError(
                "signs= has no part in method='independencies', whose estimates carry their sign"
            )
        if self.method in ("independencies", "covariance") and self.screen != 1.0:
            raise OptionError(f"screen= has no part in method={self.method!r}, which uses no triplets")


def _require_binary(data: Votes | Moments) -> None:
    if data.n_classes == 2:
        return
    raise IncompatibleError(
        f"the votes have {data.n_classes} classes: {listed(data.classes)}. LabelModel fits two; name them "
        "with Votes.from_classes(..., classes=[a, b]) if the others cannot occur, or use MajorityVote"
    )
