"""Exports of Label Studio, Argilla, inspect_ai and Hugging Face datasets, read and written as votes."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import uuid
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import FlyingSquidError, OptionError, VoteFileError
from flyingsquid.files import open_votes, write_votes
from tests.fuzz.states import change_json

pd = pytest.importorskip("pandas")

CELLS: Any = [["spam", None, "ham"], [None, None, None], ["ham", "ham", "spam"]]
VOTES = fs.Votes.from_classes(CELLS, names=["ann", "bob", "gpt"])
IDS = ["a", "b", "c"]
DATA = [{"text": f"comment {i}"} for i in range(3)]


def save(path, document):
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def table(chunk):
    """Votes by item and source."""
    cells = chunk.votes.to_dense().to_numpy()
    return {
        (str(i), name): cell
        for i, row in zip(np.asarray(chunk.ids, object), cells, strict=True)
        for name, cell in zip(chunk.votes.names, row, strict=True)
        if cell is not None and cell != -1
    }


def choice(value, question="sentiment"):
    return {"from_name": question, "to_name": "text", "type": "choices", "value": {"choices": [value]}}


def annotation(by, *results, **options):
    return {"id": 1, "completed_by": by, "result": list(results), "was_cancelled": False, **options}


TASKS = [
    {
        "id": 11,
        "data": {"text": "great", "expert": "pos"},
        "annotations": [
            annotation(1, choice("pos")),
            annotation({"id": 2, "email": "bo@example.org"}, choice("neg")),
            annotation(3, choice("pos"), was_cancelled=True),
            annotation(4, choice("pos"), ground_truth=True),
        ],
        "predictions": [{"model_version": "bert", "score": 0.9, "result": [choice("pos")]}],
    },
    {"id": 12, "data": {"text": "meh", "expert": None}, "annotations": [annotation(1, choice("neg"))]},
    {"id": 13, "data": {"text": "no votes"}, "annotations": [], "predictions": []},
]


def test_label_studio_annotators_and_models_are_sources(tmp_path):
    file = open_votes(save(tmp_path / "export.json", TASKS))
    assert file.format == "label_studio"
    chunk = file.read()
    assert list(chunk.ids) == [11, 12, 13]  # also the task without votes
    assert table(chunk) == {
        ("11", "1"): "pos", ("11", "bo@example.org"): "neg", ("11", "bert"): "pos", ("12", "1"): "neg",
    }  # fmt: skip
    assert [note.hints[0].value for note in file.notes if note.hints[0].parameter == "gold"] == [
        "ground_truth"
    ]


def test_label_studio_gold_labels_on_request(tmp_path):
    path = save(tmp_path / "export.json", TASKS)
    assert open_votes(path, gold="ground_truth").read().gold.tolist() == ["pos", None, None]
    assert open_votes(path, gold="expert").read().gold.tolist() == ["pos", None, None]
    with pytest.raises(VoteFileError, match="expert"):
        open_votes(path, gold="nothing")


def test_sources_of_an_export_are_selected_by_name(tmp_path):
    path = save(tmp_path / "export.json", TASKS)
    assert open_votes(path, ignore=["bert"]).names == ("1", "bo@example.org")
    assert open_votes(path, sources=["1"]).names == ("1",)
    with pytest.raises(VoteFileError, match="bo@example"):
        open_votes(path, sources=["bo"])


def test_several_questions_must_be_chosen(tmp_path):
    rating = {"from_name": "stars", "to_name": "text", "type": "rating", "value": {"rating": 4}}
    other = {"from_name": "spans", "to_name": "text", "type": "labels", "value": {"labels": ["x"]}}
    tasks = [
        {"id": i, "data": {}, "annotations": [annotation(1, choice("pos"), rating, other)]} for i in (1, 2)
    ]
    tasks[1]["annotations"].append(annotation(2, choice("neg"), {**rating, "value": {"rating": 2}}))
    path = save(tmp_path / "export.json", tasks)
    with pytest.raises(VoteFileError) as raised:
        open_votes(path)
    assert raised.value.hints[0].parameter == "part"
    assert "spans" not in str(raised.value)
    assert table(open_votes(path, part="stars").read()) == {("1", "1"): 4, ("2", "1"): 4, ("2", "2"): 2}
    assert open_votes(path, part="sentiment").classes == ("neg", "pos")


def task(*annotations, number=1):
    return {"id": number, "data": {}, "annotations": list(annotations)}


TWO_CHOICES = {**choice("a"), "value": {"choices": ["a", "b"]}}


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([task(annotation(1, TWO_CHOICES))], "several"),
        ([task(5)], "annotations"),
        ([task() | {"annotations": "x"}], "annotations"),
        ([task({"result": 3})], "result"),
        ([task()], "no votes"),
        ([task(annotation(1, choice("a")), number=[1])], "Identifiers"),
        ([task(annotation(1, choice("a")))] * 2, "unique"),
        ([task(annotation(1, choice({"a": 1})))], "string, a number"),
        ([task(annotation(1, choice("a")), annotation(1, choice("b")))], "at most once"),
    ],
)
def test_malformed_exports_are_refused(tmp_path, tasks, message):
    with pytest.raises(VoteFileError, match=message):
        open_votes(save(tmp_path / "export.json", tasks)).read()


def test_labels_of_this_library_are_not_read_as_votes(tmp_path):
    path = tmp_path / "tasks.json"
    proba = [[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]]
    for tool in ("label_studio", "argilla", "inspect"):
        write_votes(path, VOTES, ids=IDS, format=tool, probabilities=proba, data=DATA, overwrite=True)
        file = open_votes(path)
        assert set(file.names) == {"ann", "bob", "gpt"}
        assert "flyingsquid" in str(file.notes)
        labels = open_votes(path, sources=["flyingsquid"]).read().votes
        assert labels.to_dense().to_numpy().ravel().tolist() == ["spam", "ham", "ham"]


@pytest.mark.parametrize("tool", ["label_studio", "argilla", "inspect"])
@pytest.mark.parametrize("classes", [("ham", "spam"), (0, 1)])
def test_votes_are_written_and_read_again(tmp_path, tool, classes):
    codes = VOTES.to_dense().codes
    votes = fs.Votes(codes, classes, VOTES.names)
    path = tmp_path / "votes.json"
    write_votes(
        path, votes, ids=IDS, gold=[classes[0], None, classes[1]], format=tool, data=pd.DataFrame(DATA)
    )
    chunk = open_votes(
        path, gold="target" if tool == "inspect" and classes == ("ham", "spam") else None
    ).read()
    assert list(chunk.ids) == IDS
    read = chunk.votes.to_dense().of_sources(["ann", "bob", "gpt"])
    np.testing.assert_array_equal(read.codes, codes)
    assert read.classes == classes
    if tool != "inspect":
        assert open_votes(path, gold="gold").read().gold.tolist() == [classes[0], None, classes[1]]
    with pytest.raises(VoteFileError, match="overwrite"):
        write_votes(path, votes, format=tool)


def test_options_of_exports_are_refused_elsewhere(tmp_path):
    with pytest.raises(OptionError, match="`data`"):
        write_votes(tmp_path / "a.csv", VOTES, data=DATA)
    with pytest.raises(OptionError, match="`probabilities`"):
        write_votes(tmp_path / "a.json", VOTES, format="argilla", probabilities=[[1, 0]])
    with pytest.raises(OptionError, match="`data`"):
        write_votes(tmp_path / "a.json", VOTES, format="argilla", data=DATA[:2])
    with pytest.raises(VoteFileError, match="Argilla"):
        open_votes(save(tmp_path / "b.json", TASKS), format="argilla")


def test_argilla_users_and_agents_are_sources(tmp_path):
    records = [
        {"id": "a", "fields": {"text": "x"}, "metadata": {"expert": "ham"}, "vectors": {},
         "responses": {"label": [{"value": "spam", "user_id": "u1"}, {"value": "ham", "user_id": "u2"}]},
         "suggestions": {"label": {"value": "spam", "score": 0.7, "agent": "gpt"}}},
        {"id": "b", "fields": {"text": "y"}, "metadata": {}, "suggestions": {},
         "responses": {"label": [{"value": ["ham"], "user_id": "u1"},
                                 {"value": "spam", "user_id": "u2", "status": "discarded"}]}},
    ]  # fmt: skip
    path = save(tmp_path / "records.json", records)
    file = open_votes(path, gold="expert")
    assert file.format == "argilla"
    chunk = file.read()
    assert table(chunk) == {
        ("a", "u1"): "spam", ("a", "u2"): "ham", ("a", "gpt"): "spam", ("b", "u1"): "ham",
    }  # fmt: skip
    assert chunk.gold.tolist() == ["ham", None]


def test_inspect_scorers_are_sources(tmp_path):
    def score(value):
        return {"value": value, "explanation": "because"}

    samples = [
        {
            "id": 1,
            "epoch": e,
            "input": "q",
            "target": ["C"],
            "scores": {"gpt": score("C"), "claude": score("I")},
        }
        for e in (1, 2)
    ]
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}
    path = save(tmp_path / "log.json", log)
    chunk = open_votes(path, gold="target").read()
    assert list(chunk.ids) == ["1 epoch 1", "1 epoch 2"]
    assert chunk.votes.names == ("gpt", "claude")
    assert chunk.gold.tolist() == ["C", "C"]
    samples[0]["scores"] = {
        "gpt": score({"helpful": 4, "safe": 1}),
        "claude": score({"helpful": 2.0, "safe": 1}),
    }
    del samples[1]["scores"]
    path = save(tmp_path / "parts.json", log)
    with pytest.raises(VoteFileError, match="helpful"):
        open_votes(path)
    assert table(open_votes(path, part="helpful").read()) == {
        ("1 epoch 1", "gpt"): 4, ("1 epoch 1", "claude"): 2,
    }  # fmt: skip


def fuzz_exports(path, seed, most):
    """Change one place of valid exports; return what was neither read nor refused with a documented error."""
    rng, findings = random.Random(seed), []
    documents = []
    for tool in ("label_studio", "argilla", "inspect"):
        write_votes(path, VOTES, ids=IDS, gold=["ham", None, "spam"], data=DATA, format=tool, overwrite=True,
                    probabilities=[[0.2, 0.8]] * 3)  # fmt: skip
        documents.append((tool, json.loads(path.read_text())))
    documents.append(("label_studio", TASKS))
    for _ in range(most):
        tool, document = rng.choice(documents)
        changed = copy.deepcopy({"all": document})
        change_json(changed, rng)
        path.write_text(json.dumps(changed.get("all")), encoding="utf-8")
        gold = rng.choice([None, "gold", "target", "ground_truth"])
        try:
            open_votes(path, format=rng.choice([None, tool]), gold=gold).read()
        except FlyingSquidError:
            pass
        except Exception as error:
            findings.append(f"{tool}: {error!r}: {json.dumps(changed)[:300]}")
    return findings


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
def test_changed_exports_are_read_or_refused(tmp_path):
    assert fuzz_exports(tmp_path / "export.json", 0, 500) == []


def test_a_model_is_fitted_from_an_export(tmp_path):
    """The file name is enough, and labels have the identifiers of the tasks."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    codes = np.where(rng.random((60, 4)) < 0.8, y[:, None], 1 - y[:, None])
    path = tmp_path / "export.json"
    write_votes(
        path, fs.Votes(codes.astype(np.int8), ("no", "yes")), ids=range(100, 160), format="label_studio"
    )
    model = fs.LabelModel().fit(str(path))
    labels = model.predict(str(path), output="pandas")
    assert labels.index.tolist() == list(range(100, 160))
    assert np.mean(labels == np.where(y, "yes", "no")) > 0.8


