"""Label model for sequences: video frames, tokens, sensor readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Table
from flyingsquid._values import RandomState, format_value
from flyingsquid.estimation.transition import (
    Transition,
    effective_row,
    persistence_of_errors,
    require_few_classes,
)
from flyingsquid.exceptions import (
    ModelFileError,
    NotIdentifiableError,
    OptionError,
    VotesError,
)
from flyingsquid.files.state import OBJECT, State, check_fields, finite, integer, read_array
from flyingsquid.fits.base import Fit, RowEvidence
from flyingsquid.fits.summary import SequenceDiagnostics, diagnose_sequences, summarize_sequences
from flyingsquid.inference import combine_rows, forward_backward, viterbi
from flyingsquid.models import validation
from flyingsquid.models._base import VoteSchema, read_tie_generator
from flyingsquid.models._fitted import FitAttributes, FitState, FittedParameters
from flyingsquid.models.files import (
    fit_from_state,
    fit_to_state,
    options_from_meta,
    options_to_meta,
    part_of,
)
from flyingsquid.models.label_model import Method, Source
from flyingsquid.moments import Moments, SequenceMoments
from flyingsquid.moments.sequences import KIND as SEQUENCE_MOMENTS
from flyingsquid.moments.sequences import TABLES
from flyingsquid.solvers import FitData, Solver
from flyingsquid.solvers.data import join_gold
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import item_ids, join_labels, read_gold, read_lengths
from flyingsquid.votes.decisions import (
    TIE,
    Output,
    TieBreak,
    as_label_array,
    decide,
    expected_credit,
    is_tied,
    to_output,
    winners,
)
from flyingsquid.votes.grid import CountedRows

# The margins of a transition agree up to this: rescaling them converges slowly if classes rarely change.
_STATIONARY = 1e-3
_FIELDS = {
    "options": OBJECT,
    "counts": OBJECT,
    "n_pairs": finite(0),
    "pairs": integer(),
    "temper": finite(np.nextafter(0.0, 1.0), 1),
    "neighbor_share": finite(0, 1),
}


class SequenceLabelModel(FitAttributes["FittedSequences", SequenceMoments]):
    """Label model for sequences of items, such as video frames or tokens, without gold labels.

    Every row (a video frame, a token) has one true class. The model assumes that the true classes of a
    sequence follow a stationary Markov chain, and that sources err independently of each other given the
    true class. A row without votes is labeled from its neighbors. The transition between classes is
    estimated from the votes of *different* sources in neighboring rows. By default, the weight of the
    neighbors depends on how well the votes fit these assumptions. If they do not fit, labels are those of
    :class:`LabelModel`.

    Parameters
    ----------
    method : str or Solver, default="auto"
        How the sources are estimated, from all rows, as in :class:`LabelModel`. The method must estimate
        confusion tables. With ``"auto"``, each row is labeled as by ``LabelModel()``, and the evidence of
        its neighbors is added with a weight that depends on how well the votes fit a model of independent
        sources. Other methods do not test their model.
    class_balance : None, "uniform", "estimate" or array, default=None
    signs : "average" or mapping, default="average"
        As in :class:`LabelModel`.
    temper : "auto", None or float in (0, 1], default="auto"
        Factor for the evidence of all other rows, because errors of real sources often persist from row to
        row. With a factor near 0, every row is labeled separately. ``"auto"`` uses (1 - r)/(1 + r), where r
        is the mean of the positive excess correlations, weighted by coverage. None is a factor of 1, for
        errors that are independent between rows. On the paths of :meth:`predict`, the factor multiplies all
        evidence of methods other than ``"auto"``.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m str
    class_balance_ : array of shape (K,)
    class_balance_interval_ : array of shape (K, 2)
        95% intervals of ``class_balance_``; NaN if it was given, or unknown.
    transition_ : array of shape (K, K)
        P(next = l | now = k). Its stationary distribution is ``class_balance_``; for ``method="auto"``, the
        mean label of single rows.
    accuracies_ : array of shape (m,)
        P(vote is right | source votes).
    accuracies_interval_ : array of shape (m, 2)
        95% intervals, widened for errors that persist. Computed on demand.
    coverage_ : array of shape (m,)
    confusion_ : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    excess_correlation_ : array of shape (m,)
        Autocorrelation of each source that the true classes do not explain: 0 under the model, 1 for errors
        that never end.
    temper_ : float
        Factor for the evidence of other rows.
    neighbor_share_ : float
        Weight of the evidence of all other rows, in [0, 1]. If it is 0, every row is labeled separately. It
        is below 1 only for ``method="auto"``.
    moments_ : SequenceMoments
    diagnostics_ : SequenceDiagnostics
        Computed on demand.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> video = fs.datasets.simulate_sequence(
    ...     20_000, [0.85, 0.8, 0.75, 0.7], coverage=0.5, persistence=0.9, random_state=0)
    >>> model = fs.SequenceLabelModel().fit(video.votes)
    >>> model.transition_.round(2)
    array([[0.94, 0.06],
           [0.06, 0.94]])
    >>> alone = fs.LabelModel().fit(video.votes)
    >>> round(model.score(video.votes, video.y), 2), round(alone.score(video.votes, video.y), 2)
    (0.96, 0.81)

    The middle row has no votes and is labeled from its neighbors:

    >>> model.predict_proba([[1, 1, -1, -1], [-1, -1, -1, -1], [1, -1, 1, -1]]).round(2)[1]
    array([0.01, 0.99])
    """

    def __init__(
        self,
        *,
        method: Method = "auto",
        class_balance: Literal["uniform", "estimate"] | ArrayLike | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        temper: Literal["auto"] | float | None = "auto",
    ) -> None:
        self.method = method
        self.class_balance = class_balance
        self.signs = signs
        self.temper = temper

    def fit(self, votes: Any, lengths: Any = None, *, gold: Any = None) -> Self:
        """Count rows and pairs of neighbors, then estimate the parameters.

        Parameters
        ----------
        votes : Votes, array-like or dataframe of shape (T, m)
            The rows of all sequences, one sequence after the other. Keep rows without votes.
        lengths : list of integers that add up to T, optional
            Rows of each sequence. None is one sequence, or one for each clip of a pandas table with the index
            (clip, frame).
        gold : gold labels of some rows, as in :meth:`LabelModel.fit`, optional
            They correct the evidence of the votes on a row. The transition is estimated from the votes only.
        """
        with self._lock:
            solver = self._validate()
            read = _read_rows(votes)
            require_few_classes(read.n_classes)
            sequences = read_lengths(lengths, read.n_items, votes)
            counted = CountedRows.of(read.codes, read.n_classes, None)
            rows = Moments._count(read, None, None, counted)
            known = None if gold is None else join_gold(gold, votes, read, 1)
            if known is not None and not (known >= 0).any():
                known = None
            data = FitData(
                moments=rows, votes=read, counted=counted, rows="all", gold=known, **self._request()
            )
            self._estimate(solver, data, SequenceMoments.of_rows(rows, read, sequences))
        return self._warn()

    def fit_moments(self, moments: SequenceMoments) -> Self:
        """Estimate the parameters from counts, for example from several machines."""
        solver = self._validate()
        if not isinstance(moments, SequenceMoments):
            raise OptionError(
                f"`moments` must be SequenceMoments; got {type(moments).__name__}. Count with "
                "SequenceMoments.of(votes, lengths)."
            )
        validation.require_moments(moments.rows)
        with self._lock:
            self._estimate(solver, FitData(moments=moments.rows, **self._request()), moments)
        return self._warn()

    def partial_fit(self, votes: Any, lengths: Any = None) -> Self:
        """Add further sequences to the counts of earlier calls, then estimate the parameters again.

        Sequences end with the call. To continue a sequence that was cut, add ``SequenceMoments.of(votes,
        previous=last_row)`` to ``moments_`` and call :meth:`fit_moments`. Counts are kept even if they do not
        determine the accuracies yet.
        """
        with self._lock:
            solver = self._validate()
            fitted, pending = getattr(self, "_state", FitState())
            before = pending if pending is not None or fitted is None else fitted.moments
            known = None if before is None else before.rows.classes
            chunk = as_votes(votes, known, check=before is None)
            require_few_classes(chunk.n_classes)
            total = SequenceMoments.of(chunk, read_lengths(lengths, chunk.n_items, votes))
            total = total if before is None else before + total
            try:
                self._estimate(solver, FitData(moments=total.rows, **self._request()), total)
            except NotIdentifiableError:
                self._state = FitState(fitted, total)
                raise
        return self._warn()

    def predict_proba(self, votes: Any, lengths: Any = None, *, output: Output = "numpy") -> Any:
        """Return P(Y(t) = k | all rows of its sequence), shape (T, K), columns in the order of ``classes_``.

        Parameters
        ----------
        votes, lengths : as in :meth:`fit`
            Named sources are matched by name, others by position.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            Type of the result; ``"pandas"`` is a table indexed by the item identifiers of the votes.
        """
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        read, sequences = fitted.read(votes, lengths)
        posterior = fitted.posterior(fitted.row_evidence(read), sequences)
        return to_output(posterior, output, item_ids(votes, read), as_label_array(read.classes).tolist())

    def predict(
        self,
        votes: Any,
        lengths: Any = None,
        *,
        joint: bool = True,
        tie_break: TieBreak = "first",
        random_state: RandomState = None,
        output: Output = "numpy",
    ) -> Any:
        """Return a class for each row, shape (T,).

        Parameters
        ----------
        votes, lengths : as in :meth:`fit`
        joint : bool
            True: the most probable path of each sequence (Viterbi). False: the most probable class of each
            row by itself, which is wrong on fewer rows, but the resulting path may be improbable.
        tie_break : {"first", "abstain", "random"}, default="first"
            Label of a row whose most probable classes are equally probable: the first of them; no label
            (-1, or 0 if -1 is a class, or None if classes are not integers); or one of them at random.
            Paths take the first.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator for ``tie_break="random"``. None uses a new seed on every call.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            Type of the result; ``"pandas"`` is a Series indexed by the item identifiers of the votes.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> video = fs.datasets.simulate_sequence(
        ...     2_000, [0.9, 0.8, 0.7], coverage=0.6, random_state=0)
        >>> model = fs.SequenceLabelModel().fit(video.votes)
        >>> clips = [[1, 1, -1], [-1, -1, -1], [1, 1, 1], [0, 0, 0], [0, 0, 0]]
        >>> model.predict(clips, lengths=[3, 2]).tolist()
        [1, 1, 1, 0, 0]
        """
        if joint and tie_break != "first":
            raise OptionError(f'`tie_break` must be "first" if joint=True; got {format_value(tie_break)}.')
        rng = read_tie_generator(tie_break, random_state)
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        read, sequences = fitted.read(votes, lengths)
        evidence = fitted.row_evidence(read)
        if joint:
            labels = as_label_array(read.classes)[fitted.paths(evidence, sequences)]
        else:
            labels = decide(fitted.posterior(evidence, sequences), read.classes, tie_break, rng)
        return to_output(labels, output, item_ids(votes, read), ["label"])

    def fit_predict(
        self, votes: Any, lengths: Any = None, *, joint: bool = True, output: Output = "numpy"
    ) -> Any:
        """Fit the model and return a class for each row: ``fit(votes).predict(votes)``.

        The parameters are those of :meth:`fit` and :meth:`predict`.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> video = fs.datasets.simulate_sequence(2_000, [0.9, 0.8, 0.7], random_state=0)
        >>> fs.SequenceLabelModel().fit_predict(video.votes).shape
        (2000,)
        """
        with self._lock:  # otherwise another thread could fit the model in between
            return self.fit(votes, lengths).predict(votes, lengths, joint=joint, output=output)

    def fit_predict_proba(self, votes: Any, lengths: Any = None, *, output: Output = "numpy") -> Any:
        """Fit the model and return the probabilities of each row: ``fit(votes).predict_proba(votes)``.

        The parameters are those of :meth:`fit` and :meth:`predict_proba`.
        """
        with self._lock:
            return self.fit(votes, lengths).predict_proba(votes, lengths, output=output)

    def log_likelihood(self, votes: Any, lengths: Any = None) -> NDArray[np.float64]:
        """Return log P(votes of a sequence), in nats, shape (sequences,); ``temper`` does not apply.

        Use it to compare sequences, or models of the same votes. A vote that its source never cast in the fit
        counts as one in a billion.
        """
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        read, sequences = fitted.read(votes, lengths)
        # By the tables themselves, which sum to 1 even if the class balance does not fit the votes.
        evidence = fitted.fit.likelihoods(read.codes)[:, 0]
        transition = fitted.transition
        return forward_backward(evidence, sequences, transition.balance, transition.matrix)[1]

    def score(self, votes: Any, y: ArrayLike, lengths: Any = None) -> float:
        """Return the accuracy of :meth:`predict` on the rows with gold labels.

        If the most probable classes of a row tie, the row counts as the share of the tied classes that is
        correct.

        Parameters
        ----------
        votes, lengths : as in :meth:`predict`
        y : array of shape (T,)
            Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class.
        """
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        read, sequences = fitted.read(votes, lengths)
        y = join_labels(y, votes, read)
        truth = read_gold(y, read.classes, read.n_items, "y")
        known = truth >= 0
        if not known.any():
            raise VotesError("`y` must have at least one gold label; got none.")
        evidence = fitted.row_evidence(read)
        posterior = fitted.posterior(evidence, sequences)[known]
        right = fitted.paths(evidence, sequences)[known] == truth[known]
        credit = np.where(is_tied(posterior), expected_credit(posterior, truth[known]), right)
        return float(np.mean(credit))

    def summary(self) -> Table:
        """Summarize the sources, one row per source, and the transitions between rows."""
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        return summarize_sequences(
            fitted.moments.rows,
            fitted.fit.accuracies,
            fitted.interval,
            fitted.diagnostics,
            fitted.transition.excess_correlation,
            fitted.transition.matrix,
        )

    # ------------------------------------------------------------------ fitted attributes

    @property
    def vote_schema_(self) -> VoteSchema:
        return self._fitted.schema

    @property
    def moments_(self) -> SequenceMoments:
        return self._fitted.moments

    @property
    def transition_(self) -> NDArray[np.float64]:
        return self._fitted.transition.matrix

    @property
    def excess_correlation_(self) -> NDArray[np.float64]:
        return self._fitted.transition.excess_correlation

    @property
    def temper_(self) -> float:
        return self._fitted.temper

    @property
    def neighbor_share_(self) -> float:
        return self._fitted.neighbor_share

    @property
    def diagnostics_(self) -> SequenceDiagnostics:
        """Suspicious sources, the estimated transition, and a recommendation; computed on demand."""
        return self._fitted.diagnostics

    # ------------------------------------------------------------------ internals

    def _validate(self) -> Solver:
        validation.check_temper(self.temper)
        return validation.check_options(self.method, None, None)

    def _request(self) -> dict[str, Any]:
        return {"class_balance": self.class_balance, "signs": self.signs, "use": "sequences"}

    def _estimate(self, solver: Solver, data: FitData, moments: SequenceMoments) -> None:
        """Estimate the parameters of single rows and the transition."""
        fit, rows = solver.checked_for(data).solve(data), moments.rows
        votes = data.votes
        transition = fit.transition(moments, fit.mean_label(None if votes is None else votes.codes))
        persistence = persistence_of_errors(transition.excess_correlation, np.minimum(rows.coverage, 1.0))
        worth = effective_row(persistence)
        temper = worth if isinstance(self.temper, str) else 1.0 if self.temper is None else float(self.temper)
        fit = replace(fit, assessment=fit.assessment.widened(1 / np.sqrt(worth)))
        fitted = FittedSequences(fit, moments, transition, temper, fit.neighbor_share(rows, persistence))
        # One assignment: an interrupted fit leaves the model as it was.
        self._state = FitState(fitted)

    def _to_state(self) -> State:
        fitted = self._fitted
        transition, moments = fitted.transition, fitted.moments
        state = fit_to_state(
            fitted.fit,
            moments.rows,
            options=options_to_meta(self.get_params(deep=False)),
            n_pairs=moments.n_pairs,
            temper=fitted.temper,
            neighbor_share=fitted.neighbor_share,
            pairs=transition.pairs,
        )
        arrays = {
            "joint": transition.joint,
            # As an array, because JSON has no infinity.
            "correlation": np.array([transition.correlation, transition.error]),
            "excess": transition.excess_correlation,
        }
        counts = {name: moments.to_state().arrays[name] for name in TABLES}
        return State(type(self).__name__, state.meta, {**state.arrays, **counts, **arrays})

    @classmethod
    def _from_state(cls, state: State) -> Self:
        fit, rows = fit_from_state(state)
        meta, arrays = state.meta, state.arrays
        check_fields(meta, _FIELDS)
        counted = {name: arrays[name] for name in TABLES}
        moments = SequenceMoments.from_state(
            State(
                SEQUENCE_MOMENTS,
                {"rows": meta["counts"], "n_pairs": meta["n_pairs"]},
                {**part_of(arrays, "counts"), **counted},
            )
        )
        model = cls(**options_from_meta(meta["options"], cls))
        model._validate()
        model._state = FitState(
            FittedSequences(
                fit,
                moments,
                _read_transition(state, fit, rows.n_sources),
                float(meta["temper"]),
                float(meta["neighbor_share"]),
            )
        )
        return model


@dataclass(frozen=True, eq=False)
class FittedSequences(FittedParameters):
    """A fit of single rows, the transition between rows, and values computed from both.

    Attributes
    ----------
    fit : Fit
    moments : SequenceMoments
    transition : Transition
    temper : float
    neighbor_share : float
        Exponent of the message of other rows.
    """

    moments: SequenceMoments
    transition: Transition
    temper: float
    neighbor_share: float

    @property
    def schema(self) -> VoteSchema:
        """Sources and classes by which further votes are read."""
        rows = self.moments.rows
        return VoteSchema(rows.classes, rows.names, rows.source_names)

    def read(self, votes: Any, lengths: Any) -> tuple[Votes, NDArray[np.intp]]:
        """Return votes in the order of the fitted sources and classes, and the lengths of their sequences."""
        read = self.schema.read(votes)
        return read, read_lengths(lengths, read.n_items, votes)

    def row_evidence(self, votes: Votes) -> RowEvidence:
        """Return the evidence of each row."""
        return self.fit.row_evidence(votes.codes, self.transition.balance)

    def posterior(self, evidence: RowEvidence, lengths: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return P(Y(t) = k | all rows of its sequence), shape (T, K)."""
        return combine_rows(
            *evidence,
            lengths,
            self.transition.balance,
            self.transition.matrix,
            temper=self.temper,
            share=self.neighbor_share,
        )

    def paths(self, evidence: RowEvidence, lengths: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the most probable path of each sequence, shape (T,).

        The transition between neighboring classes has the exponent ``neighbor_share``.
        """
        if self.neighbor_share == 0:
            return winners(self.posterior(evidence, lengths))
        alone, shared = evidence
        of_rows = alone - (1 - self.temper) * shared if self.fit.tempers_paths else alone
        balance = self.transition.balance
        together = (self.transition.joint / np.outer(balance, balance)) ** self.neighbor_share
        # The first of equal classes, whatever the rounding.
        of_rows = of_rows - TIE * np.arange(len(balance))
        return viterbi(of_rows, lengths, np.ones_like(balance), together)

    @property
    def counts(self) -> Moments:
        return self.moments.rows

    @cached_property
    def diagnostics(self) -> SequenceDiagnostics:
        rows = self.fit.diagnose(self.counts)
        return diagnose_sequences(
            rows, self.fit.source_names, self.transition, self.temper, self.neighbor_share
        )


def _read_transition(state: State, fit: Fit, n_sources: int) -> Transition:
    """Return the transition in a file; raise an error for one that is not stationary."""
    pairs = state.meta["pairs"]
    joint = read_array(state, "joint", (len(fit.classes),) * 2, low=0.0, high=1.0)
    excess = read_array(state, "excess", (n_sources,), low=-1.0, high=1.0)
    correlation = state.arrays["correlation"]
    fits = (
        bool((joint > 0).all())
        and abs(joint.sum() - 1) < 1e-9
        and np.abs(joint.sum(axis=0) - joint.sum(axis=1)).max() < _STATIONARY
        and correlation.shape == (2,)
        and str(correlation.dtype) == "float64"
        and not np.isnan(correlation[0])
    )
    if not fits:
        raise ModelFileError("The transition in the file does not match its rows.")
    return Transition(joint, float(correlation[0]), float(correlation[1]), pairs, excess)


def _read_rows(votes: Any) -> Votes:
    """Return votes on the rows of all sequences; a list of sequences raises an error with advice."""
    try:
        return as_votes(votes)
    except VotesError as error:
        if isinstance(votes, (list, tuple)) and votes and np.ndim(votes[0]) == 2:
            raise VotesError(
                f"`votes` must be one array of the rows of all sequences; got a list of {len(votes):,} "
                "arrays. Pass np.concatenate(votes) and lengths=[len(part) for part in votes]."
            ) from error
        raise
