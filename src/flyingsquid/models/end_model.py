"""Training of end models: training sets from soft labels, and a classifier of features and votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from flyingsquid._table import facts_table
from flyingsquid._values import format_count, format_list, is_number, is_one_of, option_error
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from flyingsquid.models._estimator import not_fitted
from flyingsquid.models.label_model import LabelModel
from flyingsquid.solvers.data import join_gold
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import in_item_order, index_of
from flyingsquid.votes.tallies import has_votes


class WeaklySupervisedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Classifier that labels items by votes and trains any scikit-learn classifier on these labels.

    Votes are needed only for training. The trained classifier needs only features, so it can label items
    without votes. Votes on the items to predict can be used as well.

    Parameters
    ----------
    end_model : classifier
        Its ``fit`` should take ``sample_weight``; a ``Pipeline`` passes it to its last step.
    label_model : LabelModel or another label model, optional
        Default: ``LabelModel()``. Both models are cloned and never changed.
    labels : {"soft", "hard", "proba"}, default="soft"
        ``"soft"`` passes every item to the end model once per class, weighted by the probability of that
        class. ``"hard"`` passes it once, with its most probable class, for models without weights.
        ``"proba"`` passes an array (n, K) of probabilities as targets, for models that support them.
    min_confidence : float, default=0.0
        Items whose most probable class is less probable are left out of training.
    drop_uncovered : bool, default=True
        Whether items without votes are left out of training.
    use_features : bool, default=False
        Whether the label model also uses ``X``: its labels are then based on votes and features, items
        without votes are labeled as well (set ``drop_uncovered=False`` to train on them), and
        ``predict_proba`` takes ``votes``. ``X`` must be numeric, and the label model a ``LabelModel``.

    Attributes
    ----------
    classes_ : array of shape (K,)
    label_model_, end_model_ : the fitted models
    rows_ : array
        The items that the end model was trained on.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(2_000, accuracies=[0.8, 0.75, 0.7], random_state=0)
    >>> X = np.random.default_rng(1).normal(sample.y[:, None], 0.7, (2_000, 2))
    >>> model = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X, sample.votes)
    >>> model.score(X, sample.y) > 0.8
    True
    """

    classes_: NDArray[Any]
    label_model_: Any
    end_model_: Any
    rows_: NDArray[np.intp]

    def __init__(
        self,
        end_model: Any,
        label_model: Any = None,
        *,
        labels: Literal["soft", "hard", "proba"] = "soft",
        min_confidence: float = 0.0,
        drop_uncovered: bool = True,
        use_features: bool = False,
    ) -> None:
        self.end_model = end_model
        self.label_model = label_model
        self.labels = labels
        self.min_confidence = min_confidence
        self.drop_uncovered = drop_uncovered
        self.use_features = use_features

    def fit(self, X: Any, votes: Any, *, gold: Any = None) -> Self:
        """Fit the label model on votes, and the end model on its labels.

        Parameters
        ----------
        X : array, sparse matrix, table or list of n rows
            Features that the end model supports.
        votes : Votes or array of shape (n, m)
            As in ``LabelModel.fit``, on the same n items.
        gold : sequence of n labels, mapping {item: label} or pandas Series, optional
            Gold labels of some items, as in ``LabelModel.fit``. The label model is fitted with them, and the
            end model is trained on the gold labels of these items, even if they have no votes.

        Examples
        --------
        >>> from sklearn.naive_bayes import GaussianNB
        >>> import flyingsquid as fs
        >>> data = fs.datasets.load_breast_cancer()
        >>> gold = [label if i < 50 else None for i, label in enumerate(data.y.tolist())]
        >>> model = fs.WeaklySupervisedClassifier(GaussianNB())
        >>> model.fit(data.features, data.votes, gold=gold).label_model_.n_gold_
        50
        """
        if not is_one_of(self.labels, ("soft", "hard", "proba")):
            raise option_error("labels", '"soft", "hard" or "proba"', self.labels)
        end_model = self._unfitted_end_model()
        weight_name = _weight_name(end_model) if self.labels == "soft" else ""
        label_model = self._unfitted_label_model()
        options = {"features": X} if self.use_features else {}
        label_model.fit(votes, **options, **_gold_option(label_model, gold))
        proba = np.asarray(label_model.predict_proba(votes, **options))
        if proba.ndim != 2:
            raise IncompatibleError(
                f"`label_model` must have one task; got labels of shape {proba.shape}. Train one end model "
                "per task with to_training_set."
            )
        chosen = to_training_set(
            X,
            proba,
            min_confidence=self.min_confidence,
            drop_uncovered=self.drop_uncovered,
            votes=votes,
            classes=label_model.classes_,
            gold=gold,
        )
        self._train(end_model, chosen, weight_name)
        fitted = {
            "label_model_": label_model,
            "end_model_": end_model,
            "classes_": chosen.classes,
            "rows_": chosen.rows,
        }
        if hasattr(end_model, "n_features_in_"):
            fitted["n_features_in_"] = end_model.n_features_in_
        self.__dict__.update(fitted)  # in one step, so that an interrupted fit leaves the model as it was
        return self

    def predict(self, X: Any, *, votes: Any = None) -> NDArray[Any]:
        """Predict the class of each row, shape (n,).

        Parameters
        ----------
        X : as in :meth:`fit`
        votes : as in :meth:`predict_proba`
        """
        label_model, end_model, classes = self._trained()
        if votes is not None:
            return np.asarray(classes[self._proba_with_votes(label_model, X, votes).argmax(axis=1)])
        answers = np.asarray(end_model.predict(X))
        # A model that was trained on probabilities may return probabilities.
        return classes[answers.argmax(axis=1)] if answers.ndim == 2 else answers

    @available_if(lambda self: hasattr(getattr(self, "end_model_", self.end_model), "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, votes: Any = None) -> NDArray[np.float64]:
        """Return P(Y = k), shape (n, K), columns in the order of ``classes_``.

        Parameters
        ----------
        X : as in :meth:`fit`
        votes : Votes or array of shape (n, m), optional
            Votes on the same items, with ``use_features=True``. The label model then adds the evidence of the
            votes to that of the features. Without votes, the probabilities are those of the end model.
        """
        label_model, end_model, classes = self._trained()
        if votes is not None:
            return self._proba_with_votes(label_model, X, votes)
        found = np.asarray(end_model.predict_proba(X))
        known = getattr(end_model, "classes_", classes)
        if self.labels == "proba" or np.array_equal(known, classes):
            return found
        # The end model has no probability for classes without any training label.
        column = {label: k for k, label in enumerate(classes.tolist())}
        whole = np.zeros((len(found), len(column)))
        whole[:, [column[label] for label in np.asarray(known).tolist()]] = found
        return whole

    @available_if(lambda self: hasattr(getattr(self, "end_model_", self.end_model), "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the decision function of the end model."""
        _, end_model, _ = self._trained()
        return np.asarray(end_model.decision_function(X))

    def _proba_with_votes(self, label_model: Any, X: Any, votes: Any) -> NDArray[np.float64]:
        if not self.use_features:
            raise OptionError("`votes` requires use_features=True; set it and fit again.", parameter="votes")
        return np.asarray(label_model.predict_proba(votes, features=X))

    def _train(self, end_model: Any, chosen: TrainingSet, weight_name: str) -> None:
        if self.labels == "soft":
            rows, y, weights = chosen.expanded()
            end_model.fit(rows, y, **{weight_name: weights})
        elif self.labels == "hard":
            rows, y, _ = chosen.hard()
            end_model.fit(rows, y)
        else:
            end_model.fit(chosen.X, chosen.proba)

    def _unfitted_end_model(self) -> Any:
        given = self.end_model
        if isinstance(given, type) or not all(
            hasattr(given, name) for name in ("fit", "predict", "get_params")
        ):
            raise option_error(
                "end_model", "a classifier, such as sklearn.linear_model.LogisticRegression()", given
            )
        return clone(given)

    def _unfitted_label_model(self) -> Any:
        given = self.label_model
        wanted = ("fit", "predict_proba", "get_params")
        if given is not None and (
            isinstance(given, type) or not all(hasattr(given, name) for name in wanted)
        ):
            raise option_error("label_model", "a label model, such as LabelModel(), or None", given)
        return LabelModel() if given is None else clone(given)

    def _trained(self) -> tuple[Any, Any, NDArray[Any]]:
        """Return the models and the classes of one fit, although another thread may fit meanwhile."""
        fitted = self.__dict__.copy()  # in one step, as fit writes it
        if "end_model_" not in fitted:
            raise not_fitted("This WeaklySupervisedClassifier is not fitted yet; call fit first.")
        return fitted["label_model_"], fitted["end_model_"], fitted["classes_"]


def _weight_name(end_model: Any) -> str:
    """Return the name of the parameter of ``fit`` for the weights of rows."""
    if isinstance(end_model, Pipeline):
        step, last = end_model.steps[-1]
        return f"{step}__{_weight_name(last)}"
    if not has_fit_parameter(end_model, "sample_weight"):
        raise OptionError(
            f"`labels` must be 'hard' or 'proba' for an end model without `sample_weight`, such as "
            f"{type(end_model).__name__}; got 'soft'."
        )
    return "sample_weight"


def _gold_option(label_model: Any, gold: Any) -> dict[str, Any]:
    """Return the gold labels as an argument of ``fit``; empty without gold labels."""
    if gold is None:
        return {}
    if not has_fit_parameter(label_model, "gold"):
        raise OptionError(
            f"`gold` is not supported by {type(label_model).__name__}; use a label model that is fitted with "
            "gold labels, such as LabelModel().",
            parameter="gold",
        )
    return {"gold": gold}


# ---------------------------------------------------------------------- training sets


# Labels below this probability get no row: they would have almost no weight and cost as much as any other.
_LEAST_WEIGHT = 1e-6
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """Training set for an end model.

    Attributes
    ----------
    X : array, sparse matrix, table or list
        The rows that are kept, in the type that was given.
    proba : array of shape (r, K)
        Their labels, P(Y = k).
    rows : array of shape (r,)
        Their positions.
    classes : array of shape (K,)
    """

    X: Any
    proba: NDArray[np.float64]
    rows: NDArray[np.intp]
    classes: NDArray[Any]

    def __iter__(self) -> Iterator[Any]:
        """Unpack as ``X, y, sample_weight = training_set``, see :meth:`expanded`."""
        return iter(self.expanded())

    def __repr__(self) -> str:
        classes = format_list(self.classes.tolist())
        return f"TrainingSet({format_count(len(self.rows), 'row')}, classes {classes})"

    def _repr_html_(self) -> str:
        shares = self.proba.mean(axis=0)
        confidence = float(self.proba.max(axis=1).mean())
        facts: dict[str, Any] = {"rows": len(self.rows), "mean confidence": confidence}
        facts |= {f"share of {label}": float(s) for label, s in zip(self.classes, shares, strict=True)}
        return facts_table("Training set", facts)._repr_html_()

    def hard(self) -> tuple[Any, NDArray[Any], NDArray[np.float64]]:
        """Return ``(X, y, confidence)``: the most probable class of each row, and its probability."""
        best = self.proba.argmax(axis=1)
        return self.X, self.classes[best], self.proba[np.arange(len(best)), best]

    def expanded(self) -> tuple[Any, NDArray[Any], NDArray[np.float64]]:
        """Return ``(X, y, sample_weight)``: each row once per class, weighted by the class probability.

        A weighted loss on these rows is the expected loss of the soft labels.
        """
        at, label = np.nonzero(self.proba > _LEAST_WEIGHT)
        return select_rows(self.X, at), self.classes[label], self.proba[at, label]


def to_training_set(
    X: Any,
    proba: ArrayLike,
    *,
    min_confidence: float = 0.0,
    drop_uncovered: bool = True,
    votes: Any = None,
    classes: ArrayLike | None = None,
    gold: Any = None,
) -> TrainingSet:
    """Select the rows to train an end model on.

    Parameters
    ----------
    X : array, sparse matrix, table or list of n rows
    proba : array of shape (n, K)
        Result of ``predict_proba`` of a label model.
    min_confidence : float
        Rows whose most probable class is less probable than this are left out.
    drop_uncovered : bool
        Whether rows without votes are left out. Without ``votes``, rows whose classes are all equally
        probable are treated as rows without votes.
    votes : as in ``LabelModel.fit``, optional
    classes : array of K labels, optional
        ``classes_`` of the label model. Default: 0 to K - 1.
    gold : gold labels of some items, as in ``LabelModel.fit``, optional
        Their rows are kept, with these labels. Requires ``votes``.

    Examples
    --------
    >>> import numpy as np
    >>> X, votes = np.arange(3.0).reshape(3, 1), [[1, 1, -1], [-1, -1, -1], [0, 1, 0]]
    >>> chosen = to_training_set(X, [[0.1, 0.9], [0.5, 0.5], [0.7, 0.3]], votes=votes)
    >>> chosen.rows
    array([0, 2])
    >>> rows, y, sample_weight = chosen.expanded()
    >>> rows.ravel(), y, sample_weight
    (array([0., 0., 2., 2.]), array([0, 1, 0, 1]), array([0.1, 0.9, 0.7, 0.3]))
    """
    if gold is not None and votes is None:
        raise OptionError("`gold` requires `votes`, whose items it is matched to.", parameter="gold")
    labels = _read_labels(proba)
    n_rows = _count_rows(X)
    if n_rows != len(labels):
        raise IncompatibleError(f"`proba` must have one row per row of `X` ({n_rows}); got {len(labels)}.")
    read = None if votes is None else as_votes(votes, check=False)
    if read is not None and read.n_items != len(labels):
        raise IncompatibleError(
            f"`votes` must have one row per row of `proba` ({len(labels)}); got {read.n_items}."
        )
    if read is not None:
        require_item_order(X, votes, read, "X")
        require_item_order(proba, votes, read, "proba")
    keys, index = index_of(X), index_of(proba)
    if keys is not None and index is not None and keys != index and set(keys) == set(index):
        raise _order_error("X", "proba.index")
    names = np.arange(labels.shape[1]) if classes is None else np.asarray(classes)
    if names.shape != (labels.shape[1],):
        raise IncompatibleError(
            f"`classes` must have one label per column of `proba` ({labels.shape[1]}); got shape "
            f"{names.shape}."
        )
    confidence = labels.max(axis=1)
    keep = confidence >= _read_confidence(min_confidence)
    if drop_uncovered and read is not None:
        keep &= has_votes(read.codes)
    elif drop_uncovered:
        keep &= confidence > 1 / labels.shape[1] + _ROUNDING
    if gold is not None:
        fitted = tuple(names.tolist())
        matched = as_votes(votes, fitted, check=False).matched_to(fitted, None)
        codes = join_gold(gold, votes, matched, 1)[:, 0]
        keep |= codes >= 0
        labels = labels.copy()
        labels[codes >= 0] = np.eye(len(names))[codes[codes >= 0]]
    if not keep.any():
        raise VotesError(
            "No row is left to train on: no row has votes, or no label reaches "
            f"`min_confidence`={min_confidence:g}."
        )
    rows = np.flatnonzero(keep)
    return TrainingSet(select_rows(X, rows), labels[rows], rows, names)


def require_item_order(table: Any, votes: Any, read: Votes, name: str) -> None:
    """Raise an error if a table has the items of ``votes``, ``read`` after reading, in another order."""
    if in_item_order(table, votes, read, name) is not table:
        raise _order_error(name, "votes.items")


def _order_error(name: str, order: str) -> IncompatibleError:
    return IncompatibleError(
        f"`{name}` must have its rows in the order of the items of the votes; its index has them in another "
        f"order. Pass {name}.loc[{order}]."
    )


def select_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows of an array, sparse matrix, table or list, by position."""
    from sklearn.utils import _safe_indexing  # scikit-learn is slow to import

    return _safe_indexing(X, rows)


def _read_labels(proba: ArrayLike) -> NDArray[np.float64]:
    try:
        labels = np.asarray(proba, np.float64)
    except Exception as error:  # conversions of user objects may raise anything
        raise IncompatibleError(
            f"`proba` must be an array of probabilities of shape (n, K); reading it failed: {error}"
        ) from error
    if labels.ndim != 2 or labels.shape[1] < 2:
        raise IncompatibleError(
            f"`proba` must have shape (n, K), one column per class; got {labels.shape}. Make one training "
            "set per task if there are several."
        )
    sums_to_1 = np.allclose(labels.sum(axis=1), 1, rtol=0, atol=1e-3)  # False for NaN
    if not (sums_to_1 and (labels >= 0).all()):
        raise IncompatibleError("`proba` must have rows of numbers >= 0 that sum to 1.")
    return labels


def _count_rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    try:
        return int(shape[0]) if isinstance(shape, tuple) and shape else len(X)
    except TypeError as error:
        raise IncompatibleError(f"`X` must have rows; reading it failed: {error}") from error


def _read_confidence(min_confidence: Any) -> float:
    if not is_number(min_confidence) or not 0 <= min_confidence <= 1:
        raise option_error("min_confidence", "a float in [0, 1]", min_confidence)
    # The tolerance keeps labels whose probability equals `min_confidence` up to rounding.
    return float(min_confidence) - 1e-12
