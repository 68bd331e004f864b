"""Three views and known labels: the order of classes, the tables and the balance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.gold_many import ManyGold
from flyingsquid.estimation.refine import Passes
from flyingsquid.estimation.views import three_views
from flyingsquid.exceptions import OptionError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# Triples of votes tell this share of what labels on all items would; a guess that errs on the safe side.
_WORTH = 0.1


def by_views(moments: Moments, passes: Passes, gold: ManyGold | None) -> tuple[Array, Array]:
    """Tables P(vote | Y), no vote last, shape (m, K, K + 1), and the balance.

    With known labels both are means: what three views find counts as a tenth of all items, known items as
    the items that they are.
    """
    if passes.votes is None:
        raise OptionError('method="decomposition" needs the votes themselves, and only counts are available.')
    votes_known = None
    if gold is not None:
        votes_known = gold.votes.to_array().transpose(0, 2, 1)
    views = three_views(passes.votes, passes.weights, np.arange(moments.n_sources), known=votes_known)
    silence = np.maximum(1 - views.tables.sum(axis=2, keepdims=True), 0.0)
    tables = np.concatenate([views.tables, silence], axis=2)
    if gold is None or votes_known is None:
        return tables, views.balance
    worth = _WORTH * float(moments.n_items)
    unseen = gold.classes[:, None] - votes_known.sum(axis=2)[:, :, None]
    counts = np.concatenate([votes_known, np.maximum(unseen, 0.0)], axis=2)
    items = worth * views.balance[:, None]
    return (items * tables + counts) / (items + gold.classes[:, None]), gold.balance(views.balance, worth)
