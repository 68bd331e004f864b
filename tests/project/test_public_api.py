"""The public names. Adding one is a decision; removing one breaks users."""

from __future__ import annotations

import inspect

import pytest

import flyingsquid as fs

TOP = [
    "ABSTAIN",
    "DependencyGraph",
    "FlyingSquidError",
    "LabelModel",
    "MajorityVote",
    "Moments",
    "MultiLabelModel",
    "OnlineLabelModel",
    "SequenceLabelModel",
    "SequenceMoments",
    "VoteChunks",
    "Votes",
    "WeaklySupervisedClassifier",
    "__version__",
    "apply",
    "exceptions",
    "labeling_function",
    "learn_structure",
    "load",
    "report",
    "score_bins",
    "summarize",
    "to_training_set",
]
MEMBERS = {
    fs.DependencyGraph: {
        "chain", "grid", "is_trivial", "stacked_shape", "sources_of", "neighbors", "describe", "to_svg",
        "to_dict", "from_dict", "to_json", "from_json",
    },
    fs.LabelModel: {
        "accuracies_", "class_balance_", "classes_", "confusion_", "coverage_", "excess_correlation_", "fit_",
        "graph_", "method_", "moments_", "n_features_in_", "reason_", "rows_used_", "source_names_",
        "task_tables_", "temper_", "vote_schema_", "from_fit", "for_labeling", "read_votes",
        "accuracies_interval_", "diagnostics_", "fit", "fit_moments", "fit_predict", "fit_predict_proba",
        "partial_fit", "predict", "predict_proba", "score", "explain", "summary", "save", "log_likelihood",
        "get_params", "set_params", "get_metadata_routing", "set_fit_request", "set_score_request",
        "set_predict_request", "set_partial_fit_request", "set_predict_proba_request",
    },
    fs.Moments: {
        "of", "n_items", "n_sources", "n_classes", "pair_counts", "pair_rates", "vote_counts", "coverage",
        "missing", "save", "load", "from_state", "missing_counts", "classes", "names", "source_names",
        "is_exact", "aligned_to", "graph", "has_all_pairs", "table", "joint_counts", "by_own_vote", "overlap",
        "agreement", "compare_pairs", "others_votes", "sparse_others_votes", "votes_met", "one_vs_rest",
        "select", "sources_around", "unit_votes",
    },
    fs.MultiLabelModel: {
        "classes_", "failures_", "labels_", "models_",
        "fit", "fit_predict", "fit_predict_proba", "predict", "predict_proba", "score", "summary", "save",
        "get_params", "set_params", "get_metadata_routing", "set_fit_request", "set_score_request",
        "set_predict_request", "set_predict_proba_request",
    },
    fs.OnlineLabelModel: {
        "check_options", "classes_", "for_labeling", "method_", "n_features_in_", "read_votes", "reason_",
        "source_names_", "vote_schema_",
        "update", "partial_fit", "learn_one", "predict_proba_one", "predict", "predict_proba", "score",
        "explain", "summary", "save", "changes", "n_seen_", "window_", "status_", "model_", "moments_",
        "history_", "accuracies_", "accuracies_interval_", "coverage_", "confusion_", "class_balance_",
        "diagnostics_", "get_params", "set_params", "get_metadata_routing", "set_score_request",
        "set_predict_request", "set_partial_fit_request", "set_predict_proba_request",
    },
    fs.SequenceLabelModel: {
        "accuracies_", "class_balance_", "classes_", "confusion_", "coverage_", "excess_correlation_", "fit_",
        "method_", "moments_", "n_features_in_", "read_votes", "reason_", "source_names_", "temper_",
        "transition_", "vote_schema_",
        "accuracies_interval_", "diagnostics_", "fit", "fit_moments", "fit_predict", "fit_predict_proba",
        "partial_fit", "predict", "predict_proba", "log_likelihood", "score", "summary", "save",
        "get_params", "set_params", "get_metadata_routing", "set_fit_request", "set_score_request",
        "set_predict_request", "set_partial_fit_request", "set_predict_proba_request",
    },
    fs.SequenceMoments: {
        "of", "of_rows", "rows", "n_pairs", "lagged", "lagged_rates", "first", "second", "is_exact",
        "aligned_to", "save", "load", "to_state", "from_state",
    },
    fs.VoteChunks: {"can_be_read_again", "raw"},
    fs.Votes: {
        "from_classes", "from_signed", "from_frame", "from_long", "from_sparse", "from_scores", "codes",
        "classes", "names", "items", "shape", "n_items", "n_sources", "n_classes", "n_votes", "is_sparse",
        "source_names", "missing_counts", "to_dense", "distinct", "matched_to", "of_sources",
        "with_all_sources",
    },
    fs.WeaklySupervisedClassifier: {
        "fit", "predict", "predict_proba", "decision_function", "score",
        "get_params", "set_params", "get_metadata_routing", "set_fit_request", "set_score_request",
    },
}  # fmt: skip
ERRORS = {
    "FlyingSquidError", "VotesError", "LabelingError", "OptionError", "GraphError", "NotIdentifiableError",
    "IncompatibleError", "ModelFileError", "NotFittedError", "VoteFileError",
}  # fmt: skip


