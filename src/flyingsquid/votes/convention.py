"""How raw labels are to be read: what is a class, and what means "no vote"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flyingsquid._values import is_null, is_one_of, is_whole, told
from flyingsquid.exceptions import OptionError
from flyingsquid.votes.states import ABSTAIN, REASONS, Label, code_of_reason


@dataclass(frozen=True, slots=True)
class Convention:
    """How raw labels are to be read.

    Attributes
    ----------
    abstain : the raw value that means "no vote"; None, NaN and masked cells always do
    classes : the class labels in order; None infers them (integers: 0..max, texts: sorted)
    reasons : raw values that mean a vote is missing for a reason of :data:`REASONS`
    advice : what to do about a value outside the classes
    """

    abstain: Any = ABSTAIN
    classes: tuple[Label, ...] | None = None
    reasons: Mapping[Label, str] = field(default_factory=dict)
    advice: str = "Pass classes=, abstain= or reasons= if it has a meaning"

    @classmethod
    def read(
        cls, abstain: Any, classes: Iterable[Label] | None, reasons: Mapping[Label, str] | None, **more: str
    ) -> Convention:
        """Check what a user passed."""
        if reasons is not None and not isinstance(reasons, Mapping):
            raise OptionError(f"reasons={told(reasons)} is no mapping from a value to a reason")
        for value, reason in (reasons or {}).items():
            if not is_one_of(reason, REASONS):
                known = ", ".join(REASONS)
                raise OptionError(
                    f"unknown reason {told(reason)} for the value {told(value)}; known: {known}"
                )
        return cls(abstain, _read_classes(classes, abstain, reasons or {}), reasons or {}, **more)

    @classmethod
    def declared(
        cls, classes: Iterable[Label] | None, reasons: Mapping[Label, str] | None = None
    ) -> Convention:
        """Where no ``abstain`` can be said: -1 means no vote, unless it is declared to be a class."""
        classes = None if classes is None else _as_tuple(classes)
        abstain = None if classes is not None and ABSTAIN in classes else ABSTAIN
        advice = "Pass classes= or reasons= if it has a meaning"
        return cls.read(abstain, classes, reasons, advice=advice)

    @property
    def is_plain(self) -> bool:
        """Whether integer labels already are their codes."""
        if self.reasons or not is_whole(self.abstain) or self.abstain != ABSTAIN:
            return False
        return self.classes is None or (
            all(is_whole(c) for c in self.classes) and self.classes == tuple(range(len(self.classes)))
        )

    def missing_code(self, value: Any) -> int | None:
        """The negative code of a value that is no vote, or None."""
        missing = is_null(value)
        reason = self.reasons.get(None if missing else value)
        if reason is not None:
            return code_of_reason(reason)
        if missing or (not isinstance(value, bool) and equal(value, self.abstain)):
            return ABSTAIN
        return None


def equal(value: Any, other: Any) -> bool:
    """Whether two values are equal, and say so in one word; arrays and strangers' classes may not."""
    try:
        return bool(value == other)
    except Exception:  # a stranger's class that does not want to be compared
        return False


def _read_classes(
    classes: Iterable[Label] | None, abstain: Any, reasons: Mapping[Label, str]
) -> tuple[Label, ...] | None:
    if classes is None:
        return None
    labels = _as_tuple(classes)
    if len(labels) < 2:
        raise OptionError(f"classes={told(list(labels))}: at least two classes are needed")
    if len(set(labels)) < len(labels):
        raise OptionError(f"classes={told(list(labels))} names a class twice")
    for value in (abstain, *reasons):
        if value is not None and any(equal(value, label) for label in labels):
            raise OptionError(
                f"{told(value)} is one of the classes {told(list(labels))} and also means 'no vote'. "
                "Votes of -1, 0 and +1 where 0 abstains are read by Votes.from_signed; "
                "otherwise pass abstain= another value, or abstain=None"
            )
    return labels


def _as_tuple(classes: Iterable[Label]) -> tuple[Label, ...]:
    try:
        labels = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
        hash(labels)
    except Exception as error:  # whatever a stranger's class does
        raise OptionError(f"classes={told(classes)} is no sequence of class labels: {error}") from error
    if isinstance(classes, str):
        raise OptionError(f"classes={told(classes)} is one text; pass a list of labels")
    return labels
