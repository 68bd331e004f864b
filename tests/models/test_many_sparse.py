"""Tables of very many sources and classes: sparse storage gives the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files.state import State, write_state
from flyingsquid.moments import SparseTables
from tests.oracle.many import ManyStar, crowd

NAMES = tuple("abcdefg")


def drawn(n: int = 300, seed: int = 0) -> tuple[fs.Votes, np.ndarray]:
    """Seven sources, five classes; the last source never votes."""
    rng = np.random.default_rng(seed)
    codes, y = ManyStar.random(rng, 7, 5).sample(n, rng)
    codes[:, 6] = -1
    return fs.Votes(codes, tuple(range(5)), NAMES), y


@pytest.fixture
def sparse_tables():
    with use_limits(dense_table_cells=0):
        yield


def both(votes: fs.Votes, **options):
    """The same fit with whole tables and with sparse ones."""
    gold = options.pop("gold", None)
    models = []
    for cells in (1 << 24, 0):
        model = fs.LabelModel(method="agreement", **options)
        with use_limits(dense_table_cells=cells), pytest.warns(fs.exceptions.SourceWarning):
            models.append(model.fit(votes, gold=gold))
    assert isinstance(models[1].confusion_, SparseTables)
    assert not isinstance(models[0].confusion_, SparseTables)
    return models


@pytest.mark.parametrize("counts", ["dense counts", "sparse counts"])
@pytest.mark.parametrize("gold", ["no gold", "gold", "swapped gold"])
def test_sparse_tables_are_the_same_tables(counts, gold):
    votes, y = drawn()
    known = None if gold == "no gold" else np.where(np.arange(len(y)) < 60, y, -1)
    if gold == "swapped gold":
        known = np.where(known < 0, -1, (known + 1) % 5)
    limits = {"dense_pair_bytes": 0} if counts == "sparse counts" else {}
    with use_limits(**limits):
        whole, sparse = both(votes, class_balance=[0.3, 0.1, 0.2, 0.2, 0.2], gold=known)
    np.testing.assert_allclose(np.asarray(sparse.confusion_), whole.confusion_, atol=1e-12)
    np.testing.assert_allclose(sparse.predict_proba(votes), whole.predict_proba(votes), atol=1e-12)
    np.testing.assert_allclose(sparse.log_likelihood(votes), whole.log_likelihood(votes), atol=1e-9)
    np.testing.assert_allclose(sparse.accuracies_, whole.accuracies_, atol=1e-12)
    np.testing.assert_array_equal(sparse.predict(votes), whole.predict(votes))
    asked = [0, 0, 1, -1, 4, 3, 2]  # the silent source votes, and a vote that never met another may occur
    np.testing.assert_allclose(sparse.predict_proba([asked]), whole.predict_proba([asked]), atol=1e-12)
    ours, theirs = sparse.explain(asked), whole.explain(asked)
    assert ours.log_odds == pytest.approx(theirs.log_odds, abs=1e-12)
    assert str(ours) == str(theirs)
    np.testing.assert_allclose(sparse.accuracies_interval_, whole.accuracies_interval_, atol=1e-12)
    sparse_codes = fs.Votes.from_sparse(csr_array(votes.codes + 1), names=NAMES)
    np.testing.assert_allclose(sparse.predict_proba(sparse_codes), whole.predict_proba(votes), atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("sparse_tables")
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_files_keep_sparse_tables(tmp_path):
    votes, y = drawn()
    model = fs.LabelModel(method="agreement").fit(votes, gold=np.where(np.arange(len(y)) < 30, y, -1))
    model.save(tmp_path / "model.fsq")
    again = fs.load(tmp_path / "model.fsq")
    assert isinstance(again.confusion_, SparseTables)
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))
    assert str(again.summary()) == str(model.summary())
    assert str(again.diagnostics_.verdict) == str(model.diagnostics_.verdict)
    np.testing.assert_array_equal(
        again.partial_fit(votes).predict_proba(votes), model.partial_fit(votes).predict_proba(votes)
    )


@pytest.mark.usefixtures("sparse_tables")
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("shared", lambda a: -a),
        ("shared", lambda a: a[:-1]),
        ("beyond_data", lambda a: -a),
        ("beyond_indices", lambda a: a + 100),
        ("beyond_indptr", lambda a: a[:-1]),
        ("errors", lambda a: -1 + 0 * np.nan_to_num(a)),
    ],
)
def test_tampered_files_are_refused(tmp_path, name, change):
    votes, _ = drawn()
    state = fs.LabelModel(method="agreement").fit(votes)._to_state()
    name = f"fit.{name}"
    changed = {**state.arrays, name: np.ascontiguousarray(change(state.arrays[name]))}
    write_state(tmp_path / "model.fsq", State(state.kind, state.meta, changed))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "model.fsq")


@pytest.mark.usefixtures("sparse_tables")
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_tables_are_read_source_by_source():
    votes, _ = drawn()
    tables = fs.LabelModel(method="agreement").fit(votes).confusion_
    assert tables.shape == (7, 5, 6)
    assert len(tables) == 7
    np.testing.assert_allclose([table.sum(axis=1) for table in tables], 1)
    np.testing.assert_array_equal(tables[-1], tables[6])
    with pytest.raises(IndexError):
        tables[7]
    with pytest.raises(OptionError, match="one at a time"):
        tables[:, 0]
    with use_limits(table_cells=10), pytest.raises(OptionError, match="source by source"):
        np.asarray(tables)


def test_attributes_that_need_all_cells_raise_an_error_for_sparse_tables():
    rng = np.random.default_rng(0)
    codes, _ = crowd(rng, 6, 3, right=0.7, coverage=0.9).sample(2_000, rng)
    for options in (
        {"method": "em"},
        {"method": "decomposition"},
        {"method": "one_vs_rest"},
        {"method": "agreement", "class_balance": "estimate"},
    ):
        with use_limits(table_cells=10), pytest.raises(OptionError, match="agreement"):
            fs.LabelModel(**options).fit(codes)


@pytest.mark.usefixtures("sparse_tables")
def test_items_are_drawn_from_sparse_tables():
    rng = np.random.default_rng(0)
    codes, _ = crowd(rng, 5, 3, right=0.7, coverage=0.8).sample(2_000, rng)
    tables = fs.LabelModel(method="agreement").fit(codes).confusion_
    y = np.repeat(np.arange(3), 4_000)
    drawn_codes = tables.draw(y, rng)
    for i, table in enumerate(tables):
        for k in range(3):
            said = drawn_codes[y == k, i]
            found = [np.mean(said == v) for v in (0, 1, 2, -1)]
            np.testing.assert_allclose(found, table[k], atol=0.035)
