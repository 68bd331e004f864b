"""Votes on Spark, two threads on this machine: the same integers and the same labels as on one machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from tests.support.frames_of_votes import NAMES, as_strings, sample_codes

pytest.importorskip("pyspark", reason="pyspark is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("there is no Java, which Spark runs on", allow_module_level=True)
import pyarrow.parquet as pq  # noqa: E402  # after the checks above
from pyspark import SparkContext  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from flyingsquid import distributed  # noqa: E402

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "cluster.md"
pytestmark = [
    pytest.mark.system,
    pytest.mark.extra,
    # Spark 4 warns about every function over Arrow if pandas 3 is installed; none of it is used here.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture(scope="module")
def spark():
    """A session on this machine alone, whose tasks may fail three times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        options = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "OFF",
            # Jobs of a moment: compiling them well takes longer than running them.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.adaptive.enabled": "false",
        }
        builder = SparkSession.builder.master("local[2,4]").appName("flyingsquid tests")
        session = builder.config(map=options).getOrCreate()
        yield session
        gateway = session.sparkContext._gateway
        session.stop()
        # The machine of Java would live on until this process ends.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=60)
        SparkContext._gateway = SparkContext._jvm = None  # whoever asks next gets a new one


@pytest.fixture(scope="module")
def codes():
    return sample_codes(2_000)


def table_of(votes, **more):
    """Votes as a table of Arrow, further columns first."""
    return pa.table({**more, **{name: pa.array(votes[:, j].tolist()) for j, name in enumerate(NAMES)}})


def test_counts_of_fifty_partitionings(spark, codes):
    """Rows dealt to eight parts at random, some empty and some long; then parts put together at random."""
    rng, expected = np.random.default_rng(1), fs.Moments.of(table_of(codes))
    for _ in range(10):
        deal = rng.integers(0, rng.integers(1, 12), len(codes)) ** 2
        parts = spark.createDataFrame(table_of(codes, deal=deal)).repartition(8, "deal").cache()
        for n_parts in (8, *rng.integers(1, 5, 4).tolist()):
            there = distributed.votes(parts.coalesce(n_parts), columns=NAMES, classes=(0, 1))
            assert fs.Moments.of(there) == expected
        parts.unpersist()


@pytest.mark.filterwarnings("ignore:With the gold labels")  # all items get one class
def test_gold_labels_join_by_identifier(spark, codes):
    ids = [f"item {i}" for i in range(len(codes))]
    gold = {ids[i]: int((codes[i] == 1).sum() > (codes[i] == 0).sum()) for i in range(0, len(codes), 25)}
    local = table_of(codes)
    expected = fs.LabelModel().fit(local, gold=[gold.get(each) for each in ids]).predict_proba(local)
    frame = spark.createDataFrame(table_of(codes, id=ids)).repartition(5)
    model = fs.LabelModel().fit(distributed.votes(frame, keep=["id"]), gold=gold)
    np.testing.assert_allclose(model.predict_proba(local), expected, atol=1e-8)


def test_a_lost_worker_changes_no_count(spark, codes, tmp_path):
    """The process that reads one of the parts is killed in the middle of it, once."""
    mark = str(tmp_path / "killed")

    def read(batches):
        import os

        for number, batch in enumerate(batches):
            if number == 1 and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        frame = spark.createDataFrame(table_of(codes)).repartition(4)
        assert fs.Moments.of(frame.mapInArrow(read, frame.schema)) == fs.Moments.of(table_of(codes))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert os.path.exists(mark)


