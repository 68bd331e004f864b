"""What a report is about: votes, a model of them, known labels, and the items themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.comparison import Comparison, compare_items
from flyingsquid.analysis.findings import Findings, find
from flyingsquid.analysis.reading import Items, read_items, read_votes
from flyingsquid.analysis.summarize import summarize
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.models import LabelModel, MajorityVote
from flyingsquid.reports.escape import plain
from flyingsquid.reports.records import Records
from flyingsquid.votes import Votes

Array = NDArray[np.float64]
# Plots show so many sources; the table has more.
MOST_SHOWN = 40
# Pairs are shown of so many.
MOST_PAIRED = 32


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Everything that the sections of a report read.

    Attributes
    ----------
    items : votes, posteriors, vote shares and known labels of the task
        Posteriors are vote shares where there is no model.
    model : a fitted model, or None
    failure : why there is no model; empty otherwise
    given : whether the model was passed, and not fitted here
    warned : what the fit warned of
    columns : the summary of the sources, by column
    found : what stands out
    comparison : the labels beside majority vote; equal to it without a model
    sources : positions in the model of the sources of the task, shape (m,)
    every : votes of all tasks
    y : known labels as they were passed
    records : the items themselves, or None
    """

    items: Items
    model: Any
    failure: str
    given: bool
    warned: tuple[str, ...]
    columns: dict[str, list[Any]]
    found: Findings
    comparison: Comparison
    sources: tuple[int, ...]
    every: Votes
    y: Any
    task: int | None
    records: Records | None
    ordered: bool
    names: tuple[str, ...] = field(init=False)
    classes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.items.votes.source_names)
        object.__setattr__(self, "classes", tuple(plain(c, 40) for c in self.items.votes.classes))

    @property
    def votes(self) -> Votes:
        """The votes of the task's sources."""
        return self.items.votes

    @property
    def judged(self) -> bool:
        """Whether there are estimates of accuracies."""
        return "accuracy" in self.columns

    def column(self, name: str) -> Array:
        """A numeric column of the summary, NaN where blank, shape (m,)."""
        return np.array([np.nan if v is None else float(v) for v in self.columns[name]])

    def known_classes(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Class labels of some items, None where unknown."""
        classes = np.empty(len(rows), object)
        if self.items.gold is not None:
            classes[:] = [self.votes.classes[k] if k >= 0 else None for k in self.items.gold[rows].tolist()]
        return classes

    def ranked(self) -> list[int]:
        """Sources from the best to the worst as far as is known, silent ones last."""
        for name in ("accuracy", "precision", "coverage"):
            if name in self.columns:
                values = self.column(name)
                return [
                    int(j) for j in np.lexsort((np.arange(len(values)), -np.nan_to_num(values, nan=-1.0)))
                ]
        return list(range(len(self.names)))

    def shown(self) -> tuple[list[int], str]:
        """The sources that plots show, best first, and a sentence on those left out."""
        order = self.ranked()
        if len(order) <= MOST_SHOWN:
            return order, ""
        # Those with hardly any votes would fill both ends.
        kept = self.most_voting(4 * MOST_SHOWN)
        known = [j for j in order if j in kept]
        half = MOST_SHOWN // 2
        ends = f"the {half} best and the {half} worst among the {len(known)} sources with the most votes"
        return known[:half] + known[-half:], f"Shown are {ends}, of {len(order):,}."

    def busiest(self) -> tuple[list[int], str]:
        """The sources whose pairs are shown, best first: of many those with the most votes, which meet."""
        order = self.ranked()
        if len(order) <= MOST_PAIRED:
            return order, ""
        kept = self.most_voting(MOST_PAIRED)
        left = f"Shown are the {MOST_PAIRED} sources with the most votes, of {len(order):,}."
        return [j for j in order if j in kept], left

    def most_voting(self, most: int) -> set[int]:
        """So many sources, those with the most votes."""
        return set(np.argsort(-self.column("votes"), kind="stable")[:most].tolist())


def make_study(votes: Any, model: Any, y: Any, data: Any, *, ordered: bool, task: int | None) -> Study:
    """Read what was passed, fit a model where there is none, and summarize the sources."""
    if model is not None and not hasattr(model, "explain"):
        raise OptionError(
            "a report needs a fitted LabelModel, OnlineLabelModel or MajorityVote, not "
            f"{type(model).__name__}"
        )
    if model is not None:
        _ = model.vote_schema_  # fitted
    given, failure = model is not None, ""
    warned: tuple[str, ...] = ()
    if model is None:
        read, _ = read_votes(None, votes)
        model, failure, warned = _fit(read)
    else:
        read, _ = read_votes(model, votes)
    _, tasks = read_votes(model, read)
    items = read_items(model, read, y, task=task)
    sources = tasks[task or 0]
    table = summarize(read, y, model=model)
    found = find(read, y, model=None if failure else model, task=task)
    columns = {name: [values[j] for j in sources] for name, values in table.to_dict().items()}
    return Study(
        items=items,
        model=None if failure else model,
        failure=failure,
        given=given,
        warned=warned,
        columns=columns,
        found=found,
        comparison=found.comparison or compare_items(items),
        sources=sources,
        every=read,
        y=y,
        task=task if len(tasks) > 1 else None,
        records=None if data is None else Records.of(data, read),
        ordered=ordered,
    )


def _fit(votes: Votes) -> tuple[Any, str, tuple[str, ...]]:
    """A label model; or a majority vote, and why."""
    with capture_source_warnings() as heard:
        try:
            model, failure = LabelModel().fit(votes), ""
        except NotIdentifiableError as error:
            model, failure = MajorityVote().fit(votes), str(error)
    return model, failure, tuple(heard)
