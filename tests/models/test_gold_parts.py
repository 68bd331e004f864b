"""Gold labels of votes that come in parts: chunks, partial_fit, streams, sequences."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.exceptions import ModelFileError, OptionError, VotesError
from flyingsquid.votes.gold_items import MOST_GOLD_ITEMS

pd = pytest.importorskip("pandas")
# Most sources of the panel are wrong, so the gold labels contradict the votes.
pytestmark = pytest.mark.filterwarnings("ignore:Without gold labels:flyingsquid.exceptions.SourceWarning")
N, CUTS = 2_000, (700, 900, 2_000)


@pytest.fixture(scope="module")
def panel():
    """Votes of sources of which most are wrong, and the truth."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    right = rng.random((N, 5)) < [0.3, 0.25, 0.35, 0.3, 0.9]
    votes = np.where(right, y[:, None], 1 - y[:, None]).astype(np.int8)
    votes[rng.random(votes.shape) < 0.2] = -1
    return votes, y


@pytest.fixture(scope="module")
def gold(panel):
    """Gold labels of 60 random items, None for the others."""
    labels = np.full(N, None)
    at = np.random.default_rng(1).choice(N, 60, replace=False)
    labels[at] = panel[1][at]
    return labels


def chunked(values):
    return np.split(values, CUTS[:-1])


# ---------------------------------------------------------------------- chunks


@pytest.mark.parametrize("method", ["auto", "triplet", "em"])
def test_chunks_are_fitted_as_votes_in_memory(panel, gold, method):
    votes, _ = panel
    whole = fs.LabelModel(method=method).fit(votes, gold=gold)
    chunks = fs.LabelModel(method=method).fit(fs.VoteChunks(chunked(votes), classes=[0, 1]), gold=gold)
    assert chunks.n_gold_ == whole.n_gold_ == 60
    np.testing.assert_allclose(chunks.predict_proba(votes), whole.predict_proba(votes), atol=1e-8)
    np.testing.assert_allclose(chunks.accuracies_, whole.accuracies_, atol=1e-8)


def test_many_classes_in_chunks():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 1_500)
    votes = np.where(rng.random((1_500, 4)) < 0.7, y[:, None], rng.integers(0, 3, (1_500, 4)))
    known = np.where(np.arange(1_500) % 20 == 0, y, -1)
    whole = fs.LabelModel().fit(votes, gold=known)
    chunks = fs.LabelModel(n_classes=3).fit(fs.VoteChunks(np.split(votes, [400, 1_000])), gold=known)
    np.testing.assert_allclose(chunks.predict_proba(votes), whole.predict_proba(votes), atol=1e-8)


def test_gold_labels_join_chunks_by_identifier(panel, gold):
    votes, _ = panel
    names = [f"item {i}" for i in range(N)]
    tables = [pd.DataFrame(votes[a:b], index=names[a:b], columns=list("abcde"))
              for a, b in zip((0, *CUTS), CUTS, strict=False)]  # fmt: skip
    by_id = {names[i]: label for i, label in enumerate(gold) if label is not None}
    by_position = fs.LabelModel().fit(fs.VoteChunks(chunked(votes), names=list("abcde")), gold=gold)
    for given in (by_id, pd.Series(by_id)):
        joined = fs.LabelModel().fit(fs.VoteChunks(tables), gold=given)
        np.testing.assert_array_equal(joined.predict_proba(votes), by_position.predict_proba(votes))
    for wrong in (by_id | {"nobody": 1}, {"nobody": 1}):
        with pytest.raises(VotesError, match="nobody") as raised:
            fs.LabelModel().fit(fs.VoteChunks(tables), gold=wrong)
        assert raised.value.parameter == "gold"
    with pytest.raises(VotesError, match="more than once"):
        fs.LabelModel().fit(fs.VoteChunks([*tables, tables[0]]), gold=by_id)
    with pytest.raises(VotesError, match="identifiers"):
        fs.LabelModel().fit(fs.VoteChunks(chunked(votes)), gold=by_id)


