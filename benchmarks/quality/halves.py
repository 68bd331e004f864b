"""Datasets on which decisions may be made; docs/quality/halves.md has the reasons and the split.

Nothing is chosen by looking at FROZEN.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

Kind: TypeAlias = Literal["labeling functions", "crowds", "judges", "video", "sequences"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class RealSet(NamedTuple):
    """One directory of real votes."""

    name: str
    kind: Kind
    n_classes: int


DESIGN = (
    RealSet("breast_cancer", "labeling functions", 2),
    RealSet("census", "labeling functions", 2),
    RealSet("imdb", "labeling functions", 2),
    RealSet("spouse", "labeling functions", 2),
    RealSet("youtube", "labeling functions", 2),
    RealSet("crowd_adult", "crowds", 4),
    RealSet("crowd_cf", "crowds", 5),
    RealSet("crowd_labelme", "crowds", 8),
    RealSet("crowd_rte", "crowds", 2),
    RealSet("crowd_trec", "crowds", 2),
    RealSet("weather", "crowds", 2),
    RealSet("llm_civilcomments", "judges", 2),
    RealSet("prompted_youtube", "judges", 2),
    RealSet("basketball", "video", 2),
    RealSet("tennis", "video", 2),
    RealSet("seq_bc5cdr", "sequences", 3),
)

FROZEN = (
    RealSet("cardio", "labeling functions", 2),
    RealSet("chemprot", "labeling functions", 10),
    RealSet("sms", "labeling functions", 2),
    RealSet("trec", "labeling functions", 6),
    RealSet("yelp", "labeling functions", 2),
    RealSet("crowd_bluebird", "crowds", 2),
    RealSet("crowd_dog", "crowds", 4),
    RealSet("crowd_ms", "crowds", 10),
    RealSet("crowd_sp_amt", "crowds", 2),
    RealSet("crowd_web", "crowds", 5),
    RealSet("weather5", "crowds", 5),
    RealSet("llm_rewardbench2_pairs", "judges", 2),
    RealSet("commercial", "video", 2),
    RealSet("seq_laptopreview", "sequences", 2),
)

# (assigned to the design half, assigned to the frozen half): exchanged; docs/quality/halves.md explains why.
SWAPPED = (("yelp", "youtube"),)
