"""The function ``fs.report``, with the first and last sections of its page: the summary, and the method."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import format_count, option_error
from flyingsquid._version import __version__
from flyingsquid.analysis.findings import Sentence, describe, describe_balance, fit_of
from flyingsquid.exceptions import OptionError
from flyingsquid.files.outputs import open_atomic
from flyingsquid.models import MajorityVote
from flyingsquid.reports.labels import (
    comparison_section,
    influence_section,
    items_section,
    labels_section,
)
from flyingsquid.reports.page import LONGEST_NAME, Section, escape_text, render_page, shorten
from flyingsquid.reports.sources import (
    agreement_section,
    dependencies_section,
    drift_section,
    missing_section,
    panel_section,
    sources_section,
)
from flyingsquid.reports.study import Study, make_study


def report(
    votes: Any,
    y: Any = None,
    *,
    model: Any = None,
    data: Any = None,
    path: str | os.PathLike[str] | None = None,
    title: str = "Votes and labels",
    ordered: bool = False,
    task: int | None = None,
    features: Any = None,
) -> str:
    """Make a self-contained HTML page about votes and labels.

    The page needs no network, package or font. It begins with a written summary. The same input gives the
    same bytes. Names and text from the data are escaped.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class. They are used
        for scores and not for the fit.
    model : fitted LabelModel, OnlineLabelModel or MajorityVote, optional
        By default ``LabelModel()`` is fitted. If the fit fails, the page gives the reason and continues with
        the votes only.
    data : table or list with one entry per item, optional
        The items themselves: pandas, polars, pyarrow, or a list of strings or mappings. For votes with item
        identifiers also a mapping from these; pandas data whose index holds them is joined. The page shows
        those of a few items.
    path : str or path, optional
        File to write. An existing file is replaced atomically.
    title : str, default="Votes and labels"
    ordered : bool, default=False
        Whether the items are in chronological order; the page then shows how sources change.
    task : int, optional
        Task to report on, for a model of several tasks.
    features : array, sparse matrix or table of shape (n, d), optional
        Features of the items, used for the labels as in ``LabelModel.predict_proba``. A given
        ``model`` must have been fitted with features.

    Returns
    -------
    str
        The page, or ``path`` if given.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.7], random_state=0)
    >>> page = fs.report(sample.votes, y=sample.y, title="Three sources")
    >>> page[:15], "<h1><bdi>Three sources</bdi></h1>" in page
    ('<!DOCTYPE html>', True)
    """
    if not isinstance(title, str):
        raise option_error("title", "a str", title)
    if not isinstance(ordered, (bool, np.bool_)):
        raise option_error("ordered", "a bool", ordered)
    target = None if path is None else _check_path(path)
    study = make_study(votes, model, y, data, ordered=ordered, task=task, features=features)
    text = render_page(title, _facts(study), [section(study) for section in _SECTIONS])
    if path is None or target is None:
        return text
    with open_atomic(target) as file:
        file.write(text.encode())
    return os.fspath(path)


def _check_path(path: str | os.PathLike[str]) -> Path:
    """Return the file to write; raise an error before any work is done."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    if target.exists() and not target.is_file():
        raise OptionError(f"`path` must be a regular file; got {os.fspath(path)!r}.")
    return target


def _facts(study: Study) -> str:
    votes = study.votes
    share = votes.n_votes / (votes.n_items * votes.n_sources)
    task = "" if study.task is None else f" · task {study.task}"
    return (
        f"{format_count(votes.n_items, 'item')} · {format_count(votes.n_sources, 'source')} · "
        f"{votes.n_classes:,} classes · {share:.0%} of possible votes{task}"
    )


# ---------------------------------------------------------------------- summary and method


_ALERT = ' class="alert"'


def summary_section(study: Study) -> Section:
    """Return the findings as sentences, and tiles with the most important numbers."""
    first, *others = describe(study.findings)
    body = f'<p class="lead">{escape_text(first.text, 1_000)}</p>'
    if study.failure:
        body += (
            '<p class="failed">No label model could be fitted, so the labels here are shares of the votes. '
            f"{escape_text(study.failure, 1_000)}</p>"
        )
    warnings = [Sentence(text, is_alert=True) for text in study.warnings]
    others += _about_features(study)
    sentences = "".join(
        f"<li{_ALERT * s.is_alert}>{escape_text(_with_short_names(s.text, study), 1_200)}</li>"
        for s in (*warnings, *others)
    )
    if sentences:
        body += f'<ul class="words">{sentences}</ul>'
    return Section("summary", "Summary", body + _tiles(study))


