"""Single items of a stream, read and labelled by lookups: a few microseconds each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.models._ways import vote_scores_of
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
        Where votes are weighed instead: to the weight, in the real part for the first class and in the
        imaginary one for the second, so that one addition serves both.
    offset : log odds of the class balance; 0j where votes are weighed
    classes : the two classes
    lean, balance : where votes are weighed, what shares are multiplied by, and what no votes get
    """

    width: int
    shape: tuple[int]
    names: tuple[str, ...] | None
    codes: dict[Any, int]
    plain: frozenset[int]
    tables: list[dict[Any, complex]] | None
    offset: complex
    classes: tuple[Label, ...]
    lean: tuple[float, float] = (1.0, 1.0)
    balance: tuple[float, float] = (0.5, 0.5)

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
        known = (width, (width,), layout.names, codes, plain)
        opinion = None if model is None or model._opinion is None else model._opinion.opinion
        if opinion is not None and opinion.logs is None and len(classes) == 2:
            settled = opinion.balance if balance is None else balance
            leans = opinion.given or balance is not None
            first, second = settled.tolist() if leans else (0.5, 0.5)
            lean = (first, second) if leans else (1.0, 1.0)
            return cls(*known, _weights(opinion.weights, codes), 0j, classes, lean, (first, second))
        tables, offset = _log_odds(model, balance, codes)
        return cls(*known, tables, offset, classes)

    def values(self, row: Any) -> list[Any]:
        """The raw votes of a row in the order of the sources."""
        if isinstance(row, Mapping):
            if self.names is None or len(row) != self.width:
                raise KeyError
            return [row[name] for name in self.names]
        if isinstance(row, (list, tuple)):
            return list(row)
        raise TypeError

    def answer(self, log_odds: complex) -> dict[Any, float]:
        """Probabilities of the two classes."""
        first, second = self.classes
        if isinstance(log_odds, complex):
            no, yes = self.balance
            if log_odds:
                # One even vote joins; see infer/weighted.py.
                no, yes = (log_odds.real + 0.5) * self.lean[0], (log_odds.imag + 0.5) * self.lean[1]
            return {first: no / (no + yes), second: yes / (no + yes)}
        # By the smaller side, which would be lost in the rounding of the larger one.
        if log_odds < 0:
            small = exp(log_odds)
            return {first: 1 / (1 + small), second: small / (1 + small)}
        small = exp(-log_odds)
        return {first: small / (1 + small), second: 1 / (1 + small)}


def _weights(weights: NDArray[np.float64], codes: dict[Any, int]) -> list[dict[Any, complex]]:
    """For two classes: what each source's raw vote weighs, for both classes in one number."""
    tables = []
    for no, yes in weights.tolist():
        by_code = {0: complex(no, 0), 1: complex(0, yes), -1: 0j}
        tables.append({label: by_code[code] for label, code in codes.items()})
    return tables


def _log_odds(
    model: LabelModel | None, balance: NDArray[np.float64] | None, codes: dict[Any, int]
) -> tuple[list[dict[Any, complex]] | None, float]:
    """For two classes: log odds of each source by raw vote, and those of the class balance."""
    scores = None if model is None else vote_scores_of(model)
    if model is None or scores is None or scores.shape[1] != 2:
        return None, 0.0
    odds = (scores[:, 1] - scores[:, 0]).tolist()
    prior = model.class_balance_ if balance is None else balance
    tables: list[dict[Any, complex]] = [{label: each[code] for label, code in codes.items()} for each in odds]
    return tables, log(prior[1]) - log(prior[0])
