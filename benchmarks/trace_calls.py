"""Count the functions and files that a call of the public interface runs through.

Six calls are traced with ``sys.setprofile`` on 3,000 x 6 binary votes (see :data:`CALLS`):

    python -m benchmarks.trace_calls                 # print the table
    python -m benchmarks.trace_calls --check         # exit 1 if a call exceeds its recorded counts
    python -m benchmarks.trace_calls --record        # store the current counts as the recorded ones
    python -m benchmarks.trace_calls --list fit      # print the functions that one call runs, by file

What is counted
---------------
functions
    Distinct code objects of files in ``src/flyingsquid``. Methods, properties, nested functions and
    generators count. Module and class bodies, lambdas and comprehensions do not, and neither do methods
    that ``dataclasses`` generates, which are compiled from no file.
files
    Distinct files that contain those functions.
switches
    Consecutive calls whose functions are in different packages: the first directory below
    ``src/flyingsquid``, or the file itself for modules next to ``__init__.py``. Resuming a generator is a
    call.

Every call is made once before it is traced, so imports and the first use of caches are not counted.

Recorded counts
---------------
``results/call_trace.json`` holds the counts at commit 7b99f81 ("before"), the goals, and the counts that a
change may not exceed ("recorded"). A test runs the check. Raise a recorded count only with a reason in the
commit message.

The table that motivated this benchmark lists 204/57, 167/49, 48/17, 189/51, 168/46 and 360/83 functions and
files. The counts "before" agree except for two calls: ``predict_proba`` was listed as the mean of the two
models that are traced separately here (47/17 and 49/16), and ``flyingsquid label`` depends on the file
(357/83 here, for dependent votes with missing values and without an identifier column).
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs

SOURCE = Path(fs.__file__).parent
RECORD = Path(__file__).parent / "results" / "call_trace.json"
N_ITEMS = 3_000
ACCURACIES = (0.9, 0.85, 0.8, 0.75, 0.7, 0.65)
COVERAGE = 0.7
# The window is full and slides when the third chunk arrives, as in a stream that has run for a while.
WINDOW, CHUNK = 500, 200
_LIMITED = ("functions", "files")


@dataclass(frozen=True)
class Counts:
    """Size of one traced call."""

    functions: int
    files: int
    switches: int


def make_votes(*, dependent: bool) -> NDArray[np.int8]:
    """Draw votes in {0, 1} with -1 for a missing vote, shape (3000, 6).

    With ``dependent``, sources 1 and 3 copy sources 0 and 2 on half of the items.
    """
    rng = np.random.default_rng(0)
    shape = (N_ITEMS, len(ACCURACIES))
    y = rng.random(N_ITEMS) < 0.5
    votes = np.where(rng.random(shape) < ACCURACIES, y[:, None], ~y[:, None]).astype(np.int8)
    if dependent:
        for copy, original in ((1, 0), (3, 2)):
            copied = rng.random(N_ITEMS) < 0.5
            votes[copied, copy] = votes[copied, original]
    votes[rng.random(shape) >= COVERAGE] = -1
    return votes


def _fit(*, dependent: bool) -> Callable[[], Any]:
    votes = make_votes(dependent=dependent)
    return lambda: fs.LabelModel().fit(votes)


def _predict_proba(*, dependent: bool) -> Callable[[], Any]:
    votes = make_votes(dependent=dependent)
    model = fs.LabelModel().fit(votes)
    return lambda: model.predict_proba(votes)


def _sequence_fit() -> Callable[[], Any]:
    votes = make_votes(dependent=False)
    return lambda: fs.SequenceLabelModel().fit(votes)


def _online_update() -> Callable[[], Any]:
    votes = make_votes(dependent=False)
    model = fs.OnlineLabelModel(window=WINDOW)
    for start in (0, CHUNK):
        model.update(votes[start : start + CHUNK])
    return lambda: model.update(votes[2 * CHUNK : 3 * CHUNK])


def _label_file(directory: Path) -> Callable[[], Any]:
    from flyingsquid.cli.main import main

    votes, labels = directory / "votes.csv", directory / "labels.csv"
    header = ",".join(f"source_{j}" for j in range(len(ACCURACIES)))
    np.savetxt(votes, make_votes(dependent=True), fmt="%d", delimiter=",", header=header, comments="")
    labels.unlink(missing_ok=True)
    return lambda: main(["label", str(votes), "-o", str(labels)], standalone_mode=False)


# Each value prepares a call and returns it; it runs twice, once to warm up and once to trace.
CALLS: dict[str, Callable[[Path], Callable[[], Any]]] = {
    "fit, independent votes": lambda _: _fit(dependent=False),
    "fit, dependent votes": lambda _: _fit(dependent=True),
    "predict_proba, independent votes": lambda _: _predict_proba(dependent=False),
    "predict_proba, dependent votes": lambda _: _predict_proba(dependent=True),
    "SequenceLabelModel.fit": lambda _: _sequence_fit(),
    "OnlineLabelModel.update": lambda _: _online_update(),
    "flyingsquid label votes.csv": _label_file,
}


def trace(call: Callable[[], Any], source: Path = SOURCE) -> list[CodeType]:
    """Return the code object of every call of a function in ``source``, in order."""
    prefix = f"{source}{os.sep}"
    calls: list[CodeType] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Names in angle brackets are modules, lambdas and comprehensions. Class bodies, unlike functions, are
        # not optimized.
        is_function = not code.co_name.startswith("<") and code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and is_function and code.co_filename.startswith(prefix):
            calls.append(code)

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(previous)
    return calls


def count(calls: list[CodeType], source: Path = SOURCE) -> Counts:
    """Summarize a trace."""
    packages = [Path(code.co_filename).relative_to(source).parts[0] for code in calls]
    distinct = set(calls)
    return Counts(
        functions=len(distinct),
        files=len({code.co_filename for code in distinct}),
        switches=sum(a != b for a, b in pairwise(packages)),
    )


def trace_named(name: str) -> list[CodeType]:
    """Trace one of :data:`CALLS` after a warm-up."""
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings(), quiet[0], quiet[1]:
        warnings.simplefilter("ignore")
        CALLS[name](Path(directory))()
        return trace(CALLS[name](Path(directory)))


def find_excesses(measured: Mapping[str, Counts], recorded: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return one message for each call that runs more functions or files than recorded."""
    messages = []
    for name, counts in measured.items():
        limits = recorded.get(name)
        if limits is None:
            messages.append(f"{name}: no recorded counts; run with --record.")
            continue
        messages += [
            f"{name}: {getattr(counts, key)} {key}; at most {limits[key]} are recorded."
            for key in _LIMITED
            if getattr(counts, key) > limits[key]
        ]
    return messages


