"""The report: votes in, one HTML file out."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.io import replacing
from flyingsquid.reports.page import page
from flyingsquid.reports.sections.agreement import agreement_section
from flyingsquid.reports.sections.comparison import comparison_section
from flyingsquid.reports.sections.dependencies import dependencies_section
from flyingsquid.reports.sections.drift import drift_section
from flyingsquid.reports.sections.influence import influence_section
from flyingsquid.reports.sections.labels import labels_section
from flyingsquid.reports.sections.method import method_section
from flyingsquid.reports.sections.missing import missing_section
from flyingsquid.reports.sections.rows import rows_section
from flyingsquid.reports.sections.sources import sources_section
from flyingsquid.reports.sections.summary import summary_section
from flyingsquid.reports.study import Study, make_study

_SECTIONS = (
    summary_section,
    comparison_section,
    sources_section,
    agreement_section,
    dependencies_section,
    labels_section,
    influence_section,
    drift_section,
    missing_section,
    rows_section,
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
) -> str:
    """Make one HTML page about votes and the labels they give: a file that a colleague can open.

    The page needs nothing else: no network, no package, no fonts. It begins with a summary in words. The same
    input gives the same bytes. Names and texts of the data are shown as text, whatever they hold.

    Parameters
    ----------
    votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked are unknown, and -1 unless it is a class. They are used for scores
        and not for the fit.
    model : fitted LabelModel, OnlineLabelModel or MajorityVote, optional
        Default: ``LabelModel()``, fitted here. If the fit fails, the page gives the reason and continues with
        the votes alone.
    data : table or list with one entry an item, optional
        The items themselves: pandas, polars, pyarrow, a list of texts or mappings. For votes in long form
        also a mapping from item identifiers. The page shows those of the few items that are worth a look.
    path : optional
        Where to write the page, replacing a file that is there, whole or not at all.
    title : text
    ordered : bool
        Whether the items are in the order of time; the page then shows how sources change.
    task : int, for a model of several tasks
        Which one the page is about.

    Returns
    -------
    str
        The page, or the path where there is one.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.7], random_state=0)
    >>> page = fs.report(sample.votes, y=sample.y, title="Three sources")
    >>> page[:15], "<h1><bdi>Three sources</bdi></h1>" in page
    ('<!DOCTYPE html>', True)
    """
    if not isinstance(title, str):
        raise OptionError(f"title={told(title)} is no text")
    if not isinstance(ordered, (bool, np.bool_)):
        raise OptionError(f"ordered={told(ordered)}; True where items are in order of time, or False")
    target = None if path is None else _target(path)
    study = make_study(votes, model, y, data, ordered=ordered, task=task)
    sections = [section(study) for section in _SECTIONS]
    ending = '<p class="note">Made by flyingsquid. This file is complete in itself and loads nothing.</p>'
    text = page(title, _facts(study), sections, ending)
    if path is None or target is None:
        return text
    with replacing(target) as file:
        file.write(text.encode())
    return os.fspath(path)


def _target(path: str | os.PathLike[str]) -> Path:
    """Where to write, or an error before all the work is done."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    if target.exists() and not target.is_file():
        raise OptionError(f"path={os.fspath(path)!r} is a folder, a device or a pipe; name a file")
    return target


def _facts(study: Study) -> str:
    votes = study.votes
    share = votes.n_votes / (votes.n_items * votes.n_sources)
    task = "" if study.task is None else f" · task {study.task}"
    plural = "s" if votes.n_sources != 1 else ""
    return (
        f"{votes.n_items:,} items · {votes.n_sources:,} source{plural} · {votes.n_classes:,} classes · "
        f"{share:.0%} of cells hold a vote{task}"
    )
