"""P(Y | votes) in torch operations on the device of the votes, equal to ``LabelModel.predict_proba``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flyingsquid.fits import PosteriorParameters
from flyingsquid.inference import Correction, Emissions, Mixture
from flyingsquid.inference.correction import LEAST_PROBABILITY
from flyingsquid.inference.junction_tree import Step, plan
from flyingsquid.inference.weighted import EVEN_VOTE, TableTerm
from flyingsquid.torch.counting import full_precision, unit_numbers


@torch.no_grad()
def posterior(votes: Tensor, parameters: PosteriorParameters) -> Tensor:
    """Return P(Y_d = k | votes), shape (b, D, K), in float64 if the device supports it.

    ``votes`` are integers of shape (b, m), with -1 for no vote.
    """
    with full_precision(votes.device):
        if parameters.weighted is not None:
            labels = _mixed(votes, parameters.weighted)
            if parameters.correction is not None:
                labels = _corrected(labels, votes, parameters.correction)
            return labels[:, None, :]
        own = _evidence(votes, parameters.emissions)
        own = own - own.amax(dim=-1, keepdim=True)
        labels = _sum_product(parameters.temper * own, plan(parameters.tree, parameters.clique_tables))
        if parameters.temper == 1:
            return labels
        # Evidence from other tasks is tempered, evidence on the task itself is not.
        full = labels * torch.exp((1 - parameters.temper) * own)
        total = full.sum(dim=-1, keepdim=True)
        return torch.where(total > 0, full / total, (own == 0).to(full.dtype))


def _mixed(votes: Tensor, mixture: Mixture) -> Tensor:
    """Return the posterior of a mixture, as ``flyingsquid.inference.mixture_posterior``, shape (b, K)."""
    dtype, device = float_dtype(votes.device), votes.device
    n_classes = mixture.weights.shape[1]
    cast = [(votes == vote).to(dtype) for vote in range(n_classes)]

    def tensor(values: NDArray[Any]) -> Tensor:
        return torch.as_tensor(values, dtype=dtype, device=device)

    def shares(weights: NDArray[Any], added: Tensor) -> Tensor:
        by_source = tensor(weights)
        sums = torch.stack([cast[k] @ by_source[:, k] for k in range(n_classes)], dim=1) + added
        return sums / sums.sum(dim=1, keepdim=True)

    even = tensor(np.full(n_classes, EVEN_VOTE / n_classes))
    added = even if mixture.prior is None else EVEN_VOTE * tensor(mixture.prior)

    def by_tables(term: TableTerm) -> Tensor:
        logs = tensor(term.logs)
        scores = torch.log(tensor(term.balance)).expand(len(votes), n_classes)
        for vote in range(n_classes):
            scores = scores + cast[vote] @ logs[:, :, vote]
        if mixture.one_sided.any():
            scores = scores + torch.log(shares(np.where(mixture.one_sided[:, None], term.weights, 0.0), even))
        return torch.softmax(scores, dim=1)

    n_votes = (votes >= 0).sum(dim=1, keepdim=True).to(dtype)
    labels = shares(mixture.weights, added)
    if mixture.anchored is not None:
        anchored = (n_votes * by_tables(mixture.anchored) + added) / (n_votes + EVEN_VOTE)
        labels = (1 - mixture.anchored_share) * labels + mixture.anchored_share * anchored
    if mixture.tables is not None:
        several = (votes >= 0).to(dtype) @ tensor(~mixture.one_sided)[:, None]
        trust = mixture.trust * several / n_votes.clamp(min=1)
        labels = trust * by_tables(mixture.tables) + (1 - trust) * labels
    if mixture.majority:
        equal = shares(np.ones_like(mixture.weights), added)
        labels = (1 - mixture.majority) * labels + mixture.majority * equal
    return torch.where(n_votes > 0, labels, tensor(mixture.without_votes))


def _corrected(labels: Tensor, votes: Tensor, correction: Correction) -> Tensor:
    """Apply a correction, as ``Correction.apply``, shape (b, K)."""
    n_classes = labels.shape[1]
    cast = [(votes == vote).to(labels.dtype) for vote in range(n_classes)]

    def tensor(values: NDArray[Any]) -> Tensor:
        return torch.as_tensor(values, dtype=labels.dtype, device=labels.device)

    counts = torch.stack([votes_for.sum(dim=1) for votes_for in cast], dim=1)
    total = counts.sum(dim=1, keepdim=True)
    weights = tensor(correction.weights)
    scores = correction.of_posterior * torch.log(labels.clamp(min=LEAST_PROBABILITY))
    scores = scores + correction.of_share * torch.log(counts + EVEN_VOTE / n_classes)
    scores = scores + tensor(correction.intercepts)
    scores = scores + torch.stack([cast[k] @ weights[:, k] for k in range(n_classes)], dim=1)
    if correction.confusion is not None:
        scores = scores + counts / total.clamp(min=1) @ tensor(correction.confusion)
    return torch.softmax(scores, dim=1)


def vote_shares(votes: Tensor, tasks: tuple[tuple[int, ...], ...], prior: Tensor) -> Tensor:
    """Return vote shares, shape (b, D, K), with one vote added per task that is split by the prior.

    ``prior`` has shape (D, K). Without votes, the result is the prior. With a uniform prior of two classes,
    one vote gives 3 to 1.
    """
    classes = torch.arange(prior.shape[1], device=votes.device)
    shares = []
    for task, sources in enumerate(tasks):
        cast = (votes[:, list(sources), None] == classes).sum(dim=1).to(prior.dtype) + prior[task]
        shares.append(cast / cast.sum(dim=1, keepdim=True))
    return torch.stack(shares, dim=1)


def float_dtype(device: torch.device) -> torch.dtype:
    """Return the widest floating-point type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def _evidence(votes: Tensor, emissions: Emissions) -> Tensor:
    """Return log P(votes on task d | Y_d = k), shape (b, D, K)."""
    dtype, device = float_dtype(votes.device), votes.device
    tables = torch.as_tensor(emissions.log_tables, dtype=dtype, device=device)
    missing = tables[:, :, -1]
    n_classes = tables.shape[1]
    owner = {source: task for task, sources in enumerate(emissions.tasks) for source in sources}
    by_task = []
    for sources in emissions.tasks:
        at = list(sources)
        columns = votes if len(at) == votes.shape[1] else votes[:, at]
        found = missing[at].sum(dim=0).expand(len(votes), n_classes)
        for vote in range(n_classes):
            found = found + (columns == vote).to(dtype) @ (tables[at, :, vote] - missing[at])
        by_task.append(found)
    for sources, table in emissions.units:
        numbers = unit_numbers(votes[:, list(sources)], n_classes)
        unit_evidence = torch.as_tensor(table, dtype=dtype, device=device).T[numbers]
        by_task[owner[sources[0]]] = by_task[owner[sources[0]]] + unit_evidence
    return torch.stack(by_task, dim=1)


