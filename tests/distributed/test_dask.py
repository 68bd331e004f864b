"""Votes on a Dask cluster of two processes: the same integers and the same labels as on one machine."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.exceptions import VotesError
from tests.support.frames_of_votes import NAMES, as_strings, sample_codes

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed_engine = pytest.importorskip("distributed", reason="distributed is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
from flyingsquid import distributed  # noqa: E402  # after what it needs

pytestmark = [pytest.mark.extra, pytest.mark.system]


@pytest.fixture(scope="module")
def client():
    """Two worker processes, on this machine alone."""
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": "CRITICAL"}
    with (
        distributed_engine.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, **options
        ) as cluster,
        distributed_engine.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def codes():
    return sample_codes(2_000)


@pytest.fixture(scope="module")
def table(codes):
    return pd.DataFrame(as_strings(codes), columns=NAMES)


def test_counts_of_fifty_partitionings(client, codes):
    """Arrays, frames and delayed chunks, cut anywhere, with empty and with long parts."""
    rng, expected = np.random.default_rng(1), fs.Moments.of(codes)
    named = pd.DataFrame(codes, columns=NAMES)
    expected_named = fs.Moments.of(named)
    for number in range(50):
        cuts = np.sort(rng.integers(0, len(codes) + 1, rng.integers(0, 8)))
        if number % 3 == 0:
            sizes = tuple(np.diff([0, *cuts, len(codes)]).tolist())
            sources = ((2, 3), (5,))[number % 2]
            assert fs.Moments.of(da.from_array(codes, chunks=(sizes, sources))) == expected
        elif number % 3 == 1:
            parts = [named.iloc[a:b] for a, b in zip([0, *cuts], [*cuts, len(codes)], strict=True)]
            frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=named)
            assert fs.Moments.of(distributed.votes(frame, classes=(0, 1))) == expected_named
        else:
            assert fs.Moments.of([dask.delayed(part) for part in np.split(codes, cuts)]) == expected


def test_a_lost_worker_changes_no_count(client, codes, tmp_path):
    """The process that reads one of the chunks is killed while it does, once."""
    mark = tmp_path / "killed"

    def chunk(at: int):
        time.sleep(0.1)  # so that both workers hold results when one of them dies
        if at == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return codes[at * 200 : (at + 1) * 200]

    before = set(client.scheduler_info()["workers"])
    chunks = [dask.delayed(chunk)(at) for at in range(10)]
    assert fs.Moments.of(chunks) == fs.Moments.of(codes)
    assert mark.exists()
    client.wait_for_workers(2, timeout=60)
    assert set(client.scheduler_info()["workers"]) != before


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fit_and_labels_are_those_of_one_machine(client, n_classes):
    codes = sample_codes(3_000, n_classes)
    array = da.from_array(codes, chunks=(700, 5))
    here, there = fs.LabelModel().fit(codes), fs.LabelModel().fit(array)
    assert there.moments_ == here.moments_
    assert there.diagnostics_.method == here.diagnostics_.method
    np.testing.assert_allclose(there.accuracies_, here.accuracies_, atol=1e-9)
    posterior = there.predict_proba(array)
    assert isinstance(posterior, da.Array)
    assert posterior.shape == (3_000, n_classes)
    np.testing.assert_allclose(posterior.compute(), here.predict_proba(codes), atol=1e-9)
    np.testing.assert_array_equal(here.predict(array).compute(), here.predict(codes))
    assert here.predict_proba(array, dtype=np.float32).compute().dtype == np.float32


def test_labels_are_written_where_the_data_is(client, table, tmp_path):
    """Identifiers are kept, columns stand in another order, one part is empty; read back from parquet."""
    model = fs.LabelModel().fit(table)
    frame = table[list(reversed(NAMES))].assign(id=[f"item {i}" for i in range(len(table))])
    parts = [frame.iloc[:50], frame.iloc[:0], frame.iloc[50:1_900], frame.iloc[1_900:]]
    there = distributed.votes(dd.from_delayed([dask.delayed(p) for p in parts], meta=frame), keep=["id"])
    labels = model.predict_proba(there)
    assert labels.npartitions == 4
    labels.to_parquet(tmp_path / "labels")
    model.predict(there).to_parquet(tmp_path / "decided")
    back = pd.read_parquet(tmp_path / "labels")
    assert list(back.columns) == ["id", "p_ham", "p_spam"]
    assert back["id"].tolist() == frame["id"].tolist()
    np.testing.assert_array_equal(back[["p_ham", "p_spam"]].to_numpy(), model.predict_proba(table))
    decided = pd.read_parquet(tmp_path / "decided")
    assert decided["label"].tolist() == model.predict(table).tolist()


def test_classes_agree_across_chunks(client, table):
    """Chunks that lack a class, a vote, rows, or have their columns in another order."""
    with_ham = (table == "ham").any(axis=1)
    empty = table.iloc[:0].astype(object)
    chunks = [table[with_ham], table[~with_ham][list(reversed(NAMES))], empty]
    total = fs.Moments.of([dask.delayed(chunk) for chunk in chunks])
    assert total == fs.Moments.of(table)
    booleans = table == "ham"
    assert fs.Moments.of(dd.from_pandas(booleans, npartitions=3)) == fs.Moments.of(booleans)
    masked = np.ma.masked_less(sample_codes(300, 3), 0)
    masked[:100] = np.ma.masked
    assert fs.Moments.of(da.from_array(masked, chunks=(100, 5))) == fs.Moments.of(masked)
    floats = pd.DataFrame(np.where(table.isna(), np.nan, booleans.astype(float)), columns=NAMES)
    assert fs.Moments.of(dd.from_pandas(floats, npartitions=3)) == fs.Moments.of(floats)


def test_chunks_of_votes_keep_their_convention(client, codes):
    signed = np.where(codes < 0, 0, 2 * codes - 1)
    chunks = [dask.delayed(fs.Votes.from_signed)(part) for part in np.array_split(signed, 3)]
    whole = fs.Votes.from_signed(signed)
    assert fs.Moments.of(dask.delayed(whole)) == fs.Moments.of(whole)
    assert fs.Moments.of(chunks) == fs.Moments.of(whole)
    model = fs.MajorityVote().fit(chunks)
    labels = np.concatenate(dask.compute(*model.predict_proba(chunks)))
    np.testing.assert_array_equal(labels, fs.MajorityVote().fit(whole).predict_proba(whole))


def test_tasks_and_learned_graphs(client):
    graph = fs.DependencyGraph.chain(3, 3)
    votes = fs.datasets.simulate_graph(900, graph, [0.9, 0.8, 0.7] * 3, random_state=0).votes.codes.reshape(
        900, 3, 3
    )
    array = da.from_array(votes, chunks=(400, 2, 3))
    assert fs.Moments.of(array, graph) == fs.Moments.of(votes, graph)
    here, there = fs.LabelModel(graph).fit(votes), fs.LabelModel(graph).fit(array)
    np.testing.assert_allclose(there.predict_proba(array).compute(), here.predict_proba(votes), atol=1e-9)
    np.testing.assert_array_equal(there.predict(array, joint=True).compute(), here.predict(votes, joint=True))
    codes = sample_codes(3_000)
    copied = np.column_stack([codes, codes[:, 0]])
    learned = fs.LabelModel(graph="learn").fit(da.from_array(copied, chunks=(1_000, 6)))
    assert learned.graph_ == fs.LabelModel(graph="learn").fit(copied).graph_


def test_too_many_rows_leave_the_closed_form(codes):
    """``auto`` then uses the counts alone, and ``diagnostics_`` reports it."""
    # In this thread, where the limit is changed.
    with use_limits(distinct_rows=10), dask.config.set(scheduler="synchronous"):
        there = fs.LabelModel().fit(da.from_array(codes, chunks=(500, 5)))
    alone = fs.LabelModel().fit_moments(fs.Moments.of(codes))
    assert there.diagnostics_.method == alone.diagnostics_.method
    np.testing.assert_array_equal(there.accuracies_, alone.accuracies_)
    assert "from counts, because there are more than 10 distinct rows" in there.diagnostics_.reason


def test_labeling_functions_over_a_frame(client):
    @fs.labeling_function(resources={"words": {"free", "win"}})
    def offers(x, words):
        return "spam" if words & set(x.text.split()) else None

    @fs.labeling_function(vectorized=True)
    def short(table):
        return ["ham" if len(text) < 12 else None for text in table["text"]]

    texts = ["win a prize now", "see you", "free gift cards", "a long letter to a friend"] * 25
    records = pd.DataFrame({"id": range(100), "text": texts})
    parts = [records.iloc[:30], records.iloc[:0], records.iloc[30:]]
    frame = dd.from_delayed([dask.delayed(part) for part in parts], meta=records)
    here = fs.apply([offers, short], records, classes=["ham", "spam"])
    there = fs.apply([offers, short], frame, classes=["ham", "spam"])
    assert list(there.columns) == ["offers", "short"]
    assert fs.Moments.of(there) == fs.Moments.of(here)
    kept = distributed.apply([offers, short], frame, classes=["ham", "spam"], keep=["id"])
    assert kept.compute()["id"].tolist() == list(range(100))
    assert fs.Moments.of(distributed.votes(kept, keep=["id"])) == fs.Moments.of(here)
    with pytest.raises(fs.exceptions.LabelingError, match=r"Function 'offers' .*'spam'.*`classes`"):
        fs.apply([offers], frame).compute()
    numbers = fs.apply([lambda x: x.id % 2 if x.id > 9 else -1], frame).compute()
    assert numbers.iloc[:, 0].tolist() == [-1] * 10 + [0, 1] * 45
    with pytest.raises(fs.exceptions.OptionError, match="`n_jobs`"):
        fs.apply([offers], frame, n_jobs=2)


def test_a_partition_with_a_repeated_column_is_named(client):
    good = pd.DataFrame({"a": [0, 1] * 20, "b": [0, 1] * 20, "c": [1, 1] * 20})
    twice = good.set_axis(["a", "b", "b"], axis=1)
    parts = [dask.delayed(good), dask.delayed(twice)]
    frame = dd.from_delayed(parts, meta=good.head(0), verify_meta=False)
    with pytest.raises(fs.exceptions.VotesError, match=r"partition 1: .*unique column names.*'b'"):
        fs.LabelModel().fit(frame)


def test_bad_votes_are_named(client, table, codes):
    odd = table.fillna("ham")
    odd.iloc[1_003, 2] = "eggs"
    other = table.rename(columns={"caps": "other"})
    frame = dd.from_pandas(table.assign(serial=range(len(table))), npartitions=2)
    with pytest.raises(fs.exceptions.VotesError, match=r"olumn '\w+'.*columns="):
        fs.Moments.of(frame)
    with pytest.raises(fs.exceptions.VotesError, match=r"partition \d: row 3.*'caps'.*'eggs'"):
        fs.Moments.of(distributed.votes(dd.from_pandas(odd, npartitions=2), classes=["ham", "spam"]))
    with pytest.raises(fs.exceptions.VotesError, match="'x'"):
        distributed.votes(frame, columns=["x"])
    scores = pd.DataFrame({"score": [1.0, 0.0, 1.0, 0.5], "b": [1, 0, 1, 0]})
    with pytest.raises(fs.exceptions.VotesError, match=r"partition 1: row 1.*'score'.* 0\.5"):
        fs.Moments.of(dd.from_pandas(scores, npartitions=2))
    array = codes.copy()
    array[1_005, 1] = -7
    with pytest.raises(fs.exceptions.VotesError, match=r"partition 2: row 5.*-7.*`classes`"):
        fs.Moments.of(da.from_array(array, chunks=(500, 5)))
    numbered = pd.DataFrame({"serial": [f"item {i}" for i in range(40_000)], "a": ["ham", "spam"] * 20_000})
    with pytest.raises(fs.exceptions.VotesError, match=r"'serial' .*32,767"):
        fs.Moments.of(dd.from_pandas(numbered, npartitions=2))
    with pytest.raises(fs.exceptions.VotesError, match="empty"):
        fs.Moments.of(dd.from_pandas(table.iloc[:0], npartitions=1))
    with pytest.raises(fs.exceptions.IncompatibleError, match="unexpected 'other'"):
        fs.Moments.of([dask.delayed(table), dask.delayed(other)])


def test_labels_that_cannot_be_made_say_the_partition(client, codes):
    model, odd = fs.LabelModel().fit(codes), codes.copy()
    odd[1_005, 1] = 7
    message = r"partition 2: row 5, source 1: .*got 7"
    with pytest.raises(fs.exceptions.VotesError, match=message):
        model.predict_proba(da.from_array(odd, chunks=(500, 5))).compute()
    chunks = [dask.delayed(odd[at : at + 500]) for at in range(0, 2_000, 500)]
    with pytest.raises(fs.exceptions.VotesError, match=message):
        dask.compute(*model.predict(chunks))
    named = fs.LabelModel().fit(pd.DataFrame(codes, columns=NAMES))
    frame = dd.from_pandas(pd.DataFrame(odd, columns=NAMES), npartitions=4)
    with pytest.raises(fs.exceptions.VotesError, match=r"partition 2: row 5.*got 7"):
        named.predict_proba(frame).compute()


@pytest.mark.filterwarnings("ignore:With the gold labels")  # all items get one class
def test_gold_labels_join_by_identifier(client, codes):
    ids = [f"item {i}" for i in range(len(codes))]
    gold = {ids[i]: int((codes[i] == 1).sum() > (codes[i] == 0).sum()) for i in range(0, len(codes), 25)}
    table = pd.DataFrame(codes, columns=NAMES, index=ids)
    expected = fs.LabelModel().fit(table, gold=gold).predict_proba(table)
    by_index = dd.from_pandas(table, npartitions=3, sort=False)
    by_column = dd.from_pandas(table.rename_axis("id").reset_index(), npartitions=4)
    for votes in (by_index, distributed.votes(by_column, keep=["id"])):
        model = fs.LabelModel().fit(votes, gold=gold)
        assert model.n_gold_ == len(gold)
        np.testing.assert_allclose(model.predict_proba(table), expected, atol=1e-8)
    with pytest.raises(fs.exceptions.VotesError, match="nobody"):
        fs.LabelModel().fit(by_index, gold={"nobody": 1})


def test_what_a_cluster_cannot_do_is_said(client, codes):
    array = da.from_array(codes, chunks=(1_000, 5))
    model = fs.LabelModel().fit(codes)
    for gold in (np.zeros(len(codes)), {0: 1}):  # by position, and without identifiers
        with pytest.raises(fs.exceptions.VotesError, match=r"`gold`.*identifier"):
            fs.LabelModel().fit(array, gold=gold)
    with pytest.raises(fs.exceptions.OptionError, match="`sample_weight`"):
        fs.Moments.of(array, sample_weight=2)
    with pytest.raises(fs.exceptions.OptionError, match="tie_break"):
        model.predict(array, "random", np.random.default_rng(0))
    with pytest.raises(fs.exceptions.VotesError, match=r"`votes` must .*\.compute\(\)"):
        model.score(array, np.zeros(len(codes)))
    with pytest.raises(fs.exceptions.OptionError, match="`keep`"):
        distributed.votes(array, keep=["id"])
    with pytest.raises(fs.exceptions.OptionError, match=r"`frame` must .*ndarray"):
        distributed.votes(codes)
    with pytest.raises(fs.exceptions.OptionError, match="got a Dask Array"):
        fs.Moments.of(array[:, 0])
    named = pd.DataFrame(codes, columns=NAMES).assign(other=0)
    with pytest.raises(fs.exceptions.IncompatibleError, match=r"unexpected 'other'.*columns="):
        fs.LabelModel().fit(named.drop(columns="other")).predict(dd.from_pandas(named, npartitions=2))
    with pytest.raises(fs.exceptions.NotFittedError):
        fs.LabelModel().predict_proba(array)


def test_everything_listens_on_this_machine_alone(client):
    psutil = pytest.importorskip("psutil")
    ours = psutil.Process()
    sockets = [c for p in (ours, *ours.children(recursive=True)) for c in p.net_connections("inet")]
    listening = {c.laddr.ip for c in sockets if c.status == psutil.CONN_LISTEN}
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_no_engine_is_imported_for_votes_in_memory():
    import subprocess

    code = """
