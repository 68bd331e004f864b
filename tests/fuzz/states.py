"""Valid states of every kind, changed in one place and written with valid checksums."""

from __future__ import annotations

import copy
import random
import resource
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import flyingsquid as fs
from flyingsquid.cli.stream import Checkpoint, Position, read_checkpoint, write_checkpoint
from flyingsquid.cli.stream_lines import Known
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.files.state import State, read_state, write_state
from flyingsquid.moments.files import to_state
from tests.support.strategies import fittable_votes

VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 7, 30_000_000, 2**31, 2**53, 2**63, 10**300, 0.5, -0.5, 1.0, 1e300, -1e300, "",
    "x", "auto", "\x00", "é" * 50, [], [[]], [[[]]], {}, {"x": 1}, [0, 1], [1, 2, 3], ["a", "b"], ["a", "a"],
    [None], [-1], [30_000_000], ["x"] * 1000, list(range(300)), [[0, 1]], [[1, 0], [0, 1]],
]  # fmt: skip
DTYPES = ("bool", "int8", "int64", "uint64", "float32", "float64")
ENTRIES = (0, 1, -1, 2, 100, 2**31, 2**62, 0.5, 1e-300, 1e300, np.nan, np.inf, -np.inf)


def example_states() -> dict[str, State]:
    """One valid state of each kind, by name."""
    votes = fittable_votes(0)
    texts = fs.Votes(votes, ("ham", "spam"), ("a", "b", "c", "d", "e"))
    rng = np.random.default_rng(0)
    three = np.random.default_rng(0).integers(-1, 3, (300, 4)).astype(np.int8)
    graph = fs.DependencyGraph(5, source_edges=[(0, 1)])
    gold = [int(v) if i < 60 and v >= 0 else None for i, v in enumerate(votes[:, 0])]
    models: dict[str, Any] = {
        "weighted": fs.LabelModel().fit(texts),
        "corrected": fs.LabelModel().fit(votes, gold=gold),
        "triplet": fs.LabelModel(method="triplet", class_balance=[0.4, 0.6]).fit(votes),
        "triplet with gold": fs.LabelModel(method="triplet").fit(votes, gold=gold),
        "em of three classes": fs.LabelModel(method="em").fit(three),
        "graph": fs.LabelModel(graph, method="triplet", signs={0: 1}).fit(votes),
        "majority": fs.MajorityVote().fit(texts),
        "many labels": fs.MultiLabelModel(fs.LabelModel(method="triplet")).fit({"x": votes, "y": votes}),
        "sequence": fs.SequenceLabelModel().fit(votes, [100, 300]),
        "scores": fs.ScoreModel().fit(
            rng.normal(size=(400, 1)) + rng.normal(size=(400, 5)), names=list("abcde")
        ),
        "online": fs.OnlineLabelModel(150, method="triplet", classes=(0, 1)),
        "online auto": fs.OnlineLabelModel("auto", method="triplet"),
        "online decay": fs.OnlineLabelModel(decay=0.99, new_classes="add"),
        "online graph": fs.OnlineLabelModel(100, graph=graph, method="triplet"),
    }
    found = {}
    for name, model in models.items():
        if isinstance(model, fs.OnlineLabelModel):
            balance = [0.4, 0.6] if name == "online" else None
            model.update(votes, balance)
            model.update(votes[:90], balance)
        found[name] = model._to_state()
    found["counts"] = to_state(fs.Moments.of(texts))
    found["counts of a graph"] = to_state(fs.Moments.of(votes, graph))
    found["sparse counts"] = _as_sparse(found["counts"])
    found["counts of sequences"] = fs.SequenceMoments.of(votes, [100, 300]).to_state()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/checkpoint"
        options = {"window": 150, "classes": None, "block": 100, "output": "labels.jsonl"}
        known = Known(tuple("abcde"), (0, 1))
        write_checkpoint(path, Checkpoint(options, Position(9, 99, 1, 2, 3, 4), known, models["online"]))
        found["checkpoint"] = read_state(path)
    return found


def _as_sparse(state: State) -> State:
    """The same counts as a sparse matrix, which files of many classes contain."""
    pairs = fs.Moments.from_state(state)._pairs[0].to_sparse()
    return State(state.kind, state.meta, {"missing": state.arrays["missing"], **pairs.to_arrays("pairs_0")})


def mutated(state: State, rng: random.Random) -> State:
    """A copy of ``state`` with one or two changes."""
    meta, arrays = copy.deepcopy(state.meta), dict(state.arrays)
    for _ in range(rng.choice([1, 1, 1, 2])):
        if arrays and rng.random() < 0.4:
            _change_array(arrays, rng)
        else:
            change_json(meta, rng)
    return State(state.kind, meta, arrays)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


