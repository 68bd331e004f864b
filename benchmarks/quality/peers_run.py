"""Other label models on files of votes: a script for the peers' own environment, see peers.py.

``python peers_run.py PEER SECONDS IN OUT [IN OUT ...]``: every IN is an npz with ``fit`` (n, m),
``score`` (k, m; empty if the fitted items are scored) and ``n_classes``; classes are numbered from 0, and -1
is no vote. Every OUT gets ``posterior`` (items scored, K) and ``seconds``, or ``failed``, the reason why
there is none; and ``fit_seconds`` if fitting and labeling are two steps. The script imports nothing from this
package, which is not installed there.
"""

from __future__ import annotations

import importlib
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EPOCHS = 500  # of Snorkel, as in its tutorials; its default is 100
HMM_STEPS = 100  # at most; EM stops when the likelihood no longer increases


def snorkel(fit: Array, score: Array, n_classes: int, balance: Array | None = None) -> tuple[Array, float]:
    """Fit Snorkel on one split and label the other."""
    from snorkel.labeling.model import LabelModel

    model = LabelModel(cardinality=n_classes, verbose=False)
    votes = fit.astype(int)
    start = time.process_time()
    given = None if balance is None else list(balance)
    model.fit(votes, class_balance=given, n_epochs=EPOCHS, seed=0, progress_bar=False)
    seconds = time.process_time() - start
    return np.asarray(model.predict_proba((score if len(score) else fit).astype(int))), seconds


def hmm(fit: Array, score: Array, n_classes: int) -> tuple[Array, float]:
    """Fit a hidden Markov model by EM (hmmlearn) to one sequence, with sources independent given the class.

    Each row has m votes with K + 1 values each, including no vote. As counts among m (K + 1) outcomes they
    have the same likelihood up to a constant. EM starts from the labels of majority vote.
    """
    from hmmlearn.hmm import MultinomialHMM

    def counts(votes: Array) -> Array:
        states = np.arange(-1, n_classes)
        return (votes[:, :, None] == states).reshape(len(votes), -1).astype(int)

    m = fit.shape[1]
    start = time.process_time()
    rows = counts(fit)
    shares = np.stack([(fit == k).sum(axis=1) for k in range(n_classes)], axis=1)
    labels = np.eye(n_classes)[shares.argmax(axis=1)]
    follows = labels[:-1].T @ labels[1:] + 1
    emissions = labels.T @ rows + 1
    model = MultinomialHMM(n_classes, n_trials=m, n_iter=HMM_STEPS, tol=1e-2, params="ste", init_params="")
    model.startprob_ = (labels.sum(axis=0) + 1) / (len(fit) + n_classes)
    model.transmat_ = follows / follows.sum(axis=1, keepdims=True)
    model.emissionprob_ = emissions / emissions.sum(axis=1, keepdims=True)
    model.fit(rows)
    seconds = time.process_time() - start
    return np.asarray(model.predict_proba(counts(score) if len(score) else rows)), seconds


def hyper(fit: Array, score: Array, n_classes: int) -> Array:
    """Apply the hyper label model, which has nothing to fit and labels all items at once."""
    import torch
    from hyperlm import HyperLabelModel

    # Its weights refer to a NumPy scalar by an old path, and to a dtype; torch loads only what is listed.
    scalar = importlib.import_module("numpy._core.multiarray").scalar
    torch.serialization.add_safe_globals(
        [(scalar, "numpy.core.multiarray.scalar"), np.dtype, np.dtypes.Float64DType]
    )
    with torch.no_grad():
        return _on_voted_rows(fit, score, n_classes, _infer(HyperLabelModel(device="cpu")))


def _infer(model: Any) -> Callable[[Array], tuple[Array, Array]]:
    def infer(votes: Array) -> tuple[Array, Array]:
        posterior = np.asarray(model.infer(votes.astype(int), return_probs=True))
        return posterior, np.arange(posterior.shape[1])

    return infer


