"""Label model for items with any number of labels, each a separate yes-or-no question."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Scalar, Table, as_scalar
from flyingsquid._values import RandomState, format_count, format_list, format_value, is_one_of, option_error
from flyingsquid._warnings import capture_source_warnings, warn_about_sources
from flyingsquid.exceptions import (
    GraphError,
    IncompatibleError,
    ModelFileError,
    NotIdentifiableError,
    OptionError,
    VotesError,
)
from flyingsquid.files.state import (
    LABELS,
    OBJECT,
    TEXT,
    State,
    check_fields,
    decode_labels,
    encode_labels,
    integer,
    list_of,
    one_of,
    optional,
    sequence_of,
    write_state,
)
from flyingsquid.graph import DependencyGraph
from flyingsquid.models._base import mean_credit, read_tie_generator
from flyingsquid.models._estimator import Estimator, not_fitted
from flyingsquid.models.files import nest_state, options_from_meta, options_to_meta, unnest_state
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.moments.files import graph_from_meta
from flyingsquid.votes import Votes, as_votes, frames
from flyingsquid.votes.arguments import item_ids, join_labels, join_weights, read_gold, read_task_gold
from flyingsquid.votes.codes import Label, require_same
from flyingsquid.votes.decisions import TieBreak, as_label_array, decide
from flyingsquid.votes.reading import add_location_to_errors

OnFailure: TypeAlias = Literal["raise", "majority"]


_FIELDS = {
    "labels": LABELS,
    "options": OBJECT,
    "models": list_of(OBJECT),
    "failures": list_of(sequence_of(integer(), TEXT)),
}
_OPTION_FIELDS = {"labels": optional(LABELS), "on_failure": one_of("raise", "majority")}


class MultiLabelModel(Estimator):
    """Label model for items with any number of labels: one separate model per label.

    For every label, a source votes that the label applies (1) or does not apply (0), or abstains (-1). The
    models of different labels are independent: a source may be accurate on one label and inaccurate on
    another. For labels that depend on each other, use ``LabelModel(graph)`` with one task per label.

    Parameters
    ----------
    label_model : estimator, or mapping {label: estimator}, optional
        Estimator that is cloned for each label; any estimator with the methods of ``LabelModel`` is
        supported. Default: ``LabelModel()``. If labels are rare and the sources independent, pass
        ``method="covariance"``, or a separate model with its own class balance for each label.
    labels : sequence of C labels, optional
        Names of the labels if votes are passed as an array, or their order if votes are passed as a
        mapping. Default: 0 to C - 1, or the order of the mapping.
    on_failure : {"raise", "majority"}, default="raise"
        What to do if the votes on a label do not determine its model, for example because no source votes
        for the label: raise an error that names the label, or use :class:`MajorityVote` for this label and
        record it in ``failures_``.

    Attributes
    ----------
    labels_ : tuple of C labels
    classes_ : list of C arrays, each 0 and 1
        In the format of multi-output estimators in scikit-learn.
    models_ : dict {label: fitted estimator}
        The model of each label, with the classes 0 and 1. For example, ``models_[label].summary()`` and
        ``models_[label].accuracies_`` describe the sources of one label.
    failures_ : dict {label: str}
        The reason for each label that uses majority vote because its model could not be fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> rng = np.random.default_rng(0)
    >>> topics = {
    ...     topic: fs.datasets.simulate(2_000, [0.9, 0.8, 0.7], class_balance=[1 - p, p], random_state=rng)
    ...     for topic, p in (("sports", 0.3), ("politics", 0.2))}
    >>> votes = {topic: sample.votes for topic, sample in topics.items()}
    >>> model = fs.MultiLabelModel(fs.LabelModel(method="covariance")).fit(votes)
    >>> model.predict_proba({"sports": [[1, 1, 0], [0, 0, -1]], "politics": [[0, 1, 1], [0, 0, 0]]}).round(2)
    array([[0.87, 0.39],
           [0.  , 0.01]])
    >>> round(model.score(votes, {topic: sample.y for topic, sample in topics.items()}), 2)
    0.92
    """

    _fitted: tuple[dict[Label, Any], dict[Label, str]]

    def __init__(
        self,
        label_model: Any = None,
        *,
        labels: Sequence[Label] | None = None,
        on_failure: OnFailure = "raise",
    ) -> None:
        self.label_model = label_model
        self.labels = labels
        self.on_failure = on_failure

    def fit(
        self, votes: Any, y: object = None, *, gold: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one model for each label.

        Parameters
        ----------
        votes : array of shape (n, m, C), or mapping {label: votes}
            ``votes[i, j, c]`` is the vote of source j on label c of item i: 0, 1, or -1 for no vote. The
            values of a mapping are votes of shape (n, m) as in ``LabelModel.fit``, on the same n items in
            the same order; labels may have different sources. Pass signed votes as ``Votes.from_signed``.
        y : ignored
            Not used, present for scikit-learn's cross-validation. Pass gold labels as ``gold``.
        gold : array or table of shape (n, C), or mapping {label: n values}, optional
            Gold labels 0 and 1; None, NaN, masked and -1 are unknown. A mapping may contain only some of
            the labels.
        sample_weight : array of shape (n,), optional
            How often each item counts.
        """
        if not is_one_of(self.on_failure, ("raise", "majority")):
            raise option_error("on_failure", '"raise" or "majority"', self.on_failure)
        with self._lock:
            remarks = self._fit(votes, gold, sample_weight)
        noted = [label for label in remarks if remarks[label]]
        if noted:
            others = format_count(len(noted) - 1, "more label")
            more = f" ({others} likewise: {format_list(noted[1:])})" if noted[1:] else ""
            first = f"label {noted[0]!r}: {remarks[noted[0]]}"
            warn_about_sources(f"{first}{more}", stacklevel=2)
        return self

    def _fit(self, votes: Any, gold: Any, sample_weight: ArrayLike | None) -> dict[Label, str]:
        """Fit all models, and return concerns about the sources of each."""
        by_label = read_votes(votes, read_labels(self.labels))
        models = {label: self._unfitted(label, tuple(by_label)) for label in by_label}
        truth = None if gold is None else read_truth(gold, by_label, "gold")
        first = next(iter(by_label.values()))
        weights = join_weights(sample_weight, first, first)
        failures, remarks = {}, {}
        for at, (label, read) in enumerate(by_label.items()):
            known = None if truth is None else truth[:, at]
            try:
                with add_label_to_errors(label):
                    remarks[label] = _fit_quietly(models[label], read, known, weights)
            except NotIdentifiableError as error:
                if self.on_failure == "raise":
                    raise
                models[label] = MajorityVote().fit(read, sample_weight=weights)
                failures[label] = str(error.__cause__)
        self._fitted = models, failures
        return remarks

    def predict_proba(self, votes: Any) -> NDArray[np.float64]:
        """Return P(label applies | votes), shape (n, C), columns in the order of ``labels_``.

        ``votes`` must have the format and the labels of the votes that were passed to :meth:`fit`.
        """
        models = self.models_  # once, because another thread may fit the model meanwhile
        return _probabilities(models, read_votes(votes, tuple(models)))

    def predict(
        self, votes: Any, tie_break: TieBreak = "first", random_state: RandomState = None
    ) -> NDArray[np.int8]:
        """Return 1 for labels that are more probable than not, and 0 for the others; shape (n, C).

        Parameters
        ----------
        votes : as in :meth:`fit`, with the same labels
        tie_break : {"first", "abstain", "random"}, default="first"
            Value of a label whose probability is 0.5: 0, -1, or one of 0 and 1 at random.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator for ``tie_break="random"``. None uses a new seed on every call.
        """
        rng = read_tie_generator(tie_break, random_state)
        applies = self.predict_proba(votes)
        both = np.stack([1 - applies, applies], axis=-1).reshape(-1, 2)
        return decide(both, NO_YES, tie_break, rng).reshape(applies.shape).astype(np.int8)

    def fit_predict(
        self,
        votes: Any,
        y: object = None,
        *,
        gold: Any = None,
        sample_weight: ArrayLike | None = None,
        tie_break: TieBreak = "first",
        random_state: RandomState = None,
    ) -> NDArray[np.int8]:
        """Fit one model for each label and return labels: ``fit(votes).predict(votes)``.

        The parameters are those of :meth:`fit` and :meth:`predict`.
        """
        with self._lock:  # otherwise another thread could fit the model in between
            model = self.fit(votes, gold=gold, sample_weight=sample_weight)
            return model.predict(votes, tie_break, random_state)

    def fit_predict_proba(
        self, votes: Any, y: object = None, *, gold: Any = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Fit one model for each label and return probabilities: ``fit(votes).predict_proba(votes)``.

        The parameters are those of :meth:`fit`.
        """
        with self._lock:
            return self.fit(votes, gold=gold, sample_weight=sample_weight).predict_proba(votes)

    def score(self, votes: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of gold labels in ``y`` that are labeled correctly.

        A probability of 0.5 is a tie and counts as half correct.

        The subset accuracy of scikit-learn, which counts an item as correct only if all of its labels are,
        is ``accuracy_score(y, model.predict(votes))``.

        Parameters
        ----------
        votes : as in :meth:`fit`
        y : as ``gold`` in :meth:`fit`
        sample_weight : array of shape (n,), optional
        """
        models = self.models_  # once, because another thread may fit the model meanwhile
        by_label = read_votes(votes, tuple(models))
        applies = _probabilities(models, by_label)
        truth = read_truth(y, by_label, "y")
        both = np.stack([1 - applies, applies], axis=-1).reshape(-1, 2)
        first = next(iter(by_label.values()))
        sample_weight = join_labels(sample_weight, first, first, "sample_weight")
        return mean_credit(both, truth.ravel(), sample_weight, len(applies))

    def summary(self) -> Table:
        """Return one row per label: its model, sources, votes, how often it applies, and a verdict.

        ``applies`` is the share of items with the label, as given to the model or estimated, with its 95%
        interval. ``accuracy`` is the share of correct votes on the label, over all sources.
        """
        self._require_fitted()
        models, failures = self._fitted
        applies = ("applies", "applies_low", "applies_high")
        columns = ("label", "model", "sources", "votes", *applies, "accuracy", "verdict")
        return Table(
            columns,
            tuple(_summary_row(label, model, failures.get(label)) for label, model in models.items()),
            title=format_count(len(models), "label"),
            footnotes=(
                "applies: share of items, as given to the model or estimated, with its 95% interval",
                "accuracy: how often a vote is right, over all sources of the label",
            ),
            formats=("", "", "", ",.10g", ".1%", ".1%", ".1%", ".1%", ""),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, if its label models are ``LabelModel`` or ``MajorityVote``."""
        write_state(path, self._to_state())

    def _to_state(self) -> State:
        """Return the complete state as arrays and JSON values; arrays of label c are ``label_c.<name>``."""
        self._require_fitted()
        models, failures = self._fitted
        labels = tuple(models)
        parts = [
            nest_state(_savable(model, f"the model of label {format_value(label)}")._to_state(), f"label_{c}")
            for c, (label, model) in enumerate(models.items())
        ]
        declared = read_labels(self.labels)
        meta = {
            "labels": encode_labels(labels),
            "models": [meta for meta, _ in parts],
            "failures": [[labels.index(label), words] for label, words in failures.items()],
            "options": {
                "labels": None if declared is None else encode_labels(declared),
                "on_failure": str(self.on_failure),
                "label_model": self._templates(labels),
            },
        }
        arrays = {name: array for _, part in parts for name, array in part.items()}
        return State(type(self).__name__, meta, arrays)

    @classmethod
    def _from_state(cls, state: State) -> Self:
        """Return the model that :meth:`_to_state` described; raise ModelFileError for damaged states."""
        check_fields(state.meta, _FIELDS)
        labels, options = decode_labels(state.meta["labels"]), state.meta["options"]
        check_fields(options, _OPTION_FIELDS, "options.")
        declared = options["labels"]
        models: dict[Label, Any] = {
            label: _model_from_state(unnest_state(part, state.arrays, f"label_{c}"))
            for c, (label, part) in enumerate(zip(labels, state.meta["models"], strict=True))
        }
        most_sources = max((len(each.source_names_) for each in models.values()), default=0)
        model = cls(
            _read_templates(options["label_model"], labels, most_sources),
            labels=None if declared is None else list(decode_labels(declared)),
            on_failure=options["on_failure"],
        )
        failures: dict[Label, str] = {labels[at]: words for at, words in state.meta["failures"]}
        known = {f"label_{c}" for c in range(len(labels))}
        fits = (
            len(models) == len(labels) > 0
            and all(fitted.vote_schema_.classes == NO_YES for fitted in models.values())
            and all(type(models[label]) is MajorityVote for label in failures)
            and {name.partition(".")[0] for name in state.arrays} <= known
        )
        if not fits:
            raise ModelFileError("The models in the file do not match its labels.")
        model._fitted = models, failures
        return model

    def _templates(self, labels: tuple[Label, ...]) -> dict[str, Any] | list[Any] | None:
        """Return ``label_model`` as JSON values: one estimator, or a list in the order of labels."""
        given = self.label_model
        if isinstance(given, Mapping):
            return [_template(given[label]) for label in labels]
        return _template(given)

    def _unfitted(self, label: Label, labels: tuple[Label, ...]) -> Any:
        """Return the unfitted estimator of one label."""
        given = self.label_model
        if isinstance(given, Mapping):
            require_same("labels", set(given), set(labels))
            given = given[label]
        if given is None:
            return LabelModel()
        wanted = ("fit", "predict_proba", "summary", "get_params")
        if isinstance(given, type) or not all(hasattr(given, name) for name in wanted):
            raise option_error(
                "label_model",
                "a label model, such as LabelModel(), or a mapping from every label to one",
                given,
            )
        graph = getattr(given, "graph", None)
        if isinstance(graph, DependencyGraph) and graph.n_tasks > 1:
            raise GraphError(
                f"The graph of `label_model` must have one task; got {graph.n_tasks}. Use "
                "LabelModel(graph) for labels that depend on each other."
            )
        from sklearn.base import clone  # label models of other libraries, too

        return clone(given)

    @property
    def models_(self) -> dict[Label, Any]:
        self._require_fitted()
        return self._fitted[0]

    @property
    def failures_(self) -> dict[Label, str]:
        self._require_fitted()
        return self._fitted[1]

    @property
    def labels_(self) -> tuple[Label, ...]:
        return tuple(self.models_)

    @property
    def classes_(self) -> list[NDArray[Any]]:
        return [as_label_array(NO_YES) for _ in self.models_]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def _require_fitted(self) -> None:
        if not hasattr(self, "_fitted"):
            raise not_fitted("This MultiLabelModel is not fitted yet; call fit first.")


def _summary_row(label: Label, model: Any, failure: str | None) -> tuple[Scalar, ...]:
    sources = model.summary().to_dict()
    votes, right = sources["votes"], sources.get("accuracy", [None] * len(sources["votes"]))
    judged = [(v, a) for v, a in zip(votes, right, strict=True) if a is not None]
    accuracy = sum(v * a for v, a in judged) / sum(v for v, _ in judged) if judged else None
    balance = getattr(model, "class_balance_", None)
    interval = getattr(model, "class_balance_interval_", None)
    low, high = (None, None) if interval is None or np.isnan(interval[1]).any() else interval[1].tolist()
    verdict = getattr(getattr(model, "diagnostics_", None), "verdict", "")
    if failure is not None:
        verdict = f"Majority vote. {failure}"
    return (
        as_scalar(label),
        type(model).__name__,
        len(votes),
        sum(votes),
        None if balance is None else float(balance[1]),
        low,
        high,
        accuracy,
        str(verdict),
    )


def _fit_quietly(model: Any, votes: Votes, gold: NDArray[Any] | None, weights: NDArray[Any] | None) -> str:
    """Fit without warnings, and return the concerns about sources."""
    options: dict[str, Any] = {}
    if gold is not None and (gold >= 0).any():
        options["gold"] = gold
    if weights is not None:
        options["sample_weight"] = weights
    for name in options:
        if name not in inspect.signature(model.fit).parameters:
            raise OptionError(f"`{name}` is not supported by {type(model).__name__}; leave it out.")
    with capture_source_warnings() as captured:
        model.fit(votes, **options)
    return " ".join(captured)


def _probabilities(models: Mapping[Label, Any], read: Mapping[Label, Votes]) -> NDArray[np.float64]:
    """Return P(label applies | votes), shape (n, C)."""
    return np.stack([_applies(model, read[label], label) for label, model in models.items()], axis=1)


def _applies(model: Any, votes: Votes, label: Label) -> NDArray[np.float64]:
    with add_label_to_errors(label):
        posterior = np.asarray(model.predict_proba(votes))
        if posterior.shape != (len(votes), 2):
            raise IncompatibleError(
                f"`label_model` must have two classes; {type(model).__name__} has probabilities of shape "
                f"{posterior.shape}."
            )
    return posterior[:, 1]


def _savable(model: Any, what: str) -> LabelModel | MajorityVote:
    if type(model) in (LabelModel, MajorityVote):
        return cast("LabelModel | MajorityVote", model)
    raise ModelFileError(
        f"{what} must be a LabelModel or a MajorityVote to be saved; got {type(model).__name__}."
    )


def _model_from_state(state: State) -> LabelModel | MajorityVote:
    readers: dict[str, Any] = {model.__name__: model._from_state for model in (LabelModel, MajorityVote)}
    if state.kind not in readers:
        raise ModelFileError(
            f"The model of a label is a {format_value(state.kind)}, which this version does not support."
        )
    return readers[state.kind](state)


def _template(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if type(_savable(given, "`label_model`")) is MajorityVote:
        return {"kind": "MajorityVote"}
    params = given.get_params(deep=False)
    graph = params.pop("graph")
    graph = graph.to_dict() if isinstance(graph, DependencyGraph) else graph
    return {"kind": "LabelModel", "options": options_to_meta(params), "graph": graph}


def _read_templates(meta: Any, labels: tuple[Any, ...], most_sources: int) -> Any:
    if isinstance(meta, list):
        return {label: _read_template(each, most_sources) for label, each in zip(labels, meta, strict=True)}
    return _read_template(meta, most_sources)


def _read_template(meta: dict[str, Any] | None, most_sources: int) -> LabelModel | MajorityVote | None:
    if meta is None:
        return None
    check_fields(meta, {"kind": one_of("MajorityVote", "LabelModel")}, "options.label_model.")
    if meta["kind"] == "MajorityVote":
        return MajorityVote()
    graph = meta["graph"]  # None, "learn", or a graph
    if isinstance(graph, dict):
        graph = graph_from_meta(graph, most_sources)
    return LabelModel(graph, **options_from_meta(meta["options"], LabelModel))


# ---------------------------------------------------------------------- votes and gold labels of labels


NO_YES = (0, 1)
"""The classes of every label: 0 if it does not apply, 1 if it applies."""


def add_label_to_errors(label: Label) -> AbstractContextManager[None]:
    """Add the label to error messages."""
    return add_location_to_errors(f"label {format_value(label)}")


def read_labels(labels: Any) -> tuple[Label, ...] | None:
    """Return the names of the labels; None if they are not given."""
    if labels is None:
        return None
    try:
        read = tuple(v.item() if isinstance(v, np.generic) else v for v in labels)
        distinct = len(set(read)) == len(read)
    except TypeError as error:
        raise OptionError(f"`labels` must be a sequence of labels; reading it failed: {error}") from error
    if isinstance(labels, str) or not read or not distinct:
        raise option_error("labels", "a sequence of different labels", labels)
    return read


def read_votes(data: Any, labels: tuple[Label, ...] | None) -> dict[Label, Votes]:
    """Return votes with the classes 0 and 1 by label, in the order of ``labels``, all on the same items."""
    if isinstance(data, Mapping):
        by_label = dict(data)
        if labels is not None:
            require_same("labels", set(by_label), set(labels))
            by_label = {label: by_label[label] for label in labels}
    else:
        by_label = _by_last_axis(data, labels)
    if not by_label:
        raise VotesError("`votes` must have at least one label; got an empty mapping.")
    read = {label: _read_one(votes, label) for label, votes in by_label.items()}
    first = next(iter(read))
    for label, votes in read.items():
        if len(votes) != len(read[first]):
            raise VotesError(
                f"`votes` must have the same items for all labels; got {len(read[first])} for "
                f"{format_value(first)} and {len(votes)} for {format_value(label)}. Use -1 for missing "
                "votes."
            )
        read[label] = _in_order_of(votes, read[first], f"The votes on {format_value(label)}")
    return read


def _in_order_of(votes: Votes, first: Votes, what: str) -> Votes:
    """Return votes with the items in the order of the first ones, if both have identifiers."""
    if votes.items is None or first.items is None or votes.items.tolist() == first.items.tolist():
        return votes
    position = {key: at for at, key in enumerate(votes.items.tolist())}
    ids = first.items.tolist()
    if len(position) < len(ids) or not set(ids) <= set(position):
        raise VotesError(
            f"{what} must have the items of the votes on the first label; got other identifiers, such as "
            f"{format_list([key for key in position if key not in set(ids)] or list(position), 2)}."
        )
    return votes[[position[key] for key in ids]]


def _by_last_axis(data: Any, labels: tuple[Label, ...] | None) -> dict[Label, Any]:
    try:
        array = np.asanyarray(None if isinstance(data, Votes) else data)
    except ValueError as error:
        raise VotesError(
            f"`votes` must be an array of shape (n, m, C); reading it failed: {error}"
        ) from error
    if array.ndim != 3 or 0 in array.shape:
        what = f"{type(data).__name__}, shape {array.shape}" if array.ndim else type(data).__name__
        raise VotesError(
            "`votes` must be an array of shape (n, m, C), items x sources x labels, or a mapping from "
            f"labels to votes; got {what}."
        )
    names = tuple(range(array.shape[2])) if labels is None else labels
    if len(names) != array.shape[2]:
        raise IncompatibleError(
            f"`votes` must have one entry per label on the last axis ({len(names)}: {format_list(names)}); "
            f"got shape {array.shape}."
        )
    return {label: array[:, :, c].copy() for c, label in enumerate(names)}


def _read_one(data: Any, label: Label) -> Votes:
    with add_label_to_errors(label):
        votes = as_votes(data, NO_YES)
        votes = _with_row_numbers(votes, data)
        if votes.classes in (NO_YES, (-1, 1)):
            return replace(votes, classes=NO_YES)
        raise VotesError(
            f"The classes must be 0 and 1 (the label applies); got {format_list(votes.classes)}. If the "
            "second class means that the label applies, pass Votes(votes.codes, (0, 1), votes.names)."
        )


def _with_row_numbers(votes: Votes, data: Any) -> Votes:
    """Return votes with identifiers, even if the index of a pandas table only numbers its rows.

    The tables of other labels may have the same numbers in another order.
    """
    ids = item_ids(data, votes)
    return votes if ids is None or votes.items is not None else replace(votes, items=np.array(ids))


def read_truth(y: Any, by_label: Mapping[Label, Votes], what: str) -> NDArray[Any]:
    """Return gold labels of the votes on each label, shape (n, C): 0, 1, or negative if unknown.

    Series, and the rows of a pandas table, are joined by item identifier if the votes have some.
    """
    labels, votes = tuple(by_label), next(iter(by_label.values()))
    n_items = len(votes)
    if isinstance(y, Mapping):
        unknown = [label for label in y if label not in labels]
        if unknown:
            raise VotesError(
                f"`{what}` must have labels among {format_list(labels)}; got {format_value(unknown[0])}."
            )
        truth = np.full((n_items, len(labels)), -1)
        for at, label in enumerate(labels):
            if label in y:
                name = f"{what}[{label!r}]"
                truth[:, at] = read_gold(join_labels(y[label], votes, votes, name), NO_YES, n_items, name)
        return truth
    if not frames.is_frame(y):
        return read_task_gold(y, NO_YES, (n_items, len(labels)), what)
    table = _with_row_numbers(Votes.from_frame(y, classes=NO_YES), y)
    require_same(f"labels of {what}", set(table.source_names), set(map(str, labels)))
    if len(table) != n_items:
        raise VotesError(
            f"`{what}` must have one row for each of {format_count(n_items, 'item')}; got {len(table):,}."
        )
    table = table.matched_to(NO_YES, tuple(map(str, labels)))
    return np.asarray(_in_order_of(table, votes, f"`{what}`").codes)
