"""What inference reads of a fitted label model, for inference elsewhere: on another device, for one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import logs_of
from flyingsquid.exceptions import OptionError
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.infer import Emissions, Opinion
from flyingsquid.infer.sparse_classes import SparseLogs
from flyingsquid.models.label_model import LabelModel


@dataclass(frozen=True, slots=True)
class PosteriorParameters:
    """All that P(Y | votes) is a function of, beside the votes.

    Attributes
    ----------
    emissions : Emissions
        What the votes say of each task, in logs, up to what is common to all classes.
    tree : JunctionTree
        Of the D tasks.
    clique_tables : tuple of arrays
        P(Y_C) of each clique of the tree, shape (K,) * len(clique).
    temper : float
        The power that the evidence of other tasks is taken to.
    opinion : Opinion, or None
        Where votes are weighed: weights alone, which stand for all of the above.
    """

    emissions: Emissions
    tree: JunctionTree
    clique_tables: tuple[NDArray[np.float64], ...]
    temper: float
    opinion: Opinion | None = None


def posterior_parameters(model: LabelModel) -> PosteriorParameters:
    """The parameters by which ``model.predict_proba`` labels.

    Raises
    ------
    OptionError
        If the tables are kept sparse, or learned by passes over the votes, which only ``predict_proba``
        itself reads.
    """
    model._require_fitted()
    everyone = (tuple(range(model.n_features_in_)),)
    alone = JunctionTree(cliques=((0,),), parents=(-1,), separators=((),))
    if model._opinion is not None:
        opinion = model._opinion.opinion
        if opinion.logs is not None:
            raise OptionError("method='anchored' labels by weights and tables together; use predict_proba")
        silent = np.zeros((*opinion.weights.shape, len(opinion.balance) + 1))
        return PosteriorParameters(Emissions(everyone, silent), alone, (opinion.balance,), 1.0, opinion)
    if model._many is None and not model.graph_.is_trivial:
        return PosteriorParameters(
            model._emissions, model.graph_._task_tree, model._clique_tables, model.temper_
        )
    if model._many is not None:
        logs = logs_of(model._many)
        if isinstance(logs, SparseLogs):
            raise OptionError("tables of so many sources and classes are kept sparse; use predict_proba")
    else:
        # Of two classes only the ratio of their probabilities matters, and the weights are its log.
        logs = np.stack([np.zeros_like(model._weights), model._weights], axis=1)
    return PosteriorParameters(Emissions(everyone, logs), alone, (model.class_balance_,), 1.0)