# ---------------------------------------------------------------------- with the real packages


@pytest.mark.filterwarnings("ignore")  # of pydantic, about the package
def test_label_studio_sdk_reads_and_writes_the_same_votes(tmp_path):
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects")
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface(
        '<View><Text name="text" value="$text"/><Choices name="label" toName="text">'
        '<Choice value="ham"/><Choice value="spam"/></Choices></View>'
    )
    path = tmp_path / "tasks.json"
    write_votes(path, VOTES, ids=IDS, data=DATA, format="label_studio", probabilities=[[0.2, 0.8]] * 3)
    tasks = json.loads(path.read_text())
    for written in tasks:
        for prediction in written["predictions"]:
            assert interface.validate_prediction({"score": 0.0, **prediction})
    again = [
        {"id": written["id"], **objects.TaskValue(**written).model_dump()} for written in tasks
    ]  # as the package writes it
    chunk = open_votes(save(tmp_path / "again.json", again)).read()
    assert table(chunk) == table(open_votes(path).read())
    # Annotations that the package makes.
    made = [
        {"id": i, "data": interface.generate_sample_task(), "annotations": [
            {**interface.generate_sample_annotation(), "completed_by": person} for person in (1, 2)]}
        for i in range(20)
    ]  # fmt: skip
    chunk = open_votes(save(tmp_path / "made.json", made)).read()
    assert chunk.votes.names == ("1", "2")
    assert chunk.votes.classes == ("ham", "spam")
    for sample in made:
        for given in sample["annotations"]:
            expected = given["result"][0]["value"]["choices"][0]
            assert table(chunk)[str(sample["id"]), str(given["completed_by"])] == expected


