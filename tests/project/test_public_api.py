"""The public names. Adding one is a decision; removing one breaks users."""

from __future__ import annotations

import doctest
import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import flyingsquid as fs
from docs.api_reference import PAGES, fill
from docs.conf import PUBLIC, resolve
from flyingsquid.models._estimator import Estimator

ROOT = Path(__file__).parents[2]
REASONS = {name: reason for section in PUBLIC["names"].values() for name, reason in section.items()}
LISTED = {*REASONS, *PUBLIC["returned"]}
NEEDS_TORCH = ("fs.torch", "fs.legacy.FSLoss")
HAS_TORCH = find_spec("torch") is not None


def is_installed(name: str) -> bool:
    return HAS_TORCH or not name.startswith(NEEDS_TORCH)


def names_of(module: ModuleType) -> set[str]:
    """Return ``__all__`` of a module, or the functions and classes that it defines if it has none."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        if inspect.isfunction(value) or inspect.isclass(value)
    }


def test_listed_names_exist():
    missing = []
    for name in filter(is_installed, [*LISTED, *PUBLIC["returned"].values()]):
        try:
            resolve(name)
        except (AttributeError, ModuleNotFoundError):
            missing.append(name)
    assert not missing


def test_every_name_of_a_namespace_is_listed():
    """Or is an alias of a top-level name, or is listed as internal."""
    assert {f"fs.{name}" for name in fs.__all__} == {name for name in REASONS if name.count(".") == 1}
    homes = {name.rpartition(".")[0] for name in REASONS} | {f"fs.{name}" for name in fs._NAMESPACES}
    unlisted = []
    for home in filter(is_installed, homes - {"fs"}):
        module = resolve(home)
        for name in names_of(module) - {*PUBLIC["internal"].get(home, ())}:
            path = f"{home}.{name}"
            is_alias = name in fs.__all__ and getattr(module, name) is getattr(fs, name)
            is_namespace = any(one.startswith(f"{path}.") for one in LISTED)
            if path not in LISTED and not is_alias and not is_namespace:
                unlisted.append(path)
    assert not unlisted, "add the name to docs/reference/public_names.toml, or remove it from __all__"


def test_every_public_name_has_a_line_that_states_its_purpose():
    wrong = [
        name
        for name, reason in REASONS.items()
        if not reason.endswith(".")
        or "\n" in reason
        or len(reason) > 100
        or re.match(r"(What|Who|Whose|How|Which|Whether|Where|When|Why)\b", reason)
    ]
    assert not wrong
    assert not REASONS.keys() & PUBLIC["returned"].keys()


def test_every_function_and_class_has_an_example():
    """The examples are doctests, which run with the tests of their module."""
    named = {name: resolve(name) for name in filter(is_installed, REASONS)}
    missing = [
        name for name, value in named.items() if callable(value) and ">>>" not in (value.__doc__ or "")
    ]
    assert not missing


def test_examples_of_decorated_methods_run():
    """Python does not collect the doctests of a method whose decorator is defined in another module."""
    examples = [
        doctest.DocTestParser().get_doctest(method.__doc__ or "", {}, name, None, 0)
        for name, method in inspect.getmembers(fs.LabelModel, inspect.isfunction)
        if hasattr(method, "__wrapped__")
    ]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert sum(runner.run(example).attempted for example in examples) > 3
    assert runner.summarize(verbose=False).failed == 0


def test_members_of_the_main_classes():
    """Those that the package defines; scikit-learn and torch add theirs."""
    wrong = []
    for path in filter(is_installed, PUBLIC["members"]):
        public, internal = set(PUBLIC["members"][path]), set(PUBLIC["internal"].get(path, ()))
        bases = [base for base in resolve(path).__mro__ if base.__module__.startswith("flyingsquid")]
        bases = [base for base in bases if base is not Estimator]  # scikit-learn's contract
        found = {name for base in bases for name in vars(base) if not name.startswith("_")}
        found = {name for name in found if not name.endswith("_request")}
        wrong += [f"{path}.{name} is not listed" for name in sorted(found - public - internal)]
        wrong += [f"{path}.{name} does not exist" for name in sorted((public | internal) - found)]
    assert not wrong


def test_the_reference_has_every_section():
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    sections = re.findall(r"^## (.*)\n(?:.*\n)*?<!-- names: (.*) -->$", page, re.MULTILINE)
    assert sections == [(title, title) for title in PUBLIC["names"]]


def test_every_member_has_a_description():
    text = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    assert not re.findall(r"^\| `.*` \|\s*\|$", text, re.MULTILINE)


@pytest.mark.skipif(not HAS_TORCH, reason="the page documents flyingsquid.torch")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_public_names_are_current(page):
    text = page.read_text("utf-8")
    assert "<!-- names: " in text
    assert text == fill(text), "run python -m docs.api_reference"


def test_majority_vote_has_the_methods_of_label_model():
    public = {n for n in dir(fs.LabelModel) if not n.startswith("_") and not n.endswith(("_request", "_"))}
    # A majority vote has no likelihood.
    assert public - {"log_likelihood"} <= set(dir(fs.MajorityVote))


def test_label_model_signature():
    assert str(inspect.signature(fs.LabelModel.__init__).replace(return_annotation=None)).count("*, method")
    assert list(inspect.signature(fs.LabelModel).parameters) == [
        "graph", "method", "class_balance", "classes", "n_classes", "signs", "temper",
    ]  # fmt: skip
    assert list(inspect.signature(fs.LabelModel.fit).parameters) == [
        "self",
        "votes",
        "y",
        "gold",
        "sample_weight",
        "features",
    ]


def test_chunks_signature():
    assert list(inspect.signature(fs.VoteChunks).parameters) == ["chunks", "classes", "names"]
    for estimator in (fs.LabelModel, fs.MajorityVote):
        parameters = inspect.signature(estimator.predict_proba).parameters
        assert list(parameters) == ["self", "votes", "features", "dtype", "out", "output"]


def test_learn_structure_signature():
    assert list(inspect.signature(fs.learn_structure).parameters) == [
        "votes", "significance", "max_edges", "sample_weight",
    ]  # fmt: skip


def test_report_signature():
    assert list(inspect.signature(fs.report).parameters) == [
        "votes", "y", "model", "data", "path", "title", "ordered", "task", "features",
    ]  # fmt: skip


def test_dependency_graph_signature():
    assert list(inspect.signature(fs.DependencyGraph).parameters) == [
        "n_sources", "n_tasks", "source_task", "task_edges", "source_edges",
    ]  # fmt: skip
    assert list(inspect.signature(fs.DependencyGraph.chain).parameters) == [
        "n_tasks", "sources_per_task", "source_edges",
    ]  # fmt: skip
    assert list(inspect.signature(fs.DependencyGraph.grid).parameters) == [
        "height", "width", "sources_per_cell",
    ]  # fmt: skip


def test_from_scores_signature():
    assert list(inspect.signature(fs.Votes.from_scores).parameters) == [
        "scores", "thresholds", "bins", "classes", "names",
    ]  # fmt: skip
    assert list(inspect.signature(fs.score_bins).parameters) == ["scores", "n_bins", "names"]


def test_sequence_label_model_signature():
    """hmmlearn's convention: lengths come second."""
    assert list(inspect.signature(fs.SequenceLabelModel).parameters) == [
        "method", "class_balance", "signs", "temper",
    ]  # fmt: skip
    assert list(inspect.signature(fs.SequenceLabelModel.fit).parameters) == [
        "self",
        "votes",
        "lengths",
        "gold",
    ]
    for method in ("partial_fit", "log_likelihood"):
        parameters = inspect.signature(getattr(fs.SequenceLabelModel, method)).parameters
        assert list(parameters) == ["self", "votes", "lengths"]
    assert list(inspect.signature(fs.SequenceLabelModel.predict_proba).parameters) == [
        "self", "votes", "lengths", "output",
    ]  # fmt: skip
    assert list(inspect.signature(fs.SequenceLabelModel.predict).parameters) == [
        "self", "votes", "lengths", "joint", "tie_break", "random_state", "output",
    ]  # fmt: skip
    assert list(inspect.signature(fs.SequenceLabelModel.score).parameters) == [
        "self", "votes", "y", "lengths",
    ]  # fmt: skip


