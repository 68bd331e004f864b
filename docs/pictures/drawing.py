"""Shared parts of the pictures: colors, bare axes, and reproducible files."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same picture is the same file.
matplotlib.rcParams.update({"svg.hashsalt": "flyingsquid", "svg.fonttype": "none", "font.size": 11})

from matplotlib import pyplot as plt  # noqa: E402  # after the backend is chosen
from matplotlib.axes import Axes  # noqa: E402

HERE = Path(__file__).parent
# Readable on light and dark pages, and distinguishable for color-blind readers.
BLUE, ORANGE, GRAY = "#3b82c4", "#d9772b", "#8a94a0"


def plain(axis: Axes) -> None:
    """Leave the lower line of the frame, and no ticks."""
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color(GRAY)
    axis.tick_params(colors=GRAY, length=0)


def save(figure: plt.Figure, name: str) -> None:
    """Write a picture to the directory of this file."""
    figure.savefig(HERE / f"{name}.svg", metadata={"Date": None}, transparent=True)
