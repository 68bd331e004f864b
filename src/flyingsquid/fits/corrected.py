"""Fit by weighted votes and tables, corrected by gold labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.gold_regression import Estimate, GoldCorrection, GoldEffect
from flyingsquid.files.state import (
    BOOLEAN,
    OBJECT,
    State,
    check_fields,
    finite,
    integer,
    read_array,
    sequence_of,
)
from flyingsquid.fits.base import Array, ItemScores, probabilities_of
from flyingsquid.fits.diagnostics import Diagnostics, recommend_by_gold
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference import Correction
from flyingsquid.inference.weighted import EVEN_VOTE
from flyingsquid.moments import Moments
from flyingsquid.votes.codes import Codes, OneHot

# Beyond what any fit gives; larger values in a file are refused.
_LARGEST = 1e3
_TABLES = "vote_corrections"
_NOT_SCORES = ("n_gold", "is_representative")
_SCORES = tuple(each.name for each in fields(GoldEffect) if each.name not in _NOT_SCORES)
_FIELDS = {
    **dict.fromkeys(("of_posterior", "of_share"), finite(-_LARGEST, _LARGEST)),
    "gold": OBJECT,
}
_GOLD_FIELDS = {
    "n_gold": integer(1),
    "is_representative": BOOLEAN,
    **dict.fromkeys(_SCORES, sequence_of(finite(), finite(), finite())),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectedFit(WeightedFit):
    """Label-free fit whose log odds are corrected by gold labels.

    The mixture is that of the label-free fit. Accuracies, tables and class balance are those of the corrected
    labels.

    Attributes
    ----------
    by_gold : GoldCorrection
        The correction, and its effect.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> data = fs.datasets.load_breast_cancer()
    >>> gold = dict(enumerate(data.y[:50].tolist()))
    >>> fit = fs.LabelModel().fit(data.votes, gold=[gold.get(i) for i in range(569)]).fit_
    >>> type(fit).__name__, fit.by_gold.effect.n_gold
    ('CorrectedFit', 50)
    """

    TAG = "corrected"

    by_gold: GoldCorrection

    @classmethod
    def of(cls, plain: WeightedFit, by_gold: GoldCorrection) -> Self:
        """Return a label-free fit with a correction."""
        kept = {each.name: getattr(plain, each.name) for each in fields(plain)}
        return cls(**{**kept, "uses_gold": True}, by_gold=by_gold)

    @property
    def correction(self) -> Correction:
        return self.by_gold.correction

    @property
    def without_votes(self) -> Array:
        return self.correction.without_votes(self.mixture.without_votes)

    def _label_rows(self, codes: Codes) -> Array:
        labels, n_classes = super()._label_rows(codes), len(self.classes)
        for items, one_hot in OneHot.chunks(codes, n_classes):
            labels[items, 0] = self.correction.apply(labels[items, 0], one_hot)
        return labels

    def vote_parts(self, codes_row: NDArray[Any], voting: NDArray[np.intp], best: int, second: int) -> Array:
        parts = super().vote_parts(codes_row, voting, best, second)
        return self.correction.of_sources(voting).parts(codes_row[voting], parts, best, second)

    def item_scores(self, balance: Array | None = None) -> ItemScores | None:
        plain = WeightedFit.item_scores(self)
        if plain is None:
            return None
        correction, m = self.correction, len(self.source_names)
        adds = np.zeros((m, 3, 3))  # votes for each class, and what they add to the log odds
        adds[:, (0, 1), (0, 1)] = 1.0
        if correction.tables is not None:
            adds[:, :2, 2] = correction.tables[:, :, 1] - correction.tables[:, :, 0]
        offset = float(correction.intercepts[1] - correction.intercepts[0])
        if balance is not None:
            offset += float(
                np.log(balance[1] / balance[0] * self.class_balance[0, 0] / self.class_balance[0, 1])
            )

        def finish(sums: Sequence[float]) -> tuple[float, float]:
            before, after = plain.finish(sums[:-3])
            none, one, added = sums[-3:]
            log_odds = correction.of_posterior * (log(after) - log(before)) + added + offset
            log_odds += correction.of_share * log((one + EVEN_VOTE / 2) / (none + EVEN_VOTE / 2))
            return probabilities_of(log_odds)

        return ItemScores(np.concatenate([plain.adds, adds], axis=2), finish)

    def own_diagnostics(self, moments: Moments) -> Diagnostics:
        plain, effect = super().own_diagnostics(moments), self.by_gold.effect
        gain = effect.gain
        by_gold = recommend_by_gold(gain.value, (gain.low, gain.high), effect.n_gold)
        # Too few gold labels to decide do not outweigh what the votes show.
        is_open = by_gold.kind == "unproven" and plain.verdict.kind != "unproven"
        is_consistent = gain.low <= plain.verdict.gain <= gain.high
        keeps = not effect.is_representative or (is_open and is_consistent)
        return replace(plain, gold=effect, verdict=plain.verdict if keeps else by_gold)

    def _extra_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta, arrays = super()._extra_state()
        correction = self.correction
        meta |= {
            "of_posterior": correction.of_posterior,
            "of_share": correction.of_share,
            "gold": {
                name: list(value) if name in _SCORES else value
                for name, value in asdict(self.by_gold.effect).items()
            },
        }
        arrays["intercepts"] = correction.intercepts
        if correction.tables is not None:
            arrays[_TABLES] = correction.tables
        return meta, arrays

    @classmethod
    def from_state(cls, state: State, moments: Moments) -> Self:
        plain = WeightedFit.from_state(state, moments)
        check_fields(state.meta, _FIELDS, "fit.")
        gold = state.meta["gold"]
        check_fields(gold, _GOLD_FIELDS, "fit.gold.")
        m, k = moments.n_sources, moments.n_classes

        def read(name: str, shape: tuple[int, ...]) -> Array:
            return read_array(state, name, shape, low=-_LARGEST, high=_LARGEST)

        correction = Correction(
            of_posterior=float(state.meta["of_posterior"]),
            of_share=float(state.meta["of_share"]),
            intercepts=read("intercepts", (k,)),
            tables=read(_TABLES, (m, k, k)) if _TABLES in state.arrays else None,
        )
        scores = {name: Estimate(*gold[name]) for name in _SCORES}
        effect = GoldEffect(gold["n_gold"], is_representative=gold["is_representative"], **scores)
        return cls.of(plain, GoldCorrection(correction, effect))