def change_json(meta: dict[str, Any], rng: random.Random) -> None:
    places = list(_places(meta))
    if not places:
        return
    container, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[f"{key}_more"] = rng.choice(VALUES)
    elif kind == 1:
        container.insert(key, rng.choice(VALUES))
    elif kind == 2:
        other, at = rng.choice(places)
        container[key] = copy.deepcopy(other[at])
    elif kind == 3 and type(container[key]) in (int, float):
        container[key] = container[key] * rng.choice([-1, 2, 1000]) + rng.choice([0, 1, 0.5])
    elif kind == 4 and isinstance(container[key], list):
        container[key] = container[key] * 2
    else:
        container[key] = copy.deepcopy(rng.choice(VALUES))


def _change_array(arrays: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(sorted(arrays))
    array = np.array(arrays[name])
    kind = rng.randrange(7)
    if kind == 0:
        del arrays[name]
        return
    if kind == 1:
        shape = [*array.shape, 1] if rng.random() < 0.5 else [array.size]
        array = array.reshape(shape)
    elif kind == 2:
        array = np.zeros(
            rng.choice([(), (0,), (1,), (5,), (5, 3), (2, 2, 2), (30, 30), (400, 5)]), array.dtype
        )
    elif kind == 3:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(DTYPES))
    elif kind == 4 and array.ndim:
        array = (
            array[: rng.randrange(len(array) + 1)] if rng.random() < 0.5 else np.concatenate([array, array])
        )
    elif array.size:
        flat = array.reshape(-1).copy()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entry = np.array(rng.choice(ENTRIES)).astype(array.dtype)
        flat[rng.randrange(flat.size) if rng.random() < 0.7 else slice(None)] = entry
        array = flat.reshape(array.shape)
    arrays[name] = np.ascontiguousarray(array)


def use(path: Path, votes: dict[int, Any]) -> None:
    """Read a file and do with its content what people do."""
    if read_state(path).kind == "StreamCheckpoint":
        read_checkpoint(str(path))
    model = fs.load(path)
    if isinstance(model, (fs.Moments, fs.SequenceMoments)):
        repr(model)
        _ = model + model
        return
    repr(model)
    model.summary()
    if isinstance(model, fs.MultiLabelModel):
        model.predict_proba(dict.fromkeys(model.labels_, votes[5]))
        return
    if isinstance(model, fs.ScoreModel):
        scores = votes[model.n_features_in_].astype(float)
        _ = model.predict_interval(scores), model.predict_proba(scores, [0, 1]), model.best_of(scores[None])
        model.partial_fit(scores)
        return
    schema = model.vote_schema_
    rows = fs.Votes(votes[len(schema.source_names)], schema.classes, schema.names)
    if isinstance(model, fs.OnlineLabelModel):
        _ = model.status_, model.history_.changes(), model.moments_
        model.update(rows)
    model.predict_proba(rows)
    str(getattr(model, "diagnostics_", ""))


def fuzz_states(*, seed: int, most: int, memory: int | None = None, seconds: float = 1e9) -> list[str]:
    """Mutate ``most`` states; return what was neither refused with a documented error nor usable.

    ``memory`` limits the address space to that of now plus this many bytes.
    """
    rng, findings = random.Random(seed), dict[str, str]()
    votes = {m: np.random.default_rng(m).integers(-1, 2, (30, m)).astype(np.int8) for m in range(1, 60)}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states, path = example_states(), Path(folder) / "state.fsq"
        for state in states.values():
            write_state(path, state)
            use(path, votes)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory, limits[1]))
        ends = time.monotonic() + seconds
        for _ in range(most):
            if time.monotonic() > ends:
                break
            name = rng.choice(sorted(states))
            try:
                write_state(path, mutated(states[name], rng))
            except FlyingSquidError:
                continue  # the mutation is not a state, such as an infinite number in meta
            started = time.monotonic()
            try:
                use(path, votes)
            except (FlyingSquidError, KeyError) as error:
                if isinstance(error, KeyError) and not isinstance(error, FlyingSquidError):
                    findings.setdefault(*_described(name, error))
                elif "\n" in str(error):
                    findings[f"{name}: more than one line"] = str(error)
            except Exception as error:
                findings.setdefault(*_described(name, error))
            if time.monotonic() - started > 5:
                findings[f"{name}: slow"] = f"{time.monotonic() - started:.1f} s"
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return [f"{where}: {what}" for where, what in findings.items()]


def _described(name: str, error: Exception) -> tuple[str, str]:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "flyingsquid" in f.filename]
    last = frames[-1]
    chain = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))
    return f"{Path(last.filename).name}:{last.lineno}", f"{name}: {type(error).__name__}: {error} [{chain}]"[
        :400
    ]


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
