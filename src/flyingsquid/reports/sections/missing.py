"""Votes that are missing, by reason."""

from __future__ import annotations

import numpy as np

from flyingsquid.reports.charts import parts_of_whole
from flyingsquid.reports.marks import rect
from flyingsquid.reports.page import Section, figure, key
from flyingsquid.reports.study import MOST_SHOWN, Study
from flyingsquid.votes import REASONS


def missing_section(study: Study) -> Section:
    """Shares of refused, unparseable and failed answers beside plain abstains; empty where none occurred."""
    counts = study.votes.missing_counts()
    if not any(counts[reason].any() for reason in REASONS[1:]):
        return Section("missing", "Missing votes", "")
    # The reasons other than abstaining come first: they are what can be mended.
    whats = [*REASONS[1:], REASONS[0]]
    kinds = np.stack([counts[reason] for reason in whats], axis=1) / study.votes.n_items
    troubled = kinds[:, :3].sum(axis=1)
    order = np.lexsort((np.arange(len(troubled)), -troubled))
    shown = [int(j) for j in order[:MOST_SHOWN] if troubled[j] > 0]
    used = [r for r in range(4) if kinds[:, r].any()]
    total = {reason: int(counts[reason].sum()) for reason in whats}
    told = ", ".join(f"{total[whats[r]]:,} {whats[r]}" for r in used)
    # Colours follow the reason, whichever occur.
    colours = (1, 2, 3, 0)
    shares = [kinds[j].tolist() for j in shown]
    drawing = parts_of_whole(
        [study.names[j] for j in shown], shares, whats, kinds=colours,
        label="Missing votes by reason", says=f"In all: {told}.",
    )  # fmt: skip
    marks = [(rect(f"r{colours[r]}", 1, 1, 12, 10), whats[r]) for r in used]
    caption = (
        f"How to read it: shares of all items on which a source gave no vote. In all {told}. To the label "
        "model all are no vote; refusals, unparseable answers and failures are yours to mend."
    )
    rest = int((troubled > 0).sum()) - len(shown)
    caption += f" {rest:,} more sources are not shown." if rest else ""
    return Section(
        "missing", "Missing votes", figure("Why are votes missing?", drawing, caption, key=key(marks))
    )
