"""Who agrees with whom."""

from __future__ import annotations

import numpy as np

from flyingsquid.analysis.agreement import agreement
from flyingsquid.reports.heat_map import heat_map
from flyingsquid.reports.marks import rect
from flyingsquid.reports.page import Section, figure, key
from flyingsquid.reports.study import Study


def agreement_section(study: Study) -> Section:
    """A heat map of pairs, sources in the order of accuracy."""
    heading = "Agreement"
    if len(study.names) < 2:
        return Section("agreement", heading, "")
    shown, left_out = study.busiest()
    found = agreement(study.votes.of_sources(shown))
    names = [study.names[j] for j in shown]
    beyond = np.nan_to_num(found.beyond_chance)
    lower = np.tril_indices(len(names), -1)
    values = np.where(np.isfinite(found.share), beyond, -np.inf)[lower]
    says = ""
    if np.isfinite(values).any():
        at = int(np.argmax(values))
        one, other = names[lower[0][at]], names[lower[1][at]]
        says = (
            f"Most alike beyond chance: {one[:60]} and {other[:60]}, {found.share[lower][at]:.1%} of common "
            "items."
        )
    strongest = max(0.2, float(np.abs(beyond[lower]).max()))
    drawing = heat_map(
        names, found.share, beyond, strongest=strongest, label="Agreement of pairs of sources", says=says
    )
    marks = [
        (rect("bar", 1, 1, 12, 10), f"alike beyond chance, kappa {strongest:.2f}"),
        (rect("bar", 1, 1, 12, 10, more=' fill-opacity="0.5"'), f"{strongest / 2:.2f}"),
        (rect("frame", 1, 1, 12, 10), "as by chance, or never together"),
    ]
    if (values < -0.02).any():
        marks.append((rect("bar bad", 1, 1, 12, 10, more=' fill-opacity="0.6"'), "less than chance"))
    caption = (
        "How to read it: each cell is a pair of sources, by row and column number, best sources first. The "
        "stronger the colour, the more they agree beyond what votes at random would (Cohen's kappa). Good "
        "sources agree because both are right; a strong colour far from the upper corner is a pair that "
        "shares its errors. Rest the pointer on a cell for the share of common items with equal votes. "
        f"{left_out}"
    )
    return Section(
        "agreement",
        heading,
        figure(
            "Who agrees with whom?",
            f'<div class="scroll">{drawing}</div>',
            caption,
            key=key(marks),
            wide=True,
        ),
    )