def test_argilla_reads_and_writes_the_same_votes(tmp_path):
    argilla = pytest.importorskip("argilla")
    from argilla.records._io import JsonIO

    path, again = tmp_path / "records.json", tmp_path / "again.json"
    names = [str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in "xyz"]
    votes = fs.Votes(VOTES.codes, VOTES.classes, tuple(names))
    write_votes(path, votes, ids=IDS, data=DATA, gold=["ham", None, "spam"], format="argilla",
                probabilities=[[0.2, 0.8]] * 3)  # fmt: skip
    records = JsonIO._records_from_json(path)
    assert [record.id for record in records] == IDS
    assert records[0].suggestions["label"].value == "spam"
    JsonIO.to_json(records, again)
    first, second = (open_votes(p, gold="gold").read() for p in (path, again))
    assert table(first) == table(second)
    assert table(second)["a", names[0]] == "spam"
    assert first.gold.tolist() == second.gold.tolist() == ["ham", None, "spam"]
    # Records that the package makes.
    users = [uuid.uuid4() for _ in range(2)]
    made = [
        argilla.Record(
            id=str(i), fields={"text": "x"}, suggestions=[argilla.Suggestion("stars", 3, agent="gpt")],
            responses=[argilla.Response("stars", 1 + (i + j) % 5, user_id=users[j]) for j in (0, 1)],
        )
        for i in range(10)
    ]  # fmt: skip
    JsonIO.to_json(made, tmp_path / "made.json")
    found = table(open_votes(tmp_path / "made.json").read())
    assert len(found) == 30
    assert found["7", "gpt"] == 3
    assert found["7", str(users[1])] == 4


