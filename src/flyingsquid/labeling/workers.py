"""Chunks labelled by several processes, results in order."""

from __future__ import annotations

import importlib
import io
import multiprocessing
import pickle
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from flyingsquid._values import told
from flyingsquid.exceptions import LabelingError
from flyingsquid.labeling.chunks import ChunkLabels, OnError, label_chunk
from flyingsquid.labeling.functions import LabelingFunction, stands_under_its_name

# Not "fork": a process that has threads, and polars and BLAS have, may hang in its copy.
_START = "spawn"
_functions: tuple[LabelingFunction, ...] = ()


def label_in_processes(
    functions: Sequence[LabelingFunction],
    chunks: Iterable[tuple[int, Any]],
    *,
    n_jobs: int,
    on_error: OnError,
) -> Iterator[ChunkLabels]:
    """Label chunks (first row, items) by ``n_jobs`` processes; results come in the order of the chunks.

    Every process gets the functions, with their resources, once. Two chunks a process are under way, so an
    unbounded iterable is not read ahead.
    """
    payload = pack(functions)
    pool = ProcessPoolExecutor(
        n_jobs, multiprocessing.get_context(_START), initializer=_start_worker, initargs=(payload,)
    )
    waiting: deque[Future[ChunkLabels]] = deque()
    try:
        for first_row, part in chunks:
            waiting.append(pool.submit(_label, part, first_row, on_error))
            if len(waiting) >= 2 * n_jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise LabelingError(
            "a process that applies labeling functions ended unexpectedly. It may have run out of memory, or "
            "could not start: a script that passes n_jobs= needs its main part under "
            "`if __name__ == '__main__':`, and functions must be importable from a file"
        ) from error
    except BaseException:
        # An error or an interrupt: what is under way is of no use any more, and may take long.
        for child in list((getattr(pool, "_processes", None) or {}).values()):
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def pack(functions: Sequence[LabelingFunction]) -> bytes:
    """The functions as bytes for another process on this machine."""
    buffer = io.BytesIO()
    try:
        _ByName(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(tuple(functions))
        return buffer.getvalue()
    except Exception as error:
        packed = _pack_by_value(functions)
        if packed is not None:
            return packed
        name = next((f.name for f in functions if not _can_travel(f)), functions[0].name)
        raise LabelingError(
            f"function {told(name)} cannot be sent to another process: {error}. Define it, and what its "
            "resources hold, at the top of a module that can be imported; or install cloudpickle, which "
            "sends functions of a notebook too; or use n_jobs=1"
        ) from error


class _ByName(pickle.Pickler):
    """Functions of a script by name: the processes of a pool import the script again."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, LabelingFunction) and value.__module__ == "__main__":
            file = getattr(sys.modules["__main__"], "__file__", None)
            if file is not None and Path(file).is_file() and stands_under_its_name(value):
                return str(value.__qualname__)
        return NotImplemented


def _pack_by_value(functions: Sequence[LabelingFunction]) -> bytes | None:
    try:
        cloudpickle = importlib.import_module("cloudpickle")
        return bytes(cloudpickle.dumps(tuple(functions)))
    except Exception:
        return None


def _can_travel(function: LabelingFunction) -> bool:
    try:
        _ByName(io.BytesIO()).dump(function)
    except Exception:
        return False
    return True


def _start_worker(payload: bytes) -> None:
    # Ctrl-C reaches the whole group of processes; the parent ends the others, once and in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _functions  # noqa: PLW0603  # what a worker keeps between chunks has no other place
    _functions = pickle.loads(payload)


def _label(part: Any, first_row: int, on_error: OnError) -> ChunkLabels:
    return label_chunk(_functions, part, first_row=first_row, on_error=on_error)
