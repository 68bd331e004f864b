"""Items of the studio, the votes of sources on them, and fits of a label model to these votes.

Which items a rule matches does not depend on its class, so changing the class costs nothing. Patterns and
functions are applied by a :class:`~flyingsquid.studio.worker.Worker`; other sources are computed at once.
"""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, is_null, option_error
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.exceptions import FlyingSquidError, OptionError, VoteFileError
from flyingsquid.files.inputs import add_path_to_errors, open_input
from flyingsquid.files.vote_files import read_columns, read_records
from flyingsquid.models import LabelModel
from flyingsquid.studio.rules import OPERATORS, PATTERN_KINDS, match_key, read_source
from flyingsquid.studio.worker import FUNCTION_SECONDS, Job, Worker
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import ABSTAIN
from flyingsquid.votes.conventions import MISSING_TEXTS, is_item_name

Kind = Literal["text", "number", "vote"]
# A column of votes has few distinct values, which are short and repeat.
_MOST_CLASSES, _LONGEST_CLASS, _LEAST_REPEATS = 50, 40, 3
# Rows that decide the kind of a column; numbers are checked on all rows when they are read.
_SEEN = 20_000


@dataclass(frozen=True, eq=False)
class Items:
    """Table of items, stored by column."""

    name: str  # name of the file
    columns: dict[str, list[Any]]  # values of each column; strings for csv files
    kinds: dict[str, Kind]  # of each column
    # The column that is shown and searched, and the column of identifiers.
    text: str | None
    id: str | None
    # Embeddings of the items, with rows of length 1; shape (n, d).
    features: NDArray[np.float32] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str | None) -> list[Any]:
        """Return the values of a column; None is the text column."""
        chosen = self.text if name is None else name
        if chosen is None or chosen not in self.columns:
            present = format_list(list(self.columns))
            raise option_error("column", f"one of {present}", chosen)
        return self.columns[chosen]

    def identifier(self, item: int) -> str:
        """Return the identifier of an item: the value of its column, or its position."""
        return str(item) if self.id is None else as_text(self.columns[self.id][item])

    @cached_property
    def _lowercase(self) -> dict[str, list[str]]:
        return {}

    def search(self, text: str) -> NDArray[np.intp]:
        """Return the positions of items whose text contains ``text``, ignoring case."""
        if self.text is None:
            return np.arange(0)
        if self.text not in self._lowercase:
            self._lowercase[self.text] = [as_text(value).lower() for value in self.columns[self.text]]
        wanted = text.lower()
        found = (i for i, value in enumerate(self._lowercase[self.text]) if wanted in value)
        return np.fromiter(found, np.intp)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers; NaN for blank values and for those that are not numbers."""
        if name not in self._numbers:
            self._numbers[name] = np.array([parse_number(value) for value in self.column(name)], np.float64)
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def values(self, name: str) -> list[str]:
        """Return the distinct values of a vote column, sorted, without blank ones."""
        distinct = {as_text(value) for value in self.column(name)}
        return sorted(value for value in distinct if not is_blank(value))

    @cached_property
    def unshared_votes(self) -> frozenset[str]:
        """Vote columns with several values, none of which occurs in another vote column."""
        own = {name: set(self.values(name)) for name, kind in self.kinds.items() if kind == "vote"}
        times = Counter(value for values in own.values() for value in values)
        unshared = (name for name, values in own.items() if all(times[value] == 1 for value in values))
        return frozenset(name for name in unshared if len(own) > 1 and len(own[name]) > 1)


def as_text(value: Any) -> str:
    """Return a cell as a string; the empty string for a missing one."""
    if isinstance(value, str):
        return value
    return "" if is_null(value) else str(value)


def is_blank(value: str) -> bool:
    """Return whether a cell stands for a missing value."""
    return value.strip().lower() in MISSING_TEXTS


def parse_number(value: Any) -> float:
    """Return a cell as a number; NaN if it is blank or not a number.

    >>> parse_number(" 3.5"), parse_number(2), parse_number("")
    (3.5, 2.0, nan)
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def read_items(
    path: str | os.PathLike[str],
    *,
    text: str | None = None,
    id: str | None = None,
    features: Any = None,
) -> Items:
    """Read items from csv, tsv, JSON, parquet, arrow or a text file with one item per line.

    Parameters
    ----------
    path : str or path
    text, id : str, optional
        The text column and the column of identifiers. Default: guessed from names and values.
    features : array of shape (n, d), optional
        Embeddings of the items, for rules by similarity.
    """
    source = open_input(path)
    with add_path_to_errors(source.shown):
        is_text = source.shown.lower().endswith(".txt")
        columns = {"text": read_records(source.path)} if is_text else read_columns(source)
        if not columns or not len(next(iter(columns.values()))):
            raise VoteFileError("The file contains no items.")
    for option, name in (("text", text), ("id", id)):
        if name is not None and name not in columns:
            raise option_error(option, f"one of {format_list(list(columns))}", name)
    if id is None:
        id = next((name for name in columns if is_item_name(name)), None)
    kinds = {name: _kind_of(values) for name, values in columns.items()}
    if id is not None:
        kinds[id] = "text"
    found = Items(os.path.basename(source.shown), columns, kinds, text, id)
    for name in found.unshared_votes:
        if not np.isnan([parse_number(value) for value in found.values(name)]).any():
            kinds[name] = "number"  # such as stars, next to votes for other classes
    if text is None:
        text = _find_text(columns, kinds, id)
    return Items(os.path.basename(source.shown), columns, kinds, text, id, _unit_rows(features, columns))


