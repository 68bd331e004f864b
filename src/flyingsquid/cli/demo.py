"""``flyingsquid demo``: the main task on real data, from votes to a trained classifier."""

from __future__ import annotations

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flyingsquid.datasets import BreastCancer, load_breast_cancer
from flyingsquid.models import LabelModel, MajorityVote

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
    console.print(_source_table(model, data, train))
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


def _source_table(model: LabelModel, data: BreastCancer, train: NDArray[np.intp]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("rule")
    for name in ("votes on", "estimated", "95% interval", "true"):
        table.add_column(name, justify="right")
    votes, truth = np.array(data.votes.classes)[data.votes.codes[train]], data.y[train]
    for j in np.argsort(-model.accuracies_):
        voted = data.votes.codes[train, j] >= 0
        right = float(np.mean(votes[voted, j] == truth[voted]))
        low, high = model.accuracies_interval_[j]
        table.add_row(
            model.source_names_[j],
            f"{model.coverage_[j]:.0%}",
            f"{model.accuracies_[j]:.1%}",
            f"{low:.0%} to {high:.0%}",
            f"[bold green]{right:.1%}[/]",
        )
    return table


def _result_table(
    model: LabelModel, data: BreastCancer, train: NDArray[np.intp], held_out: NDArray[np.intp]
) -> Table:
    truth, votes = data.y[held_out], data.votes[held_out]
    majority = MajorityVote().fit(data.votes[train])
    soft, gold = _end_models(model, data, train, held_out)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("held-out accuracy")
    table.add_column("", justify="right")
    table.add_column("gold labels used", justify="right")
    table.add_row("majority vote of the rules", f"{majority.score(votes, truth):.1%}", "0")
    table.add_row("FlyingSquid labels", f"{model.score(votes, truth):.1%}", "0")
    table.add_row("logistic regression trained on FlyingSquid labels", f"[bold green]{soft:.1%}[/]", "0")
    table.add_row("the same model trained on gold", f"{gold:.1%}", f"{len(train)}")
    return table


def _end_models(
    model: LabelModel, data: BreastCancer, train: NDArray[np.intp], held_out: NDArray[np.intp]
) -> tuple[float, float]:
    """Return the held-out accuracy of a classifier trained on soft labels, and on gold labels."""
    # Imported here so that `flyingsquid --help` stays quick.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, y = data.features[train], data.y[train]
    posterior = model.predict_proba(data.votes[train])
    # A soft label is each class once, weighted by its probability.
    twice, classes = np.concatenate([features, features]), np.repeat(np.array(data.votes.classes), len(train))
    scores = []
    for x, target, weight in ((twice, classes, posterior.T.ravel()), (features, y, None)):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        classifier.fit(x, target, logisticregression__sample_weight=weight)
        scores.append(float(classifier.score(data.features[held_out], data.y[held_out])))
    return scores[0], scores[1]
