"""The summary in plain words, and the numbers that a reader asks for first."""

from __future__ import annotations

from dataclasses import replace

from flyingsquid.analysis.findings import Findings, Ranked
from flyingsquid.analysis.words import sentences_about
from flyingsquid.reports.escape import plain, safe
from flyingsquid.reports.page import Section
from flyingsquid.reports.study import Study

_ALERT = ' class="alert"'


def summary_section(study: Study) -> Section:
    """Words first, then tiles."""
    first, *others = sentences_about(_with_short_names(study.found))
    lead = f'<p class="lead">{safe(first.text, 1_000)}</p>'
    rest = "".join(f"<li{_ALERT * each.is_alert}>{safe(each.text, 1_200)}</li>" for each in others)
    listed = f'<ul class="words">{rest}</ul>' if rest else ""
    failed = ""
    if study.failure:
        failed = (
            '<p class="failed">No label model could be fitted, so labels here are shares of the votes. '
            f"{safe(study.failure, 1_000)}</p>"
        )
    return Section("summary", "Summary", lead + failed + listed + _tiles(study))


def _with_short_names(found: Findings) -> Findings:
    """The same with names that fit into a sentence."""

    def ranked(these: Ranked | None) -> Ranked | None:
        return these and replace(these, names=_short(these.names), alike=_short(these.alike))

    return replace(
        found,
        strongest=ranked(found.strongest),
        weakest=ranked(found.weakest),
        dependent=tuple(
            replace(pair, first=plain(pair.first), second=plain(pair.second)) for pair in found.dependent
        ),
        worse_than_chance=_short(found.worse_than_chance),
        like_chance=_short(found.like_chance),
        one_sided=_short(found.one_sided),
        silent=_short(found.silent),
        duplicates=tuple(map(_short, found.duplicates)),
        missing=tuple(
            (reason, count, plain(source), times) for reason, count, source, times in found.missing
        ),
    )


def _short(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(plain, names))


def _tiles(study: Study) -> str:
    votes, found = study.votes, study.comparison
    effective = study.found.effective_sources
    tiles = [(f"{votes.n_items:,}", "items"), (f"{votes.n_sources:,}", "sources")]
    if effective is not None:
        tiles.append((f"{effective:.1f}", "independent sources they are worth"))
    tiles.append((f"{votes.n_votes / votes.n_items:.1f}", "votes an item"))
    if found.coverage < 1:
        tiles.append((f"{found.coverage:.1%}", "of items have a vote"))
    if study.model is not None:
        tiles.append((f"{found.differ:.1%}", "of labels are not the majority's"))
    if found.model is not None and found.majority is not None:
        if study.model is not None:
            tiles.append(
                (f"{found.model.accuracy:.1%}", f"right by the model, {found.n_known:,} known items")
            )
        tiles.append((f"{found.majority.accuracy:.1%}", "right by majority vote"))
    else:
        sure = float((study.items.posterior.max(axis=1) >= 0.9).mean())
        tiles.append((f"{sure:.1%}", "of labels given with 0.9 or more"))
    return (
        '<dl class="tiles">'
        + "".join(f"<div><dt>{safe(t)}</dt><dd>{v}</dd></div>" for v, t in tiles)
        + "</dl>"
    )
