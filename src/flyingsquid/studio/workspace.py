"""The engine of the studio: items, sources, votes, labels and the numbers that the page shows.

A change is followed by a fit on at most ``sample_size`` items, so that the table is refreshed at once. If
there are more items, a thread then fits all of them; ``state()["sampled"]`` tells which fit is shown. The same
thread computes the effects of removing sources, and suggestions.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.analysis import suggest_items
from flyingsquid.exceptions import OptionError
from flyingsquid.studio.fitting import (
    Codes,
    StudioFit,
    VoteSummary,
    effect_of_removal,
    fit_columns,
    sample_rows,
    summarize_votes,
    with_gold,
)
from flyingsquid.studio.items import Items, as_text
from flyingsquid.studio.project import Project, SourceEntry
from flyingsquid.studio.rules import OPERATORS, PATTERN_KINDS, match_key, name_sources, read_source
from flyingsquid.studio.suggestions import Suggestion, suggest_rules
from flyingsquid.studio.worker import FUNCTION_SECONDS, Job, Worker
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import ABSTAIN
from flyingsquid.votes.conventions import is_gold_name

SAMPLE = 20_000
"""Items of the first fit after a change. At 30 sources it takes about 50 ms on one core."""
_LONGEST_TEXT, _LONGEST_FIELD, _NEIGHBORS = 2_000, 200, 5
_MOST_COLUMNS = 400
_PREVIEW_SECONDS, _PREVIEW_EXAMPLES = 1.0, 10
_INITIAL_COLUMNS = 100


@dataclass(frozen=True, eq=False)
class View:
    """What the page shows: votes and labels after the same change. Immutable."""

    change: int
    entries: tuple[SourceEntry, ...]
    names: tuple[str, ...]
    columns: tuple[Codes, ...]
    summary: VoteSummary
    fit: StudioFit
    gold: dict[int, int]
    classes: tuple[str, ...]
    changed: int
    fit_ms: float
    table_ms: float
    effects: dict[str, int] | None = None


class Workspace:
    """Items with sources that can be changed.

    Parameters
    ----------
    items : Items
    project : Project
    functions : path, optional
        Python file of labeling functions. It is trusted code: it is executed, and again when it changes.
    on_event : callable, optional
        Called with a JSON value after changes, from any thread.
    sample_size : int, default=20_000
    features_name : str, optional
        Name of the file of features, for exported rules.
    background : bool, default=True
        Whether a thread refines the fit and computes effects and suggestions. Otherwise :meth:`settle` does.
    """

    def __init__(
        self,
        items: Items,
        project: Project,
        *,
        functions: str | os.PathLike[str] | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        sample_size: int = SAMPLE,
        background: bool = True,
        features_name: str | None = None,
    ) -> None:
        self.items, self.project, self.features_name = items, project, features_name
        self.revision = 0
        self._on_event = on_event or (lambda _event: None)
        self._lock = threading.RLock()
        self._matches: OrderedDict[str, Job] = OrderedDict()
        self._codes: OrderedDict[tuple[str, int], Codes] = OrderedDict()
        self._sample = sample_rows(len(items), sample_size)
        self._change = 0
        self._before_change: StudioFit | None = None
        self._suggestions: tuple[int, list[Suggestion]] | None = None
        self._all_proba: tuple[int, NDArray[np.float32] | None] | None = None
        self._preview: Job | None = None
        self._functions = None if functions is None else Path(functions)
        self._function_names: list[str] = []
        self._function_error: str | None = None
        self._function_version: float | None = None
        self._closed = threading.Event()
        self._worker = Worker(self._on_progress)
        self._wake = threading.Event()
        if not project.actions:
            self._add_initial()
        self._apply_columns()
        self._view = self._make_view()
        self._threads: list[threading.Thread] = []
        if background:
            self._start(self._refine_forever, "flyingsquid-studio-refine")
        if self._functions is not None:
            self.read_functions()
            if background:
                self._start(self._watch_functions, "flyingsquid-studio-watch")

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """End the worker and the threads."""
        self._closed.set()
        self._wake.set()
        self._worker.close()
        for thread in self._threads:
            thread.join(timeout=30)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _add_initial(self) -> None:
        """Start a project with the vote columns of the file as sources."""
        found = [
            name
            for name, kind in self.items.kinds.items()
            if kind == "vote" and not is_gold_name(name) and name not in (self.items.text, self.items.id)
        ][:_INITIAL_COLUMNS]
        classes = sorted({value.strip() for name in found for value in self.items.values(name)})
        if 2 <= len(classes) <= 20:
            self.project.act({"type": "set_classes", "classes": classes}, save=False)
            for name in found:
                source = {"kind": "column", "column": name}
                self.project.act({"type": "add_source", "source": source}, save=False)

    # ------------------------------------------------------------------ changes

    def act(self, action: dict[str, Any]) -> int:
        """Apply an action and refresh the table; return the revision."""
        with self._lock:
            if action.get("type") == "accept_suggestion":
                action = {"type": "add_source", "source": self._suggestion(action.get("id")).source}
            self._check_columns(action)
            self.project.act(action)
            return self._after_change()

    def undo(self) -> int:
        """Take back the last action; return the revision."""
        with self._lock:
            self.project.move(-1)
            return self._after_change()

    def redo(self) -> int:
        """Apply the action again that was undone last; return the revision."""
        with self._lock:
            self.project.move(+1)
            return self._after_change()

    def _suggestion(self, id: Any) -> Suggestion:
        for each in self._suggestions[1] if self._suggestions else []:
            if each.id == id:
                return each
        raise OptionError("`id` must be the identifier of a current suggestion.", parameter="id")

    def _check_columns(self, action: dict[str, Any]) -> None:
        """Require that the columns and features exist that an action refers to."""
        if action.get("type") == "set_columns":
            for name in ("text", "id"):
                if action.get(name) is not None:
                    self.items.column(action[name])
        source = action.get("source")
        if action.get("type") in ("add_source", "update_source") and isinstance(source, dict):
            self._check_source(source)

    def _check_source(self, source: dict[str, Any]) -> dict[str, Any]:
        found = read_source(source, len(self.project.state.classes), len(self.items))
        kind = found["kind"]
        if kind in (*PATTERN_KINDS, "comparison", "column"):
            if kind in ("comparison", "column") and "column" not in found:
                raise OptionError("`column` must be the name of a column.", parameter="column")
            self.items.column(found.get("column"))
        if kind == "comparison" and self.items.kinds[found["column"]] == "text":
            raise OptionError(
                f"`column` must contain numbers; got {format_value(found['column'])}.", parameter="column"
            )
        if kind == "similarity" and self.items.features is None:
            raise OptionError(
                "Similarity needs features of the items; start the studio with --features.", parameter="kind"
            )
        if kind == "function" and found["function"] not in self._function_names:
            known = format_list(self._function_names) or "none; start the studio with --functions"
            raise OptionError(
                f"`function` must be a labeling function of the watched file ({known}).",
                parameter="function",
            )
        return found

    def _after_change(self) -> int:
        self._change += 1
        self._apply_columns()
        self._refresh()
        return self.revision

    def _apply_columns(self) -> None:
        state = self.project.state
        text = self.items.text if state.text is None else state.text
        id = self.items.id if state.id is None else state.id
        if (text, id) != (self.items.text, self.items.id):
            self.items = replace(self.items, text=text, id=id)

    def _refresh(self) -> None:
        self._view = self._make_view()
        self._announce()
        self._wake.set()

    def _announce(self) -> None:
        self.revision += 1
        self._on_event({"revision": self.revision})

    def _make_view(self) -> View:
        """Fit the votes of all sources that are ready."""
        start = time.perf_counter()
        state = self.project.state
        every = list(state.sources.values())
        names = dict(zip(state.sources, name_sources(entry.source for entry in every), strict=True))
        ready = [
            (entry, codes) for entry in every if entry.enabled and (codes := self._column(entry)) is not None
        ]
        entries = tuple(entry for entry, _ in ready)
        columns = tuple(codes for _, codes in ready)
        chosen = tuple(names[entry.id] for entry in entries)
        rows = with_gold(self._sample, state.gold)
        fit = fit_columns(columns, state.classes, chosen, state.gold, rows, len(self.items))
        if fit.model is not None:  # computed on demand, and shown in the table
            _ = fit.model.accuracies_interval_, fit.model.diagnostics_
        fitted = time.perf_counter()
        summary = summarize_votes(columns, len(self.items), len(state.classes))
        changed = self._count_changes(fit)
        done = time.perf_counter()
        return View(
            change=self._change,
            entries=entries,
            names=chosen,
            columns=columns,
            summary=summary,
            fit=fit,
            gold=state.gold,
            classes=state.classes,
            changed=changed,
            fit_ms=1e3 * (fitted - start),
            table_ms=1e3 * (done - fitted),
        )

    def _count_changes(self, fit: StudioFit) -> int:
        """Count labels that differ from those before the last change, on the sample scaled to all items."""
        before = getattr(self, "_view", None)
        if before is None:
            return 0
        if before.change == self._change:  # the same change again: a column arrived
            return self._count_between(self._before_change, fit)
        self._before_change = before.fit
        return self._count_between(before.fit, fit)

    def _count_between(self, old: StudioFit | None, new: StudioFit) -> int:
        if old is None:
            return 0
        differ = _labels_of(old, self._sample) != _labels_of(new, self._sample)
        return round(float(np.mean(differ)) * len(self.items))

    # ------------------------------------------------------------------ votes of sources

    def _column(self, entry: SourceEntry) -> Codes | None:
        """Return the votes of a source, or None if they are not there yet; then they are being computed."""
        source = entry.source
        label = source.get("label", ABSTAIN)
        resolved = self._resolve(source)
        key = match_key(resolved)
        if (key, label) in self._codes:
            self._codes.move_to_end((key, label))
            return self._codes[key, label]
        codes: Codes
        if source["kind"] in ("keywords", "regex", "function"):
            job = self._job(key, resolved)
            if job.status != "ready":
                return None
            if source["kind"] == "function":
                codes = job.codes.astype(np.int8)
            else:
                codes = np.where(job.codes > 0, label, ABSTAIN).astype(np.int8)
        else:
            codes = self._compute(source)
        self._codes[key, label] = codes
        while len(self._codes) > _MOST_COLUMNS:
            self._codes.popitem(last=False)
        return codes

    def _resolve(self, source: dict[str, Any]) -> dict[str, Any]:
        """Return a description that identifies the votes: with its column, or the version of its file."""
        if source["kind"] in PATTERN_KINDS:
            return {"column": self.items.text, **source}
        if source["kind"] == "column":
            return {**source, "classes": list(self.project.state.classes)}
        if source["kind"] == "function":
            version = {"path": str(self._functions), "version": self._function_version}
            return {**source, **version, "classes": list(self.project.state.classes)}
        return source

    def _job(self, key: str, source: dict[str, Any], *, urgent: bool = False) -> Job:
        """Return the application of a source to all items, started now or earlier."""
        if key in self._matches:
            self._matches.move_to_end(key)
            return self._matches[key]
        codes = np.full(len(self.items), ABSTAIN, np.int16)
        if source["kind"] == "function":
            table = self.items.columns

            def records(start: int, stop: int) -> list[Any]:
                rows = zip(*(values[start:stop] for values in table.values()), strict=True)
                return [dict(zip(table, row, strict=True)) for row in rows]

            classes = self.project.state.classes
            job = Job(key, source, records, codes, classes=classes, seconds=FUNCTION_SECONDS)
        else:
            values = self.items.column(source["column"])

            def texts(start: int, stop: int) -> list[Any]:
                return [each if each is None else as_text(each) for each in values[start:stop]]

            job = Job(key, source, texts, codes, urgent=urgent)
        self._matches[key] = job
        while len(self._matches) > _MOST_COLUMNS:
            self._worker.cancel(self._matches.popitem(last=False)[1])
        return self._worker.submit(job)

    def _compute(self, source: dict[str, Any]) -> Codes:
        """Return votes that need no pattern and no code of the user."""
        if source["kind"] == "column":
            classes = {name: k for k, name in enumerate(self.project.state.classes)}
            found = (
                classes.get(as_text(value).strip(), ABSTAIN) for value in self.items.column(source["column"])
            )
            return np.fromiter(found, np.int8, len(self.items))
        if source["kind"] == "comparison":
            numbers = self.items.numbers(source["column"])
            matches = OPERATORS[source["operator"]](numbers, source["value"]) & ~np.isnan(numbers)
        else:
            features = self.items.features
            if features is None:  # a project of an earlier start
                matches = np.zeros(len(self.items), bool)
            else:
                matches = features @ features[source["item"]] >= source["at_least"]
        return np.where(matches, source["label"], ABSTAIN).astype(np.int8)

    def _on_progress(self, job: Job) -> None:
        """Publish the progress of a job, and refit when it ends."""
        if self._closed.is_set():
            return
        with self._lock:
            waiting = [
                entry
                for entry in self.project.state.sources.values()
                if entry.source["kind"] in ("keywords", "regex", "function")
                and match_key(self._resolve(entry.source)) == job.key
            ]
            for entry in waiting:
                progress = {"source": entry.id, "done": job.done, "total": job.total}
                self._on_event({"progress": progress})
            if waiting and job.status != "working":
                self._refresh()

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until the votes of all sources are there."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self._lock:
                working = [row for row in self._source_rows(self._view) if row["status"] == "working"]
            if not working:
                return
            time.sleep(0.005)
        raise TimeoutError("sources are still being applied")

    def preview(self, source: Any) -> dict[str, Any]:
        """Return how many items a source matches, without adding it. A new preview replaces the last."""
        with self._lock:
            found = self._check_source(source)
            if found["kind"] not in PATTERN_KINDS:
                entry = SourceEntry("preview", found)
                codes = self._column(entry)
                matches = np.flatnonzero(codes >= 0) if codes is not None else np.arange(0)
                return self._previewed(matches, len(self.items))
            resolved = self._resolve(found)
            key = match_key(resolved)
            known = {match_key(self._resolve(entry.source)) for entry in self.project.state.sources.values()}
            last = self._preview
            if last is not None and last.key not in known | {key} and last.status == "working":
                self._worker.cancel(last)
                self._matches.pop(last.key, None)
            self._preview = job = self._job(key, resolved, urgent=True)
        job.finished.wait(_PREVIEW_SECONDS)
        if job.error is not None:
            raise OptionError(job.error, parameter="pattern" if found["kind"] == "regex" else "words")
        return self._previewed(np.flatnonzero(job.codes[: job.done] > 0), job.done)

    def _previewed(self, matches: NDArray[np.intp], done: int) -> dict[str, Any]:
        view = self._view
        examples = self._items(view, matches[:_PREVIEW_EXAMPLES])
        return {"matches": len(matches), "examples": examples, "progress": [done, len(self.items)]}

    # ------------------------------------------------------------------ functions of a watched file

    def read_functions(self) -> None:
        """List the labeling functions of the watched file, in the worker."""
        if self._functions is None:
            return
        try:
            version = self._functions.stat().st_mtime
        except OSError as error:
            names, problem, version = [], f"{self._functions.name}: {error.strerror}", 0.0
        else:
            source = {"kind": "list", "path": str(self._functions), "version": version}
            job = Job("list", source, lambda _a, _b: [], np.zeros(1, np.int16), seconds=FUNCTION_SECONDS)
            self._worker.submit(job).finished.wait(2 * FUNCTION_SECONDS)
            names, problem = job.listed, job.error
        with self._lock:
            self._function_names = names
            self._function_error = None if problem is None else f"{self._functions.name}: {problem}"
            self._function_version = version
            if hasattr(self, "_view"):
                self._refresh()

    def _watch_functions(self) -> None:
        while not self._closed.wait(0.5):
            try:
                version = self._functions.stat().st_mtime if self._functions is not None else None
            except OSError:
                version = 0.0
            if version != self._function_version:
                self.read_functions()

    # ------------------------------------------------------------------ background

    def _refine_forever(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            # Wait for a pause: somebody who types should not share the processor with this.
            while self._wake.wait(0.15) and not self._closed.is_set():
                self._wake.clear()
            if not self._closed.is_set():
                self.settle(lambda: self._wake.is_set() or self._closed.is_set())

    def settle(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Fit all items if the last fit was on a sample, then compute effects and suggestions.

        ``stop`` is asked between steps; after a change the rest is left to the next call.
        """
        view = self._view
        if view.fit.rows is not None:
            start = time.perf_counter()
            full = fit_columns(view.columns, view.classes, view.names, view.gold, None, len(self.items))
            if full.model is not None:
                _ = full.model.accuracies_interval_, full.model.diagnostics_
            refined = replace(view, fit=full, fit_ms=1e3 * (time.perf_counter() - start))
            if not self._publish(view, refined):
                return
            view = refined
            with self._lock:
                self._announce()
        if not stop():
            self._publish_suggestions(view)
        effects: dict[str, int] = {}
        sample = self._sampled_fit(view)
        scale = len(self.items) / max(1, len(sample.labels))
        for j, entry in enumerate(view.entries):
            if stop() or self._view is not view:
                return
            changed = effect_of_removal(sample, view.columns, view.names, view.gold, j)
            if changed is not None:
                effects[entry.id] = round(changed * scale)
        if self._publish(view, replace(view, effects=effects)):
            self._on_event({"table": self.revision})

    def _publish(self, old: View, new: View) -> bool:
        """Replace a view, unless it was replaced by a change."""
        with self._lock:
            if self._view is not old:
                return False
            self._view = new
            return True

    def _sampled_fit(self, view: View) -> StudioFit:
        """Return the fit on the sample, on which effects are computed quickly."""
        if self._sample is None:
            return view.fit
        rows = with_gold(self._sample, view.gold)
        return fit_columns(view.columns, view.classes, view.names, view.gold, rows, len(self.items))

    def _publish_suggestions(self, view: View) -> None:
        found = suggest_rules(
            self.items,
            view.fit,
            view.summary.covered,
            view.columns,
            view.entries,
            self._sample,
            self.project.state.rejected,
        )
        with self._lock:
            if self._view is view:
                self._suggestions = (view.change, found)
        self._on_event({"table": self.revision})

    def suggestions(self) -> dict[str, Any]:
        """Return candidate rules, and whether they follow from the current labels."""
        with self._lock:
            found, change = self._suggestions, self._change
            rejected = self.project.state.rejected
            known = {match_key(entry.source) for entry in self.project.state.sources.values()}
        if found is None:
            return {"status": "working", "suggestions": []}
        shown = [
            each.to_json()
            for each in found[1]
            if each.id not in rejected and match_key(each.source) not in known
        ]
        return {"status": "ready" if found[0] == change else "working", "suggestions": shown}

    # ------------------------------------------------------------------ the page

    @property
    def view(self) -> View:
        """What the page shows now."""
        return self._view

    def state(self) -> dict[str, Any]:
        """Return everything that the page shows besides items, as JSON values."""
        with self._lock:
            view, project, revision = self._view, self.project.state, self.revision
            history, sources = self.project.history(), self._source_rows(view)
            items = self.items
        fit = view.fit
        used = {entry.source.get("function") for entry in project.sources.values()}
        by_class = np.bincount(fit.labels[fit.labels >= 0], minlength=len(view.classes))
        scale = len(items) / max(1, len(fit.labels))
        return {
            "revision": revision,
            "data": {
                "name": items.name,
                "n_items": len(items),
                "columns": [{"name": name, "type": kind} for name, kind in items.kinds.items()],
                "text_column": items.text,
                "id_column": items.id,
                "similarity": items.features is not None,
                "functions": [
                    {"file": self._functions.name if self._functions else "", "function": name}
                    for name in self._function_names
                    if name not in used
                ],
            },
            "classes": list(project.classes),
            "sources": sources,
            "balance": self._balance(view),
            "labels": {
                "covered": int(np.count_nonzero(view.summary.covered)),
                "by_class": [round(float(n) * scale) for n in by_class],
                "changed": view.changed,
            },
            "verdict": self._verdict(view),
            "comparison": self._comparison(view),
            "gold": {
                "count": len(project.gold),
                "by_class": np.bincount(
                    np.fromiter(project.gold.values(), np.intp), minlength=len(project.classes)
                ).tolist(),
            },
            "history": history,
            "timing": {"fit_ms": round(view.fit_ms, 1), "table_ms": round(view.table_ms, 1)},
            "sampled": None if fit.rows is None else len(fit.rows),
            "messages": [*fit.messages, *([self._function_error] if self._function_error else [])],
        }

    def _source_rows(self, view: View) -> list[dict[str, Any]]:
        state = self.project.state
        place = {entry.id: j for j, entry in enumerate(view.entries)}
        names = name_sources(entry.source for entry in state.sources.values())
        model = view.fit.model
        return [
            self._source_row(view, entry, name, place.get(entry.id), model)
            for entry, name in zip(state.sources.values(), names, strict=True)
        ]

    def _source_row(
        self, view: View, entry: SourceEntry, name: str, at: int | None, model: Any
    ) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": entry.id,
            "name": name,
            "kind": entry.source["kind"],
            "source": entry.source,
            "enabled": entry.enabled,
            "status": "ready",
            "error": None,
            "progress": None,
            "coverage": None,
            "conflicts": None,
            "votes": None,
            "accuracy": None,
            "interval": None,
            "effect": None,
        }
        job = self._matches.get(match_key(self._resolve(entry.source)))
        if job is not None and at is None:
            row |= {"status": job.status, "error": job.error}
            row["progress"] = [job.done, job.total] if job.status == "working" else None
        if at is None:
            return row
        row["coverage"] = float(view.summary.coverage[at])
        row["conflicts"] = float(view.summary.conflicts[at])
        row["votes"] = view.summary.votes[at].tolist()
        if model is not None and row["coverage"] > 0:
            low, high = model.accuracies_interval_[at]
            if np.isfinite(low) and np.isfinite(high):
                row["accuracy"] = float(model.accuracies_[at])
                row["interval"] = [float(low), float(high)]
        if view.effects is not None and entry.id in view.effects:
            row["effect"] = {"changed": view.effects[entry.id]}
        return row

    def _balance(self, view: View) -> list[dict[str, Any]]:
        model = view.fit.model
        if model is None:
            return []
        intervals = model.class_balance_interval_
        return [
            {
                "class": k,
                "share": float(share),
                "interval": intervals[k].tolist() if np.isfinite(intervals[k]).all() else None,
            }
            for k, share in enumerate(model.class_balance_)
        ]

    def _verdict(self, view: View) -> dict[str, str] | None:
        if view.fit.model is None:
            return None
        verdict = view.fit.model.diagnostics_.verdict
        return {"kind": verdict.kind, "text": verdict.text}

    def _comparison(self, view: View) -> dict[str, Any] | None:
        """Return cross-validated accuracies of the model and of majority vote on the gold labels."""
        gold = None if view.fit.model is None else view.fit.model.diagnostics_.gold
        if gold is None:
            return None
        return {"gold": gold.n_gold} | {
            name: {"accuracy": each.value, "interval": [each.low, each.high]}
            for name, each in (("model", gold.accuracy), ("majority", gold.majority_accuracy))
        }

    # ------------------------------------------------------------------ items

    def list_items(
        self,
        filter: str = "all",
        *,
        source: str | None = None,
        label: int | None = None,
        search: str = "",
        order: str = "index",
        offset: int = 0,
        limit: int = 50,
        indexes: list[int] | None = None,
    ) -> dict[str, Any]:
        """Return some items in order; see ``FILTERS`` and ``ORDERS``."""
        with self._lock:
            view, revision = self._view, self.revision
        chosen = self._filtered(view, filter, source, label, indexes)
        if search:
            found = self.items.search(search)
            chosen = found if chosen is None else chosen[np.isin(chosen, found)]
        total = len(self.items) if chosen is None else len(chosen)
        ordered = self._ordered(view, chosen, order)
        if ordered is None:
            page = np.arange(offset, max(offset, min(offset + limit, total)))
        else:
            page = ordered[offset : offset + limit]
        return {
            "total": total,
            "revision": revision,
            "sources": [entry.id for entry in view.entries],
            "items": self._items(view, page),
        }

    def _filtered(
        self, view: View, filter: str, source: str | None, label: int | None, indexes: list[int] | None
    ) -> NDArray[np.intp] | None:
        """Return the items that pass a filter; None for all."""
        n = len(self.items)
        if filter not in FILTERS:
            raise OptionError(
                f"`filter` must be one of {format_list(list(FILTERS))}; got {format_value(filter)}.",
                parameter="filter",
            )
        if filter == "indexes":
            return np.array([i for i in indexes or [] if 0 <= i < n], np.intp)
        if filter == "source":
            place = {entry.id: j for j, entry in enumerate(view.entries)}.get(str(source))
            if place is None:
                return np.arange(0)
            column = view.columns[place]
            return np.flatnonzero(column >= 0 if label is None else column == label)
        if filter == "gold":
            return np.array(sorted(view.gold), np.intp)
        if filter == "disagreement":
            return np.flatnonzero(view.summary.disputed)
        if filter == "uncovered":
            return np.flatnonzero(~view.summary.covered)
        if filter == "uncertain":
            return np.flatnonzero(view.summary.covered)
        if filter == "class":
            proba = self._proba(view)
            if proba is None:
                return np.arange(0)
            return np.flatnonzero(view.summary.covered & (proba.argmax(axis=1) == (label or 0)))
        return None

    def _ordered(self, view: View, chosen: NDArray[np.intp] | None, order: str) -> NDArray[np.intp] | None:
        if order not in ORDERS:
            raise OptionError(
                f"`order` must be one of {format_list(list(ORDERS))}; got {format_value(order)}.",
                parameter="order",
            )
        if order == "index":
            return chosen
        items = np.arange(len(self.items)) if chosen is None else chosen
        if order == "votes":
            counts = np.zeros(len(self.items), np.int16)
            for column in view.columns:
                counts += column >= 0
            return items[np.argsort(-counts[items], kind="stable")]
        proba = self._proba(view)
        if proba is None:
            return chosen
        confidence = np.where(view.summary.covered[items], proba[items].max(axis=1), 0)
        return items[np.argsort(confidence if order == "uncertain" else -confidence, kind="stable")]

    def _proba(self, view: View) -> NDArray[np.float32] | None:
        """Return the probabilities of all items; kept until the next change."""
        if view.fit.rows is None or view.fit.model is None:
            return view.fit.proba
        with self._lock:
            if self._all_proba is not None and self._all_proba[0] == id(view.fit):
                return self._all_proba[1]
        proba = self._proba_of(view, _stack(view.columns))
        with self._lock:
            self._all_proba = (id(view.fit), proba)
        return proba

    def _items(self, view: View, positions: Sequence[int], *, whole: bool = False) -> list[dict[str, Any]]:
        """Return items as JSON values; long texts are cut unless ``whole``."""
        at = np.asarray(positions, np.intp)
        codes = _stack(view.columns, at)
        proba = self._proba_of(view, codes)
        return [
            self._fields(i, whole=whole)
            | {
                "votes": [None if code < 0 else int(code) for code in codes[row]],
                "proba": None if proba is None or (codes[row] < 0).all() else proba[row].tolist(),
                "label": None if proba is None or (codes[row] < 0).all() else int(proba[row].argmax()),
                "gold": view.gold.get(i),
            }
            for row, i in enumerate(at.tolist())
        ]

    def _proba_of(self, view: View, codes: Codes) -> NDArray[np.float32] | None:
        """Return the probabilities of some items, by their votes."""
        if view.fit.model is None or not len(codes):
            return None
        votes = Votes(codes, view.classes, view.names)
        return view.fit.model.predict_proba(votes, dtype=np.float32)

    def _fields(self, i: int, *, whole: bool) -> dict[str, Any]:
        items = self.items
        text = "" if items.text is None else as_text(items.columns[items.text][i])
        fields = {
            name: as_text(values[i])[: None if whole else _LONGEST_FIELD]
            for name, values in items.columns.items()
            if name not in (items.text, items.id)
        }
        shown = text if whole else text[:_LONGEST_TEXT]
        return {"index": i, "id": items.identifier(i), "text": shown, "fields": fields}

    def item(self, i: int) -> dict[str, Any]:
        """Return one item with the contributions of its votes."""
        if not 0 <= i < len(self.items):
            raise OptionError(f"`item` must be a position from 0 to {len(self.items) - 1}.", parameter="item")
        with self._lock:
            view = self._view
        found: dict[str, Any] = {"item": self._items(view, [i], whole=True)[0], "explanation": []}
        if view.fit.model is not None and found["item"]["proba"] is not None:
            votes_row = Votes(_stack(view.columns, np.array([i])), view.classes, view.names)
            explanation = view.fit.model.explain(votes_row)
            votes = dict(zip(view.names, found["item"]["votes"], strict=True))
            found["explanation"] = [
                {"source": each.source, "vote": votes.get(each.source), "log_odds": float(each.adds)}
                for each in explanation.contributions
            ]
        if self.items.features is not None:
            similarity = self.items.features @ self.items.features[i]
            nearest = [int(j) for j in np.argsort(-similarity)[: _NEIGHBORS + 1] if j != i][:_NEIGHBORS]
            found["neighbors"] = [
                each | {"similarity": float(similarity[j])}
                for j, each in zip(nearest, self._items(view, nearest), strict=True)
            ]
        return found

    def next_items(self, limit: int = 10) -> dict[str, Any]:
        """Return items whose gold labels would improve the labels most."""
        with self._lock:
            view = self._view
        if view.fit.model is None or view.fit.votes is None:
            return {"items": []}
        rows = view.fit.rows
        labeled = None
        if view.gold:
            labeled = np.full(len(view.fit.labels), None, object)
            items = np.fromiter(view.gold, np.intp, len(view.gold))
            places = items if rows is None else np.searchsorted(rows, items)
            labeled[places] = [view.classes[k] for k in view.gold.values()]
        found = suggest_items(
            view.fit.model, view.fit.votes, limit, labeled=labeled, random_state=len(view.gold)
        )
        positions = [int(each.item) for each in found]
        return {"items": self._items(view, [i if rows is None else int(rows[i]) for i in positions])}


FILTERS = ("all", "disagreement", "uncertain", "uncovered", "source", "gold", "class", "indexes")
"""Filters of :meth:`Workspace.list_items`."""
ORDERS = ("index", "uncertain", "certain", "votes")
"""Orders of :meth:`Workspace.list_items`."""


def _stack(columns: Sequence[Codes], items: NDArray[np.intp] | None = None) -> Codes:
    """Return the votes of all or some items, shape (n, m)."""
    parts = [column if items is None else column[items] for column in columns]
    return np.stack(parts, axis=1) if parts else np.empty((0 if items is None else len(items), 0), np.int8)


def _labels_of(fit: StudioFit, sample: NDArray[np.intp] | None) -> NDArray[np.int16]:
    """Return the labels of the sample, whichever items were fitted."""
    if sample is None:
        return fit.labels
    if fit.rows is None:
        return fit.labels[sample]
    return fit.labels[np.searchsorted(fit.rows, sample)]
