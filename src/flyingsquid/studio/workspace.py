"""The engine of the studio: a project with its items, votes and labels.

A change is followed by a fit on at most ``sample_size`` items, so that the table is refreshed at once. If
there are more items, a thread then fits all of them; ``state()["sampled"]`` shows which fit is current. The
same thread computes the effects of removing sources, and suggestions.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError
from flyingsquid.studio import browsing
from flyingsquid.studio.browsing import View
from flyingsquid.studio.columns import (
    FunctionFile,
    Items,
    SourceColumns,
    StudioFit,
    fit_columns,
    sample_rows,
    summarize_votes,
    with_gold,
)
from flyingsquid.studio.project import Project
from flyingsquid.studio.rules import PATTERN_KINDS, match_key, name_sources
from flyingsquid.studio.suggestions import Suggestion, TermTable, suggest_rules
from flyingsquid.studio.worker import Job, Worker
from flyingsquid.votes.conventions import is_gold_name

SAMPLE = 20_000
"""Items of the first fit after a change; docs/design/0018-studio.md has its times."""
_PREVIEW_SECONDS, _PREVIEW_EXAMPLES = 1.0, 10
_MOST_INITIAL_CLASSES, _MOST_INITIAL_COLUMNS = 20, 100
_POLL_SECONDS, _PAUSE_SECONDS = 0.5, 0.15


class Workspace:
    """Items with sources that can be changed.

    Parameters
    ----------
    items : Items
    project : Project
    functions : path, optional
        Python file of labeling functions. It is trusted code, executed at the start and whenever it changes.
    on_event : callable, optional
        Called with a JSON value after changes, from any thread.
    sample_size : int, default=20_000
    background : bool, default=True
        Whether a thread refines the fit and computes effects and suggestions. Otherwise :meth:`settle` does.
    features_name : str, optional
        Name of the file of features, for exported rules.

    Attributes
    ----------
    revision : int
        Increases whenever :meth:`state` changes.
    view : View
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
        self.project, self.features_name = project, features_name
        self.revision = 0
        self._given = items  # with the text and identifier columns, which the project may replace
        self._on_event = on_event or (lambda _event: None)
        self._lock = threading.RLock()
        self._sample = sample_rows(len(items), sample_size)
        self._change = 0
        self._before: StudioFit | None = None
        self._terms: dict[str | None, TermTable] = {}
        self._suggestions: tuple[int, list[Suggestion]] | None = None
        self._closed, self._wake = threading.Event(), threading.Event()
        self._worker = Worker(self._on_progress)
        self._file = FunctionFile(None if functions is None else Path(functions), self._worker)
        self._columns = SourceColumns(items, self._worker, self._file)
        self._file.read()
        if project.position == project.start and not project.path_exists:
            self._add_vote_columns()
            project.start = project.position
        self._choose_columns()
        self.view = self._make_view()
        self._threads: list[threading.Thread] = []
        if background:
            self._start(self._refine_forever)
            self._start(self._watch_functions)
        self._wake.set()

    @property
    def items(self) -> Items:
        """The items, with the text and identifier columns that were chosen in the project."""
        return self._columns.items

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="flyingsquid-studio", daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """End the worker and the threads."""
        self._closed.set()
        self._wake.set()
        self._worker.close()
        for thread in self._threads:
            thread.join(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _add_vote_columns(self) -> None:
        """Start a project with the vote columns of the file as sources."""
        items = self.items
        found = [
            name
            for name, kind in items.kinds.items()
            if kind == "vote" and not is_gold_name(name) and name not in (items.text, items.id)
        ][:_MOST_INITIAL_COLUMNS]
        values = {name: {value.strip() for value in items.values(name)} for name in found}
        classes: set[str] = set(self.project.state.classes)
        if not classes:
            # A channel or a language next to the votes would add classes.
            values = {name: own for name, own in values.items() if name not in items.unshared_votes}
            classes = set().union(*values.values())
            if not 2 <= len(classes) <= _MOST_INITIAL_CLASSES:
                return
            self.project.act({"type": "set_classes", "classes": sorted(classes)}, save=False)
        for name, own in values.items():
            if own <= classes:
                source = {"kind": "column", "column": name}
                self.project.act({"type": "add_source", "source": source}, save=False)

    # ------------------------------------------------------------------ changes

    def act(self, action: dict[str, Any]) -> int:
        """Apply an action and refresh the table; return the revision."""
        with self._lock:
            if action.get("type") == "accept_suggestion":
                action = {"type": "add_source", "source": self._suggestion(action.get("id")).source}
            if action.get("type") in ("add_source", "update_source"):
                self._columns.check(action.get("source"), len(self.project.state.classes))
            if action.get("type") == "set_columns":
                for name in ("text", "id"):
                    if isinstance(action.get(name), str):
                        self.items.column(action[name])
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

    def _after_change(self) -> int:
        self._wake.set()  # the background leaves the processor to the refit
        self._change += 1
        self._choose_columns()
        self._refresh()
        self._columns.trim(len(self.project.state.sources))
        return self.revision

    def _choose_columns(self) -> None:
        state, given = self.project.state, self._given
        text = given.text if state.text is None else state.text
        id = given.id if state.id is None else state.id
        if (text, id) != (self.items.text, self.items.id):
            self._columns.items = replace(given, text=text, id=id)

    def _refresh(self) -> None:
        self.view = self._make_view()
        self._announce()
        self._wake.set()

    def _announce(self) -> None:
        self.revision += 1
        self._on_event({"revision": self.revision})

    def _make_view(self) -> View:
        """Fit the votes of all sources that are ready."""
        start = time.perf_counter()
        state, n = self.project.state, len(self.items)
        every = list(state.sources.values())
        names = dict(zip(state.sources, name_sources(entry.source for entry in every), strict=True))
        votes = {entry.id: self._columns.get(entry.source, state.classes) for entry in every if entry.enabled}
        ready = {id: codes for id, codes in votes.items() if codes is not None}
        columns, chosen = tuple(ready.values()), tuple(names[id] for id in ready)
        rows = with_gold(self._sample, state.gold)
        fit = fit_columns(columns, state.classes, chosen, state.gold, rows)
        fitted = time.perf_counter()
        summary = summarize_votes(columns, n, len(state.classes))
        changed = self._count_changes(fit)
        return View(
            change=self._change,
            entries=tuple(state.sources[id] for id in ready),
            names=chosen,
            columns=columns,
            summary=summary,
            fit=fit,
            gold=state.gold,
            classes=state.classes,
            changed=changed,
            fit_ms=1e3 * (fitted - start),
            table_ms=1e3 * (time.perf_counter() - fitted),
        )

    def _count_changes(self, fit: StudioFit) -> int:
        """Count labels that differ from those before the last change, on the sample scaled to all items."""
        shown: View | None = getattr(self, "view", None)
        if shown is None:
            return 0
        if shown.change != self._change:  # otherwise a column of the same change arrived
            self._before = shown.fit
        if self._before is None:
            return 0
        before, now = (each.labels[each.places(self._sample)] for each in (self._before, fit))
        return round(float(np.mean(before != now)) * len(self.items))

    def _on_progress(self, job: Job) -> None:
        """Publish the progress of a job, and refit when it ends."""
        if self._closed.is_set() or job.key == "list":
            return
        with self._lock:
            state = self.project.state
            waiting = [
                entry.id
                for entry in state.sources.values()
                if self._columns.key(entry.source, state.classes) == job.key
            ]
            for id in waiting:
                self._on_event({"progress": {"source": id, "done": job.done, "total": job.total}})
            if waiting and job.status != "working":
                self._refresh()

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until the votes of all sources are computed and shown.

        Raises
        ------
        TimeoutError
        """
        deadline = time.monotonic() + seconds
        while not self._is_current():
            if time.monotonic() > deadline:
                raise TimeoutError("sources are still being applied")
            time.sleep(0.005)

    def _is_current(self) -> bool:
        """Return whether no source is being applied, and the view contains all that are ready."""
        with self._lock:
            state, shown = self.project.state, {entry.id for entry in self.view.entries}
            for entry in state.sources.values():
                if self._columns.status(entry.source, state.classes)["status"] == "working":
                    return False
                is_ready = self._columns.get(entry.source, state.classes) is not None
                if entry.enabled and is_ready and entry.id not in shown:
                    return False
        return True

    # ------------------------------------------------------------------ background

    def _refine_forever(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            # Wait for a pause: somebody who types should not share the processor with this.
            while self._wake.wait(_PAUSE_SECONDS) and not self._closed.is_set():
                self._wake.clear()
            if not self._closed.is_set():
                self.settle(lambda: self._wake.is_set() or self._closed.is_set())

    def _watch_functions(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            if self._file.read():
                with self._lock:
                    self._refresh()

    def settle(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Fit all items if the last fit was on a sample, then compute suggestions and effects.

        ``stop`` is called between steps; after a change the rest is left to the next call.
        """
        view = self.view
        if view.is_sampled:
            start = time.perf_counter()
            refined = replace(view, fit=view.full_fit(), fit_ms=1e3 * (time.perf_counter() - start))
            if not self._publish(view, refined):
                return
            view = refined
            with self._lock:
                self._announce()
        if not stop():
            self.find_suggestions()
        effects: dict[str, int] = {}
        is_small = len(self._sample) == len(self.items)
        sampled = view.fit if is_small else view.fit_on(with_gold(self._sample, view.gold))
        scale = len(self.items) / len(sampled.labels)
        for j, entry in enumerate(view.entries):
            if stop():
                return
            without = None if sampled.model is None else view.fit_on(sampled.rows, left_out=j)
            if without is not None and (without.model is not None or not without.messages):
                effects[entry.id] = round(np.count_nonzero(without.labels != sampled.labels) * scale)
        if self._publish(view, replace(view, effects=effects)):
            self._on_event({"table": self.revision})

    def _publish(self, old: View, new: View) -> bool:
        """Replace a view, unless a change has replaced it."""
        with self._lock:
            if self.view is not old:
                return False
            self.view = new
            return True

    def find_suggestions(self) -> None:
        """Derive candidate rules from the current labels."""
        view, items = self.view, self.items
        if items.text not in self._terms:
            self._terms[items.text] = TermTable.of(items, self._sample)
        found = suggest_rules(items, view, self._terms[items.text], self.project.state.rejected)
        with self._lock:
            if self.view is not view:
                return
            self._suggestions = (view.change, found)
        self._on_event({"table": self.revision})

    # ------------------------------------------------------------------ the page

    def state(self) -> dict[str, Any]:
        """Return everything that the page shows besides items, as JSON values."""
        with self._lock:
            view, revision, project, items = self.view, self.revision, self.project.state, self.items
            history = self.project.history()
            status = {
                id: self._columns.status(entry.source, project.classes)
                for id, entry in project.sources.items()
            }
        names = name_sources(entry.source for entry in project.sources.values())
        sources = [
            {
                "id": id,
                "name": name,
                "kind": entry.source["kind"],
                "source": entry.source,
                "enabled": entry.enabled,
            }
            | status[id]
            | view.source_numbers(id)
            for (id, entry), name in zip(project.sources.items(), names, strict=True)
        ]
        used = {entry.source.get("function") for entry in project.sources.values()}
        gold = np.fromiter(project.gold.values(), np.intp)
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
                    {"file": self._file.name, "function": name}
                    for name in self._file.functions
                    if name not in used
                ],
            },
            "classes": list(project.classes),
            "sources": sources,
            **view.numbers(),
            "gold": {
                "count": len(gold),
                "by_class": np.bincount(gold, minlength=len(project.classes)).tolist(),
            },
            "history": history,
            "messages": [*view.fit.messages, *([self._file.error] if self._file.error else [])],
        }

    def list_items(self, filter: str = "all", **options: Any) -> dict[str, Any]:
        """Return some items; options are those of :func:`~flyingsquid.studio.browsing.list_items`."""
        with self._lock:
            view, revision = self.view, self.revision
        return {"revision": revision, **browsing.list_items(self.items, view, filter, **options)}

    def item(self, i: int) -> dict[str, Any]:
        """Return one item with the contributions of its votes."""
        return browsing.explain_item(self.items, self.view, i)

    def next_items(self, limit: int = 10) -> dict[str, Any]:
        """Return items whose gold labels would improve the labels most."""
        return browsing.next_items(self.items, self.view, limit)

    def suggestions(self) -> dict[str, Any]:
        """Return candidate rules, and whether they are based on the current labels."""
        with self._lock:
            found, change, state = self._suggestions, self._change, self.project.state
        if found is None:
            return {"status": "working", "suggestions": []}
        known = {match_key(entry.source) for entry in state.sources.values()}
        shown = [
            each.to_json()
            for each in found[1]
            if each.id not in state.rejected and match_key(each.source) not in known
        ]
        return {"status": "ready" if found[0] == change else "working", "suggestions": shown}

    def preview(self, source: Any) -> dict[str, Any]:
        """Return how many items a source matches, without adding it. A new preview replaces the last.

        The call returns after at most one second; ``progress`` is the number of items that were searched.
        """
        with self._lock:
            state, items, view = self.project.state, self.items, self.view
            found = self._columns.check(source, len(state.classes))
            if found["kind"] not in PATTERN_KINDS:
                codes = self._columns.get(found, state.classes)
                matches = np.arange(0) if codes is None else np.flatnonzero(codes >= 0)
                return _previewed(items, view, matches, len(items))
            kept = {self._columns.key(entry.source, state.classes) for entry in state.sources.values()}
            job = self._columns.preview(found, kept)
            self._columns.trim(len(state.sources))
        job.finished.wait(_PREVIEW_SECONDS)
        if job.error is not None:
            raise OptionError(job.error, parameter="pattern" if found["kind"] == "regex" else "words")
        done = job.done
        return _previewed(items, view, np.flatnonzero(job.codes[:done] > 0), done)


def _previewed(items: Items, view: View, matches: NDArray[np.intp], done: int) -> dict[str, Any]:
    examples = browsing.show_items(items, view, matches[:_PREVIEW_EXAMPLES])
    return {"matches": len(matches), "examples": examples, "progress": [done, len(items)]}