def test_fit_and_labels_written_where_the_data_is(spark, codes, tmp_path):
    """Texts, identifiers kept, columns in another order, empty parts; read back from parquet."""
    table = table_of(as_strings(codes), id=[f"item {i:04}" for i in range(len(codes))])
    votes = table.select(NAMES)
    frame = spark.createDataFrame(table.select(["price", "id", *NAMES[:4]])).repartition(5, "greeting")
    there = distributed.votes(frame, keep=["id"])
    model, here = fs.LabelModel().fit(there), fs.LabelModel().fit(votes)
    assert model.diagnostics_.method == here.diagnostics_.method
    by_name = dict(zip(model.source_names_, model.accuracies_, strict=True))
    np.testing.assert_allclose([by_name[name] for name in NAMES], here.accuracies_, atol=1e-9)
    here.predict_proba(there).write.parquet(str(tmp_path / "labels"))
    here.predict(there).write.parquet(str(tmp_path / "decided"))
    back = pq.read_table(tmp_path / "labels").sort_by("id")
    assert back.column_names == ["id", "p_ham", "p_spam"]
    assert back["id"].to_pylist() == table["id"].to_pylist()
    labels = np.column_stack([back["p_ham"], back["p_spam"]])
    # Partitions have other lengths, and the last bit depends on where a row is in its chunk.
    np.testing.assert_allclose(labels, here.predict_proba(votes), rtol=0, atol=1e-12)
    decided = pq.read_table(tmp_path / "decided").sort_by("id")
    assert decided["label"].to_pylist() == here.predict(votes).tolist()


def test_classes_agree_across_parts(spark, codes):
    """Integers of three classes, the third in one row only; booleans; nothing but missing votes in a part."""
    rare = codes.copy()
    rare[-1, 2] = 2
    rare[:700] = -1
    table = table_of(rare, half=(np.arange(len(rare)) < 700).tolist())
    frame = spark.createDataFrame(table).repartition(3, "half").drop("half")
    assert fs.Moments.of(frame) == fs.Moments.of(table.drop_columns(["half"]))
    told = table_of(np.where(codes < 0, None, codes == 1))
    assert fs.Moments.of(spark.createDataFrame(told)) == fs.Moments.of(told)
    majority = fs.MajorityVote().fit(spark.createDataFrame(told))
    assert majority.classes_.tolist() == [False, True]


def test_labeling_functions_over_a_frame(spark):
    @fs.labeling_function(resources={"words": {"free", "win"}})
    def offers(x, words):
        return "spam" if words & set(x.text.split()) else None

    @fs.labeling_function
    def short(x):
        return "ham" if len(x["text"]) < 12 else None

    texts = ["win a prize now", "see you", "free gift cards", "a long letter to a friend"] * 25
    records = pa.table({"id": list(range(100)), "text": texts})
    frame = spark.createDataFrame(records).repartition(3)
    here = fs.apply([offers, short], records, classes=["ham", "spam"])
    assert fs.Moments.of(fs.apply([offers, short], frame, classes=["ham", "spam"])) == fs.Moments.of(here)
    kept = distributed.apply([offers, short], frame, classes=["ham", "spam"], keep=["id"]).toArrow()
    assert kept.column_names == ["id", "offers", "short"]
    spam = [text.startswith(("win", "free")) for text in texts]
    assert [v == "spam" for v in kept.sort_by("id")["offers"].to_pylist()] == spam


def test_bad_votes_are_named(spark, codes):
    frame = spark.createDataFrame(table_of(codes, serial=[f"item {i}" for i in range(len(codes))]))
    with pytest.raises(fs.exceptions.VotesError, match=r"olumn '\w+': .*columns="):
        fs.Moments.of(frame)
    with pytest.raises(fs.exceptions.VotesError, match=r"partition \d.*: row \d+.*got [01] "):
        fs.Moments.of(distributed.votes(frame, columns=NAMES, classes=("ham", "spam")))
    with pytest.raises(fs.exceptions.VotesError, match="empty"):
        fs.Moments.of(frame.select(*NAMES).limit(0))
    with pytest.raises(fs.exceptions.OptionError, match="must be a dataframe"):
        distributed.votes(frame.rdd)
    with pytest.raises(fs.exceptions.OptionError, match=r"`keep` must .*'p_0'"):
        fs.LabelModel().fit(codes).predict_proba(
            distributed.votes(frame.withColumnRenamed("serial", "p_0"), keep=["p_0"])
        )


def test_names_with_dots_and_names_that_differ_in_case(spark, codes):
    names = ["a.b", "A.b", "a`b", "c d", "e"]
    table = pa.table({n: pa.array(codes[:, j].tolist()) for j, n in enumerate(names)} | {"i.d": range(2_000)})
    there = distributed.votes(spark.createDataFrame(table), keep=["i.d"])
    here = table.select(names)
    assert fs.Moments.of(there) == fs.Moments.of(here)
    model = fs.LabelModel().fit(here)
    labels = model.predict_proba(there).toArrow().sort_by("i.d")
    assert labels.column_names == ["i.d", "p_0", "p_1"]
    np.testing.assert_array_equal(np.column_stack([labels["p_0"], labels["p_1"]]), model.predict_proba(here))
    first = fs.labeling_function(name="first")(lambda x: x["a.b"])
    assert (
        fs.apply([first], spark.createDataFrame(table)).toArrow()["first"].to_pylist() == codes[:, 0].tolist()
    )
    with pytest.raises(fs.exceptions.VotesError, match="unique; got 'e'"):
        fs.Moments.of(there.parts.frame.withColumnRenamed("c d", "e"))


