"""Whatever a user passes where votes are expected."""

from __future__ import annotations

from typing import Any

from flyingsquid.exceptions import VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.states import ABSTAIN, Label
from flyingsquid.votes.votes import Votes


def as_votes(data: Any, classes: tuple[Label, ...] | None = None) -> Votes:
    """Votes as they are; a table through ``from_frame``; anything else through ``from_classes``.

    ``classes`` are the ones already known, from an earlier fit: a raw value outside them is
    an error. Votes that were built by name keep their own.
    """
    if isinstance(data, Votes):
        if not data.n_items:
            raise VotesError(f"votes are empty: 0 items x {data.n_sources} sources")
        return data
    if classes is not None and ABSTAIN in classes:
        raise VotesError(
            "the model was fitted on signed votes (-1, 0 for no vote, +1), which a plain array "
            "cannot say; pass Votes.from_signed(...)"
        )
    if frames.is_frame(data):
        return Votes.from_frame(data, classes=classes)
    return Votes.from_classes(data, classes=classes)
