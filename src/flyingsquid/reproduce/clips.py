"""Frames in order as clips of equal length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int8]


def in_clips(frames: Codes, length: int) -> Codes:
    """Whole clips of consecutive frames, shape (clips, length, m); what is left over is dropped."""
    clips = len(frames) // length
    return frames[: clips * length].reshape(clips, length, frames.shape[1])


def covering_clips(frames: Codes, length: int) -> tuple[Codes, NDArray[np.intp]]:
    """Clips that hold every frame, the last one reaching back; and where each frame is among theirs."""
    starts = np.arange(0, len(frames), length)
    starts[-1] = len(frames) - length
    rows = starts[:, None] + np.arange(length)
    at = np.empty(len(frames), np.intp)
    at[rows.ravel()] = np.arange(rows.size)
    return frames[rows], at


def clip_lengths(n_frames: int, length: int) -> NDArray[np.intp]:
    """Rows of each clip of ``n_frames`` frames; the last one may be shorter.

    >>> clip_lengths(7, 3).tolist()
    [3, 3, 1]
    """
    whole, rest = divmod(n_frames, length)
    return np.array([length] * whole + [rest] * (rest > 0), np.intp)
