"""What a report is about: votes, a model of them, known labels, and the items themselves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    footnotes: tuple[str, ...]
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

    def ranked(self) -> list[int]:
        """Sources from the best to the worst as far as is known, silent ones last."""
        for name in ("accuracy", "precision", "coverage"):
            if name in self.columns:
                values = self.column(name)
                return [int(j) for j in np.lexsort((np.arange(len(values)), -np.nan_to_num(values, nan=-1.0)))]
        return list(range(len(self.names)))

    def shown(self) -> tuple[list[int], str]:
        """The sources that plots show, best first, and a sentence on those left out."""
        order = self.ranked()
        if len(order) <= MOST_SHOWN:
            return order, ""
        half = MOST_SHOWN // 2
        # Those with hardly any votes would fill both ends.
        votes = self.column("votes")
        kept = set(np.argsort(-votes, kind="stable")[: 4 * MOST_SHOWN].tolist())
        known = [j for j in order if j in kept]
        left = f"Shown are {half} of the best and {half} of the worst among the {len(known)} sources with the most votes, of {len(order):,}."
        return known[:half] + known[-half:], left


def make_study(
    votes: Any, model: Any, y: Any, data: Any, *, ordered: bool, task: int | None
) -> Study:
    """Read what was passed, fit a model where there is none, and summarize the sources."""
    if model is not None and not hasattr(model, "explain"):
        raise OptionError(
            f"a report needs a fitted LabelModel, OnlineLabelModel or MajorityVote, not {type(model).__name__}"
        )
    given, failure, warned = model is not None, "", ()
    if model is None:
        read, _ = read_votes(None, votes)
        model, failure, warned = _fit(read)
    else:
        read, _ = read_votes(model, votes)
    _, tasks = read_votes(model, read)
    items = read_items(model, read, y, task=task)
    sources = tasks[task or 0]
    table = summarize(read, y, model)
    columns = {name: [values[j] for j in sources] for name, values in table.to_dict().items()}
    return Study(
        items=items,
        model=None if failure else model,
        failure=failure,
        given=given,
        warned=warned,
        columns=columns,
        footnotes=table.footnotes,
        sources=sources,
        every=read,
        y=y,
        task=task if len(tasks) > 1 else None,
        records=None if data is None else Records.of(data, read),
        ordered=ordered,
    )


def _fit(votes: Votes) -> tuple[Any, str, tuple[str, ...]]:
    """A label model; or a majority vote, and why."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model, failure = LabelModel().fit(votes), ""
        except NotIdentifiableError as error:
            model, failure = MajorityVote().fit(votes), str(error)
    return model, failure, tuple(str(each.message) for each in caught)