def _sum_product(evidence: Tensor, steps: list[Step]) -> Tensor:
    """Pass messages to the roots and back, as ``flyingsquid.inference.sum_product``; evidence is <= 0."""
    scaled = evidence.movedim(0, -1)  # (D, K, items)
    scores = [_score(step, scaled) for step in steps]
    for number in reversed(range(len(steps))):
        step, score = steps[number], scores[number]
        top = _reduce_over(torch.amax, score, step.new_axes)
        weights = torch.exp(score - top)
        mass = _reduce_over(torch.sum, weights, step.new_axes)
        scores[number] = weights / mass
        if step.parent >= 0:
            message = torch.log(mass) + top
            message = message - message.amax(dim=tuple(range(message.ndim - 1)), keepdim=True)
            scores[step.parent] = scores[step.parent] + message.reshape(step.above)
    labels = [scaled] * scaled.shape[0]
    for number, step in enumerate(steps):
        belief = scores[number]
        if step.parent >= 0:
            shared = _reduce_over(torch.sum, scores[step.parent], step.rest_above)
            belief = scores[number] = belief * shared.reshape(step.here)
        for task, axis in zip(step.new, step.new_axes, strict=True):
            others = tuple(other for other in range(belief.ndim - 1) if other != axis)
            labels[task] = _reduce_over(torch.sum, belief, others).reshape(scaled.shape[1:])
    stacked = torch.stack(labels)
    return (stacked / stacked.sum(dim=1, keepdim=True)).movedim(-1, 0)


def _score(step: Step, scaled: Tensor) -> Tensor:
    score = torch.as_tensor(step.log_table, dtype=scaled.dtype, device=scaled.device)
    for task, axis in zip(step.new, step.new_axes, strict=True):
        shape = [1] * score.ndim
        shape[axis], shape[-1] = scaled.shape[1:]
        score = score + scaled[task].reshape(shape)
    return score.expand(*score.shape[:-1], scaled.shape[-1])


def _reduce_over(reduce: object, values: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Reduce over some axes and keep them with length 1; for torch an empty list means all axes."""
    return reduce(values, dim=axes, keepdim=True) if axes else values  # type: ignore[operator]