def test_online_label_model_signature():
    assert list(inspect.signature(fs.OnlineLabelModel).parameters) == [
        "window", "decay", "graph", "method", "class_balance", "signs", "temper", "refresh", "warm_up",
        "n_classes", "classes", "new_sources", "new_classes",
    ]  # fmt: skip
    for method, parameters in {
        "update": ["self", "votes", "class_balance", "gold"],
        "partial_fit": ["self", "votes", "y", "class_balance", "gold"],
        "learn_one": ["self", "row"],
        "predict_proba_one": ["self", "row"],
    }.items():
        assert list(inspect.signature(getattr(fs.OnlineLabelModel, method)).parameters) == parameters


def test_labeling_signatures():
    parameters = inspect.signature(fs.labeling_function).parameters
    assert list(parameters) == ["name", "resources", "vectorized", "pre"]
    assert list(inspect.signature(fs.apply).parameters) == [
        "lfs", "data", "progress", "n_jobs", "on_error", "classes", "chunk", "cache", "return_log",
    ]  # fmt: skip


def test_multi_label_model_signature():
    assert list(inspect.signature(fs.MultiLabelModel).parameters) == ["label_model", "labels", "on_failure"]
    assert list(inspect.signature(fs.MultiLabelModel.fit).parameters) == [
        "self", "votes", "y", "gold", "sample_weight",
    ]  # fmt: skip