def test_gold_labels_of_chunks_by_position_must_be_complete(panel, gold):
    votes, _ = panel
    for wrong in (gold[:-1], np.append(gold, 1)):
        with pytest.raises(VotesError) as raised:
            fs.LabelModel().fit(fs.VoteChunks(chunked(votes)), gold=wrong)
        assert raised.value.parameter == "gold"


def test_chunks_with_too_many_distinct_rows_are_corrected_from_counts(panel, gold):
    votes, y = panel
    with use_limits(distinct_rows=10):
        model = fs.LabelModel().fit(fs.VoteChunks(chunked(votes)), gold=gold)
    assert model.rows_used_ == "none"
    assert model.n_gold_ == 60
    assert model.score(votes, y) > 0.85
    assert fs.LabelModel().fit(votes).score(votes, y) < 0.4


def test_several_tasks_in_chunks_are_refused(panel):
    votes, _ = panel
    clips = votes[:, :4].reshape(-1, 2, 4)
    graph = fs.DependencyGraph.chain(2, 4)
    with pytest.raises(OptionError) as raised:
        fs.LabelModel(graph).fit(fs.VoteChunks([clips]), gold=np.zeros((len(clips), 2), int))
    assert raised.value.parameter == "gold"


# ---------------------------------------------------------------------- partial_fit


def test_partial_fit_collects_gold_labels(panel, gold, tmp_path):
    votes, y = panel
    model = fs.LabelModel()
    for part, labels in zip(chunked(votes), chunked(gold), strict=True):
        model.partial_fit(part, gold=labels)
    assert model.n_gold_ == 60
    assert model.score(votes, y) > 0.85
    at_once = fs.LabelModel().partial_fit(votes, gold=gold)
    np.testing.assert_allclose(model.predict_proba(votes), at_once.predict_proba(votes), atol=1e-9)
    model.save(tmp_path / "m.fsq")
    later = [each.partial_fit(votes[:300]) for each in (fs.load(tmp_path / "m.fsq"), model)]
    assert later[0].n_gold_ == 60
    np.testing.assert_array_equal(later[0].predict_proba(votes), later[1].predict_proba(votes))


def test_gold_labels_are_kept_if_the_votes_do_not_determine_a_fit_yet(gold, panel):
    votes, y = panel
    model = fs.LabelModel()
    with pytest.raises(fs.exceptions.NotIdentifiableError):
        model.partial_fit(np.full((30, 5), -1), gold=[0] * 30)
    with pytest.warns(fs.exceptions.SourceWarning):
        model.set_params(n_classes=2).partial_fit(votes[:3], gold=y[:3])
    assert model.n_gold_ == 33


def test_at_most_so_many_items_are_kept():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, MOST_GOLD_ITEMS + 500)
    votes = np.where(rng.random((len(y), 3)) < 0.8, y[:, None], 1 - y[:, None])
    model = fs.LabelModel(method="triplet").partial_fit(votes[:6_000], gold=y[:6_000])
    model.partial_fit(votes[6_000:], gold=y[6_000:])
    assert model.n_gold_ == MOST_GOLD_ITEMS


# ---------------------------------------------------------------------- streams


def test_a_stream_learns_from_gold_labels(panel, gold):
    votes, y = panel
    online, without = fs.OnlineLabelModel(), fs.OnlineLabelModel()
    for part, labels in zip(chunked(votes), chunked(gold), strict=True):
        found, plain = online.update(part, gold=labels), without.update(part)
    truth = y[CUTS[1] :]
    assert np.mean(found.argmax(axis=1) == truth) > 0.85
    assert np.mean(plain.argmax(axis=1) == truth) < 0.4
    assert online.diagnostics_.gold.n_gold == 60
    one = online.predict_proba_one(votes[0])
    assert one[1] == pytest.approx(online.predict_proba(votes[:1])[0, 1])


def test_a_stream_is_fitted_as_partial_fit(panel, gold):
    votes, _ = panel
    online = fs.OnlineLabelModel(window=N, method="triplet").partial_fit(votes, gold=gold)
    batch = fs.LabelModel(method="triplet").partial_fit(votes, gold=gold)
    np.testing.assert_allclose(online.predict_proba(votes), batch.predict_proba(votes), atol=1e-9)


