"""The label model of sequences: video frames, tokens, readings of a sensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._random import RandomState
from flyingsquid._values import told
from flyingsquid.analysis import SequenceDiagnostics, Table, diagnose_sequences, summarize_sequences
from flyingsquid.analysis.sequences import sequence_diagnostics
from flyingsquid.estimate import OPINIONS, Transition, fit_transition, persistence_of_errors, worth_of_a_row
from flyingsquid.estimate.transition_many import fit_transition_many, require_few_classes
from flyingsquid.exceptions import NotIdentifiableError, OptionError, VotesError
from flyingsquid.infer import (
    TieBreak,
    binary_evidence,
    class_evidence,
    decide,
    forward_backward,
    viterbi,
    with_own_evidence,
)
from flyingsquid.models import _options
from flyingsquid.models._base import VoteReader, read_tie_generator
from flyingsquid.models._binary import solve_binary
from flyingsquid.models._many import is_many, solve_many
from flyingsquid.models._whole import draft_of, keep
from flyingsquid.models.label_model import LabelModel, Method, Source
from flyingsquid.moments import Moments, SequenceMoments
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.gold import read_gold
from flyingsquid.votes.lengths import read_lengths

# A vote that never occurred in training is as improbable as this; it says nothing about the class.
_NEVER_SEEN = 1e-6


class SequenceLabelModel(VoteReader):
    """Combine noisy votes on the rows of sequences, in closed form and without gold labels.

    Every row (a video frame, a token) has one truth, of two or more classes. Within a sequence truths follow
    a stationary Markov chain; sources err independently of each other given the truth, and are the same
    throughout. So a row that nobody votes on learns from its neighbours. How truths follow each other is read
    off the votes of *different* sources in neighbouring rows.

    Parameters
    ----------
    method, class_balance, signs, screen : as in :class:`LabelModel`
        How the sources are judged, from all rows. ``method="triplet"`` chooses its own triplets.
    temper : None, "auto" or number in (0, 1]
        Errors of real sources persist from row to row, and the model takes them for independent: its labels
        are then too sure. A number multiplies the evidence of all other rows: near 0 every row stands alone.
        ``"auto"`` is (1 - r)/(1 + r), with r the mean of the excess correlations above 0, weighted by
        coverage: what a row is worth when errors have autocorrelation r. None leaves the evidence as it is.
        On the paths of :meth:`predict`, where no row is the one at hand, it multiplies all evidence.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m texts
    class_balance_ : array of shape (K,)
    transition_ : array of shape (K, K)
        P(next = l | now = k). ``class_balance_`` is its stationary distribution.
    accuracies_ : array of shape (m,)
        P(vote is right | source votes).
    accuracies_interval_ : array of shape (m, 2)
        95% intervals, widened for errors that persist. Computed when asked.
    coverage_ : array of shape (m,)
    confusion_ : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    excess_correlation_ : array of shape (m,)
        How much more a source agrees with itself in the next row than the truths explain: 0 under the
        model, 1 for errors that never end. Measured for two classes only; 0 for more.
    temper_ : float
        What the evidence of other rows is multiplied with.
    moments_ : SequenceMoments
    diagnostics_ : SequenceDiagnostics
        Computed when asked.

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

    The middle row has no votes; its neighbours have:

    >>> model.predict_proba([[1, 1, -1, -1], [-1, -1, -1, -1], [1, -1, 1, -1]]).round(2)[1]
    array([0.01, 0.99])
    """

    moments_: SequenceMoments
    class_balance_: NDArray[np.float64]
    transition_: NDArray[np.float64]
    accuracies_: NDArray[np.float64]
    coverage_: NDArray[np.float64]
    confusion_: NDArray[np.float64]
    excess_correlation_: NDArray[np.float64]
    temper_: float
    _rows: LabelModel
    _transition: Transition
    _pending: SequenceMoments | None
    _interval: NDArray[np.float64] | None
    _diagnostics: SequenceDiagnostics | None

    def __init__(
        self,
        *,
        method: Method = "auto",
        class_balance: Literal["uniform", "estimate"] | ArrayLike | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        screen: float = 1.0,
        temper: Literal["auto"] | float | None = None,
    ) -> None:
        self.method = method
        self.class_balance = class_balance
        self.signs = signs
        self.screen = screen
        self.temper = temper

    def fit(self, votes: Any, lengths: Any = None) -> Self:
        """Count rows and neighbours, then solve.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (T, m)
            The rows of all sequences, one sequence after the other. Keep rows that nobody votes on.
        lengths : list of integers that add up to T, optional
            Rows of each sequence; None is one sequence.
        """
        rows = self._row_model()
        read = as_votes(votes)
        require_few_classes(read.n_classes)
        sequences = read_lengths(lengths, read.n_items)
        counts = Moments.of(read)
        _solve_rows(rows, counts, read)
        self._keep(rows, SequenceMoments.of_rows(rows.moments_, read, sequences))
        return self

    def fit_moments(self, moments: SequenceMoments) -> Self:
        """Solve from counts alone, wherever they were gathered."""
        rows = self._row_model()
        if not isinstance(moments, SequenceMoments):
            raise OptionError(
                f"fit_moments takes SequenceMoments, not {type(moments).__name__}; count with "
                "SequenceMoments.of(votes, lengths), which keeps what follows what"
            )
        _options.require_moments(moments.rows)
        _solve_rows(rows, moments.rows)
        self._keep(rows, moments)
        return self

    def partial_fit(self, votes: Any, lengths: Any = None) -> Self:
        """Add further sequences to the counts of earlier calls, then solve again.

        Sequences end with the call. To go on with one that was cut, add
        ``SequenceMoments.of(votes, previous=last_row)`` to ``moments_`` and call :meth:`fit_moments`. Counts
        are kept even when they do not determine the accuracies yet.
        """
        rows = self._row_model()
        before: SequenceMoments | None = getattr(self, "_pending", None) or getattr(self, "moments_", None)
        chunk = as_votes(votes, None if before is None else before.rows.classes)
        require_few_classes(chunk.n_classes)
        total = SequenceMoments.of(chunk, lengths)
        if before is not None:
            total = before + total
        try:
            _solve_rows(rows, total.rows)
        except NotIdentifiableError:
            self._pending = total
            raise
        self._keep(rows, total)
        return self

    def predict_proba(self, votes: Any, lengths: Any = None) -> NDArray[np.float64]:
        """P(Y(t) = k | all rows of its sequence), shape (T, K), columns in the order of ``classes_``.

        ``votes`` and ``lengths`` as in :meth:`fit`; named sources are matched by name, others by position.
        """
        evidence, sequences = self._evidence(votes, lengths)
        posterior, _ = forward_backward(
            self.temper_ * evidence, sequences, self.class_balance_, self.transition_
        )
        return with_own_evidence(posterior, evidence, self.temper_)

    def predict(
        self,
        votes: Any,
        lengths: Any = None,
        *,
        joint: bool = True,
        tie_break: TieBreak = "first",
        random_state: RandomState = None,
    ) -> NDArray[Any]:
        """Return a class for each row, shape (T,).

        Parameters
        ----------
        votes, lengths : as in :meth:`fit`
        joint : bool
            True: the most probable path of each sequence (Viterbi). False: the most probable class of each
            row by itself, which errs on fewer rows but may give a path that is improbable as a whole.
        tie_break : {"first", "abstain", "random"}, default="first"
            Label of a row whose most probable classes are equally probable: the first of them; no label
            (-1, or 0 if -1 is a class, or None if classes are not integers); or one of them at random.
            Paths take the first.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator for ``tie_break="random"``. None draws differently every time.

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
            raise OptionError(f'`tie_break` must be "first" if joint=True; got {told(tie_break)}.')
        if not joint:
            rng = read_tie_generator(tie_break, random_state)
            return decide(self.predict_proba(votes, lengths), self._classes, tie_break, rng)
        paths = self._paths(*self._evidence(votes, lengths))
        return self.classes_[paths]

    def fit_predict(self, votes: Any, lengths: Any = None, *, joint: bool = True) -> NDArray[Any]:
        """Fit the model and return a class for each row: ``fit(votes).predict(votes)``.

        Parameters as in :meth:`fit` and :meth:`predict`.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> video = fs.datasets.simulate_sequence(2_000, [0.9, 0.8, 0.7], random_state=0)
        >>> fs.SequenceLabelModel().fit_predict(video.votes).shape
        (2000,)
        """
        return self.fit(votes, lengths).predict(votes, lengths, joint=joint)

    def fit_predict_proba(self, votes: Any, lengths: Any = None) -> NDArray[np.float64]:
        """Fit the model and return the probabilities of each row: ``fit(votes).predict_proba(votes)``.

        Parameters as in :meth:`fit`.
        """
        return self.fit(votes, lengths).predict_proba(votes, lengths)

    def log_likelihood(self, votes: Any, lengths: Any = None) -> NDArray[np.float64]:
        """log P(votes of a sequence), in nats, shape (sequences,); ``temper`` has no part in it.

        To compare sequences, or models of the same votes. A vote that its source never gave in training
        counts as one in a million.
        """
        read, sequences = self._read_sequences(votes, lengths)
        # By the tables themselves, which sum to 1 also where the class balance does not fit the votes.
        logs = np.log(np.maximum(self.confusion_, _NEVER_SEEN))
        if self._rows._many is not None:
            evidence = class_evidence(read.codes, logs)
        else:
            evidence = np.stack([binary_evidence(read.codes, logs[:, k]) for k in (0, 1)]).T
        return forward_backward(evidence, sequences, self.class_balance_, self.transition_)[1]

    def score(self, votes: Any, y: ArrayLike, lengths: Any = None) -> float:
        """Accuracy of :meth:`predict` on the rows whose true class is known.

        ``y`` of shape (T,): None, NaN and masked are unknown, and -1 unless it is a class.
        """
        evidence, sequences = self._evidence(votes, lengths)
        truth = read_gold(y, self._classes, len(evidence), "y")
        known = truth >= 0
        if not known.any():
            raise VotesError("y holds no known class, so there is nothing to score")
        path = self._paths(evidence, sequences)
        return float(np.mean(path[known] == truth[known]))

    def summary(self) -> Table:
        """What each source is worth, one row a source, and how rows follow each other."""
        self._require_fitted()
        return summarize_sequences(
            self.moments_.rows,
            self.accuracies_,
            self.accuracies_interval_,
            self.diagnostics_,
            self.excess_correlation_,
            self.transition_,
        )

    @property
    def accuracies_interval_(self) -> NDArray[np.float64]:
        """95% intervals of ``accuracies_``, shape (m, 2); NaN for a source or method without a formula.

        Those of a model of single rows, which are right where errors are independent from row to row,
        whatever the truths do, as long as the class balance is given: the error of an estimated balance takes
        rows for independent, and is too small where scenes are long. Errors that persist make n rows worth
        n(1 - r)/(1 + r), r as in ``temper``.
        """
        self._require_fitted()
        if self._interval is None:
            plain = self._rows.accuracies_interval_
            # Ends are clipped to [0, 1]; the longer side shows the reach.
            reach = np.abs(plain - self.accuracies_[:, None]).max(axis=1, keepdims=True)
            reach = reach / np.sqrt(worth_of_a_row(self._persistence()))
            ends = self.accuracies_[:, None] + reach * np.array([-1.0, 1.0])
            interval = np.clip(ends, 0.0, 1.0)
            interval.flags.writeable = False
            self._rows._interval = interval  # what is said of single sources follows from it
            self._interval = interval
        return self._interval

    @property
    def diagnostics_(self) -> SequenceDiagnostics:
        """What the fit noticed; computed when asked."""
        self._require_fitted()
        if self._diagnostics is None:
            _ = self.accuracies_interval_  # settles the intervals of the rows
            if self._rows._many is not None:
                rows = self._rows.diagnostics_
                self._diagnostics = sequence_diagnostics(
                    rows, self._transition, self.source_names_, self.temper_, rows.verdict
                )
                return self._diagnostics
            self._diagnostics = diagnose_sequences(
                self._rows.diagnostics_,
                self._rows._fit.tasks[0].fit,
                self._transition,
                self.source_names_,
                self.accuracies_,
                self.coverage_,
                self.temper_,
            )
        return self._diagnostics

    def _row_model(self) -> LabelModel:
        """A model of single rows with the same options, which are checked."""
        _options.check_temper(self.temper)
        rows = LabelModel(
            method=self.method, class_balance=self.class_balance, signs=self.signs, screen=self.screen
        )
        rows._check_options()
        return rows

    def _keep(self, rows: LabelModel, moments: SequenceMoments) -> None:
        if rows._many is not None:
            if isinstance(self.temper, str):
                raise OptionError("temper='auto' is for two classes; pass a number above 0 and up to 1")
            # Errors of many classes are not followed from row to row, so nobody knows what a row is worth.
            rows._passes, rows._interval = None, np.full((len(rows.coverage_), 2), np.nan)
            transition = fit_transition_many(moments, rows.confusion_, rows.class_balance_)
        else:
            transition = fit_transition(moments, rows._fit.tasks[0].fit)
        draft = draft_of(self)
        draft._keep_fitted(rows, moments, transition)
        draft.temper_ = _options.read_temper(self.temper, draft._persistence())
        keep(self, draft)

    def _keep_fitted(self, rows: LabelModel, moments: SequenceMoments, transition: Transition) -> None:
        self._rows, self._transition = rows, transition
        self._pending = None
        self._interval = None
        self._diagnostics = None
        self.moments_ = moments
        self.class_balance_ = rows.class_balance_
        self.transition_ = transition.matrix
        self.excess_correlation_ = transition.excess_correlation
        self.accuracies_, self.coverage_, self.confusion_ = rows.accuracies_, rows.coverage_, rows.confusion_
        self._remember(moments.rows.classes, moments.rows.names, moments.rows.source_names)

    def _persistence(self) -> float:
        return persistence_of_errors(self.excess_correlation_, self.coverage_)

    def _read_sequences(self, votes: Any, lengths: Any) -> tuple[Votes, NDArray[np.intp]]:
        read = self._read(votes)
        return read, read_lengths(lengths, read.n_items)

    def _evidence(self, votes: Any, lengths: Any) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """What each row says about the classes, shape (T, K), and the lengths of sequences."""
        read, sequences = self._read_sequences(votes, lengths)
        if self._rows._many is not None:
            return class_evidence(read.codes, self._rows._many.log_tables), sequences
        return _as_evidence(binary_evidence(read.codes, self._rows._weights)), sequences

    def _paths(self, evidence: NDArray[np.float64], lengths: NDArray[np.intp]) -> NDArray[np.intp]:
        """The most probable path of each sequence, all evidence tempered, shape (T,)."""
        return viterbi(self.temper_ * evidence, lengths, self.class_balance_, self.transition_)


def _solve_rows(rows: LabelModel, counts: Moments, votes: Votes | None = None) -> None:
    """Fit the model of single rows, which has to say how sources err on each class."""
    if rows.method in OPINIONS:
        raise OptionError(
            f"method={told(rows.method)} weighs votes without saying how sources err, which sequences need; "
            "use method='auto', or 'covariance'"
        )
    if is_many(rows, counts):
        solve_many(rows, counts, votes)
    else:
        solve_binary(rows, counts, None, votes)


def _as_evidence(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log likelihoods of shape (T, 2), up to a constant for each row; columns are contiguous."""
    evidence = np.zeros((2, len(log_odds)))
    evidence[1] = log_odds
    return evidence.T
