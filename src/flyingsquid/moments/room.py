"""What is refused before it is counted."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from flyingsquid.exceptions import GraphError, VotesError
from flyingsquid.moments.cover import Cover
from flyingsquid.moments.storage import is_kept_sparse

# Pairs are counted in one table for each block, up to this size.
_MOST_BYTES = 1 << 33
# The joint votes of one unit of dependent sources are counted up to this size, and those of all up to that.
_MOST_UNIT_BYTES, _MOST_BYTES_OF_UNITS = 1 << 30, 1 << 31


def require_room(cover: Cover, n_classes: int) -> None:
    """Refuse tables that would not fit into memory."""
    together = 0
    for unit, block in zip(cover.units, cover.unit_blocks, strict=True):
        states = (n_classes + 1) ** len(unit)
        size = states * (1 + n_classes * len(cover.blocks[block])) * 8
        if size > _MOST_UNIT_BYTES:
            raise GraphError(
                f"sources {', '.join(map(str, unit))} depend on each other, and their joint votes on "
                f"{n_classes:,} classes have {states:,} states; counting them would need {size / 1e9:,.0f} "
                "GB. Drop edges between them, or name fewer classes"
            )
        together += size
    if together > _MOST_BYTES_OF_UNITS:
        raise GraphError(
            f"{len(cover.units):,} groups of sources depend on each other, and counting the joint votes of "
            f"all on {n_classes:,} classes would need {together / 1e9:,.0f} GB. Declare fewer edges, or name "
            "fewer classes"
        )
    largest = max(len(block) for block in cover.blocks)
    if is_kept_sparse(largest, n_classes):
        return
    size = (largest * n_classes) ** 2 * 8
    if size > _MOST_BYTES:
        raise VotesError(
            f"counts of all pairs of {largest:,} sources and {n_classes:,} classes would need "
            f"{size / 1e9:,.0f} GB. Name fewer classes, drop sources that rarely vote, or use MajorityVote"
        )


def require_room_for_neighbours(n_sources: int, n_classes: int) -> None:
    """Refuse counts of votes and those on the next item that would not fit into memory."""
    size = (n_sources * n_classes) ** 2 * 8
    if size > _MOST_BYTES:
        raise VotesError(
            f"counts of what follows what, for {n_sources:,} sources and {n_classes:,} classes, would need "
            f"{size / 1e9:,.0f} GB. Name fewer classes, drop sources that rarely vote, or use LabelModel on "
            "the rows"
        )


def check_frequencies(weights: NDArray[Any]) -> None:
    """Refuse weights that are probabilities, not numbers of items."""
    total = float(weights.sum())
    if weights.dtype.kind == "f" and len(weights) > 1 and total < 1 + 1e-6:
        raise VotesError(
            f"sample_weight sums to {total:g} over {len(weights)} items; the sum is the number of items "
            "that every standard error divides by. Multiply probabilities by the number of items first"
        )