@pytest.mark.parametrize("ending", ["json", "eval"])
def test_inspect_reads_and_writes_the_same_votes(tmp_path, ending):
    log_module = pytest.importorskip("inspect_ai.log")
    path, again = tmp_path / "log.json", tmp_path / f"again.{ending}"
    write_votes(path, VOTES, ids=IDS, data=DATA, format="inspect", probabilities=[[0.2, 0.8]] * 3)
    log = log_module.read_eval_log(str(path))
    assert log.samples[0].scores["ann"].value == "spam"
    assert log.samples[0].scores["flyingsquid"].metadata == {"probability": 0.8}
    log_module.write_eval_log(log, str(again))
    assert table(open_votes(again).read()) == table(open_votes(path).read())


EVALUATION = """
import sys, inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import solver

@solver
def quiet():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("mock", "answer")
        return state
    return solve

def judge(number):
    @scorer(metrics=[accuracy()], name=f"judge_{number}")
    def made():
        async def score(state, target):
            return Score(value="C" if (state.sample_id * 7 + number) % 3 else "I")
        return score
    return made()

task = inspect_ai.Task(
    dataset=[Sample(id=i, input=f"question {i}", target="x") for i in range(1, 9)],
    solver=quiet(), scorer=[judge(number) for number in range(3)],
)
inspect_ai.eval(task, model="mockllm/model", log_dir=sys.argv[1], log_format="eval", display="none")
"""