READING = [
    "format_", "long", "panel", "wide", "item", "no_item", "sources", "ignore", "classes", "abstain",
    "signed", "normalize", "duplicates", "header", "part", "max_decoded_bytes",
]  # fmt: skip
OPTIONS = {
    "stream": [
        "votes", "output", "force", "window", "decay", "classes", "sources", "ignore", "abstain",
        "class_balance", "method", "refresh", "block", "id_field", "new_sources", "new_classes", "on_error",
        "checkpoint", "every", "continued", "position",
    ],
    "label": [
        "votes", "output", "output_format", "report_path", "model_path", "with_model", "method", "layout",
        "graph", "class_balance", "gold", "learn_from_gold", "features_path", "tie_break", "seed",
        "escape_formulas", "force", "quiet", "as_json", *READING,
    ],
    "analyze": ["votes", "gold", "with_model", "method", "layout", "pairs", "as_json", *READING],
    "rate": [
        "votes", "gold", "by", "compare", "confidence", "with_model", "method", "cross_fit", "as_json",
        *READING,
    ],
    "score": [
        "scores", "output", "output_format", "levels", "confidence", "ignore", "model_path", "with_model",
        "escape_formulas", "force", "quiet", "as_json",
    ],
    "studio": [
        "data", "project", "text", "id_column", "classes", "features", "functions", "port", "open_page",
    ],
    "suggest": [
        "votes", "number", "output", "gold", "with_model", "method", "seed", "force", "as_json", *READING,
    ],
    "report": [
        "votes", "output", "with_model", "method", "layout", "gold", "data_path", "features_path", "title",
        "ordered", "force", "quiet", *READING,
    ],
    "convert": [
        "votes", "output", "output_format", "form", "gold", "escape_formulas", "force", "quiet", *READING,
    ],
    "inspect": ["file", "gold", "as_json", *READING],
    "completion": ["shell"],
    "demo": ["seed"],
}  # fmt: skip


def test_options_of_the_commands():
    from click import Context

    from flyingsquid.cli.main import COMMANDS, main

    commands = {name: main.get_command(Context(main), name) for name in COMMANDS}
    assert {name: [one.name for one in command.params] for name, command in commands.items()} == OPTIONS


