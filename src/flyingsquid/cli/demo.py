"""``flyingsquid demo``: the main task on real data, from votes to a trained classifier."""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flyingsquid.analysis import summarize
from flyingsquid.datasets import BreastCancer, load_breast_cancer
from flyingsquid.models import LabelModel, MajorityVote
from flyingsquid.votes import Votes

_HELD_OUT = 0.3


@click.command()
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Split of the data.")
def demo(seed: int) -> None:
    """Label real biopsies with seven hand-written rules and no gold labels.

    Fits on one part of the data, compares the estimated accuracy of each rule with the true one, which the
    fit never used, and compares labels and trained classifiers on the held-out part.

    \b
    Example:
      flyingsquid demo
    """
    data = load_breast_cancer()
    order = np.random.default_rng(seed).permutation(len(data.y))
    cut = round(len(order) * _HELD_OUT)
    train, held_out = order[cut:], order[:cut]
    model = LabelModel().fit(data.votes[train])
    console = Console()
    console.print(
        f"\n[bold]{len(train)}[/] biopsies, [bold]{data.votes.n_sources}[/] hand-written rules that may "
        f"abstain, [bold]0[/] gold labels. How accurate is each rule?\n"
    )
    console.print(_source_table(model, data.votes[train], data.y[train]))
    console.print(
        "[dim]Rules that share errors seem more accurate than they are. The intervals allow for this.[/]"
    )
    console.print(f"\n[bold]Verdict.[/] {model.diagnostics_.verdict}")
    console.print(f"\nAnd on [bold]{len(held_out)}[/] held-out biopsies:\n")
    console.print(_result_table(model, data, train, held_out))
    console.print(
        "\nAll estimates are based on how often the rules agree with each other "
        "(docs/concepts/label-model.md).\nNext: [bold]import flyingsquid as fs[/], "
        "[bold]fs.LabelModel().fit(votes).predict_proba(votes)[/].\n"
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left")
    return table


def _source_table(model: LabelModel, votes: Votes, y: NDArray[Any]) -> Table:
    table = _table("rule", "votes on", "estimated", "95% interval", "true")
    true = summarize(votes, y).to_dict()["precision"]
    for j in np.argsort(-model.accuracies_):
        low, high = model.accuracies_interval_[j]
        table.add_row(
            model.source_names_[j],
            f"{model.coverage_[j]:.0%}",
            f"{model.accuracies_[j]:.1%}",
            f"{low:.0%} to {high:.0%}",
            f"[bold green]{true[j]:.1%}[/]",
        )
    return table


def _result_table(
    model: LabelModel, data: BreastCancer, train: NDArray[np.intp], held_out: NDArray[np.intp]
) -> Table:
    # Imported here so that `flyingsquid demo --help` stays quick.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from flyingsquid.models.end_model import WeaklySupervisedClassifier

    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    features, votes, truth = data.features[held_out], data.votes[held_out], data.y[held_out]
    majority = MajorityVote().fit(data.votes[train])
    weak = WeaklySupervisedClassifier(classifier, drop_uncovered=False)
    soft = weak.fit(data.features[train], data.votes[train]).score(features, truth)
    gold = classifier.fit(data.features[train], data.y[train]).score(features, truth)
    table = _table("held-out accuracy", "", "gold labels used")
    table.add_row("majority vote of the rules", f"{majority.score(votes, truth):.1%}", "0")
    table.add_row("FlyingSquid labels", f"{model.score(votes, truth):.1%}", "0")
    table.add_row("logistic regression trained on FlyingSquid labels", f"[bold green]{soft:.1%}[/]", "0")
    table.add_row("the same model trained on gold", f"{gold:.1%}", f"{len(train)}")
    return table