def test_gold_labels_join_a_chunk_of_a_stream_by_identifier(panel, gold):
    votes, _ = panel
    names = [f"item {i}" for i in range(N)]
    table = pd.DataFrame(votes, index=names, columns=list("abcde"))
    by_id = {names[i]: label for i, label in enumerate(gold) if label is not None}
    models = [
        fs.OnlineLabelModel().partial_fit(table, gold=by_id),
        fs.OnlineLabelModel().partial_fit(table, gold=gold),
    ]
    np.testing.assert_array_equal(*(each.predict_proba(table) for each in models))
    before = models[0].n_seen_
    with pytest.raises(VotesError) as raised:
        models[0].update(table, gold={"nobody": 1})
    assert raised.value.parameter == "gold"
    assert models[0].n_seen_ == before


def test_gold_labels_leave_the_window_with_their_items(panel, gold):
    votes, _ = panel
    online = fs.OnlineLabelModel(window=500, refresh=100)
    online.update(votes[:400], gold=np.where(np.arange(400) < 40, panel[1][:400], -1))
    assert online.diagnostics_.gold.n_gold == 40
    online.update(votes[400:1_500])
    assert online.diagnostics_.gold is None


def test_gold_labels_fade_with_decay(panel):
    votes, y = panel
    online = fs.OnlineLabelModel(decay=0.99)
    online.update(votes[:400], gold=y[:400])
    assert 300 < online.diagnostics_.gold.n_gold <= 400
    online.update(votes[400:])
    assert online.diagnostics_.gold is None


def test_a_restored_stream_goes_on_unchanged(panel, gold, tmp_path):
    votes, _ = panel
    online = fs.OnlineLabelModel(window=1_500).partial_fit(votes[:700], gold=gold[:700])
    online.save(tmp_path / "s.fsq")
    both = [each.update(votes[700:], gold=gold[700:]) for each in (fs.load(tmp_path / "s.fsq"), online)]
    np.testing.assert_array_equal(*both)


def test_new_sources_and_classes_keep_the_gold_labels(panel):
    votes, y = panel
    names = list("abcde")
    online = fs.OnlineLabelModel(classes=[0, 1], new_sources="add", new_classes="add")
    online.partial_fit(pd.DataFrame(votes[:500], columns=names), gold=y[:500])
    wider = pd.DataFrame(votes[500:], columns=names).assign(f=2)
    online.partial_fit(wider)
    assert online.classes_.tolist() == [0, 1, 2]
    assert online.diagnostics_.gold.n_gold == 500


def test_damaged_gold_labels_in_a_file_are_refused(panel, gold):
    from flyingsquid.files.state import State

    votes, _ = panel
    for model in (
        fs.LabelModel().fit(votes, gold=gold),
        fs.OnlineLabelModel().partial_fit(votes, gold=gold),
    ):
        state = model._to_state()
        for name in ("gold.codes", "gold.labels"):
            damaged = State(state.kind, state.meta, {**state.arrays, name: state.arrays[name] + 5})
            with pytest.raises(ModelFileError):
                type(model)._from_state(damaged)


# ---------------------------------------------------------------------- sequences


def test_sequences_learn_from_gold_labels():
    rng = np.random.default_rng(0)
    video = fs.datasets.simulate_sequence(3_000, [0.8, 0.75, 0.7, 0.7], persistence=0.9, random_state=0)
    votes, y = np.asarray(video.votes.codes), np.asarray(video.y)
    flipped = np.where(votes >= 0, 1 - votes, -1)  # a panel that is mostly wrong
    known = np.full(3_000, -1)
    at = rng.choice(3_000, 60, replace=False)
    known[at] = y[at]
    without = fs.SequenceLabelModel().fit(flipped)
    model = fs.SequenceLabelModel().fit(flipped, gold=known)
    assert model.diagnostics_.gold.n_gold == 60
    assert without.score(flipped, y) < 0.3
    assert model.score(flipped, y) > 0.8
    with pytest.raises(VotesError, match="gold"):
        fs.SequenceLabelModel().fit(flipped, gold=known[:5])