def test_top_level_names():
    assert sorted(fs.__all__) == TOP
    assert all(hasattr(fs, name) for name in TOP)


@pytest.mark.parametrize("owner", MEMBERS, ids=lambda c: c.__name__)
def test_members(owner):
    public = {name for name in dir(owner) if not name.startswith("_")}
    requests = {name for name in MEMBERS[owner] if name.endswith("_request")}
    assert public - requests == MEMBERS[owner] - requests


def test_majority_vote_has_the_methods_of_label_model():
    public = {n for n in dir(fs.LabelModel) if not n.startswith("_") and not n.endswith(("_request", "_"))}
    # A majority vote has no likelihood, and no fit.
    assert public - {"log_likelihood", "from_fit"} <= set(dir(fs.MajorityVote))


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
    ]


def test_chunks_signature():
    assert list(inspect.signature(fs.VoteChunks).parameters) == ["chunks", "classes", "names"]
    for estimator in (fs.LabelModel, fs.MajorityVote):
        parameters = inspect.signature(estimator.predict_proba).parameters
        assert list(parameters) == ["self", "votes", "dtype", "out"]


def test_learn_structure_signature():
    assert list(inspect.signature(fs.learn_structure).parameters) == [
        "votes", "significance", "max_edges", "sample_weight",
    ]  # fmt: skip


