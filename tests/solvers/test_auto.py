"""Laws of the default estimator and of weighted votes, and expected results on simulated votes."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flyingsquid as fs
from flyingsquid.estimation.dependence import find_dependence, near_copies
from flyingsquid.estimation.table_em import rows_of
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.exceptions import ModelFileError, NotIdentifiableError, OptionError, SourceWarning
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from tests.support.strategies import examples


def panel(rng, n, accuracies, *, n_classes=2, coverage=1.0, balance=None):
    """Votes of sources that err at random, and the truth."""
    y = rng.choice(n_classes, n, p=balance)
    shape = (n, len(accuracies))
    wrong = (y[:, None] + rng.integers(1, n_classes, shape)) % n_classes
    votes = np.where(rng.random(shape) < np.asarray(accuracies), y[:, None], wrong)
    votes[rng.random(shape) >= coverage] = -1
    return votes.astype(np.int8), y


def accuracy(probabilities, y):
    """Share of items that are labeled right; ties share the credit."""
    best = probabilities >= probabilities.max(axis=1, keepdims=True) - 1e-9
    return float(np.mean(best[np.arange(len(y)), y] / best.sum(axis=1)))


def labels(votes, n_classes=2, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        return fs.LabelModel(n_classes=n_classes, **options).fit(votes).predict_proba(votes)


def majority(votes, n_classes=2):
    return fs.MajorityVote().fit(Votes.from_classes(votes, classes=range(n_classes))).predict_proba(votes)


small_votes = hnp.arrays(
    np.int8, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=st.integers(-1, 2)
).filter(lambda votes: (votes >= 0).any())


class TestLaws:
    @examples(60)
    @given(votes=small_votes, method=st.sampled_from(["auto", "weighted"]))
    def test_any_votes_are_labeled(self, votes, method):
        probabilities = labels(votes, 3, method=method)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)

    @examples(40)
    @given(votes=small_votes, seed=st.integers(0, 99), method=st.sampled_from(["weighted", "auto"]))
    def test_order_of_items_and_sources_does_not_matter(self, votes, seed, method):
        rng = np.random.default_rng(seed)
        rows, columns = rng.permutation(votes.shape[0]), rng.permutation(votes.shape[1])
        straight = labels(votes, 3, method=method)
        shuffled = labels(votes[rows][:, columns], 3, method=method)
        np.testing.assert_allclose(shuffled, straight[rows], atol=1e-9)

    @examples(40)
    @given(
        votes=small_votes,
        order=st.permutations([0, 1, 2]),
        method=st.sampled_from(["weighted", "auto"]),
    )
    def test_names_of_classes_do_not_matter(self, votes, order, method):
        renamed = np.where(votes < 0, -1, np.asarray(order)[votes]).astype(np.int8)
        np.testing.assert_allclose(
            labels(renamed, 3, method=method)[:, order], labels(votes, 3, method=method), atol=1e-9
        )

    @examples(30)
    @given(votes=small_votes, method=st.sampled_from(["weighted", "auto"]))
    def test_a_weight_of_two_is_the_item_twice(self, votes, method):
        weights = np.arange(len(votes)) % 2 + 1
        once = fs.LabelModel(method=method, n_classes=3)
        twice = fs.LabelModel(method=method, n_classes=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SourceWarning)
            once.fit(votes, sample_weight=weights)
            twice.fit(np.repeat(votes, weights, axis=0))
        np.testing.assert_allclose(once.predict_proba(votes), twice.predict_proba(votes), atol=1e-9)

    def test_sparse_votes_are_labelled_as_dense_ones(self):
        rng = np.random.default_rng(0)
        votes, _ = panel(rng, 400, [0.8] * 12, n_classes=3, coverage=0.3)
        items, sources = np.nonzero(votes >= 0)
        sparse = Votes.from_long(items, sources, votes[items, sources])
        for method in ("weighted", "auto"):
            dense_fit = fs.LabelModel(method=method).fit(votes[np.unique(items)])
            sparse_fit = fs.LabelModel(method=method).fit(sparse)
            np.testing.assert_allclose(sparse_fit.predict_proba(sparse), dense_fit.predict_proba(sparse))


class TestDefault:
    """Guarantees for users."""

    def test_two_sources_that_cast_nearly_all_votes_leave_ties(self):
        """One source votes "no" on almost everything, one at random, and two hardly vote."""
        rng = np.random.default_rng(0)
        y = (rng.random(3_000) < 0.1).astype(int)
        votes = np.full((3_000, 4), -1, np.int8)
        votes[rng.random(3_000) < 0.95, 0] = 0
        votes[:, 1] = rng.random(3_000) < 0.4
        votes[rng.random(3_000) < 0.02, 2] = 1
        votes[rng.random(3_000) < 0.01, 3] = 1
        model = fs.LabelModel().fit(votes)
        np.testing.assert_array_equal(model.fit_.mixture.weights, np.ones((4, 2)))
        np.testing.assert_allclose(accuracy(model.predict_proba(votes), y), accuracy(majority(votes), y))
        assert model.diagnostics_.verdict.gain < 0.001

    def test_dependent_pairs_count_against_the_verdict(self):
        """On the biopsies, two of 21 pairs are dependent, and tables do not explain the votes."""
        model = fs.LabelModel().fit(fs.datasets.load_breast_cancer().votes)
        assert "2 dependent pairs" in model.reason_
        assert not model.fit_.is_tested
        votes, _ = panel(np.random.default_rng(0), 2_000, [0.8] * 7)
        assert fs.LabelModel().fit(votes).fit_.is_tested

    def test_sources_are_discounted_only_where_they_meet(self):
        """A discount on items of one source alone would make EM underestimate its accuracy."""
        votes, _ = panel(np.random.default_rng(0), 20_000, [0.8] * 6, coverage=0.05)
        shared = np.zeros((6, 6))
        shared[0, 1] = shared[1, 0] = 0.5
        discounts = vote_weights(Moments.of(votes), shared).discounts
        np.testing.assert_allclose(discounts[:2], 1 / (1 + 0.5 * 0.05), rtol=0.01)
        np.testing.assert_array_equal(discounts[2:], 1.0)

    def test_abstentions_of_three_sources_do_not_determine_accuracies(self):
        """Few votes meet, so tables that explain the abstentions must not outweigh the votes."""
        few, _ = panel(np.random.default_rng(0), 2_000, [0.8] * 3, coverage=0.05)
        many, _ = panel(np.random.default_rng(0), 20_000, [0.8] * 3, coverage=0.3)
        assert fs.LabelModel().fit(few).fit_.mixture.trust < 0.3
        assert fs.LabelModel().fit(many).fit_.mixture.trust > 0.9

    def test_three_sources_are_weighted(self):
        votes, _ = panel(np.random.default_rng(0), 2_000, [0.9, 0.7, 0.6])
        weights = vote_weights(Moments.of(votes), None).weights.mean(axis=1)
        assert weights[0] > 1.2 * weights[2]

    def test_a_given_balance_that_the_votes_show_changes_nothing(self):
        """Only the tables use it; the pseudo-vote stays uniform."""
        votes, _ = panel(np.random.default_rng(0), 2_000, [0.8] * 5, balance=[0.7, 0.3])
        labels = fs.LabelModel(method="weighted").fit_predict_proba(votes)
        shown = fs.LabelModel(class_balance=labels.mean(axis=0)).fit(votes)
        np.testing.assert_allclose(shown.fit_.mixture.prior, [0.5, 0.5], atol=0.01)
        rarer = fs.LabelModel(class_balance=[0.9, 0.1]).fit(votes)
        assert rarer.fit_.mixture.prior[1] < 0.4

    def test_a_balance_of_a_class_without_votes_does_not_outweigh_votes(self):
        votes, _ = panel(np.random.default_rng(0), 500, [0.8] * 5)
        model = fs.LabelModel(n_classes=3, class_balance=[0.45, 0.45, 0.1]).fit(votes)
        assert (model.predict_proba(votes).argmax(axis=1) < 2).all()

    @pytest.mark.slow
    @pytest.mark.parametrize("m", [3, 5, 20])
    @pytest.mark.parametrize("n", [20, 200])
    @pytest.mark.parametrize("n_classes", [2, 4])
    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
    def test_small_panels_lose_nothing(self, n, m, n_classes):
        rng = np.random.default_rng(n + m)
        low, high = (0.55, 0.95) if n_classes == 2 else (0.3, 0.9)
        ahead = {}
        for kind, skill in (("equal", np.full(m, (low + high) / 2)), ("unequal", np.linspace(low, high, m))):
            found = []
            for _ in range(40):
                votes, y = panel(rng, n, skill, n_classes=n_classes)
                found.append(accuracy(labels(votes, n_classes), y) - accuracy(majority(votes, n_classes), y))
            ahead[kind] = np.mean(found)
        assert ahead["equal"] > -0.01
        assert ahead["unequal"] > (0 if n >= 200 and m > 3 else -0.01)

    @pytest.mark.slow
    @pytest.mark.parametrize("n", [300, 3_000])
    @pytest.mark.parametrize("spoiler", ["always yes", "a copy", "four copies", "everybody twice", "a coin"])
    def test_a_source_that_adds_nothing_changes_nothing(self, n, spoiler):
        rng = np.random.default_rng(5)
        moved = []
        for _ in range(10):
            votes, y = panel(rng, n, [0.85, 0.8, 0.75, 0.75, 0.7], coverage=0.8)
            added = {
                "always yes": np.ones((n, 1), np.int8),
                "a copy": votes[:, [4]],
                "four copies": votes[:, [4] * 4],
                "everybody twice": votes,
                "a coin": rng.integers(0, 2, (n, 1)).astype(np.int8),
            }[spoiler]
            moved.append(accuracy(labels(np.hstack([votes, added])), y) - accuracy(labels(votes), y))
        assert abs(np.mean(moved)) < 0.01

    def test_a_judge_that_nearly_always_approves_changes_little(self):
        """Its votes must not move the class balance; accuracy and balance are means over ten panels."""
        rng, found = np.random.default_rng(8), []
        for _ in range(10):
            y = (rng.random(1_500) < 0.7).astype(int)
            by_class = np.array([[0.8, 0.7, 0.6, 0.6], [0.8, 0.7, 0.62, 0.83]])
            votes = np.where(rng.random((1_500, 4)) < by_class[y], y[:, None], 1 - y[:, None])
            polite = rng.random(1_500) < np.where(y == 1, 0.97, 0.96)
            with_polite = np.column_stack([votes, polite])
            found.append([accuracy(labels(each), y) for each in (votes, with_polite)])
            found[-1].append(abs(labels(with_polite).mean(axis=0)[1] - 0.7))
        without, beside, shift = np.mean(found, axis=0)
        assert beside > without - 0.005
        assert shift < 0.06

    def test_an_adversary_does_no_harm(self):
        rng = np.random.default_rng(6)
        moved = []
        for _ in range(10):
            votes, y = panel(rng, 500, [0.85, 0.8, 0.75, 0.75, 0.7], coverage=0.8)
            against = np.where(rng.random((500, 1)) < 0.8, 1 - y[:, None], y[:, None]).astype(np.int8)
            moved.append(accuracy(labels(np.hstack([votes, against])), y) - accuracy(labels(votes), y))
        assert np.mean(moved) > -0.01

    def test_independent_votes_get_the_tables(self):
        votes, _ = panel(np.random.default_rng(0), 5_000, [0.9, 0.8, 0.7, 0.6, 0.75], coverage=0.8)
        model = fs.LabelModel().fit(votes)
        assert model.method_ == "auto"
        assert model.fit_.mixture.trust > 0.9
        np.testing.assert_allclose(model.accuracies_, [0.9, 0.8, 0.7, 0.6, 0.75], atol=0.03)
        many, _ = panel(np.random.default_rng(0), 5_000, [0.8, 0.7, 0.7, 0.6, 0.75], n_classes=3)
        assert fs.LabelModel().fit(many).fit_.mixture.trust > 0.9

    def test_shared_errors_are_not_trusted(self):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 5_000)
        is_hard = rng.random((5_000, 1)) < 0.5
        right = rng.random((5_000, 6)) < np.where(is_hard, 0.6, 0.95)
        model = fs.LabelModel().fit(np.where(right, y[:, None], 1 - y[:, None]))
        assert model.fit_.mixture.trust < 0.1
        assert "less often than the tables predict" in model.reason_

    def test_partial_copies_count_less(self):
        """Three poor sources that copy each other outvoted six better ones."""
        rng = np.random.default_rng(0)
        votes, y = panel(rng, 5_000, [0.6] * 3 + [0.75] * 6, coverage=0.8)
        for j in (1, 2):
            copied = rng.random(5_000) < 0.7
            votes[copied, j] = votes[copied, 0]
        assert accuracy(labels(votes), y) > accuracy(majority(votes), y) + 0.03
        assert "dependent pairs of sources discounted" in fs.LabelModel().fit(votes).reason_

    def test_contradictory_groups_are_left_to_majority_vote(self):
        """Sources follow the truth or a shared bias; which of the two is the truth cannot be told."""
        rng = np.random.default_rng(0)
        truth, bias = rng.integers(0, 2, (2, 400))
        follows_truth = rng.random((400, 27)) < np.repeat([0.9, 0.5, 0.1], 9)
        votes = np.where(follows_truth, truth[:, None], bias[:, None])
        votes = np.where(rng.random(votes.shape) < 0.9, votes, 1 - votes)
        model = fs.LabelModel()
        with pytest.warns(SourceWarning, match="contradict"):
            model.fit(votes)
        assert "majority vote" in model.reason_
        assert np.mean(model.predict(votes) != majority(votes).argmax(axis=1)) < 0.01

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
    def test_rules_that_find_different_items_do_not_contradict(self, n_classes):
        """Each group of rules finds its part of a rare class, and votes for class 0 elsewhere."""
        rng = np.random.default_rng(0)
        part = np.where(rng.random(4_000) < 0.1, rng.integers(0, 4, 4_000), -1)
        y = np.where(part < 0, 0, 1 + part % (n_classes - 1))
        finds = rng.random((4_000, 12)) < np.where(np.repeat(np.arange(4), 3) == part[:, None], 0.8, 0.002)
        votes = np.where(finds, np.maximum(y, 1)[:, None], 0)
        model = fs.LabelModel().fit(votes)
        assert "majority vote" not in model.reason_
        assert accuracy(model.predict_proba(votes), y) > accuracy(majority(votes, n_classes), y) + 0.03

    def test_a_crowd_with_errors_that_depend_on_the_class_is_corrected(self):
        """Most votes for class 1 are too generous, and the likelihood supports moving items to class 0."""
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 1_000)
        skill, bias, difficulty = (
            rng.uniform(0.3, 1.8, 40),
            rng.normal(0.8, 1.2, 40),
            rng.normal(0, 0.8, 1_000),
        )
        log_odds = (2 * y[:, None] - 1) * skill + bias + difficulty[:, None]
        votes = (rng.random((1_000, 40)) < 1 / (1 + np.exp(-log_odds))).astype(int)
        model = fs.LabelModel().fit(votes)
        assert model.fit_.mixture.trust == 0
        assert accuracy(model.predict_proba(votes), y) > accuracy(majority(votes, 2), y) + 0.08

    def test_labels_are_not_moved_to_another_class_without_support(self):
        """Workers with three votes each do not show which class they prefer wrongly."""
        rng = np.random.default_rng(0)
        y, is_hard = rng.integers(0, 2, 300), rng.random(300) < 0.5
        votes = np.full((300, 500), -1)
        for item in range(300):
            rate = 0.7 if is_hard[item] else (0.4, 0.95)[y[item]]
            votes[item, rng.choice(500, 5, replace=False)] = rng.random(5) < rate
        with pytest.warns(fs.exceptions.SourceWarning):  # a few workers never vote
            model = fs.LabelModel().fit(votes)
        assert model.fit_.mixture.anchored_share < 0.1
        assert accuracy(model.predict_proba(votes), y) > accuracy(majority(votes, 2), y) - 0.01

    def test_counts_alone_label_almost_as_rows_do(self):
        votes, _ = panel(np.random.default_rng(0), 3_000, [0.9, 0.8, 0.75, 0.7, 0.65, 0.6], coverage=0.8)
        model = fs.LabelModel().fit_moments(Moments.of(votes))
        assert model.method_ == "auto"
        assert np.mean(model.predict(votes) != fs.LabelModel().fit(votes).predict(votes)) < 0.02
        np.testing.assert_allclose(model.accuracies_, [0.9, 0.8, 0.75, 0.7, 0.65, 0.6], atol=0.04)
        again = fs.LabelModel().partial_fit(votes[:100]).partial_fit(votes[100:])
        np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))

    def test_items_without_votes_get_a_balance_that_can_be_trusted(self):
        votes, _ = panel(
            np.random.default_rng(0), 5_000, [0.9, 0.8, 0.75, 0.7, 0.8], coverage=0.5, balance=[0.8, 0.2]
        )
        nobody = fs.LabelModel().fit(votes).predict_proba([[-1] * 5])[0]
        assert abs(nobody[1] - 0.2) < 0.05

    @pytest.mark.parametrize(("rare", "is_imbalanced"), [(0.1, True), (0.5, False)])
    def test_items_without_votes_get_the_shares_of_a_few_votes_if_these_are_clear(self, rare, is_imbalanced):
        """Four sources that rarely meet hardly show the balance, but most votes are for one class."""
        sample = fs.datasets.simulate(
            600, accuracies=[0.8] * 4, coverage=0.1, class_balance=[1 - rare, rare], random_state=1
        )
        p = fs.LabelModel().fit(sample.votes).predict_proba([[-1] * 4])[0]
        assert p[0] > 0.65 if is_imbalanced else abs(p[0] - 0.5) < 0.02

    @pytest.mark.parametrize("from_counts", [False, True])
    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
    def test_abstention_that_depends_on_the_class_counts(self, from_counts):
        """Compared with the posterior of the true model; without abstention it is 10 points below."""
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 10_000)
        right, coverage = 0.7, np.array([0.3, 0.7])
        votes = np.where(rng.random((10_000, 6)) < right, y[:, None], 1 - y[:, None])
        votes[rng.random((10_000, 6)) >= coverage[y][:, None]] = -1
        per_vote = np.log(right / (1 - right)) * (votes * 2 - 1) + np.log(coverage[1] / coverage[0])
        per_silence = np.log((1 - coverage[1]) / (1 - coverage[0]))
        odds = np.where(votes < 0, per_silence, per_vote).sum(axis=1)
        model = fs.LabelModel()
        model = model.fit_moments(Moments.of(votes)) if from_counts else model.fit(votes)
        assert accuracy(model.predict_proba(votes), y) > np.mean((odds > 0) == y) - 0.01
        assert model.predict_proba([[-1] * 6])[0, 1] < 0.15

    @pytest.mark.parametrize("from_counts", [False, True])
    def test_abstention_on_the_same_items_does_not_count(self, from_counts):
        """Everybody abstains on half of the items, of either class, and more often on class 1 elsewhere."""
        rng = np.random.default_rng(0)
        votes, y = panel(rng, 5_000, [0.85, 0.8, 0.75, 0.75, 0.7])
        is_hard = rng.random((5_000, 1)) < 0.5
        votes[rng.random(votes.shape) < np.where(is_hard, 0.8, 0.1 + 0.2 * y[:, None])] = -1
        model = fs.LabelModel()
        model = model.fit_moments(Moments.of(votes)) if from_counts else model.fit(votes)
        assert abs(model.predict_proba([[-1] * 5])[0, 1] - 0.5) < 0.1
        assert accuracy(model.predict_proba(votes), y) > accuracy(majority(votes), y) - 0.005

    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
    def test_votes_for_one_class_do_not_affect_other_items(self):
        rng = np.random.default_rng(0)
        votes = np.where(rng.random((500, 6)) < 0.1, 1, -1)
        model = fs.LabelModel(n_classes=2)
        with pytest.warns(SourceWarning, match="All votes are for class 1"):
            model.fit(votes)
        np.testing.assert_allclose(model.predict_proba([[-1] * 6]), 0.5)
        assert model.predict_proba([[1] + [-1] * 5])[0, 1] > 0.5

    @pytest.mark.parametrize("share", [0.05, 0.5])
    def test_a_class_without_votes_is_reported_if_most_items_have_none(self, share):
        rng = np.random.default_rng(0)
        codes = np.where(rng.random((500, 4)) < share, rng.integers(1, 3, (500, 1)), -1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fs.LabelModel().fit(fs.Votes(codes, ("O", "PER", "LOC")))
        found = [str(each.message) for each in caught if "fill_abstains" in str(each.message)]
        assert len(found) == (share == 0.05)
        assert all("'O'" in message and "PER" not in message for message in found)

    def test_one_class_for_every_item_gives_a_warning(self):
        rng = np.random.default_rng(0)
        votes = np.where(rng.random((300, 12)) < 0.03, 1, 0)
        with pytest.warns(SourceWarning, match="Every item with votes is labeled 0"):
            fs.LabelModel().fit(votes)

    def test_signs_are_used_by_triplets(self):
        votes, _ = panel(np.random.default_rng(0), 300, [0.8] * 5)
        assert fs.LabelModel(signs={0: 1}).fit(votes).method_ == "triplet"

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_an_estimated_balance_changes_nothing(self, n_classes):
        rng = np.random.default_rng(0)
        y = rng.choice(n_classes, 300, p=[0.8, 0.2] if n_classes == 2 else [0.7, 0.2, 0.1])
        votes = np.where(rng.random((300, 5)) < 0.7, y[:, None], rng.integers(0, n_classes, (300, 5)))
        plain, estimated = (fs.LabelModel(class_balance=b).fit(votes) for b in (None, "estimate"))
        assert estimated.method_ == "auto"
        np.testing.assert_array_equal(estimated.class_balance_, plain.class_balance_)
        np.testing.assert_array_equal(estimated.predict_proba(votes), plain.predict_proba(votes))
        from_counts = fs.LabelModel(class_balance="estimate").fit_moments(fs.Moments.of(votes))
        assert from_counts.class_balance_[0] > 0.55

    def test_gold_labels_cost_nothing(self):
        """A crowd by the default: gold labels do not make the other items worse on average."""
        aided, unaided = [], []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            votes, y = panel(rng, 400, np.r_[np.full(6, 0.8), np.full(4, 0.55)], coverage=0.5)
            model = fs.LabelModel().fit(votes, gold=np.where(np.arange(400) < 60, y, -1))
            assert model.method_ == "auto"
            assert "60 gold labels" in model.reason_
            aided.append(model.score(votes[60:], y[60:]))
            unaided.append(fs.LabelModel().fit(votes).score(votes[60:], y[60:]))
        assert np.mean(aided) >= np.mean(unaided) - 0.003

    def test_gold_labels_move_the_class_balance(self):
        votes, _ = panel(np.random.default_rng(0), 400, [0.8] * 5)
        plain = fs.LabelModel().fit(votes)
        with pytest.warns(SourceWarning, match="gold labels"):
            bent = fs.LabelModel().fit(votes, gold=np.where(np.arange(400) < 40, 1, -1))
        assert bent.class_balance_[1] > plain.class_balance_[1]

    @pytest.mark.filterwarnings("ignore:Without gold labels:flyingsquid.exceptions.SourceWarning")
    def test_gold_labels_repair_a_panel_that_is_wrong_more_often_than_right(self):
        for coverage, least in ((1.0, 0.95), (0.45, 0.75)):
            votes, y = panel(np.random.default_rng(0), 400, [0.2, 0.2, 0.2, 0.9, 0.9], coverage=coverage)
            gold = np.where(np.arange(400) < 60, y, -1)
            assert fs.LabelModel().fit(votes).score(votes, y) < 0.5
            assert fs.LabelModel().fit(votes, gold=gold).score(votes, y) > least

    def test_gold_labels_that_are_all_unknown_change_nothing(self):
        votes, _ = panel(np.random.default_rng(0), 300, [0.8] * 5)
        nothing = fs.LabelModel().fit(votes, gold=[None] * 300)
        np.testing.assert_array_equal(
            nothing.predict_proba(votes), fs.LabelModel().fit(votes).predict_proba(votes)
        )

    def test_a_given_balance_is_followed_on_average(self):
        votes, _ = panel(np.random.default_rng(0), 300, [0.8] * 5, coverage=0.5)
        for method in ("weighted", "auto"):
            even = labels(votes, method=method, class_balance=[0.5, 0.5])
            given = labels(votes, method=method, class_balance=[0.2, 0.8])
            assert given[:, 1].mean() > even[:, 1].mean()
            nobody = np.full((1, 5), -1)
            model = fs.LabelModel(method=method, class_balance=[0.2, 0.8]).fit(votes)
            np.testing.assert_allclose(model.predict_proba(nobody), [[0.2, 0.8]])

    @pytest.mark.parametrize("rare", [0.3, 0.1])
    def test_the_true_balance_does_not_hurt(self, rare):
        rng = np.random.default_rng(0)
        gained = []
        for _ in range(10):
            votes, y = panel(rng, 400, rng.uniform(0.6, 0.9, 6), coverage=0.5, balance=[1 - rare, rare])
            with_it = accuracy(labels(votes, class_balance=[1 - rare, rare]), y)
            gained.append(with_it - accuracy(labels(votes), y))
        assert np.mean(gained) > -0.003

    @pytest.mark.parametrize("rare", [0.3, 0.15, 0.05])
    def test_imbalanced_classes_are_not_evened_out(self, rare):
        """Passes under an even prior lost ten points to majority vote here."""
        rng = np.random.default_rng(0)
        ahead = []
        for _ in range(10):
            votes, y = panel(rng, 400, rng.uniform(0.6, 0.9, 8), coverage=0.8, balance=[1 - rare, rare])
            ahead.append(accuracy(labels(votes), y) - accuracy(majority(votes), y))
        assert np.mean(ahead) > -0.005

    def test_votes_that_are_all_missing_are_refused(self):
        with pytest.raises(NotIdentifiableError, match="At least one source must vote"):
            fs.LabelModel(n_classes=2).fit(np.full((5, 3), -1))

    def test_weighted_votes_support_no_options_of_other_methods(self):
        votes, y = panel(np.random.default_rng(0), 50, [0.8] * 4)
        for options, keywords in (
            ({"signs": {0: 1}}, {}),
            ({"class_balance": "estimate"}, {}),
            ({"graph": fs.DependencyGraph(4, source_edges=[(0, 1)])}, {}),
            ({}, {"gold": y}),
        ):
            (name,) = {**options, **keywords}
            with pytest.raises(OptionError, match=f'{name}.* is not supported by method="weighted"'):
                fs.LabelModel(method="weighted", **options).fit(votes, **keywords)


class TestParts:
    def test_copies_are_found_and_experts_are_not(self):
        rng = np.random.default_rng(0)
        votes, _ = panel(rng, 3_000, [0.98, 0.98, 0.97, 0.7, 0.7, 0.7])
        assert len(np.unique(near_copies(Moments.of(votes)))) == 6
        almost = np.where(rng.random(3_000) < 0.005, 1 - votes[:, 5], votes[:, 5])
        groups = near_copies(Moments.of(np.column_stack([votes, almost])))
        assert groups[5] == groups[6]
        assert len(np.unique(groups)) == 6

    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
    def test_one_sided_copies_are_those_that_vote_on_the_same_items(self):
        rng = np.random.default_rng(0)
        fires = rng.random((500, 2)) < 0.3
        votes = np.where(fires, 1, -1).astype(np.int8)
        other = np.where(rng.random((500, 1)) < 0.3, 0, -1).astype(np.int8)
        groups = near_copies(Moments.of(np.hstack([votes, votes[:, :1], other])))
        assert groups[0] == groups[2]
        assert len(np.unique(groups)) == 3

    def test_sparse_counts_give_the_same_weights(self):
        votes, _ = panel(np.random.default_rng(0), 500, [0.8] * 8, n_classes=3, coverage=0.6)
        votes = np.hstack([votes, votes[:, :1]])
        dense = Moments.of(votes)
        sparse = replace(dense, _pairs=(dense._pairs[0].to_sparse(),))
        first, second = find_dependence(dense), find_dependence(sparse)
        np.testing.assert_allclose(first.shared, second.shared)
        weights = [vote_weights(moments, first.shared).weights for moments in (dense, sparse)]
        np.testing.assert_allclose(*weights)

    def test_passes_over_distinct_rows_are_passes_over_all(self):
        votes, _ = panel(np.random.default_rng(0), 5_000, [0.8, 0.7, 0.7, 0.6])
        rows = rows_of(Votes.from_classes(votes), None)
        assert rows.one_hot.n_items == 16
        assert rows.counts.sum() == 5_000

    def test_explanations_add_up(self):
        votes, _ = panel(np.random.default_rng(0), 400, [0.8, 0.7, 0.7, 0.6, 0.6], n_classes=3, coverage=0.7)
        model = fs.LabelModel().fit(votes)
        for row in range(20):
            why = model.explain(votes[row])
            best, second = np.sort(model.predict_proba(votes[[row]])[0])[::-1][:2]
            np.testing.assert_allclose(why.log_odds, np.log(best / second), atol=1e-9)

    def test_files_keep_everything(self, tmp_path):
        rng = np.random.default_rng(0)
        votes, _ = panel(rng, 400, [0.8, 0.7, 0.7, 0.6, 0.6], coverage=0.7)
        for method in ("weighted", "auto"):
            model = fs.LabelModel(method=method, class_balance=[0.3, 0.7]).fit(votes)
            model.save(tmp_path / "model.fsq")
            loaded = fs.load(tmp_path / "model.fsq")
            np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))
            assert str(loaded.summary()) == str(model.summary())
            assert loaded.diagnostics_.reason == model.diagnostics_.reason
            np.testing.assert_array_equal(loaded.log_likelihood(votes), model.log_likelihood(votes))

    def test_a_file_with_impossible_numbers_is_refused(self, tmp_path):
        from flyingsquid.files.state import read_state, write_state

        votes, _ = panel(np.random.default_rng(0), 100, [0.8] * 4)
        fs.LabelModel(method="auto").fit(votes).save(tmp_path / "model.fsq")
        for name, value in (
            ("vote_weights", -1.0),
            ("tables.logs", np.inf),
            ("accuracies", 2.0),
            ("groups", 9),
        ):
            state = read_state(tmp_path / "model.fsq")
            changed = state.arrays[f"fit.{name}"].copy()
            changed[0] = value
            state.arrays[f"fit.{name}"] = changed
            write_state(tmp_path / "bad.fsq", state)
            with pytest.raises(ModelFileError):
                fs.load(tmp_path / "bad.fsq")

    def test_labels_are_votes_of_the_fitted_sources(self):
        votes, _ = panel(np.random.default_rng(0), 100, [0.8] * 4)
        model = fs.LabelModel(method="weighted").fit(votes)
        np.testing.assert_allclose(model.predict_proba(np.full((2, 4), -1)), 0.5)


@pytest.mark.parametrize("method", ["weighted", "auto"])
def test_where_all_classes_tie_the_explanation_is_of_the_label(method):
    votes, _ = panel(np.random.default_rng(0), 500, [0.7] * 5, n_classes=3)
    model = fs.LabelModel(method=method, class_balance="uniform").fit(votes)
    nobody = [-1] * 5
    assert model.explain(nobody).predicted == model.predict([nobody])[0] == 0


class TestWhatWasBroken:
    """Found by trying; kept so that it stays found."""

    def test_imbalanced_votes_of_many_classes_are_not_evened_out(self):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            votes, y = panel(rng, 5_000, [0.7] * 6, n_classes=3, coverage=0.7, balance=[0.9, 0.05, 0.05])
            assert accuracy(labels(votes, 3), y) > accuracy(majority(votes, 3), y) - 0.005

    def test_coins_are_not_taken_for_sources(self):
        votes = np.random.default_rng(0).integers(0, 3, (5_000, 6))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SourceWarning)
            assert fs.LabelModel().fit(votes).predict_proba(votes).max() < 0.9

    def test_a_majority_of_copies_is_not_recommended(self):
        rng = np.random.default_rng(1)
        y = rng.integers(0, 2, 4_000)
        shared = np.where(rng.random(4_000) < 0.55, y, 1 - y)
        copies = [np.where(rng.random(4_000) < 0.9, shared, 1 - shared) for _ in range(4)]
        own = [np.where(rng.random(4_000) < 0.85, y, 1 - y) for _ in range(3)]
        votes = np.column_stack([*copies, *own])
        model = fs.LabelModel().fit(votes)
        assert model.diagnostics_.fit_test.p_value < 1e-6
        assert model.diagnostics_.verdict.kind == "unproven"
        assert accuracy(model.predict_proba(votes), y) < accuracy(majority(votes), y)

    def test_a_group_of_partial_copies_does_not_pass_for_good_sources(self):
        """If the group were right, the other sources would agree with each other a little too often."""
        rng = np.random.default_rng(0)
        votes, y = panel(rng, 1_000, [0.7] * 12, coverage=0.7)
        for copy in range(1, 5):
            copied = rng.random(1_000) < 0.6
            votes[copied, copy] = votes[copied, rng.integers(0, copy, 1_000)[copied]]
        model = fs.LabelModel().fit(votes)
        assert accuracy(model.predict_proba(votes), y) > accuracy(majority(votes), y)

    @pytest.mark.parametrize("balance", [None, [0.9, 0.1]])
    def test_a_vote_for_a_class_speaks_for_it(self, balance):
        rng = np.random.default_rng(0)
        votes, _ = panel(rng, 3_000, [0.85] * 6, coverage=0.6, balance=[0.9, 0.1])
        votes[:, 1] = np.where(rng.random(3_000) < 0.9, votes[:, 0], votes[:, 1])
        model = fs.LabelModel(method="auto", class_balance=balance).fit(votes)
        rising = [model.predict_proba([[0] * k + [-1] * (6 - k)])[0, 0] for k in range(7)]
        assert (np.diff(rising) > 0).all()
        assert all(c.adds > 0 for c in model.explain([-1, -1, -1, -1, 0, -1]).contributions)

    def test_two_votes_are_not_enough_to_be_called_adversarial(self):
        rng = np.random.default_rng(0)
        votes, y = panel(rng, 400, [0.85] * 6)
        rare = np.full((400, 1), -1, np.int8)
        at = [int(np.flatnonzero(y == k)[0]) for k in (0, 1)]
        rare[at, 0] = [1, 0]
        model = fs.LabelModel().fit(np.hstack([votes, rare]))
        assert model.diagnostics_.adversarial == ()
        low, high = model.accuracies_interval_[6]
        assert high - low > 0.5

    def test_sources_outside_the_rows_that_are_read_are_taken_for_average(self, monkeypatch):
        monkeypatch.setattr("flyingsquid.estimation.table_em._MOST_VOTES", 3_000)
        rng = np.random.default_rng(0)
        votes, y = panel(rng, 1_000, [0.8] * 20, coverage=0.5)
        votes[:, 19] = -1
        votes[[1, 3, 5], 19] = y[[1, 3, 5]]
        model = fs.LabelModel(method="auto").fit(votes)
        assert model.accuracies_[19] > 0.5
        fs.LabelModel(method="auto").fit(votes, sample_weight=np.arange(1_000) % 2)

    def test_tables_of_a_sample_of_the_rows_are_trusted_as_much_as_those_of_all(self, monkeypatch):
        votes, _ = panel(np.random.default_rng(0), 4_000, [0.75] * 14, coverage=0.6)
        every = fs.LabelModel().fit(votes)
        monkeypatch.setattr("flyingsquid.estimation.table_em._MOST_VOTES", 10_000)
        sample = fs.LabelModel().fit(votes)
        assert every.fit_.mixture.trust > 0.95
        assert sample.fit_.mixture.trust > 0.8
        np.testing.assert_allclose(sample.accuracies_, every.accuracies_, atol=0.03)

    def test_many_workers_fit_into_memory(self):
        rng = np.random.default_rng(0)
        votes = Votes.from_long(
            rng.integers(0, 3_000, 20_000),
            rng.integers(0, 6_000, 20_000),
            rng.integers(0, 5, 20_000),
            duplicates="first",
        )
        assert fs.LabelModel().fit(votes).predict_proba(votes[:5]).shape == (5, 5)


def test_uncertainty_is_computed_on_demand_and_does_not_carry_votes(monkeypatch):
    votes, _ = panel(np.random.default_rng(0), 400, [0.9, 0.8, 0.8, 0.7, 0.7], coverage=0.8)
    model = fs.LabelModel().fit(votes)
    assert hasattr(model.fit_.assessment, "found")
    copy = pickle.loads(pickle.dumps(model))
    assert not hasattr(copy.fit_.assessment, "found")  # votes do not travel
    monkeypatch.setattr("flyingsquid.solvers.weighted._MOST_KEPT", 0)
    at_once = fs.LabelModel().fit(np.tile(votes, (3, 2)))  # too many possible rows for a grid
    assert not hasattr(at_once.fit_.assessment, "found")
    for other in (copy, fs.LabelModel().fit(votes)):
        np.testing.assert_array_equal(model.accuracies_interval_, other.accuracies_interval_)
        np.testing.assert_array_equal(model.class_balance_interval_, other.class_balance_interval_)
        assert model.fit_.gain_interval == other.fit_.gain_interval
