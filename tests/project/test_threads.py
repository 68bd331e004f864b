"""Eight threads on every public method of every estimator: correct results or an error."""

from __future__ import annotations

import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import flyingsquid as fs
from flyingsquid.exceptions import FlyingSquidError
from tests.support.strategies import fittable_votes

pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")]

MODULE = sys.modules[__name__]
ROOT = Path(__file__).parents[2]
MEMBERS = tomllib.loads((ROOT / "docs/reference/public_names.toml").read_text(encoding="utf-8"))["members"]
# Two sets of votes that give different fits; 400 items of five sources.
SETS = [fittable_votes(0), fittable_votes(3)]
GOLD = [np.where(votes[:, 0] < 0, 0, votes[:, 0]) for votes in SETS]
APPLIES = GOLD[0]
X = np.random.default_rng(0).normal(size=(400, 3))


@dataclass(frozen=True)
class Case:
    """An estimator, how it is fitted, and what its methods are called with."""

    make: Any
    fit: Any
    calls: dict[str, Any]


def rows(k: int = 0) -> Any:
    return SETS[k][:30]


def on_rows(name: str, *more: Any) -> Any:
    return lambda model: getattr(model, name)(rows(), *more)


def fitting(name: str) -> Any:
    return lambda model, k=0: getattr(model, name)(SETS[k])


def described(value: Any) -> Any:
    """Return a value that can be compared exactly."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes() if value.dtype != object else value.tolist()
    if isinstance(value, (list, tuple)):
        return [described(part) for part in value]
    if isinstance(value, dict):
        return {key: described(part) for key, part in value.items()}
    if isinstance(value, fs.Votes):
        return described([value.codes, value.classes, value.source_names])
    return str(value)


def saved(model: Any, use: Any = None) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.fsq"
        model.save(path)
        loaded: Any = fs.load(path)
        if use is not None:
            return described(use(loaded))
        return described(loaded.predict_proba(LABELS[0] if hasattr(model, "labels_") else rows()))


COMMON = {
    "predict": on_rows("predict"), "predict_proba": on_rows("predict_proba"),
    "score": lambda model: model.score(rows(), GOLD[0][:30]), "summary": lambda model: model.summary(),
    "save": saved, "fit": fitting("fit"),
    "fit_predict": fitting("fit_predict"), "fit_predict_proba": fitting("fit_predict_proba"),
    "partial_fit": fitting("partial_fit"),
}  # fmt: skip
READ = {"read_votes": on_rows("read_votes"), "explain": lambda model: model.explain(SETS[0][:1])}
LABELS = [{"a": votes, "b": votes[:, ::-1]} for votes in SETS]
CASES = {
    "fs.LabelModel": Case(
        fs.LabelModel,
        fitting("fit"),
        COMMON
        | READ
        | {
            "log_likelihood": on_rows("log_likelihood"),
            "fit_moments": lambda model, k=0: model.fit_moments(fs.Moments.of(SETS[k])),
        },
    ),
    "fs.MajorityVote": Case(
        fs.MajorityVote,
        fitting("fit"),
        COMMON | READ | {"fit_moments": lambda model, k=0: model.fit_moments(fs.Moments.of(SETS[k]))},
    ),
    "fs.SequenceLabelModel": Case(
        fs.SequenceLabelModel,
        fitting("fit"),
        COMMON
        | {
            "log_likelihood": on_rows("log_likelihood"),
            "fit_moments": lambda model, k=0: model.fit_moments(fs.SequenceMoments.of(SETS[k])),
        },
    ),
    "fs.OnlineLabelModel": Case(
        lambda: fs.OnlineLabelModel(300),
        fitting("update"),
        COMMON
        | READ
        | {
            "update": fitting("update"),
            "learn_one": lambda model, k=0: model.learn_one(SETS[k][0]),
            "predict_proba_one": lambda model: model.predict_proba_one(SETS[0][0]),
            "changes": lambda model: model.changes(),
        },
    ),
    "fs.MultiLabelModel": Case(
        lambda: fs.MultiLabelModel(fs.LabelModel(method="triplet")),
        lambda model, k=0: model.fit(LABELS[k]),
        COMMON
        | {
            name: lambda model, k=0, name=name: getattr(model, name)(LABELS[k])
            for name in ("fit", "fit_predict", "fit_predict_proba", "predict", "predict_proba")
        }
        | {"score": lambda model: model.score(LABELS[0], {"a": APPLIES, "b": APPLIES})},
    ),
    "fs.WeaklySupervisedClassifier": Case(
        lambda: fs.WeaklySupervisedClassifier(LogisticRegression(), use_features=True),
        lambda model, k=0: model.fit(X, SETS[k]),
        {
            "fit": lambda model, k=0: model.fit(X, SETS[k]),
            "predict": lambda model: model.predict(X),
            "predict_proba": lambda model: model.predict_proba(X),
            "decision_function": lambda model: model.decision_function(X),
            "predict with votes": lambda model: model.predict(X, votes=SETS[0]),
            "predict_proba with votes": lambda model: model.predict_proba(X, votes=SETS[0]),
        },
    ),
}
SCORES = [np.random.default_rng(k).normal(size=(300, 1)) + np.random.default_rng(k + 9).normal(
    [0, 0.5, -1, 0], [0.5, 1, 2, 1 + k], (300, 4)) for k in (0, 1)]  # fmt: skip
LEVELS = [-2.0, -1.0, 0.0, 1.0, 2.0]
CASES["fs.ScoreModel"] = Case(
    fs.ScoreModel,
    lambda model, k=0: model.fit(SCORES[k]),
    {
        "fit": lambda model, k=0: model.fit(SCORES[k]),
        "partial_fit": lambda model, k=0: model.partial_fit(SCORES[k]),
        "merge": lambda model, k=0: model.merge(fs.ScoreModel().fit(SCORES[k])),
        "predict": lambda model: model.predict(SCORES[0]),
        "predict_interval": lambda model: model.predict_interval(SCORES[0]),
        "predict_class": lambda model: model.predict_class(SCORES[0], LEVELS),
        "predict_proba": lambda model: model.predict_proba(SCORES[0], LEVELS),
        "best_of": lambda model: model.best_of(np.asarray(SCORES[0]).reshape(100, 3, 4)),
        "summary": lambda model: model.summary(),
        "save": lambda model: saved(model, lambda loaded: loaded.predict(SCORES[0])),
    },
)
CHANGING = {
    "merge",
    "fit",
    "fit_moments",
    "fit_predict",
    "fit_predict_proba",
    "partial_fit",
    "update",
    "learn_one",
}


def called(case: Case, model: Any, member: str) -> Any:
    """Return the result of a member that changes nothing, or its error."""
    try:
        found = case.calls[member](model) if member in case.calls else getattr(model, member)
    except FlyingSquidError as error:
        return f"refused: {error}"
    return described(found)


@pytest.fixture(autouse=True)
def frequent_switches():
    """Threads that take turns after every few instructions, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def readers(name: str) -> list[str]:
    return [member for member in MEMBERS[name] if member not in CHANGING]