import sys, flyingsquid as fs
fs.LabelModel().fit([[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 1]] * 9).predict([[0, 1, 1]])
print([name for name in ("dask", "pyspark", "flyingsquid.distributed") if name in sys.modules])
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_partition_with_a_repeated_column_is_refused():
    good = pd.DataFrame({"a": [0, 1], "b": [1, 0], "c": [1, 1]})
    parts = [dask.delayed(good), dask.delayed(pd.concat([good, good[["a"]]], axis=1))]
    votes = dd.from_delayed(parts, meta=good, verify_meta=False)
    with pytest.raises(VotesError, match="'a' 2 times") as caught:
        fs.LabelModel().fit(votes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["id", "item_id", "Unnamed: 0"])
def test_a_column_of_identifiers_is_not_a_source(name):
    """It was read as a source with one class per item."""
    frame = pd.DataFrame({name: [5, 6, 7, 8], "a": [0, 1, 1, 0], "b": [0, 1, 0, 0], "c": [0, 1, 1, 1]})
    data = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(VotesError, match=f"'{name}' looks like item identifiers"):
        fs.LabelModel().fit(data)
    assert fs.distributed.votes(data, columns=["a", name]).columns == ("a", name)
    kept = fs.distributed.votes(data, keep=[name])
    assert fs.Moments.of(kept) == fs.Moments.of(frame[["a", "b", "c"]])
    chunks = [dask.delayed(frame[:2]), dask.delayed(frame[2:])]
    assert fs.Moments.of(chunks) == fs.Moments.of(frame[["a", "b", "c"]])


def test_a_column_of_gold_labels_is_not_a_source():
    frame = pd.DataFrame({"a": [0, 1, 1, 0], "b": [0, 1, 0, 0], "c": [0, 1, 1, 1], "label": [0, 1, 1, 0]})
    data = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(VotesError, match="'label' looks like gold labels"):
        fs.LabelModel().fit(data)
    assert fs.distributed.votes(data, columns=["a", "label"]).columns == ("a", "label")
    assert fs.distributed.votes(data, keep=["label"]).columns == ("a", "b", "c")
