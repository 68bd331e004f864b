"""Input of a report: votes, a fitted model, gold labels and the items themselves, read together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.comparison import Comparison, compare_items
from flyingsquid.analysis.findings import Findings, findings, fit_of
from flyingsquid.analysis.items import Items, read_items, read_votes
from flyingsquid.analysis.summarize import summarize
from flyingsquid.charts import column
from flyingsquid.exceptions import NotIdentifiableError, OptionError, VotesError
from flyingsquid.models import LabelModel, MajorityVote
from flyingsquid.reports.page import shorten
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import in_item_order, join_labels
from flyingsquid.votes.features import Features
from flyingsquid.votes.frames import rows_of

# Charts show at most this many sources; the table has more.
MOST_SHOWN = 40
# Pairs are shown for at most this many sources.
_MOST_PAIRED = 32


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Everything that the sections of a report read."""

    items: Items  # of the task; posteriors are vote shares if there is no model
    model: Any  # fitted, or None
    failure: str  # why there is no model; otherwise empty
    is_model_given: bool  # whether the model was passed rather than fitted here
    warnings: tuple[str, ...]  # of the fit; a model from a file has none
    summary: dict[str, list[Any]]  # columns of ``fs.summarize`` for the sources of the task
    findings: Findings
    comparison: Comparison  # with majority vote; without a model, of majority vote with itself
    sources: tuple[int, ...]  # positions in the model of the sources of the task
    all_votes: Votes  # of all tasks
    y: Any  # gold labels as they were passed
    task: int | None
    records: Records | None
    ordered: bool  # whether the items are in chronological order
    features: Any = None  # (n, d), used for the labels together with the votes

    @property
    def votes(self) -> Votes:
        """Votes of the sources of the task."""
        return self.items.votes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sources of the task."""
        return self.votes.source_names

    @property
    def classes(self) -> tuple[str, ...]:
        """Class labels as short strings."""
        return tuple(shorten(label, 40) for label in self.votes.classes)

    def gold_labels(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the gold labels of some items, None if unknown."""
        labels = np.empty(len(positions), object)
        if self.items.gold is not None:
            codes = self.items.gold[positions].tolist()
            labels[:] = [self.votes.classes[k] if k >= 0 else None for k in codes]
        return labels

    def ranked(self) -> list[int]:
        """Return the sources by accuracy, best first; by coverage if no accuracy is known."""
        name = next(name for name in ("accuracy", "precision", "coverage") if name in self.summary)
        values = np.nan_to_num(column(self.summary, name), nan=-1.0)
        return [int(j) for j in np.argsort(-values, kind="stable")]

    def shown(self) -> tuple[list[int], str]:
        """Return the sources that charts show, best first, and a sentence about those left out."""
        order = self.ranked()
        if len(order) <= MOST_SHOWN:
            return order, ""
        # Sources with hardly any votes would fill both ends.
        kept = self.most_active(4 * MOST_SHOWN)
        known = [j for j in order if j in kept]
        half = MOST_SHOWN // 2
        return known[:half] + known[-half:], (
            f"The {half} best and the {half} worst of the {format_count(len(known), 'source')} with the most "
            f"votes are shown; there are {format_count(len(order), 'source')}."
        )

    def paired(self) -> tuple[list[int], str]:
        """Return the sources whose pairs are shown, best first, and a sentence about those left out."""
        order = self.ranked()
        if len(order) <= _MOST_PAIRED:
            return order, ""
        kept = self.most_active(_MOST_PAIRED)
        total = format_count(len(order), "source")
        left_out = f"The {_MOST_PAIRED} of {total} with the most votes are shown."
        return [j for j in order if j in kept], left_out

    def most_active(self, most: int) -> set[int]:
        """Return the sources with the most votes."""
        return set(np.argsort(-column(self.summary, "votes"), kind="stable")[:most].tolist())


def make_study(
    votes: Any,
    model: Any,
    y: Any,
    data: Any,
    *,
    ordered: bool,
    task: int | None,
    features: Any = None,
) -> Study:
    """Read the input of a report, fit a model if there is none, and summarize the sources."""
    if model is not None and not hasattr(model, "explain"):
        raise OptionError(
            "`model` must be a fitted LabelModel, OnlineLabelModel or MajorityVote; got "
            f"{type(model).__name__}."
        )
    if model is not None:
        _ = model.vote_schema_  # raises NotFittedError
    is_given, failure = model is not None, ""
    if features is not None:
        plain = read_votes(model, votes)[0]
        features = Features.read(in_item_order(features, votes, plain, "features"), plain.n_items).values
    if model is None:
        model, failure = _fit(read_votes(None, votes)[0], features)
        features = None if failure else features
    read, tasks = read_votes(model, votes)
    y = join_labels(y, votes, read)
    items = read_items(model, read, y, task=task, features=features)
    sources = tasks[task or 0]
    summary = summarize(read, y, model=model).to_dict()
    found = findings(read, y, model=None if failure else model, task=task, features=features)
    return Study(
        items=items,
        model=None if failure else model,
        failure=failure,
        is_model_given=is_given,
        warnings=() if isinstance(model, MajorityVote) else fit_of(model).concerns,
        summary={name: [values[j] for j in sources] for name, values in summary.items()},
        findings=found,
        comparison=found.comparison or compare_items(items),
        sources=sources,
        all_votes=read,
        y=y,
        task=task if len(tasks) > 1 else None,
        records=None if data is None else Records.of(in_item_order(data, votes, read, "data"), read),
        ordered=ordered,
        features=features,
    )


def _fit(votes: Votes, features: Any) -> tuple[Any, str]:
    """Return a label model; or a majority vote, and the reason why there is no label model."""
    with capture_source_warnings():  # the page shows them
        try:
            return LabelModel().fit(votes, features=features), ""
        except NotIdentifiableError as error:
            return MajorityVote().fit(votes), str(error)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The items themselves, by position."""

    data: Any

    @classmethod
    def of(cls, data: Any, votes: Votes) -> Records:
        """Check that there is one record per item, or look records up by item identifier."""
        if isinstance(data, Mapping) and votes.items is not None:
            keys = votes.items.tolist()
            missing = next((key for key in keys if key not in data), None)
            if missing is not None:
                raise VotesError(
                    f"`data` must have an entry for every item; got none for {format_value(missing)}."
                )
            return cls([data[key] for key in keys])
        try:
            length = None if isinstance(data, (str, bytes, Mapping)) else len(data)
        except TypeError:  # also for an array without dimensions, which has the method
            length = None
        if length is None:
            kind = type(data).__name__
            raise VotesError(f"`data` must be a table or a list with one entry per item; got {kind}.")
        if length != votes.n_items:
            raise VotesError(
                f"`data` must have one entry for each of {format_count(votes.n_items, 'item')}; got "
                f"{length:,}."
            )
        return cls(data)

    def pick(self, positions: Sequence[int]) -> list[Any]:
        """Return the records at some positions: strings, mappings, or anything else."""
        found = rows_of(self.data, positions)
        return [self.data[int(i)] for i in positions] if found is None else found