def test_every_estimator_is_here():
    learning = {name for name, members in MEMBERS.items() if {"fit", "update", "partial_fit"} & set(members)}
    # The loss is a module of PyTorch, for one thread per process; the interface of 2020 wraps LabelModel.
    assert learning - {"fs.torch.LabelModelLoss", "fs.legacy.LabelModel"} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_public_method_is_called(name):
    callables = [m for m in MEMBERS[name] if not m.endswith("_")]
    assert set(callables) <= set(CASES[name].calls)


@pytest.mark.parametrize("name", CASES)
def test_methods_in_threads_return_what_they_return_alone(name):
    """Also those that compute something when it is first asked for."""
    case = CASES[name]
    alone = case.make()
    case.fit(alone)
    expected = {member: called(case, alone, member) for member in readers(name)}
    assert not any(str(value).startswith("refused") for value in expected.values())
    shared = case.make()
    case.fit(shared)

    def work(number: int) -> list[str]:
        order = np.random.default_rng(number).permutation(readers(name)).tolist()
        return [member for member in order if called(case, shared, member) != expected[member]]

    with ThreadPoolExecutor(8) as pool:
        wrong = [member for found in pool.map(work, range(24)) for member in found]
    assert wrong == []


@pytest.mark.parametrize("name", [name for name in CASES if "Online" not in name])
def test_methods_during_fits_see_one_fit_or_the_other(name):
    """Four threads fit the model to two sets of votes in turn; four others use it."""
    case = CASES[name]
    allowed: dict[str, list[Any]] = {member: [] for member in readers(name)}
    fitted = {}
    for k in (0, 1):
        alone = case.make()
        case.fit(alone, k)
        for member, values in allowed.items():
            values.append(called(case, alone, member))
        for member in ("fit_predict", "fit_predict_proba"):
            if member in MEMBERS[name]:
                fitted[member, k] = described(case.calls[member](case.make(), k))
    shared = case.make()
    case.fit(shared)

    def change(number: int) -> list[str]:
        k, wrong = number // 2 % 2, []
        for member in ("fit", "fit_predict", "fit_predict_proba"):
            if member in MEMBERS[name]:
                found = case.calls[member](shared, k)
                if member != "fit" and described(found) != fitted[member, k]:
                    wrong.append(f"{member} of {k}")
        return wrong

    def use(number: int) -> list[str]:
        order = np.random.default_rng(number).permutation(readers(name)).tolist()
        found = {member: called(case, shared, member) for member in order}
        return [f"{m}: {found[m]}" for m in order if found[m] not in allowed[m]]

    with ThreadPoolExecutor(8) as pool:
        tasks = [pool.submit(change if number % 2 else use, number) for number in range(48)]
        wrong = [member for task in tasks for member in task.result()]
    assert wrong == []


