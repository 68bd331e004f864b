"""Which way a label model goes: one place that knows all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._remarks import listening, say
from flyingsquid.estimation.refine import Passes
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.models._auto import goes_by_opinion, is_plain, knows_balance, solve_opinion
from flyingsquid.models._binary import solve_binary
from flyingsquid.models._graphs import count_gold
from flyingsquid.models._many import is_many, solve_many
from flyingsquid.models._many_graph import solve_many_graph
from flyingsquid.models._whole import draft_of, keep
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.gold import read_task_gold

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel

# Correcting sources by known labels must get so many standard errors more of these very labels right.
_CLEAR = 2.0


def solve(
    model: LabelModel,
    moments: Moments,
    votes: Votes | None = None,
    weights: NDArray[Any] | None = None,
    gold: Any = None,
    *,
    again: bool = False,
    by_gold: bool = False,
    note: str = "",
) -> None:
    """Fit a model to counts, and to the votes where these are at hand.

    Parameters
    ----------
    votes, weights : what was counted, where it is at hand
    gold : known labels as a user gives them, with ``votes``
    again : whether known labels of an earlier fit keep their say
    by_gold : whether known labels correct the sources, come what may
    note : how the votes were read, for ``diagnostics_``
    """
    known = None
    if gold is not None and votes is not None and not by_gold and is_plain(model, with_gold=False):
        known = read_task_gold(gold, votes.classes, (votes.n_items, 1), "gold")[:, 0]
        gold = gold if (known >= 0).any() else None
        if gold is not None and goes_by_opinion(model, moments, votes, weights, with_gold=False):
            _weigh_beside_gold(model, moments, votes, weights, gold, known)
            return
    known_before = (model._gold, None if model._many is None else model._many.gold) if again else (None, None)
    with_gold = gold is not None or any(kept is not None for kept in known_before)
    if goes_by_opinion(model, moments, votes, weights, with_gold=with_gold):
        solve_opinion(model, moments, votes, weights)
    elif is_many(model, moments):
        if moments.graph is None:
            solve_many(model, moments, votes, weights, gold, kept=known_before[1])
        else:
            solve_many_graph(model, moments, votes, weights, gold)
    else:
        counts = known_before[0]
        if gold is not None and votes is not None:
            counts = count_gold(gold, votes, moments, weights)
        # Known labels at hand leave the method open; kept ones, and a trial by them, do not.
        open_method = is_plain(model, with_gold=by_gold or (with_gold and gold is None))
        try:
            solve_binary(model, moments, counts, votes, weights, independent=open_method)
            settled = not open_method or knows_balance(model)
        except NotIdentifiableError:
            if not open_method:
                raise
            settled = False
        if not settled:
            solve_opinion(model, moments, votes, weights, known)
    model._note = note
    if note and model._passes is not None and model._many is not None and model._many.method != "agreement":
        # Their standard errors compare groups of items, and distinct rows are none.
        model._passes = Passes(None)


def _weigh_beside_gold(
    model: LabelModel,
    moments: Moments,
    votes: Votes,
    weights: NDArray[Any] | None,
    gold: Any,
    known: NDArray[Any],
) -> None:
    """Weigh the votes beside known labels, or let these correct the sources where that is clearly better.

    ``known`` (n,) are the codes of ``gold``, negative where unknown.

    A correction by few labels costs more than it gives, except where they show that weighing went wrong,
    as it does when most sources err more often than not.
    """
    solve_opinion(model, moments, votes, weights, known)
    model._note = ""
    trial, at = draft_of(model), np.flatnonzero(known >= 0)
    some = Votes(votes.codes[at], votes.classes)
    with listening() as noticed:
        try:
            solve(trial, moments, votes, weights, gold, by_gold=True)
        except NotIdentifiableError:
            return
    held, corrected = ((way._posterior(some)[:, 0].argmax(axis=1) == known[at]) for way in (model, trial))
    won, lost = np.count_nonzero(corrected & ~held), np.count_nonzero(held & ~corrected)
    if won - lost > _CLEAR * np.sqrt(won + lost):
        keep(model, trial)
        for remark in noticed:
            say(remark, stacklevel=4)