def _kind_of(values: list[Any]) -> Kind:
    step = max(1, len(values) // _SEEN)
    seen = [as_text(value) for value in values[::step]]
    present = [value for value in seen if not is_blank(value)]
    distinct = set(present)
    few = 0 < len(distinct) <= min(_MOST_CLASSES, len(present) // _LEAST_REPEATS)
    short = all(len(value) <= _LONGEST_CLASS and "\n" not in value for value in distinct)
    numeric = bool(present) and not np.isnan([parse_number(value) for value in present]).any()
    # Small integers may be classes; other numbers are measurements.
    if (
        few
        and short
        and (not numeric or (len(distinct) <= 10 and all(v.strip().isdigit() for v in distinct)))
    ):
        return "vote"
    return "number" if numeric else "text"


def _find_text(columns: dict[str, list[Any]], kinds: dict[str, Kind], id: str | None) -> str | None:
    """Return the column named "text", or the one with the longest values."""
    texts = [name for name, kind in kinds.items() if kind == "text" and name != id]
    if not texts:
        return None
    for name in texts:
        if name.strip().lower() == "text":
            return name
    return max(texts, key=lambda name: sum(len(as_text(value)) for value in columns[name][:1_000]))


def _unit_rows(features: Any, columns: dict[str, list[Any]]) -> NDArray[np.float32] | None:
    if features is None:
        return None
    array = np.asarray(features, np.float32)
    n = len(next(iter(columns.values())))
    if array.ndim != 2 or len(array) != n:
        raise OptionError(
            f"`features` must have the shape ({n}, d); got {array.shape}.", parameter="features"
        )
    lengths = np.sqrt((array**2).sum(axis=1, keepdims=True))
    return np.asarray(array / np.where(lengths > 0, lengths, 1))


# ---------------------------------------------------------------------- votes and fits

Codes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class VoteSummary:
    """Numbers about the votes on all items; exact at every size."""

    # Share of items on which a source votes, and votes while another source votes for another class.
    coverage: NDArray[np.float64]
    conflicts: NDArray[np.float64]
    votes: NDArray[np.int64]  # shape (m, K)
    # Items with a vote, and with votes for different classes; shape (n,).
    covered: NDArray[np.bool_]
    disputed: NDArray[np.bool_]


def summarize_votes(columns: Sequence[Codes], n_items: int, n_classes: int) -> VoteSummary:
    """Count the votes of columns of shape (n,), in passes over bytes.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([0, 1, -1], np.int8), np.array([1, 1, -1], np.int8)
    >>> summarize_votes([a, b], 3, 2).conflicts.round(2).tolist()
    [0.33, 0.33]
    """
    highest = np.full(n_items, ABSTAIN, np.int8)
    lowest = np.full(n_items, 255, np.uint8)  # a missing vote is 255 as an unsigned byte
    for column in columns:
        np.maximum(highest, column, out=highest)
        np.minimum(lowest, column.view(np.uint8), out=lowest)
    covered = highest >= 0
    disputed = covered & (highest.view(np.uint8) != lowest)
    votes = np.zeros((len(columns), n_classes), np.int64)
    conflicts = np.zeros(len(columns))
    for j, column in enumerate(columns):
        votes[j] = [np.count_nonzero(column == k) for k in range(n_classes)]
        conflicts[j] = np.count_nonzero((column >= 0) & disputed) / n_items
    return VoteSummary(votes.sum(axis=1) / n_items, conflicts, votes, covered, disputed)


@dataclass(frozen=True, eq=False)
class StudioFit:
    """A fitted model and the labels of the items that it was fitted on."""

    rows: NDArray[np.intp]  # the items of the fit, ascending; shape (r,)
    model: LabelModel | None  # none if no source votes, or if the fit failed
    votes: Votes | None
    proba: NDArray[np.float32] | None  # shape (r, K)
    labels: NDArray[np.int16]  # most probable class; -1 for items without votes; shape (r,)
    messages: tuple[str, ...] = ()

    def places(self, items: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the positions of fitted items in ``rows``."""
        return np.searchsorted(self.rows, items)


def stack(columns: Sequence[Codes], items: NDArray[np.intp]) -> Codes:
    """Return the votes of some items, shape (n, m)."""
    codes = np.empty((len(items), len(columns)), np.int8, order="F")
    for j, column in enumerate(columns):
        codes[:, j] = column[items]
    return np.ascontiguousarray(codes)


def fit_columns(
    columns: Sequence[Codes],
    classes: tuple[str, ...],
    names: Sequence[str],
    gold: dict[int, int],
    rows: NDArray[np.intp],
) -> StudioFit:
    """Fit a label model to the columns of some items, and label these items."""
    nothing = np.full(len(rows), ABSTAIN, np.int16)
    if not columns or len(classes) < 2:
        return StudioFit(rows, None, None, None, nothing)
    codes = stack(columns, rows)
    covered = codes.max(axis=1) >= 0
    if not covered.any():
        return StudioFit(rows, None, None, None, nothing)
    votes = Votes(codes, classes, tuple(names))
    try:
        with capture_source_warnings() as messages:
            model = LabelModel(classes=classes).fit(votes, gold=gold_labels(gold, classes, rows))
        proba = model.predict_proba(votes, dtype=np.float32)
        _ = model.accuracies_interval_, model.diagnostics_  # shown in every table; computed on demand
    except FlyingSquidError as error:
        message = (f"The labels could not be estimated: {error}",)
        return StudioFit(rows, None, votes, None, nothing, message)
    labels = np.where(covered, proba.argmax(axis=1), ABSTAIN).astype(np.int16)
    return StudioFit(rows, model, votes, proba, labels, tuple(messages))


def gold_labels(
    gold: dict[int, int], classes: tuple[str, ...], rows: NDArray[np.intp]
) -> NDArray[Any] | None:
    """Return the gold labels of some items, None for those without one; None if there are no gold labels."""
    if not gold:
        return None
    labels = np.full(len(rows), None, object)
    labels[np.searchsorted(rows, list(gold))] = [classes[k] for k in gold.values()]
    return labels


def sample_rows(n_items: int, size: int) -> NDArray[np.intp]:
    """Return a fixed random sample of items in order; all items if they are few enough."""
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n_items, min(n_items, size), replace=False)).astype(np.intp)


def with_gold(rows: NDArray[np.intp], gold: dict[int, int]) -> NDArray[np.intp]:
    """Return the sample together with all items that have gold labels."""
    return np.union1d(rows, np.fromiter(gold, np.intp, len(gold))).astype(np.intp)


# ---------------------------------------------------------------------- votes of sources


_KEPT_BYTES, _KEPT_MORE = 1 << 28, 20
_WORKER_KINDS = (*PATTERN_KINDS, "function")


class FunctionFile:
    """Python file of labeling functions, which is trusted code.

    Attributes
    ----------
    name : str
        Name of the file; empty if there is none.
    functions : list of str
    error : str or None
        Why the file could not be executed.
    """

    def __init__(self, path: Path | None, worker: Worker) -> None:
        self.path, self._worker = path, worker
        self.name = "" if path is None else path.name
        self.functions: list[str] = []
        self.error: str | None = None
        self.version: int | None = None

    def read(self) -> bool:
        """Execute the file in the worker if it is new or was changed; return whether it was."""
        if self.path is None:
            return False
        try:
            version = self.path.stat().st_mtime_ns
        except OSError as error:
            changed = self.version != 0
            self.version, self.functions, self.error = 0, [], f"{self.name}: {error.strerror}"
            return changed
        if version == self.version:
            return False
        source = {"kind": "list", "path": str(self.path), "version": version}
        job = Job("list", source, lambda _start, _stop: [], np.zeros(1, np.int8), seconds=FUNCTION_SECONDS)
        self._worker.submit(job).finished.wait(2 * FUNCTION_SECONDS)
        self.error = None if job.error is None else f"{self.name}: {job.error}"
        self.version, self.functions = version, job.listed
        return True


class SourceColumns:
    """Votes of sources.

    Parameters
    ----------
    items : Items
        May be replaced by items with another text column.
    worker : Worker
    file : FunctionFile
    """

    def __init__(self, items: Items, worker: Worker, file: FunctionFile) -> None:
        self.items, self._worker, self._file = items, worker, file
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._codes: OrderedDict[tuple[str, int], Codes] = OrderedDict()
        self._preview: Job | None = None

    def check(self, source: Any, n_classes: int) -> dict[str, Any]:
        """Check a description, and that the column, features or function exist that it refers to."""
        found = read_source(source, n_classes, len(self.items))
        kind = found["kind"]
        if kind in ("comparison", "column") and "column" not in found:
            raise OptionError("`column` must be the name of a column; got None.", parameter="column")
        if kind in (*PATTERN_KINDS, "comparison", "column"):
            self.items.column(found.get("column"))
        if kind == "comparison" and np.isnan(self.items.numbers(found["column"])).all():
            raise OptionError(
                f"`column` must contain numbers; got {format_value(found['column'])}.", parameter="column"
            )
        if kind == "similarity" and self.items.features is None:
            raise OptionError(
                "Similarity needs features of the items; start the studio with --features.", parameter="kind"
            )
        if kind == "function" and found["function"] not in self._file.functions:
            known = format_list(self._file.functions) or "none; start the studio with --functions"
            raise option_error(
                "function", f"a labeling function of the watched file ({known})", found["function"]
            )
        return found

    def get(self, source: dict[str, Any], classes: tuple[str, ...]) -> Codes | None:
        """Return the votes of a source, or None if they are being computed or failed."""
        label = source.get("label", ABSTAIN)
        key = self.key(source, classes)
        if (key, label) in self._codes:
            self._codes.move_to_end((key, label))
            return self._codes[key, label]
        if source["kind"] in _WORKER_KINDS:
            job = self._job(key, self._resolve(source, classes), classes)
            if job.status != "ready":
                return None
            is_function = source["kind"] == "function"
            codes = job.codes if is_function else np.where(job.codes > 0, label, ABSTAIN)
        else:
            codes = self._compute(source, classes)
        self._codes[key, label] = codes.astype(np.int8)
        return self._codes[key, label]

    def trim(self, n_sources: int) -> None:
        """Discard votes that were not used recently: of removed sources, previews and other classes.

        Those of ``n_sources`` sources are kept, and others as long as they take at most 256 MB.
        """
        most = max(n_sources + _KEPT_MORE, _KEPT_BYTES // len(self.items))
        while len(self._codes) > most:
            self._codes.popitem(last=False)
        while len(self._jobs) > most:
            self._worker.cancel(self._jobs.popitem(last=False)[1])

    def key(self, source: dict[str, Any], classes: tuple[str, ...]) -> str:
        """Return a string that identifies which items a source matches."""
        return match_key(self._resolve(source, classes))

    def status(self, source: dict[str, Any], classes: tuple[str, ...]) -> dict[str, Any]:
        """Return the status, error and progress of a source, as JSON values."""
        if source["kind"] == "function" and self._file.error is not None:
            return {"status": "error", "error": self._file.error, "progress": None}
        job = self._jobs.get(self.key(source, classes)) if source["kind"] in _WORKER_KINDS else None
        if job is None:
            return {"status": "ready", "error": None, "progress": None}
        progress = [job.done, job.total] if job.status == "working" else None
        return {"status": job.status, "error": job.error, "progress": progress}

    def preview(self, source: dict[str, Any], kept: set[str]) -> Job:
        """Apply a pattern before other jobs; replaces the last preview unless its key is in ``kept``."""
        key = self.key(source, ())
        last = self._preview
        if last is not None and last.status == "working" and last.key not in kept | {key}:
            self._worker.cancel(last)
            self._jobs.pop(last.key, None)
        self._preview = self._job(key, self._resolve(source, ()), (), urgent=True)
        return self._preview

    def _resolve(self, source: dict[str, Any], classes: tuple[str, ...]) -> dict[str, Any]:
        """Return a description that identifies the votes: with its column, or the version of its file."""
        if source["kind"] in PATTERN_KINDS:
            return {"column": self.items.text, **source}
        if source["kind"] == "column":
            return {**source, "classes": list(classes)}
        if source["kind"] == "function":
            version = {"path": str(self._file.path), "version": self._file.version}
            return {**source, **version, "classes": list(classes)}
        return source

    def _job(
        self, key: str, source: dict[str, Any], classes: tuple[str, ...], *, urgent: bool = False
    ) -> Job:
        """Return the application of a source to all items, started now or earlier."""
        if key in self._jobs:
            self._jobs.move_to_end(key)
            return self._jobs[key]
        codes = np.full(len(self.items), ABSTAIN, np.int8)
        if source["kind"] == "function":
            job = Job(key, source, self._records, codes, classes=classes, seconds=FUNCTION_SECONDS)
        else:
            values = self.items.column(source["column"])

            def texts(start: int, stop: int) -> list[Any]:
                return [each if each is None else as_text(each) for each in values[start:stop]]

            job = Job(key, source, texts, codes, urgent=urgent)
        self._jobs[key] = job
        return self._worker.submit(job)

    def _records(self, start: int, stop: int) -> list[dict[str, Any]]:
        table = self.items.columns
        rows = zip(*(values[start:stop] for values in table.values()), strict=True)
        return [dict(zip(table, row, strict=True)) for row in rows]

    def _compute(self, source: dict[str, Any], classes: tuple[str, ...]) -> Any:
        """Return votes that need no pattern and no code of the user."""
        items = self.items
        if source["kind"] == "column":
            place = {name: k for k, name in enumerate(classes)}
            values = items.column(source["column"])
            found = (place.get(as_text(value).strip(), ABSTAIN) for value in values)
            return np.fromiter(found, np.int8, len(items))
        if source["kind"] == "comparison":
            numbers = items.numbers(source["column"])
            matches = OPERATORS[source["operator"]](numbers, source["value"]) & ~np.isnan(numbers)
        elif items.features is None:  # the project was made with features
            matches = np.zeros(len(items), bool)
        else:
            matches = items.features @ items.features[source["item"]] >= source["at_least"]
        return np.where(matches, source["label"], ABSTAIN)