def learned(model: Any) -> dict[str, Any]:
    """Return the stored state of a fitted model: everything but parameters and the lock."""
    left_out = {*model.get_params(deep=False), "_learning"}
    return {name: value for name, value in vars(model).items() if name not in left_out}


def switch_at(number: int, model: Any, later: dict[str, Any]) -> list[int]:
    """Let the learned state become ``later`` at a read, as if a fit ended there; count the reads.

    Reads are not counted while the thread owns the lock of the model, because no fit can end then.
    """
    kind = type(model)
    n_reads = [0]

    class Switching(kind):  # type: ignore[misc, valid-type]
        def __getattribute__(self, name: str) -> Any:
            if self is model and (name in later or name == "__dict__"):  # not for snapshots, which keep a fit
                stored = object.__getattribute__(self, "__dict__")
                lock = stored.get("_learning")
                if lock is None or not lock._is_owned():
                    n_reads[0] += 1
                    if n_reads[0] == number:
                        stored.update(later)
            return super().__getattribute__(name)

    Switching.__name__ = kind.__name__  # files contain it
    model.__class__ = Switching
    return n_reads


def rename_sources_and_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the two sets have the same names in another order, so that both fits read the votes of either."""
    codes = [*SETS]
    flipped = np.where(codes[1] < 0, codes[1], 1 - codes[1])[:, ::-1]
    named = [
        fs.Votes(codes[0], ("no", "yes"), tuple("abcde")),
        fs.Votes(flipped, ("yes", "no"), tuple("edcba")),
    ]
    scores = [pd.DataFrame(SCORES[0], columns=list("abcd")), pd.DataFrame(SCORES[1], columns=list("dcba"))]
    monkeypatch.setattr(MODULE, "SETS", named)
    monkeypatch.setattr(MODULE, "GOLD", [np.array(["no", "yes"])[gold] for gold in GOLD])
    monkeypatch.setattr(
        MODULE, "LABELS", [{"a": codes[0], "b": codes[0][:, ::-1]}, {"b": codes[1][:, ::-1], "a": codes[1]}]
    )
    monkeypatch.setattr(MODULE, "SCORES", scores)


TABLES = {
    "predict_proba as a table": lambda model: model.predict_proba(rows(), output="pandas").to_string(),
    "predict as a table": lambda model: model.predict(rows(), output="pandas").to_string(),
}
CHUNKS = {
    "predict_proba of chunks": lambda model: list(model.predict_proba(fs.VoteChunks([rows(), rows(1)]))),
    "predict of chunks": lambda model: list(model.predict(fs.VoteChunks([rows(), rows(1)]))),
}


@pytest.mark.parametrize("names", ["same names", "other order of names"])
@pytest.mark.parametrize("name", [name for name in CASES if "Online" not in name])
def test_readers_see_one_fit_if_a_fit_ends_at_any_read(name, names, monkeypatch):
    """A fit in another thread may end between any two reads of the stored state."""
    if names != "same names":
        rename_sources_and_classes(monkeypatch)
    case = CASES[name]
    more = {member: call for member, call in case.calls.items() if " " in member}
    if name in ("fs.LabelModel", "fs.MajorityVote", "fs.SequenceLabelModel"):
        more = TABLES if "Sequence" in name else TABLES | CHUNKS
    case = replace(case, calls=case.calls | more)
    alone = [case.make(), case.make()]
    for k, model in enumerate(alone):
        case.fit(model, k)
    later = learned(alone[1])
    wrong, n_different = [], 0
    for member in [*readers(name), *more]:
        allowed = [called(case, model, member) for model in alone]
        assert not any(str(value).startswith("refused") for value in allowed)
        n_different += allowed[0] != allowed[1]
        number, n_reads = 0, [1]
        while number < n_reads[0]:
            number += 1
            model = case.make()
            case.fit(model, 0)
            n_reads = switch_at(number, model, later)
            if called(case, model, member) not in allowed:
                wrong.append(f"{member}, read {number} of {n_reads[0]}")
    assert n_different > 1  # otherwise the test shows nothing
    assert wrong == []