def format_table(measured: Mapping[str, Counts], record: Mapping[str, Any]) -> str:
    """Format counts next to those before the redesign and the goals."""
    lines = [f"{'':34}{'functions':>21}{'files':>21}{'switches':>14}"]
    lines.append(f"{'call':34}{'before   now  goal':>21}{'before   now  goal':>21}{'before   now':>14}")
    for name, counts in measured.items():
        before, goal = record["before"]["calls"].get(name, {}), record["goal"].get(name, {})
        line = f"{name:34}"
        for key in _LIMITED:
            line += f"{before.get(key, '-'):>9}{getattr(counts, key):>6}{goal.get(key, '-'):>6}"
        lines.append(line + f"{before.get('switches', '-'):>8}{counts.switches:>6}")
    return "\n".join(lines)


def format_list(calls: list[CodeType]) -> str:
    """Format the distinct functions of a trace, grouped by file in the order of first use."""
    by_file: dict[str, list[str]] = {}
    for code in dict.fromkeys(calls):
        path = Path(code.co_filename).relative_to(SOURCE).as_posix()
        by_file.setdefault(path, []).append(code.co_qualname)
    return "\n".join(f"{path}: {', '.join(names)}" for path, names in by_file.items())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="exit 1 if a call exceeds its recorded counts")
    action.add_argument("--record", action="store_true", help="store the current counts as the recorded ones")
    action.add_argument("--list", metavar="CALL", help="print the functions of each call that contains CALL")
    options = parser.parse_args(arguments)
    if options.list is not None:
        for name in (name for name in CALLS if options.list in name):
            print(f"# {name}\n{format_list(trace_named(name))}\n")
        return 0
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    measured = {name: count(trace_named(name)) for name in CALLS}
    print(format_table(measured, record))
    if options.record:
        record["recorded"] = {name: asdict(counts) for name, counts in measured.items()}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.check:
        excesses = find_excesses(measured, record["recorded"])
        if excesses:
            print(*excesses, sep="\n", file=sys.stderr)
            print("Raise a recorded count (--record) only with a reason in the commit.", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
