"""The function ``fs.report``: votes in, one HTML page out."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import OptionError
from flyingsquid.files.outputs import open_atomic
from flyingsquid.reports.items import items_section
from flyingsquid.reports.labels import (
    comparison_section,
    influence_section,
    labels_saved_section,
    labels_section,
)
from flyingsquid.reports.overview import method_section, summary_section
from flyingsquid.reports.page import render_page
from flyingsquid.reports.pairs import agreement_section, dependencies_section
from flyingsquid.reports.sources import drift_section, missing_section, panel_section, sources_section
from flyingsquid.reports.study import Study, make_study

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
    X: Any = None,
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
        The items themselves: pandas, polars, pyarrow, or a list of strings or mappings. For votes in long
        form also a mapping from item identifiers. The page shows those of a few items.
    path : str or path, optional
        File to write. An existing file is replaced atomically.
    title : str, default="Votes and labels"
    ordered : bool, default=False
        Whether the items are in chronological order; the page then shows how sources change.
    task : int, optional
        Task to report on, for a model of several tasks.
    X : array, sparse matrix, table or list of n rows, optional
        Features of the items. With ``y``, the page shows how many gold labels a supervised model on these
        features needs to match a weakly supervised one, as :func:`~flyingsquid.labels_saved` estimates.
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
        raise OptionError(f"`title` must be a str; got {format_value(title)}.")
    if not isinstance(ordered, (bool, np.bool_)):
        raise OptionError(f"`ordered` must be a bool; got {format_value(ordered)}.")
    target = None if path is None else _check_path(path)
    study = make_study(votes, model, y, data, ordered=ordered, task=task, features=features)
    sections = [section(study) for section in _SECTIONS]
    if X is not None:
        sections.insert(2, labels_saved_section(study, X))
    text = render_page(title, _facts(study), sections)
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