def test_report_signature():
    assert list(inspect.signature(fs.report).parameters) == [
        "votes", "y", "model", "data", "path", "title", "ordered", "task",
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
    for method in ("fit", "partial_fit", "predict_proba", "log_likelihood"):
        parameters = inspect.signature(getattr(fs.SequenceLabelModel, method)).parameters
        assert list(parameters) == ["self", "votes", "lengths"]
    assert list(inspect.signature(fs.SequenceLabelModel.predict).parameters) == [
        "self", "votes", "lengths", "joint", "tie_break", "random_state",
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
        "update": ["self", "votes", "class_balance"],
        "partial_fit": ["self", "votes", "y", "class_balance"],
        "learn_one": ["self", "row"],
        "predict_proba_one": ["self", "row"],
    }.items():
        assert list(inspect.signature(getattr(fs.OnlineLabelModel, method)).parameters) == parameters


def test_labeling_signatures():
    assert list(inspect.signature(fs.labeling_function).parameters) == ["name", "resources", "vectorized"]
    assert list(inspect.signature(fs.apply).parameters) == [
        "lfs", "data", "progress", "n_jobs", "on_error", "classes", "chunk", "cache", "return_log",
    ]  # fmt: skip
    assert set(fs.labeling.__all__) >= {
        "ApplyLog", "ChunkLabels", "Failure", "LabelingFunction", "Row", "apply", "apply_chunks",
        "classifier", "from_column", "from_file", "from_mapping", "gazetteer", "keywords", "label_chunk",
        "labeling_function", "regex", "threshold",
    }  # fmt: skip


def test_multi_label_model_signature():
    assert list(inspect.signature(fs.MultiLabelModel).parameters) == ["label_model", "labels", "on_failure"]
    assert list(inspect.signature(fs.MultiLabelModel.fit).parameters) == [
        "self", "votes", "y", "gold", "sample_weight",
    ]  # fmt: skip


def test_names_of_the_theory():
    from flyingsquid import theory

    assert theory.__all__ == [
        "accuracy_error_bound", "covariance_floor", "drift_of", "end_model_drift_bound", "end_model_window",
        "generalization_bound", "lower_bound", "mean_parameters", "model_distance", "optimal_window",
        "rarest_event", "sampling_error_bound", "smallest_eigenvalue", "tolerated_drift",
        "window_error_bound",
    ]  # fmt: skip
    assert all(callable(getattr(theory, name)) for name in theory.__all__)


READING = [
    "format_", "long", "wide", "item", "no_item", "sources", "ignore", "classes", "abstain", "signed",
    "duplicates", "header", "part",
]  # fmt: skip
OPTIONS = {
    "stream": [
        "votes", "output", "window", "decay", "classes", "sources", "class_balance", "method", "refresh",
        "block", "id_field", "new_sources", "new_classes", "on_error", "checkpoint", "every",
        "continued", "position",
    ],
    "label": [
        "votes", "output", "output_format", "report_path", "model_path", "with_model", "method", "graph",
        "class_balance", "gold", "learn_from_gold", "tie_break", "seed", "force", "quiet", "as_json",
        *READING,
    ],
    "analyze": ["votes", "gold", "with_model", "method", "pairs", "as_json", *READING],
    "report": [
        "votes", "output", "with_model", "method", "gold", "data_path", "title", "ordered", "force",
        "quiet", *READING,
    ],
    "convert": ["votes", "output", "output_format", "form", "gold", "force", "quiet", *READING],
    "inspect": ["file", "gold", "as_json", *READING],
    "completion": ["shell"],
    "demo": ["seed"],
}  # fmt: skip


@pytest.mark.parametrize("command", OPTIONS)
def test_options_of_the_commands(command):
    from click import Context

    from flyingsquid.cli.main import COMMANDS, main

    found = main.get_command(Context(main), command)
    assert found is not None
    assert [parameter.name for parameter in found.params] == OPTIONS[command]
    assert set(COMMANDS) == set(OPTIONS)


def test_end_model_signatures():
    assert list(inspect.signature(fs.WeaklySupervisedClassifier).parameters) == [
        "end_model", "label_model", "labels", "min_confidence", "drop_uncovered",
    ]  # fmt: skip
    assert list(inspect.signature(fs.WeaklySupervisedClassifier.fit).parameters) == ["self", "X", "votes"]
    assert list(inspect.signature(fs.to_training_set).parameters) == [
        "X", "proba", "min_confidence", "drop_uncovered", "votes", "classes",
    ]  # fmt: skip


@pytest.mark.extra
def test_torch_signatures():
    pytest.importorskip("torch")
    import flyingsquid.torch as fs_torch

    assert sorted(fs_torch.__all__) == ["LabelModelLoss", "SoftCrossEntropy"]
    assert list(inspect.signature(fs_torch.LabelModelLoss).parameters) == [
        "n_sources", "n_classes", "graph", "window", "class_balance", "method", "signs", "temper", "weight",
        "reduction", "drop_uncovered", "warm_up", "process_group",
    ]  # fmt: skip
    assert list(inspect.signature(fs_torch.LabelModelLoss.forward).parameters) == [
        "self", "logits", "votes", "item_weight",
    ]  # fmt: skip
    assert list(inspect.signature(fs_torch.SoftCrossEntropy).parameters) == ["weight", "reduction"]


def test_names_of_understanding():
    from flyingsquid import analysis

    assert list(inspect.signature(fs.summarize).parameters) == ["votes", "y", "model"]
    assert list(inspect.signature(analysis.findings).parameters) == ["votes", "y", "model", "task"]
    assert list(inspect.signature(analysis.contested_items).parameters) == [
        "model",
        "votes",
        "y",
        "n",
        "task",
    ]
    assert list(inspect.signature(analysis.leave_one_out).parameters) == ["model", "votes", "y", "gold"]
    assert list(inspect.signature(analysis.learning_curve).parameters) == [
        "model", "votes", "y", "random_state", "sizes", "repeats", "gold",
    ]  # fmt: skip


def test_names_of_pictures():
    from flyingsquid import plot

    assert plot.__all__ == [
        "plot_accuracies", "plot_agreement", "plot_calibration", "plot_coverage", "plot_dependence",
        "plot_drift", "plot_explanation", "plot_learning_curve", "plot_leave_one_out", "plot_posteriors",
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
    assert {name for name in dir(LabelModel) if not name.startswith("_")} == {
        "fit", "predict", "predict_proba", "predict_proba_marginalized", "estimated_accuracies",
        "enumerate_ys",
    }  # fmt: skip


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
    errors = {n for n, c in vars(fs.exceptions).items() if inspect.isclass(c) and n.endswith("Error")}
    assert {n for n in errors if not n.startswith("_")} == ERRORS
    for name in ERRORS:
        assert issubclass(getattr(fs.exceptions, name), fs.FlyingSquidError)
        assert name in (fs.exceptions.__doc__ or "")
    assert issubclass(fs.FlyingSquidError, ValueError)


def test_abstain_is_minus_one():
    assert fs.ABSTAIN == -1
