"""Content of the page after a change: votes and labels, and the numbers of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.studio.fitting import Codes, StudioFit, VoteSummary, fit_columns
from flyingsquid.studio.project import SourceEntry
from flyingsquid.votes import Votes


@dataclass(frozen=True, eq=False)
class View:
    """Votes and labels after the same actions. Immutable."""

    change: int  # number of the change that it belongs to
    # The sources in use, their names, and their votes of shape (n,).
    entries: tuple[SourceEntry, ...]
    names: tuple[str, ...]
    columns: tuple[Codes, ...]
    summary: VoteSummary
    fit: StudioFit  # on all items, or on a sample
    gold: dict[int, int]  # class by item
    classes: tuple[str, ...]
    changed: int  # labels that differ from those before the change; estimated on the sample if there is one
    fit_ms: float
    table_ms: float
    # Dict from source to the number of labels that change without it, or None until known.
    effects: dict[str, int] | None = None

    @cached_property
    def proba(self) -> NDArray[np.float32] | None:
        """Probabilities of all items, shape (n, K)."""
        return self.fit.proba if self.fit.rows is None else self.predict(stack(self.columns))

    def predict(self, codes: Codes) -> NDArray[np.float32] | None:
        """Return the probabilities of items with these votes; None without a model."""
        if self.fit.model is None or not len(codes):
            return None
        return self.fit.model.predict_proba(Votes(codes, self.classes, self.names), dtype=np.float32)

    def fit_on(self, rows: NDArray[np.intp] | None, left_out: int | None = None) -> StudioFit:
        """Fit the votes on some items (None for all), without one of the sources if ``left_out`` is given."""
        kept = [j for j in range(len(self.columns)) if j != left_out]
        return fit_columns(
            [self.columns[j] for j in kept],
            self.classes,
            [self.names[j] for j in kept],
            self.gold,
            rows,
            len(self.summary.covered),
        )

    def source_numbers(self, id: str) -> dict[str, Any]:
        """Return the numbers of a source in the table; they are None if it is not in use."""
        numbers: dict[str, Any] = dict.fromkeys(
            ("coverage", "conflicts", "votes", "accuracy", "interval", "effect")
        )
        at = next((j for j, entry in enumerate(self.entries) if entry.id == id), None)
        if at is None:
            return numbers
        numbers["coverage"] = float(self.summary.coverage[at])
        numbers["conflicts"] = float(self.summary.conflicts[at])
        numbers["votes"] = self.summary.votes[at].tolist()
        model = self.fit.model
        if model is not None and numbers["coverage"] > 0:
            low, high = model.accuracies_interval_[at]
            if np.isfinite(low) and np.isfinite(high):
                numbers["accuracy"] = float(model.accuracies_[at])
                numbers["interval"] = [float(low), float(high)]
        if self.effects is not None and id in self.effects:
            numbers["effect"] = {"changed": self.effects[id]}
        return numbers

    def numbers(self) -> dict[str, Any]:
        """Return the results of the fit as JSON values."""
        fit, n = self.fit, len(self.summary.covered)
        by_class = np.bincount(fit.labels[fit.labels >= 0], minlength=len(self.classes))
        return {
            "balance": self._balance(),
            "labels": {
                "covered": int(np.count_nonzero(self.summary.covered)),
                "by_class": [round(float(each) * n / len(fit.labels)) for each in by_class],
                "changed": self.changed,
            },
            "verdict": self._verdict(),
            "comparison": self._comparison(),
            "timing": {"fit_ms": round(self.fit_ms, 1), "table_ms": round(self.table_ms, 1)},
            "sampled": None if fit.rows is None else len(fit.rows),
        }

    def _balance(self) -> list[dict[str, Any]]:
        if self.fit.model is None:
            return []
        intervals = self.fit.model.class_balance_interval_
        return [
            {
                "class": k,
                "share": float(share),
                "interval": intervals[k].tolist() if np.isfinite(intervals[k]).all() else None,
            }
            for k, share in enumerate(self.fit.model.class_balance_)
        ]

    def _verdict(self) -> dict[str, str] | None:
        if self.fit.model is None:
            return None
        verdict = self.fit.model.diagnostics_.verdict
        return {"kind": verdict.kind, "text": verdict.text}

    def _comparison(self) -> dict[str, Any] | None:
        """Return cross-validated accuracies of the model and of majority vote on the gold labels."""
        gold = None if self.fit.model is None else self.fit.model.diagnostics_.gold
        if gold is None:
            return None
        return {"gold": gold.n_gold} | {
            name: {"accuracy": each.value, "interval": [each.low, each.high]}
            for name, each in (("model", gold.accuracy), ("majority", gold.majority_accuracy))
        }


def stack(columns: Sequence[Codes], items: NDArray[np.intp] | None = None) -> Codes:
    """Return the votes of all or some items, shape (n, m)."""
    parts = [column if items is None else column[items] for column in columns]
    return np.stack(parts, axis=1) if parts else np.empty((0 if items is None else len(items), 0), np.int8)