def test_types_of_columns_are_looked_at_first(spark, codes):
    frame = spark.createDataFrame(table_of(codes, odd=[[1, 2]] * len(codes)))
    with pytest.raises(fs.exceptions.VotesError, match=r"Column 'odd' .*array<bigint>.*columns="):
        fs.Moments.of(frame)
    model = fs.LabelModel().fit(table_of(codes))
    with pytest.raises(fs.exceptions.VotesError, match=r"Column 'caps' .*struct<x:int>"):
        model.predict(frame.drop("odd").selectExpr(*[n for n in NAMES if n != "caps"], "struct(1 x) caps"))
    decimals = frame.selectExpr(*(f"cast({name} as decimal(10, 2)) {name}" for name in NAMES))
    assert fs.Moments.of(decimals) == fs.Moments.of(table_of(codes))


def test_labels_that_cannot_be_made_say_the_partition(spark, codes):
    odd, model = codes.copy(), fs.LabelModel().fit(table_of(codes))
    odd[-1, 1] = 7
    frame = spark.createDataFrame(table_of(odd)).coalesce(1)
    with pytest.raises(Exception, match=r"VotesError: partition 0: row 1999.*got 7"):
        model.predict_proba(frame).collect()
    with pytest.raises(fs.exceptions.VotesError, match=r"partition 0: row 1999.*got -7"):
        fs.Moments.of(spark.createDataFrame(table_of(np.where(odd == 7, -7, odd))).coalesce(1))


def test_what_is_missing_is_named(spark, monkeypatch):
    from flyingsquid.distributed import spark as reader

    monkeypatch.setattr(reader, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pyarrow.*flyingsquid\[spark\]"):
        fs.Moments.of(spark.range(3))


def test_everything_listens_on_this_machine_alone(spark):
    psutil = pytest.importorskip("psutil")
    ours = psutil.Process()
    sockets = [c for p in (ours, *ours.children(recursive=True)) for c in p.net_connections("inet")]
    listening = {c.laddr.ip.removeprefix("::ffff:") for c in sockets if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


def test_the_tutorial_runs(spark, tmp_path):
    """Its block of Spark, after what it takes from the blocks before; the session is this one."""
    text = TUTORIAL.read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    # Java has a working directory of its own.
    before, after = block.split("spark-labels")
    table = pd.DataFrame(sample_codes(60), columns=list(NAMES)).assign(id=np.arange(60))
    names = {
        "table": table,
        "here": fs.LabelModel().fit(table[list(NAMES)]),
        "distributed": distributed,
        "fs": fs,
    }
    exec(compile(f"{before}{tmp_path}/labels{after}", TUTORIAL.name, "exec"), names)
    labels = pq.read_table(tmp_path / "labels")
    assert labels.column_names == ["id", "p_0", "p_1"]
    assert sorted(labels["id"].to_pylist()) == list(range(60))


@pytest.fixture
def without_library(spark, tmp_path, monkeypatch):
    """Workers whose Python cannot import the package."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['flyingsquid'] = None\n")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(script))
    return spark


def test_workers_without_the_library_are_named(without_library, codes):
    frame = without_library.createDataFrame(table_of(codes))
    with pytest.raises(fs.FlyingSquidError, match="PYSPARK_PYTHON"):
        fs.Moments.of(frame)


def test_labels_on_workers_without_the_library_are_refused(without_library, codes):
    """Labels are computed when they are read, so the error is raised on the worker."""
    model = fs.LabelModel().fit(codes)
    frame = without_library.createDataFrame(table_of(codes))
    with pytest.raises(Exception, match="PYSPARK_PYTHON"):
        model.predict(distributed.votes(frame, columns=frame.columns)).toArrow()