def test_end_model_signatures():
    assert list(inspect.signature(fs.WeaklySupervisedClassifier).parameters) == [
        "end_model", "label_model", "labels", "min_confidence", "drop_uncovered", "use_features",
    ]  # fmt: skip
    assert list(inspect.signature(fs.WeaklySupervisedClassifier.fit).parameters) == [
        "self", "X", "votes", "gold",
    ]  # fmt: skip
    assert list(inspect.signature(fs.to_training_set).parameters) == [
        "X", "proba", "min_confidence", "drop_uncovered", "votes", "classes", "gold",
    ]  # fmt: skip


@pytest.mark.extra
def test_torch_signatures():
    pytest.importorskip("torch")
    import flyingsquid.torch as fs_torch

    assert list(inspect.signature(fs_torch.LabelModelLoss).parameters) == [
        "n_sources", "n_classes", "graph", "window", "class_balance", "method", "signs", "temper", "weight",
        "reduction", "drop_uncovered", "warm_up", "process_group",
    ]  # fmt: skip
    assert list(inspect.signature(fs_torch.LabelModelLoss.forward).parameters) == [
        "self", "logits", "votes", "item_weight",
    ]  # fmt: skip
    assert list(inspect.signature(fs_torch.SoftCrossEntropy).parameters) == ["weight", "reduction"]


def test_analysis_signatures():
    from flyingsquid import analysis

    assert list(inspect.signature(fs.summarize).parameters) == ["votes", "y", "model"]
    assert list(inspect.signature(analysis.findings).parameters) == [
        "votes",
        "y",
        "model",
        "task",
        "features",
    ]
    assert list(inspect.signature(analysis.contested_items).parameters) == [
        "model",
        "votes",
        "y",
        "n",
        "task",
        "features",
    ]
    assert list(inspect.signature(analysis.leave_one_out).parameters) == ["model", "votes", "y", "gold"]
    assert list(inspect.signature(analysis.learning_curve).parameters) == [
        "model", "votes", "y", "random_state", "sizes", "repeats", "gold",
    ]  # fmt: skip


def test_legacy_signatures():
    from flyingsquid.legacy import LabelModel

    assert list(inspect.signature(LabelModel).parameters) == [
        "m", "v", "y_edges", "lambda_y_edges", "lambda_edges", "allow_abstentions", "triplets",
        "triplet_seed",
    ]  # fmt: skip
    assert list(inspect.signature(LabelModel.fit).parameters) == [
        "self", "L_train", "class_balance", "Y_dev", "flip_negative", "clamp", "solve_method",
        "sign_recovery", "verbose",
    ]  # fmt: skip
    assert str(inspect.signature(LabelModel.predict)).startswith("(self, L: ")
    assert str(inspect.signature(LabelModel.predict_proba)).startswith("(self, L_matrix: ")
    assert str(inspect.signature(LabelModel.predict_proba_marginalized)).startswith("(self, L: ")


@pytest.mark.extra
def test_legacy_loss_signature():
    pytest.importorskip("torch")
    from flyingsquid.legacy import FSLoss

    assert list(inspect.signature(FSLoss).parameters) == [
        "m", "v", "task_deps", "lf_task_deps", "lf_deps", "Y_dev", "cb", "allow_abstentions", "device",
        "buffer_capacity", "update_frequency", "clamp_vals", "triplets", "pos_weight",
    ]  # fmt: skip
    assert list(inspect.signature(FSLoss.forward).parameters) == [
        "self", "predictions", "weak_labels", "update_frequency",
    ]  # fmt: skip


def test_error_tree():
    errors = [name for name in names_of(fs.exceptions) if name.endswith("Error")]
    assert [
        name for name in errors if not issubclass(getattr(fs.exceptions, name), fs.FlyingSquidError)
    ] == []
    assert [name for name in errors if name not in (fs.exceptions.__doc__ or "")] == []
    assert issubclass(fs.FlyingSquidError, ValueError)


def test_abstain_is_minus_one():
    assert fs.ABSTAIN == -1
