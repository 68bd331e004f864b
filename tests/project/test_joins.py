"""Values that accompany votes get to the items they are of, in every function that takes them.

Each function of ``CALLS`` gets votes in every form, and labels, weights, features or probabilities in every
form. The result must be the one of values in the order of the items, or an error: never that of other items.
A public function with a parameter of ``PARAMETERS`` must be in ``CALLS`` or, with a reason, in ``OTHERS``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import flyingsquid as fs
from docs.conf import resolve
from flyingsquid.exceptions import FlyingSquidError
from tests.project.test_public_api import LISTED, is_installed

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore")]

N = 120
RNG = np.random.default_rng(7)
Y = RNG.integers(0, 2, N)
CODES = np.where(RNG.random((N, 4)) < [0.9, 0.8, 0.7, 0.75], Y[:, None], 1 - Y[:, None])
CODES[RNG.random((N, 4)) < 0.2] = -1
SOURCES = ["a", "b", "c", "d"]
NAMES = [f"item {i}" for i in RNG.permutation(N)]
NUMBERS = RNG.permutation(N).tolist()  # rows of a numbered table that were shuffled
ORDER = RNG.permutation(N)

# One value per item. About a third of the gold labels are unknown.
LABELS = [int(y) if known else None for y, known in zip(Y, RNG.random(N) < 0.7, strict=True)]
WEIGHTS = RNG.uniform(0.1, 3, N).tolist()
GROUPS = [f"group {i}" for i in RNG.integers(0, 2, N)]
TABLE = np.column_stack([Y + RNG.normal(0, 0.7, N), RNG.normal(0, 1, N)])
PROBABILITIES = np.column_stack([1 - (p := np.clip(0.7 * Y + RNG.uniform(0, 0.3, N), 0, 1)), p])
TEXTS = [f"text {i}" for i in range(N)]


# ---------------------------------------------------------------------- forms of votes


@dataclass(frozen=True)
class Form:
    """Votes in one form, the identifiers of their items, and whether a Series matches them by position."""

    votes: Any
    ids: list[Any] | None = None
    is_array: bool = False


def numbered(index: Any = None, **columns: Any) -> Any:
    frame = pd.DataFrame(CODES, columns=SOURCES, index=index)
    return frame.assign(**columns)[[*columns, *SOURCES]]


def votes_with(items: Any = None) -> fs.Votes:
    return fs.Votes(CODES.astype(np.int8), (0, 1), tuple(SOURCES), None if items is None else np.array(items))


def forms_of_votes(path: Any) -> dict[str, Form]:
    """Return the votes in every form; files are written below ``path``."""
    files = {}
    for name, ids in (("with ids", NAMES), ("without ids", None)):
        files[name] = path / f"{name}.csv"
        fs.files.write_votes(files[name], votes_with(ids), overwrite=True)
    halves = slice(0, N // 2), slice(N // 2, N)
    return {
        "array": Form(CODES, is_array=True),
        "Votes": Form(votes_with()),
        "Votes with names": Form(votes_with(NAMES), NAMES),
        "pandas with names": Form(numbered(NAMES), NAMES),
        "pandas with numbers": Form(numbered(NUMBERS), NUMBERS),
        "pandas with a column of names": Form(numbered(doc=NAMES), NAMES),
        "pandas with numbers and a column of names": Form(numbered(NUMBERS, doc=NAMES), NAMES),
        "polars with a column of names": Form(pl.from_pandas(numbered(doc=NAMES)), NAMES),
        "file": Form(files["without ids"]),
        "file with names": Form(files["with ids"], NAMES),
        "chunks of pandas with numbers": Form(
            fs.VoteChunks([numbered(NUMBERS)[at] for at in halves], classes=[0, 1]), NUMBERS
        ),
    }


# ---------------------------------------------------------------------- forms of values


def as_column(values: Any) -> Any:
    """Return an array; missing labels are NaN, as pandas reads them."""
    if isinstance(values, np.ndarray):
        return values
    return np.array([np.nan if each is None else each for each in values])


def as_series(values: Any, index: Any = None) -> Any:
    """Return a Series, or a table if there are several values per item."""
    column = as_column(values)
    names = {"columns": [f"x{j}" for j in range(column.shape[1])]} if column.ndim == 2 else {}
    return (pd.DataFrame if names else pd.Series)(column, index=index, **names)


def forms_of_values(values: Any, form: Form) -> Iterator[tuple[str, Any]]:
    """Yield values of the items in every form that identifies or orders them correctly."""
    column = as_column(values)
    is_table = column.ndim == 2
    yield "array", column  # matched by position
    yield "polars", pl.from_pandas(as_series(values)) if is_table else pl.Series(values)
    index = form.votes.index.tolist() if isinstance(form.votes, pd.DataFrame) else None
    keys = {"identifiers": form.ids, "index": index}
    if (
        form.ids is None and index is None and not form.is_array
    ):  # arrays may have been shuffled with the Series
        keys = {"numbers": list(range(N))}
    if all(ids is None or ids == list(range(N)) or isinstance(ids[0], str) for ids in keys.values()):
        yield "numbered Series", as_series(values)
    for name, ids in keys.items():
        if ids is not None:
            by_id = as_series(values, ids)
            yield f"shuffled Series by {name}", by_id.iloc[ORDER]
            yield f"sorted Series by {name}", by_id.sort_index()
            if is_table:
                yield (
                    f"longer table by {name}",
                    pd.concat([by_id.iloc[ORDER], as_series(values, _other(ids))]),
                )
            else:
                yield f"mapping by {name}", by_id.sort_index().to_dict()


def _other(ids: list[Any]) -> list[Any]:
    return [f"other {key}" if isinstance(key, str) else key + N for key in ids]


# ---------------------------------------------------------------------- functions

LARGE = RNG.integers(0, 2, 2000)  # the model needs more items to use features
LARGE_CODES = np.where(RNG.random((2000, 4)) < [0.75, 0.7, 0.65, 0.7], LARGE[:, None], 1 - LARGE[:, None])
LARGE_TABLE = np.column_stack([LARGE + RNG.normal(0, 0.5, 2000), RNG.normal(0, 1, 2000)])
MODEL = fs.LabelModel().fit(votes_with())
LARGE_VOTES = fs.Votes(LARGE_CODES.astype(np.int8), (0, 1), tuple(SOURCES))
BY_FEATURES = fs.LabelModel().fit(LARGE_VOTES, features=as_series(LARGE_TABLE))
SHIFTS = RNG.normal(0, 1, N)
SCORE_MODEL = fs.ScoreModel().fit(pd.DataFrame(CODES + SHIFTS[:, None], columns=SOURCES))
BY_GOLD = fs.LabelModel().fit(votes_with(), gold=LABELS)
CLASSIFIER = fs.WeaklySupervisedClassifier(LogisticRegression(), use_features=True)
CLASSIFIER.fit(as_series(LARGE_TABLE), LARGE_VOTES)
ONLINE = fs.OnlineLabelModel(window=N)
ONLINE.update(votes_with())
SEQUENCES = fs.SequenceLabelModel().fit(votes_with(), [N])


def by_features(method: str, votes: Any, features: Any) -> Any:
    """Return what a fit measures about the features, whether it uses them or not."""
    model = fs.LabelModel()
    result = getattr(model, method)(votes, features=features)
    if isinstance(result, Iterator):
        list(result)
    effect = model.diagnostics_.features
    assert effect is not None
    return [effect.votes_gain, effect.features_gain, effect.both_gain]


def collected(result: Any) -> Any:
    """Return labels of chunks as one array."""
    return np.concatenate(list(result)) if isinstance(result, Iterator) else result


def probabilities(model: Any) -> Any:
    return model.predict_proba(votes_with())


def classifier(X: Any, votes: Any, gold: Any = None) -> Any:
    model = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X, votes, gold=gold)
    return model.predict_proba(TABLE)


def training_set(X: Any, proba: Any, votes: Any, gold: Any = None) -> Any:
    chosen = fs.to_training_set(X, proba, votes=votes, gold=gold)
    return [np.asarray(chosen.X, float), chosen.proba, chosen.rows]


def updated(votes: Any, gold: Any) -> Any:
    model = fs.OnlineLabelModel(window=N)
    model.update(votes, gold=gold)
    return probabilities(model)


def best(votes: Any, groups: Any) -> Any:
    """Return the best item of each group by scores instead of votes."""
    if not isinstance(votes, pd.DataFrame):
        only_votes(votes)
        votes = pd.DataFrame(CODES, columns=SOURCES, index=None if votes.items is None else votes.items)
    scores = votes[SOURCES] + SHIFTS[:, None]
    found = SCORE_MODEL.best_of(scores, groups)
    return dict(zip(found.groups.tolist(), found.chosen.tolist(), strict=True))


def in_memory(votes: Any) -> Any:
    if isinstance(votes, fs.VoteChunks):
        raise TypeError("the function is for votes in memory")
    return votes


def only_votes(votes: Any) -> fs.Votes:
    if not isinstance(votes, fs.Votes):
        raise TypeError("the function is for Votes")
    return votes


def multi_label(votes: Any, **options: Any) -> Any:
    return fs.MultiLabelModel().fit({"spam": votes}, **options)


def reported(votes: Any, **options: Any) -> str:
    return str(fs.report(votes, model=options.pop("model", MODEL), **options))


def exported(path: Any, votes: Any, **options: Any) -> str:
    target = path / "votes.csv"
    fs.files.write_votes(target, votes, overwrite=True, **options)
    return target.read_text(encoding="utf-8")


def exported_items(path: Any, votes: Any, **options: Any) -> str:
    target = path / "items.json"
    fs.files.write_votes(target, votes, format="label_studio", overwrite=True, **options)
    return target.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Call:
    """Values for a parameter of a public function, and a call that returns what depends on them.

    Slow functions get only the forms of votes in which a mistake is most likely.
    """

    run: Callable[[Any, Any, Any], Any]
    values: Any
    is_slow: bool = False


analysis = fs.analysis
REFUSALS = (FlyingSquidError, TypeError)
CALLS = {
    "fs.LabelModel.fit gold": Call(lambda v, x, _: probabilities(fs.LabelModel().fit(v, gold=x)), LABELS),
    "fs.LabelModel.fit sample_weight": Call(
        lambda v, x, _: probabilities(fs.LabelModel().fit(v, sample_weight=x)), WEIGHTS
    ),
    "fs.LabelModel.fit features": Call(lambda v, x, _: by_features("fit", v, x), TABLE, is_slow=True),
    "fs.LabelModel.fit_predict features": Call(
        lambda v, x, _: by_features("fit_predict", v, x), TABLE, is_slow=True
    ),
    "fs.LabelModel.fit_predict_proba features": Call(
        lambda v, x, _: by_features("fit_predict_proba", v, x), TABLE, is_slow=True
    ),
    "fs.LabelModel.partial_fit gold": Call(
        lambda v, x, _: probabilities(fs.LabelModel().partial_fit(v, gold=x)), LABELS
    ),
    "fs.LabelModel.partial_fit sample_weight": Call(
        lambda v, x, _: probabilities(fs.LabelModel().partial_fit(v, sample_weight=x)), WEIGHTS
    ),
    "fs.LabelModel.partial_fit features": Call(
        lambda v, x, _: by_features("partial_fit", v, x), TABLE, is_slow=True
    ),
    "fs.LabelModel.predict_proba features": Call(
        lambda v, x, _: collected(BY_FEATURES.predict_proba(v, features=x)), TABLE
    ),
    "fs.LabelModel.predict features": Call(
        lambda v, x, _: collected(BY_FEATURES.predict(v, features=x)), TABLE
    ),
    "fs.LabelModel.score y": Call(lambda v, x, _: MODEL.score(v, x), LABELS),
    "fs.LabelModel.score sample_weight": Call(lambda v, x, _: MODEL.score(v, Y, sample_weight=x), WEIGHTS),
    "fs.LabelModel.score features": Call(lambda v, x, _: BY_FEATURES.score(v, Y, features=x), TABLE),
    "fs.MajorityVote.fit sample_weight": Call(
        lambda v, x, _: repr(fs.MajorityVote().fit(v, sample_weight=x).summary()), WEIGHTS
    ),
    "fs.MajorityVote.score y": Call(lambda v, x, _: fs.MajorityVote().fit(CODES).score(v, x), LABELS),
    "fs.Moments.of sample_weight": Call(
        lambda v, x, _: fs.Moments.of(v, sample_weight=x).agreement(), WEIGHTS
    ),
    "fs.MultiLabelModel.fit gold": Call(
        lambda v, x, _: multi_label(v, gold={"spam": x}).predict_proba({"spam": votes_with()}), LABELS
    ),
    "fs.MultiLabelModel.fit sample_weight": Call(
        lambda v, x, _: multi_label(v, sample_weight=x).predict_proba({"spam": votes_with()}), WEIGHTS
    ),
    "fs.MultiLabelModel.score y": Call(
        lambda v, x, _: multi_label(CODES).score({"spam": v}, {"spam": x}), LABELS
    ),
    "fs.MultiLabelModel.score sample_weight": Call(
        lambda v, x, _: multi_label(CODES).score({"spam": v}, {"spam": Y}, x), WEIGHTS
    ),
    "fs.OnlineLabelModel.update gold": Call(lambda v, x, _: updated(v, gold=x), LABELS),
    "fs.OnlineLabelModel.partial_fit gold": Call(
        lambda v, x, _: probabilities(fs.OnlineLabelModel(window=N).partial_fit(v, gold=x)), LABELS
    ),
    "fs.SequenceLabelModel.score y": Call(lambda v, x, _: SEQUENCES.score(v, x, [N]), LABELS),
    "fs.SequenceLabelModel.fit gold": Call(
        lambda v, x, _: fs.SequenceLabelModel().fit(v, [N], gold=x).predict_proba(CODES, [N]),
        LABELS,
        is_slow=True,
    ),
    "fs.WeaklySupervisedClassifier.fit X": Call(lambda v, x, _: classifier(x, v), TABLE, is_slow=True),
    "fs.WeaklySupervisedClassifier.fit gold": Call(
        lambda v, x, _: classifier(TABLE, v, x), LABELS, is_slow=True
    ),
    "fs.WeaklySupervisedClassifier.predict_proba X": Call(
        lambda v, x, _: CLASSIFIER.predict_proba(x, votes=in_memory(v)),
        TABLE,
    ),
    "fs.to_training_set X": Call(lambda v, x, _: training_set(x, PROBABILITIES, v), TABLE),
    "fs.to_training_set proba": Call(lambda v, x, _: training_set(TABLE, x, v), PROBABILITIES),
    "fs.to_training_set gold": Call(lambda v, x, _: training_set(TABLE, PROBABILITIES, v, x), LABELS),
    "fs.labels_saved X": Call(
        lambda v, x, _: fs.labels_saved(MODEL, v, x, Y, end_model=GaussianNB(), random_state=0).accuracies,
        TABLE,
        is_slow=True,
    ),
    "fs.labels_saved gold": Call(
        lambda v, x, _: (
            fs.labels_saved(MODEL, v, TABLE, x, end_model=GaussianNB(), random_state=0).accuracies
        ),
        LABELS,
        is_slow=True,
    ),
    "fs.estimate_rate gold": Call(lambda v, x, _: fs.estimate_rate(MODEL, v, x).table().rows, LABELS),
    "fs.estimate_rate by": Call(
        lambda v, x, _: fs.estimate_rate(MODEL, v, LABELS, by=x).table().rows, GROUPS
    ),
    "fs.suggest_items labeled": Call(
        lambda v, x, _: fs.suggest_items(MODEL, v, 20, labeled=x, random_state=0).positions, LABELS
    ),
    "fs.summarize y": Call(lambda v, x, _: fs.summarize(v, x).rows, LABELS),
    "fs.analysis.findings y": Call(lambda v, x, _: repr(analysis.findings(v, x, model=MODEL)), LABELS),
    "fs.analysis.findings features": Call(
        lambda v, x, _: repr(analysis.findings(v, Y, model=BY_FEATURES, features=x)), TABLE
    ),
    "fs.analysis.calibration y": Call(lambda v, x, _: analysis.calibration(MODEL, v, x).observed, LABELS),
    "fs.analysis.calibration features": Call(
        lambda v, x, _: analysis.calibration(BY_FEATURES, v, Y, features=x).observed, TABLE
    ),
    "fs.analysis.compare_with_majority y": Call(
        lambda v, x, _: analysis.compare_with_majority(MODEL, v, x).gain, LABELS
    ),
    "fs.analysis.compare_with_majority features": Call(
        lambda v, x, _: analysis.compare_with_majority(BY_FEATURES, v, Y, features=x).model, TABLE
    ),
    "fs.analysis.contested_items y": Call(
        lambda v, x, _: repr(analysis.contested_items(MODEL, v, x)), LABELS
    ),
    "fs.analysis.contested_items features": Call(
        lambda v, x, _: repr(analysis.contested_items(BY_FEATURES, v, features=x)), TABLE
    ),
    "fs.analysis.disagreement_buckets y": Call(
        lambda v, x, _: repr(analysis.disagreement_buckets(v, x, model=MODEL)), LABELS
    ),
    "fs.analysis.disagreement_buckets features": Call(
        lambda v, x, _: repr(analysis.disagreement_buckets(v, Y, model=BY_FEATURES, features=x)), TABLE
    ),
    "fs.analysis.label_buckets labels": Call(
        lambda v, x, _: {
            k: v.tolist() for k, v in analysis.label_buckets(only_votes(v)[:, ["a"]], x).items()
        },
        LABELS,
    ),
    "fs.analysis.learning_curve y": Call(
        lambda v, x, _: analysis.learning_curve(MODEL, v, x, random_state=0).accuracy, LABELS, is_slow=True
    ),
    "fs.analysis.learning_curve gold": Call(
        lambda v, x, _: analysis.learning_curve(BY_GOLD, v, Y, random_state=0, gold=x).accuracy,
        LABELS,
        is_slow=True,
    ),
    "fs.analysis.leave_one_out y": Call(
        lambda v, x, _: analysis.leave_one_out(MODEL, v, x).accuracy_change, LABELS, is_slow=True
    ),
    "fs.analysis.leave_one_out gold": Call(
        lambda v, x, _: analysis.leave_one_out(BY_GOLD, v, Y, gold=x).shift, LABELS, is_slow=True
    ),
    "fs.analysis.panel_report y": Call(
        lambda v, x, _: repr(analysis.panel_report(only_votes(v).with_structure("{judge}"), x)), LABELS
    ),
    "fs.analysis.dependence_given_truth y": Call(
        lambda v, x, _: analysis.dependence_given_truth(v, x), LABELS
    ),
    "fs.analysis.dependence_given_truth posterior": Call(
        lambda v, x, _: analysis.dependence_given_truth(v, posterior=x), PROBABILITIES
    ),
    "fs.judges.simulate_asking y": Call(
        lambda v, x, _: repr(fs.judges.simulate_asking(v, x, stop_at=0.9).accuracy),
        LABELS,
        is_slow=True,
    ),
    "fs.MajorityVote.partial_fit sample_weight": Call(
        lambda v, x, _: repr(fs.MajorityVote().partial_fit(v, sample_weight=x).summary()), WEIGHTS
    ),
    "fs.MajorityVote.score sample_weight": Call(
        lambda v, x, _: fs.MajorityVote().fit(CODES).score(v, Y, x), WEIGHTS
    ),
    "fs.OnlineLabelModel.score y": Call(lambda v, x, _: ONLINE.score(v, x), LABELS),
    "fs.ScoreModel.best_of groups": Call(lambda v, x, _: best(v, x), GROUPS),
    "fs.files.write_votes ids": Call(lambda v, x, path: exported(path, only_votes(v), ids=x), TEXTS),
    "fs.report y": Call(lambda v, x, _: reported(v, y=x), LABELS, is_slow=True),
    "fs.report data": Call(lambda v, x, _: reported(v, data=x), TEXTS, is_slow=True),
    "fs.report features": Call(
        lambda v, x, _: reported(v, y=Y, features=x, model=BY_FEATURES), TABLE, is_slow=True
    ),
    "fs.files.write_votes gold": Call(lambda v, x, path: exported(path, only_votes(v), gold=x), LABELS),
    "fs.files.write_votes data": Call(lambda v, x, path: exported_items(path, only_votes(v), data=x), TEXTS),
    "fs.files.write_votes probabilities": Call(
        lambda v, x, path: exported_items(path, only_votes(v), data=TEXTS, probabilities=x), PROBABILITIES
    ),
}


# ---------------------------------------------------------------------- all functions

PARAMETERS = {
    *("y", "gold", "labeled", "sample_weight", "item_weight", "features", "X", "proba", "posterior", "data"),
    *("probabilities", "ids", "groups", "by", "lengths", "labels", "previous", "where", "costs", "available"),
}
"""Names of parameters with values of items."""
OTHERS = {
    "*.fit* y": "ignored, as in scikit-learn",
    "*.partial_fit y": "ignored, as in scikit-learn",
    "*.fit_predict* gold": "passed to fit",
    "*.fit_predict* sample_weight": "passed to fit",
    "*.MajorityVote.* features": "refused",
    "*.OnlineLabelModel.* features": "refused",
    "*.OnlineLabelModel.score sample_weight": "the method of LabelModel",
    "*.WeaklySupervisedClassifier.predict X": "see predict_proba; without votes there is nothing to join",
    "*.WeaklySupervisedClassifier.decision_function X": "without votes there is nothing to join",
    "*.WeaklySupervisedClassifier.score *": "the method of scikit-learn",
    "* lengths": "one per sequence; tests/models/test_sequence_model.py",
    "* previous": "votes on one row",
    "*.explain features": "features of one item",
    "*.feature_log_odds features": "arrays of the package",
    "*.ask_judges *": "test_judges",
    "*.simulate_asking available": "an array",
    "*.simulate_asking gold": "read by the lines that read y",
    "* costs": "one per judge",
    "fs.Votes.*": "tests/votes: these are the votes",
    "*.open_votes gold": "a column of the file",
    "*.write labels": "test_label_writer",
    "*.write probabilities": "test_label_writer",
    "*.write ids": "the identifiers themselves",
    "*.gold_items gold": "tests/distributed",
    "fs.apply data": "there are no votes yet",
    "fs.labeling.*": "there are no votes yet",
    "*.learn_structure sample_weight": "counts of fs.Moments.of",
    "*.plot_posteriors probabilities": "the only values",
    "fs.torch.* item_weight": "tensors",
    "fs.solvers.*": "internal values",
    "*.from_dict data": "a graph",
    "fs.theory.*": "numbers",
}
"""Other parameters with these names, as patterns, and the reason why they are not in ``CALLS``."""


def list_parameters() -> set[str]:
    """Return all parameters of public functions and methods that are named in ``PARAMETERS``."""
    found = set()
    for name in filter(is_installed, LISTED):
        value = resolve(name)
        functions = {name: value}
        if inspect.isclass(value):
            public = [member for member in dir(value) if not member.startswith(("_", "set_"))]
            functions = {f"{name}.{member}": getattr(value, member) for member in public}
        for path, function in functions.items():
            if inspect.isfunction(function) or inspect.ismethod(function):
                found |= {
                    f"{path} {each}" for each in inspect.signature(function).parameters if each in PARAMETERS
                }
    return found


@pytest.mark.slow
def test_every_parameter_with_values_of_items_is_tested_or_has_a_reason():
    found = list_parameters()
    others = {each for each in found if any(fnmatchcase(each, pattern) for pattern in OTHERS)}
    assert found - others == set(CALLS)
    assert not [
        pattern
        for pattern in OTHERS
        if not pattern.startswith("fs.torch") and not any(fnmatchcase(each, pattern) for each in found)
    ]


# ---------------------------------------------------------------------- tests

SLOW_FORMS = ("Votes with names", "pandas with numbers", "pandas with numbers and a column of names")


def is_same(first: Any, second: Any) -> bool:
    """Return whether two results are equal, up to rounding of numbers."""
    try:
        if isinstance(first, np.ndarray) and first.dtype.kind == "f":
            np.testing.assert_allclose(first, second, atol=1e-9)
        else:
            np.testing.assert_equal(first, second)
    except AssertionError:
        return False
    return True


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    return forms_of_votes(tmp_path_factory.mktemp("votes"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if call.is_slow else ()) for name, call in CALLS.items()],
)
def test_values_are_of_their_items(name, forms, tmp_path):
    """Joined by identifier, matched by position if they have none, or refused."""
    call = CALLS[name]
    shuffled = as_column(call.values)[ORDER]
    right = call.run(votes_with(), call.values, tmp_path)
    assert not is_same(call.run(votes_with(), shuffled, tmp_path), right), (
        "the result does not depend on them"
    )
    wrong, joined = [], []
    for votes, form in forms.items():
        if call.is_slow and votes not in SLOW_FORMS:
            continue
        try:
            expected = call.run(form.votes, call.values, tmp_path)
        except REFUSALS:
            continue  # votes in a form that the function does not accept
        for values, given in forms_of_values(call.values, form):
            try:
                found = call.run(form.votes, given, tmp_path)
            except REFUSALS:
                continue
            joined.append(values)
            if not is_same(found, expected):
                wrong.append((votes, values))
    assert not wrong
    assert {"array", "polars"} <= {*joined}


def test_label_writer(tmp_path):
    """Labels and probabilities of a Series or table are joined with the identifiers."""
    labels, shares = as_series(Y, NAMES), as_series(PROBABILITIES, NAMES)
    written = []
    for name, at in (("right", np.arange(N)), ("shuffled", ORDER)):
        path = tmp_path / f"{name}.csv"
        with fs.files.LabelWriter(path, classes=[0, 1]) as writer:
            writer.write(NAMES, labels.iloc[at], shares.iloc[at], np.full(N, 3))
        written.append(path.read_text(encoding="utf-8"))
    assert written[0] == written[1]


def test_judges():
    """Identifiers and gold labels of items in a table are aligned with its index."""
    table, ids = numbered(NUMBERS).iloc[:30], pd.Series(TEXTS, NUMBERS).iloc[:30]
    ask = {name: lambda row, name=name: max(row[name], 0) for name in SOURCES}
    judges = [fs.judges.Judge(name, ask[name], parse=int, classes=[0, 1]) for name in SOURCES]
    run = fs.judges.ask_judges(judges, table, ids=ids.sort_index())
    assert run.votes.items.tolist() == ids.tolist()
    with pytest.raises(FlyingSquidError, match="`gold`"):
        fs.judges.ask_judges(judges, table, stop_at=0.9, gold=pd.Series(LABELS[:30], NAMES[:30]))
