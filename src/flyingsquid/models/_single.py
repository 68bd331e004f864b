"""Single items of a stream, read and labelled by lookups: a few microseconds each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.models.label_model import LabelModel
from flyingsquid.moments.vectors import Layout
from flyingsquid.votes import ABSTAIN
from flyingsquid.votes.states import Label

NEEDS_A_CLOSER_LOOK = (KeyError, TypeError, ValueError)
"""What a lookup raises for a row that is not plain, or not right: the long way finds out which."""


@dataclass(frozen=True, slots=True, eq=False)
class SingleItems:
    """Lookups by raw label, made anew at every refresh.

    Attributes
    ----------
    width : int
        Sources.
    shape : (width,)
    names : tuple of texts, or None
    codes : mapping from a raw vote to its code
    plain : set of votes that are their own codes; empty where labels are no such numbers
    tables : for two classes and fitted parameters, one mapping a source from a raw vote to its log odds
    offset : log odds of the class balance
    classes : the two classes
    """

    width: int
    shape: tuple[int]
    names: tuple[str, ...] | None
    codes: dict[Any, int]
    plain: frozenset[int]
    tables: list[dict[Any, float]] | None
    offset: float
    classes: tuple[Label, ...]

    @classmethod
    def of(
        cls, layout: Layout, model: LabelModel | None, balance: NDArray[np.float64] | None
    ) -> SingleItems | None:
        """The lookups of a stream; None where a raw -1 could be a class.

        ``balance`` is the class balance of now, where it comes with the votes.
        """
        classes, width = layout.classes, layout.n_sources
        if ABSTAIN in classes:
            return None
        codes: dict[Any, int] = {label: code for code, label in enumerate(classes)}
        codes |= {None: -1, ABSTAIN: -1}
        is_plain = classes == tuple(range(len(classes)))
        plain = frozenset(range(-1, len(classes))) if is_plain else frozenset[int]()
        tables, offset = _log_odds(model, balance, codes)
        return cls(width, (width,), layout.names, codes, plain, tables, offset, classes)

    def values(self, row: Any) -> list[Any]:
        """The raw votes of a row in the order of the sources."""
        if isinstance(row, Mapping):
            if self.names is None or len(row) != self.width:
                raise KeyError
            return [row[name] for name in self.names]
        if isinstance(row, (list, tuple)):
            return list(row)
        raise TypeError

    def answer(self, log_odds: float) -> dict[Any, float]:
        """Probabilities of the two classes."""
        first, second = self.classes
        # By the smaller side, which would be lost in the rounding of the larger one.
        if log_odds < 0:
            small = exp(log_odds)
            return {first: 1 / (1 + small), second: small / (1 + small)}
        small = exp(-log_odds)
        return {first: small / (1 + small), second: 1 / (1 + small)}


def _log_odds(
    model: LabelModel | None, balance: NDArray[np.float64] | None, codes: dict[Any, int]
) -> tuple[list[dict[Any, float]] | None, float]:
    """For two classes: log odds of each source by raw vote, and those of the class balance."""
    scores = None if model is None else model._vote_scores()
    if model is None or scores is None or scores.shape[1] != 2:
        return None, 0.0
    odds = (scores[:, 1] - scores[:, 0]).tolist()
    prior = model.class_balance_ if balance is None else balance
    tables = [{label: each[code] for label, code in codes.items()} for each in odds]
    return tables, log(prior[1]) - log(prior[0])