@pytest.mark.system
def test_a_log_of_an_evaluation_is_read_as_votes_of_judges(tmp_path):
    pytest.importorskip("inspect_ai")
    # In a process of its own, because inspect_ai leaves streams open, and warnings are errors here.
    subprocess.run([sys.executable, "-c", EVALUATION, str(tmp_path)], check=True, capture_output=True)
    (path,) = tmp_path.glob("*.eval")
    chunk = open_votes(path).read()
    assert chunk.votes.names == ("judge_0", "judge_1", "judge_2")
    expected = {
        (str(i), f"judge_{k}"): "C" if (i * 7 + k) % 3 else "I" for i in range(1, 9) for k in range(3)
    }
    assert table(chunk) == expected


def hugging_face(columns, names=("ham", "spam")):
    datasets = pytest.importorskip("datasets")
    features = {"id": datasets.Value("string")} | {
        name: datasets.ClassLabel(names=list(names)) for name in columns
    }
    return datasets.Dataset.from_dict({"id": IDS, **columns}, features=datasets.Features(features))


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_datasets_are_read_with_the_names_of_classes(tmp_path):
    data = hugging_face({"ann": ["spam", None, "ham"], "bob": [-1, 0, 1]}, ("spam", "ham"))
    datasets = pytest.importorskip("datasets")
    expected = {("a", "ann"): "spam", ("c", "ann"): "ham", ("b", "bob"): "spam", ("c", "bob"): "ham"}
    data.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=data, test=data.select([2, 0])).save_to_disk(tmp_path / "two")
    data.to_parquet(tmp_path / "three.parquet")
    for path, part in (("one", None), ("two", None), ("two", "train"), ("three.parquet", None)):
        chunk = open_votes(tmp_path / path, part=part).read()
        assert table(chunk) == expected
        assert chunk.votes.classes == ("spam", "ham")
    test = open_votes(tmp_path / "two", part="test").read()
    assert list(np.asarray(test.ids)) == ["c", "a"]
    assert table(test) == {k: v for k, v in expected.items() if k[0] != "b"}
    with pytest.raises(VoteFileError, match="train, test"):
        open_votes(tmp_path / "two", part="valid")
    # In memory, also after rows were selected.
    for made in (fs.Votes.from_frame(data), fs.Votes.from_classes(data)):
        assert made.to_numpy().tolist() == [["spam", None], [None, "spam"], ["ham", "ham"]]
        assert made.classes == ("spam", "ham")
        assert list(made.items) == IDS
    assert fs.Votes.from_frame(data.select([2, 0])).to_numpy().tolist() == [["ham", "ham"], ["spam", None]]
    with pytest.raises(FlyingSquidError, match="train"):
        fs.LabelModel().fit(datasets.DatasetDict(train=data))


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_datasets_read_what_is_written(tmp_path):
    datasets = pytest.importorskip("datasets")
    write_votes(tmp_path / "votes.parquet", VOTES, ids=IDS)
    read = datasets.Dataset.from_parquet(str(tmp_path / "votes.parquet"), cache_dir=str(tmp_path))
    assert read["ann"][:] == ["spam", None, "ham"]
    again = fs.Votes.from_frame(read)
    np.testing.assert_array_equal(again.codes, VOTES.codes)
    long = datasets.Dataset.from_dict(
        {"task": ["a", "a", "b"], "worker": ["x", "y", "x"], "label": [0, 1, 1]}
    )
    assert fs.Votes.from_long(long).n_votes == 3