def crowd_kit(name: str) -> Callable[[Array, Array, int], Array]:
    """Return one of crowd-kit's aggregators with its defaults. They label the items they are fitted on."""

    def run(fit: Array, score: Array, n_classes: int) -> Array:
        import pandas as pd
        from crowdkit import aggregation

        def aggregate(votes: Array) -> tuple[Array, Array]:
            task, worker = np.nonzero(votes >= 0)
            frame = pd.DataFrame({"task": task, "worker": worker, "label": votes[task, worker].astype(int)})
            model = getattr(aggregation, name)()
            if not hasattr(model, "fit_predict_proba"):  # labels only
                labels = model.fit_predict(frame).sort_index()
                return np.eye(n_classes)[labels.to_numpy().astype(int)], np.arange(n_classes)
            table = model.fit_predict_proba(frame).sort_index()
            return table.to_numpy(), table.columns.to_numpy().astype(int)

        return _on_voted_rows(fit, score, n_classes, aggregate)

    return run


def _on_voted_rows(
    fit: Array,
    score: Array,
    n_classes: int,
    label: Callable[[Array], tuple[Array, Array]],
) -> Array:
    """Label all items at once and return the scored ones; items without votes are uniform.

    ``label`` returns the posterior (items with votes, columns) and the class of every column.
    """
    votes = np.concatenate([fit, score])
    voted = (votes >= 0).any(axis=1)
    posterior, classes = label(votes[voted])
    result = np.full((len(votes), n_classes), 1 / n_classes)
    result[voted] = 0  # a class without votes is not predicted
    result[np.ix_(voted, classes)] = posterior
    return result[len(fit) :] if len(score) else result


# Posteriors of the scored items, with the seconds of fitting alone if they can be separated.
PEERS: dict[str, Callable[[Array, Array, int], Array | tuple[Array, float]]] = {
    "snorkel": snorkel,
    "hmm": hmm,
    "dawid_skene": crowd_kit("DawidSkene"),
    "glad": crowd_kit("GLAD"),
    "mace": crowd_kit("MACE"),
    "mmsr": crowd_kit("MMSR"),
    "hyper": hyper,
}


def _too_late(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    raise TimeoutError


def measure(
    name: str, limit: int, fit: Array, score: Array, n_classes: int, **given: Array
) -> dict[str, Any]:
    """Return the answer of one peer, or why there is none; ``given`` is what only some peers take."""
    np.random.seed(0)  # noqa: NPY002 - the peers draw from the global generators
    random.seed(0)
    # CPU time, which does not depend on what else the machine does.
    signal.signal(signal.SIGPROF, _too_late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = PEERS[name](fit, score, n_classes, **given)
        seconds = time.process_time() - start
    except TimeoutError:
        return {"failed": f"timed out after {limit} seconds", "limit": limit}
    except Exception as error:  # any failure of a peer is its result
        return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    posterior = answer[0] if isinstance(answer, tuple) else answer
    times = {"fit_seconds": answer[1]} if isinstance(answer, tuple) else {}
    times["seconds"] = seconds
    if not np.isfinite(posterior).all():
        return {"failed": "its probabilities are not finite", **times}
    return {"posterior": np.asarray(posterior, np.float64), **times}


def _warm_up(name: str) -> None:
    """Import the peer before anything is timed."""
    votes = np.random.default_rng(0).integers(-1, 2, (60, 5))
    failed = measure(name, 600, votes, votes[:0], 2).get("failed")
    if failed:
        raise SystemExit(f"{name} does not run: {failed}")


def main() -> None:
    """Answer every question and save each answer."""
    name, limit, *paths = sys.argv[1:]
    _warm_up(name)
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        with np.load(source) as data:
            given = {"balance": data["balance"]} if "balance" in data else {}
            result = measure(name, int(limit), data["fit"], data["score"], int(data["n_classes"]), **given)
        partial = Path(target).with_suffix(".partial.npz")
        np.savez_compressed(partial, **result)
        partial.rename(target)
        outcome = result.get("failed", f"{result.get('seconds', 0):.1f} s")
        sys.stderr.write(f"{name} {Path(source).stem}: {outcome}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
