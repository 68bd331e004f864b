"""The loss that estimates its sources: counts, labels and gradients are those of the batch model."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import (
    FlyingSquidError,
    GraphError,
    IncompatibleError,
    OptionError,
    SourceWarning,
    VotesError,
)
from tests.support.absent import without
from tests.support.errors import mentions
from tests.support.strategies import examples

torch = pytest.importorskip("torch")

from flyingsquid.torch import LabelModelLoss, SoftCrossEntropy  # noqa: E402

pytestmark = pytest.mark.extra
CLIP = fs.DependencyGraph.chain(3, 4, source_edges=[(0, 1)])
ALIKE = fs.DependencyGraph(6, source_edges=[(0, 1), (1, 2), (0, 2)])
GRID = fs.DependencyGraph.grid(2, 2, 3)
APART = fs.DependencyGraph(8, 2)


def draw(n=640, m=5, seed=0, coverage=0.8):
    sample = fs.datasets.simulate(
        n, accuracies=np.linspace(0.6, 0.9, m), coverage=coverage, random_state=seed
    )
    return tensor(sample.votes), sample.y


def tensor(votes):
    return torch.as_tensor(votes.to_dense().codes.astype(np.int64))


def draw_on(graph, n=900, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    sample = fs.datasets.simulate_graph(n, graph, 0.75, n_classes=n_classes, coverage=0.8, random_state=rng)
    return tensor(sample.votes)


def draw_many(n=900, m=5, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    right = rng.random((n, m)) < np.linspace(0.5, 0.9, m)
    votes = np.where(right, truth[:, None], rng.integers(0, n_classes, (n, m)))
    return torch.as_tensor(np.where(rng.random((n, m)) < 0.2, -1, votes))


CASES = {
    "one task": (lambda: draw()[0], None, 2, {"method": "triplet"}),
    "class-conditional": (
        lambda: draw()[0],
        None,
        2,
        {"method": "covariance", "class_balance": [0.4, 0.6]},
    ),
    "many classes": (draw_many, None, 4, {"method": "agreement"}),
    "one against the rest": (
        draw_many,
        None,
        4,
        {"method": "one_vs_rest"},
    ),
    "two classes the way of many": (lambda: draw()[0], None, 2, {"method": "agreement"}),
    "dependent sources": (lambda: draw_on(ALIKE), ALIKE, 2, {"method": "triplet"}),
    "chain": (lambda: draw_on(CLIP), CLIP, 2, {"method": "triplet"}),
    "tempered chain": (lambda: draw_on(CLIP), CLIP, 2, {"method": "triplet", "temper": 0.6}),
    "grid": (lambda: draw_on(GRID), GRID, 2, {"method": "triplet"}),
    "separate tasks": (lambda: draw_on(APART), APART, 2, {"method": "triplet"}),
}


@pytest.fixture(params=CASES)
def case(request):
    make, graph, n_classes, options = CASES[request.param]
    votes = make()
    return votes, graph, n_classes, options


def batch_model(votes, graph, n_classes, options):
    read = fs.Votes.from_classes(votes.numpy(), classes=tuple(range(n_classes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        return fs.LabelModel(graph, **options).fit_moments(fs.Moments.of(read, graph)), read


def logits_for(votes, n_tasks, n_classes, seed=1):
    shape = (len(votes), n_classes) if n_tasks == 1 else (len(votes), n_tasks, n_classes)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def test_an_epoch_gives_the_parameters_of_the_batch_model(case):
    votes, graph, n_classes, options = case
    loss_fn = LabelModelLoss(votes.shape[1], n_classes, graph, **options)
    for batch in votes.split(64):
        loss_fn.update(batch)
    model, read = batch_model(*case)
    assert loss_fn.moments == model.moments_
    found = loss_fn.label_model
    np.testing.assert_allclose(found.accuracies_, model.accuracies_, atol=1e-6)
    np.testing.assert_allclose(found.confusion_, model.confusion_, atol=1e-6)
    np.testing.assert_allclose(found.class_balance_, model.class_balance_, atol=1e-6)
    labels = loss_fn.soft_labels(votes)
    assert labels.dtype == torch.float64
    np.testing.assert_allclose(labels.numpy(), model.predict_proba(read), atol=1e-9)


def test_gradients_are_those_of_the_labels_of_the_batch_model(case):
    """After every batch, against the batch model of all rows so far."""
    votes, graph, n_classes, options = case
    n_tasks = 1 if graph is None else graph.n_tasks
    loss_fn = LabelModelLoss(votes.shape[1], n_classes, graph, drop_uncovered=False, **options)
    for start in range(0, len(votes), 300):
        batch = votes[start : start + 300]
        ours, theirs = (logits_for(batch, n_tasks, n_classes) for _ in range(2))
        loss = loss_fn(ours, batch)
        model, read = batch_model(votes[: start + 300], graph, n_classes, options)
        labels = torch.as_tensor(model.predict_proba(read[start : start + len(batch)]))
        expected = SoftCrossEntropy()(theirs, labels)
        loss.backward()
        expected.backward()
        assert float(loss.detach()) == pytest.approx(float(expected.detach()), abs=1e-6)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-6)


def test_tasks_of_many_classes_are_fitted_apart():
    votes = torch.cat([draw_many(seed=0), draw_many(m=4, seed=1)], dim=1)
    graph = fs.DependencyGraph(9, 2, source_task=[0] * 5 + [1] * 4)
    balance = [[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]
    loss_fn = LabelModelLoss(9, 4, graph, class_balance=balance, method="agreement")
    loss_fn(logits_for(votes, 2, 4), votes)
    labels = loss_fn.soft_labels(votes)
    assert labels.shape == (900, 2, 4)
    assert len(loss_fn.label_model) == 2
    for task, columns in enumerate((votes[:, :5], votes[:, 5:])):
        options = {"method": "agreement", "class_balance": balance[task]}
        model, read = batch_model(columns, None, 4, options)
        np.testing.assert_allclose(labels[:, task].numpy(), model.predict_proba(read), atol=1e-9)


@examples(40)
@given(st.data())
def test_counts_equal_moments_of_the_same_votes(data):
    n_classes = data.draw(st.integers(2, 4))
    graphs = [fs.DependencyGraph(4), APART, *([] if n_classes > 2 else [ALIKE, CLIP, GRID])]
    graph = data.draw(st.sampled_from(graphs))
    n = data.draw(st.integers(1, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(-1, n_classes, (n, graph.n_sources))
    expected = fs.Moments.of(fs.Votes.from_classes(codes, classes=tuple(range(n_classes))), graph)
    loss_fn = LabelModelLoss(codes.shape[1], n_classes, graph)
    loss_fn.update(torch.as_tensor(codes))
    assert loss_fn.counts.dtype == torch.int64
    assert loss_fn.moments == expected


@pytest.mark.parametrize("graph", [None, CLIP])
@pytest.mark.parametrize("window", [1, 100, 250, 10_000])
def test_a_window_holds_the_latest_rows(graph, window):
    votes = draw_on(CLIP, 700) if graph else draw(700)[0]
    m = votes.shape[1]
    loss_fn = LabelModelLoss(m, graph=graph, window=window)
    rng, start = np.random.default_rng(0), 0
    while start < len(votes):
        stop = start + int(rng.integers(1, 180))
        loss_fn.update(votes[start:stop])
        kept = fs.Votes.from_classes(votes[:stop][-window:].numpy(), classes=(0, 1))
        assert loss_fn.moments == fs.Moments.of(kept, graph)
        start = stop


def test_a_window_follows_a_source_that_turns_bad():
    rng = np.random.default_rng(0)
    good = fs.datasets.simulate(2_000, accuracies=[0.9, 0.8, 0.8, 0.8], random_state=rng).votes
    bad = fs.datasets.simulate(2_000, accuracies=[0.55, 0.8, 0.8, 0.8], random_state=rng).votes
    follows = LabelModelLoss(4, window=1_500, method="triplet")
    remembers = LabelModelLoss(4, method="triplet")
    for batch in torch.cat([tensor(good), tensor(bad)]).split(100):
        for loss_fn in (follows, remembers):
            loss_fn.update(batch)
    assert follows.label_model.accuracies_[0] == pytest.approx(0.55, abs=0.05)
    assert remembers.label_model.accuracies_[0] > 0.65


def test_evaluation_labels_and_does_not_learn():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5, method="triplet")
    loss_fn(torch.zeros(320), votes[:320])
    before, learned = loss_fn.moments, loss_fn.label_model
    loss_fn.eval()
    with torch.no_grad():
        loss = loss_fn(torch.zeros(320), votes[320:])
    assert loss_fn.moments == before
    assert loss_fn.label_model is learned
    assert float(loss) == pytest.approx(np.log(2))
    loss_fn.train()
    loss_fn(torch.zeros(320), votes[320:])
    assert loss_fn.moments.n_items == 640


def test_logits_of_two_classes_come_in_three_shapes():
    votes, _ = draw()
    log_odds = torch.randn(640, generator=torch.Generator().manual_seed(0))
    losses = [
        LabelModelLoss(5)(logits, votes)
        for logits in (log_odds, log_odds[:, None], torch.stack([torch.zeros(640), log_odds], dim=1))
    ]
    torch.testing.assert_close(losses[0], losses[1])
    torch.testing.assert_close(losses[0], losses[2])


def test_logits_and_votes_of_tasks_come_in_two_shapes():
    votes = draw_on(CLIP)
    log_odds = torch.randn(900, 3, generator=torch.Generator().manual_seed(0))
    both = torch.stack([torch.zeros(900, 3), log_odds], dim=2)
    flat = LabelModelLoss(12, graph=CLIP)(log_odds, votes)
    stacked = LabelModelLoss(12, graph=CLIP)(both, votes.reshape(900, 3, 4))
    torch.testing.assert_close(flat, stacked)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_every_precision_of_logits(dtype):
    votes, _ = draw()
    logits = torch.randn(640, 2, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    loss = LabelModelLoss(5)(logits, votes)
    loss.backward()
    assert logits.grad.dtype == dtype
    expected = LabelModelLoss(5)(logits.detach().double(), votes)
    assert float(loss.detach()) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_every_type_of_votes(dtype):
    votes = draw(coverage=1.0)[0]
    loss_fn = LabelModelLoss(5)
    loss_fn.update(votes.to(dtype))
    assert loss_fn.moments == fs.Moments.of(votes.numpy())


def test_only_the_logits_get_a_gradient():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5)
    logits = torch.zeros(640, requires_grad=True)
    loss_fn(logits, votes).backward()
    assert logits.grad.abs().sum() > 0
    assert not list(loss_fn.parameters())
    assert not any(buffer.requires_grad for buffer in loss_fn.buffers())
    assert not loss_fn.soft_labels(votes).requires_grad


def test_autocast_counts_exactly():
    """A bfloat16 counts to 256."""
    votes, _ = draw(2_000)
    layer, loss_fn = torch.nn.Linear(5, 1), LabelModelLoss(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(votes.float())
        loss = loss_fn(logits, votes)
    assert logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    loss.backward()
    assert loss_fn.moments == fs.Moments.of(votes.numpy())
    plain = LabelModelLoss(5)
    plain.update(votes)
    torch.testing.assert_close(loss_fn.soft_labels(votes), plain.soft_labels(votes), rtol=0, atol=0)


# The compiler itself looks at .grad of what it carries over our part, which is not compiled.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled_steps_learn_the_same():
    votes, _ = draw()
    features = votes.float()

    def losses(compiled):
        torch.manual_seed(0)
        layer, loss_fn = torch.nn.Linear(5, 2), LabelModelLoss(5)

        def step(x, v):
            return loss_fn(layer(x), v)

        run = torch.compile(step, backend="aot_eager") if compiled else step
        found = []
        for x, v in zip(features.split(160), votes.split(160), strict=True):
            loss = run(x, v)
            loss.backward()
            found.append(loss.detach())
        return torch.stack([*found, layer.weight.grad.sum()]), loss_fn.moments

    (plain, counts), (compiled, compiled_counts) = losses(False), losses(True)
    torch.testing.assert_close(plain, compiled)
    assert counts == compiled_counts


def train(layer, loss_fn, optimizer, batches):
    for x, v in batches:
        optimizer.zero_grad()
        loss_fn(layer(x), v).backward()
        optimizer.step()


@pytest.mark.parametrize("window", [None, 300])
def test_stop_and_resume_in_the_middle_of_an_epoch(window):
    votes, y = draw(1_000)
    x = torch.as_tensor(np.random.default_rng(0).normal(y[:, None], 1.0, (1_000, 3)), dtype=torch.float32)
    batches = list(zip(x.split(50), votes.split(50), strict=True))

    def fresh():
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
        return layer, LabelModelLoss(5, window=window), torch.optim.Adam(layer.parameters(), 0.05)

    through = fresh()
    train(*through, batches)
    first = fresh()
    train(*first, batches[:9])
    file = io.BytesIO()
    torch.save([part.state_dict() for part in first], file)
    file.seek(0)
    resumed = fresh()
    for part, state in zip(resumed, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    train(*resumed, batches[9:])
    for ours, theirs in zip(resumed[0].parameters(), through[0].parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert resumed[1].moments == through[1].moments


def test_counts_are_integer_buffers_that_stay_integers():
    loss_fn = LabelModelLoss(12, graph=CLIP)
    assert all(buffer.dtype == torch.int64 for buffer in loss_fn.buffers())
    assert "counts" in loss_fn.state_dict()
    loss_fn.half()
    assert loss_fn.counts.dtype == torch.int64
    with pytest.raises(RuntimeError, match="size mismatch"):
        LabelModelLoss(3, 4).load_state_dict(LabelModelLoss(6, 2).state_dict())
    assert "12 sources" in repr(loss_fn)


def test_the_module_moves_and_is_copied():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5)
    loss_fn.update(votes)
    assert loss_fn.to("meta").counts.device.type == "meta"
    loss_fn = LabelModelLoss(5).to("cpu")
    loss_fn.update(votes)
    other = copy.deepcopy(loss_fn)
    other.update(votes)
    assert loss_fn.moments.n_items == 640
    assert other.moments.n_items == 1_280
    other.reset()
    assert other.moments.n_items == 0
    assert other.label_model is None


def test_loaded_counts_replace_what_was_fitted():
    """The fit is kept while the counts are the same, and no longer."""
    votes, _ = draw()
    ours, theirs = LabelModelLoss(5), LabelModelLoss(5)
    ours.update(votes)
    theirs.update(votes.flip(1))
    before = ours.soft_labels(votes)
    ours.load_state_dict(theirs.state_dict())
    assert not torch.equal(ours.soft_labels(votes), before)
    assert torch.equal(ours.soft_labels(votes), theirs.soft_labels(votes))


def test_a_forgotten_window_starts_anew():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5, window=100)
    loss_fn.update(votes)
    loss_fn.reset()
    loss_fn.update(votes[:70])
    assert loss_fn.moments == fs.Moments.of(votes[:70].numpy())


def test_labels_before_counts_suffice_are_smoothed_vote_shares():
    loss_fn = LabelModelLoss(3, class_balance=[0.25, 0.75])
    votes = torch.tensor([[-1, -1, -1], [1, -1, -1], [0, 0, 1]])
    loss_fn.update(votes)
    expected = [[0.25, 0.75], [0.125, 0.875], [2.25 / 4, 1.75 / 4]]
    np.testing.assert_allclose(loss_fn.soft_labels(votes).numpy(), expected)
    assert loss_fn.label_model is None
    chain = LabelModelLoss(12, graph=CLIP)
    shares = chain.soft_labels(torch.tensor([[1, 1, 1, 1] + [-1] * 8]))
    np.testing.assert_allclose(shares[0].numpy(), [[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]])


def test_counts_that_never_suffice_are_told_once():
    votes = torch.ones(200, 3, dtype=torch.int64)
    loss_fn = LabelModelLoss(3, method="triplet")
    with pytest.warns(SourceWarning, match=mentions(200, "vote shares")):
        loss_fn(torch.zeros(200), votes)
    loss_fn(torch.zeros(200), votes)  # a warning would be an error


def test_warm_up_says_when_the_label_model_begins():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5, warm_up=200)
    loss_fn.update(votes[:199])
    assert loss_fn.label_model is None
    loss_fn.update(votes[199:200])
    assert loss_fn.label_model is not None


def test_a_short_window_does_not_warm_up_for_ever():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5, window=60, warm_up=100)
    loss_fn.update(votes)
    assert loss_fn.label_model is not None


def test_a_batch_whose_logits_do_not_fit_is_not_counted():
    votes, _ = draw()
    loss_fn = LabelModelLoss(5)
    with pytest.raises(IncompatibleError, match=mentions("logits", "(640, 3)", "(640, 2)")):
        loss_fn(torch.zeros(640, 3), votes)
    with pytest.raises(IncompatibleError, match=r"`logits` must .*\(900, 3, 2\)"):
        LabelModelLoss(12, graph=CLIP)(torch.zeros(900, 2), draw_on(CLIP))
    assert loss_fn.moments.n_items == 0


def test_items_without_votes_have_no_part_in_the_loss_but_are_counted():
    votes, _ = draw()
    votes[:, 0] = votes[:, 0].clamp(min=0)
    votes[::2] = -1
    logits = torch.randn(640, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss_fn = LabelModelLoss(5)
    loss = loss_fn(logits, votes)
    loss.backward()
    assert (logits.grad[::2] == 0).all()
    assert loss_fn.moments.n_items == 640
    labels = loss_fn.soft_labels(votes)[1::2]
    torch.testing.assert_close(loss, SoftCrossEntropy()(logits[1::2], labels))
    kept = LabelModelLoss(5, drop_uncovered=False)(logits, votes)
    assert not torch.isclose(kept, loss)


def test_a_task_counts_where_any_task_that_it_is_joined_to_has_votes():
    graph = fs.DependencyGraph(9, 3, task_edges=[(0, 1)])
    votes = draw_on(graph)
    votes[0] = torch.tensor([1, 1, 1] + [-1] * 6)
    each = LabelModelLoss(9, graph=graph, reduction="none")(torch.zeros(900, 3), votes)
    assert each[0, 0] > 0
    assert each[0, 1] > 0
    assert each[0, 2] == 0


def test_weights_of_items_multiply_the_coverage():
    votes, _ = draw()
    votes[:, 0] = votes[:, 0].clamp(min=0)
    votes[0] = -1
    weight = torch.rand(640, generator=torch.Generator().manual_seed(0))
    logits = torch.randn(640, generator=torch.Generator().manual_seed(1))
    loss_fn = LabelModelLoss(5)
    loss = loss_fn(logits, votes, weight)
    weight[0] = 0
    torch.testing.assert_close(loss, SoftCrossEntropy()(logits, loss_fn.soft_labels(votes), weight))
    votes = draw_on(CLIP)
    loss = LabelModelLoss(12, graph=CLIP)(torch.zeros(900, 3), votes, torch.ones(900))
    assert float(loss) == pytest.approx(np.log(2))


def test_an_empty_batch_changes_nothing():
    votes, _ = draw()
    for window in (None, 50):
        loss_fn = LabelModelLoss(5, window=window)
        loss_fn.update(votes)
        before = loss_fn.moments
        assert float(loss_fn(torch.zeros(0), votes[:0])) == 0
        assert loss_fn.moments == before


def test_wrong_votes_are_named_and_not_counted():
    loss_fn = LabelModelLoss(3)
    votes = torch.tensor([[0, 1, 1], [0, 2, 1]])
    for wrong, message in [
        (votes, "got 2 in row 1, source 1"),
        (votes - 2, "got -2 in row 0, source 0"),
        (votes[:, :2], r"`votes` must .*\(b, 3\); got \(2, 2\)"),
        (votes.float(), "torch.float32"),
        (votes > 0, "torch.bool"),
        (votes.numpy(), "`votes` must be a tensor.*ndarray"),
        (fs.Votes.from_classes(votes.numpy()), "`votes` must be a tensor.*Votes"),
    ]:
        with pytest.raises(VotesError, match=message):
            loss_fn(torch.zeros(2), wrong)
    with pytest.raises(IncompatibleError, match="`logits` and `votes` must"):
        loss_fn(torch.zeros(3), votes)
    with pytest.raises(VotesError, match=r"\(b, 12\) or \(b, 3, 4\)"):
        LabelModelLoss(12, graph=CLIP)(torch.zeros(2, 3), torch.zeros(2, 4, 3, dtype=torch.int64))
    assert loss_fn.moments.n_items == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_sources": 0}, OptionError, "`n_sources` must"),
        ({"n_sources": 3.5}, OptionError, "`n_sources` must"),
        ({"n_sources": 3, "n_classes": 1}, OptionError, "`n_classes` must"),
        ({"n_sources": 3, "window": 0}, OptionError, "`window` must"),
        ({"n_sources": 3, "warm_up": -1}, OptionError, "`warm_up` must"),
        ({"n_sources": 3, "graph": "learn"}, OptionError, "`graph` must"),
        ({"n_sources": 3, "graph": CLIP}, GraphError, "`graph` must"),
        ({"n_sources": 12, "n_classes": 3, "graph": CLIP}, GraphError, "a loss keeps counts of pairs"),
        ({"n_sources": 3, "method": "magic"}, OptionError, "`method`"),
        ({"n_sources": 5, "method": "decomposition"}, OptionError, "needs"),
        ({"n_sources": 3, "class_balance": "estimate"}, OptionError, "a loss keeps counts of pairs"),
        ({"n_sources": 3, "class_balance": [0.5, 0.6]}, OptionError, "sums to 1.1"),
        ({"n_sources": 3, "n_classes": 4, "method": "triplet"}, OptionError, "supports two classes"),
        ({"n_sources": 2_000, "n_classes": 4}, OptionError, "fewer classes"),
    ],
)
def test_options_are_refused_before_the_first_batch(options, error, message):
    with pytest.raises(error, match=message) as raised:
        LabelModelLoss(**options)
    assert isinstance(raised.value, FlyingSquidError)


@pytest.mark.system
def test_without_torch_the_error_names_the_extra():
    code = """
try:
    import flyingsquid.torch
except ImportError as error:
    print(error, error.name)
"""
    answer = subprocess.run(
        [sys.executable, "-c", without(["torch"], code)], capture_output=True, text=True, check=True
    )
    assert "pip install 'flyingsquid[torch]'" in answer.stdout
    assert answer.stdout.split()[-1] == "torch"