def _about_features(study: Study) -> list[Sentence]:
    """Return what features contribute to labels, as a sentence in a list; empty for a model without them."""
    effect = getattr(getattr(study.model, "diagnostics_", None), "features", None)
    if effect is None:
        return []
    text = effect.sentence()
    basis = "votes and features" if study.features is not None else "the votes without features"
    return [Sentence(f"{text[0].upper()}{text[1:]}. Labels on this page are those of {basis}.")]


def _with_short_names(text: str, study: Study) -> str:
    """Return a sentence in which long source names are shortened."""
    long = (name for name in study.names if len(name) > LONGEST_NAME or not name.isprintable())
    for name in sorted(long, key=len, reverse=True):
        text = text.replace(name, shorten(name))
    return text


def _tiles(study: Study) -> str:
    votes, found = study.votes, study.comparison
    effective = study.findings.effective_sources
    tiles = [
        ("items", f"{votes.n_items:,}", "item" if votes.n_items == 1 else "items"),
        ("sources", f"{votes.n_sources:,}", "source" if votes.n_sources == 1 else "sources"),
    ]
    if effective is not None:
        tiles.append(("effective-sources", f"{effective:.1f}", "equivalent independent sources"))
    tiles.append(("votes-per-item", f"{study.findings.votes_per_item:.1f}", "votes per item"))
    if found.coverage < 1:
        tiles.append(("coverage", f"{found.coverage:.1%}", "of items have a vote"))
    effect = getattr(getattr(study.model, "diagnostics_", None), "features", None)
    if study.features is not None and effect is not None:
        tiles.append(("feature-weight", f"{effect.weight:.2g}", "weight of features relative to votes"))
    if study.model is not None:
        tiles.append(("differ", f"{found.differ:.1%}", "of items are labeled against majority vote"))
    if found.model is not None and found.majority is not None:
        if study.model is not None:
            on_gold = f"accuracy of the model on {format_count(found.n_gold, 'gold label')}"
            tiles.append(("model-accuracy", f"{found.model.accuracy:.1%}", on_gold))
        tiles.append(("majority-accuracy", f"{found.majority.accuracy:.1%}", "accuracy of majority vote"))
    else:
        certain = float((study.items.posterior.max(axis=1) >= 0.9).mean())
        tiles.append(("certain", f"{certain:.1%}", "of labels have a probability of at least 0.9"))
    entries = "".join(
        f'<div data-fact="{key}"><dt>{escape_text(text)}</dt><dd>{value}</dd></div>'
        for key, value, text in tiles
    )
    return f'<dl class="tiles">{entries}</dl>'


def method_section(study: Study) -> Section:
    """Return the model, its method and the version, to reproduce the page."""
    rows = [("Model", f"none: {study.failure}")]
    if study.model is not None:
        kind = type(study.model).__name__
        how = "as passed" if study.is_model_given else "with its defaults, fitted on these votes"
        rows = [("Model", f"{kind}, {how}")]
    diagnostics = getattr(study.model, "diagnostics_", None)
    if diagnostics is not None:
        reason = f"; {diagnostics.reason}" if diagnostics.reason else ""
        rows.append(("Method", f"{diagnostics.method}{reason}"))
        balance = [describe_balance(study.model), diagnostics.class_balance]
        rows.append(("Class balance", "; ".join(part for part in balance if part)))
        test = diagnostics.fit_test
        if test is not None:
            p_value = f"= {test.p_value:.2g}" if test.p_value > 1e-300 else "< 1e-300"
            result = f"chi² {test.statistic:,.1f} with {test.degrees:,} degrees of freedom, p {p_value}"
            rows.append(("Test of independence", result))
    rows.append(("Gold labels", _describe_gold(study)))
    rows.append(("Version", f"flyingsquid {__version__}"))
    body = "".join(
        f'<tr><th scope="row">{escape_text(name)}</th><td>{escape_text(text, 2_000)}</td></tr>'
        for name, text in rows
    )
    return Section("method", "Method", f'<div class="scroll"><table>{body}</table></div>')


def _describe_gold(study: Study) -> str:
    gold = study.items.gold
    if gold is None:
        return "none"
    known = f"{int((gold >= 0).sum()):,} of {format_count(len(gold), 'item')}"
    if isinstance(study.model, MajorityVote) or study.model is None or not fit_of(study.model).uses_gold:
        return f"{known}, used for scores and not for the fit"
    return f"{known}, used for scores. The model was fitted with gold labels, so scores on these are too high"


_SECTIONS = (
    summary_section,
    comparison_section,
    sources_section,
    panel_section,
    agreement_section,
    dependencies_section,
    labels_section,
    influence_section,
    drift_section,
    missing_section,
    items_section,
    method_section,
)
