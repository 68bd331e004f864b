"""Counts and posteriors of votes in torch operations, on the device of the votes.

The counts are the same integers as those of ``Moments.of``, summed over processes. The posteriors are those
of ``LabelModel.predict_proba``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from flyingsquid.fits import PosteriorParameters
from flyingsquid.inference import Correction, Emissions, Mixture
from flyingsquid.inference.correction import LEAST_PROBABILITY
from flyingsquid.inference.junction_tree import Step, plan
from flyingsquid.inference.weighted import EVEN_VOTE, TableTerm
from flyingsquid.moments import Moments
from flyingsquid.moments.counting import CountPlan
from flyingsquid.moments.moments import moments_from_tables
from flyingsquid.votes import REASONS

# Below 2**24, up to which float32 counts exactly.
_CHUNK_ROWS = 1 << 20


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Return a context without autocast, which would multiply in bfloat16 and count exactly only to 256."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device_type=device.type, enabled=False)


def count_shapes(plan: CountPlan, n_classes: int) -> list[tuple[int, ...]]:
    """Return the shapes of all counts of a plan: the number of items, every pair set, every unit."""
    return [(1,), *plan.shapes(n_classes)]


@torch.no_grad()
def count_votes(votes: Tensor, plan: CountPlan, n_classes: int) -> Tensor:
    """Return all counts in one flat int64 tensor, in the order of :func:`count_shapes`.

    ``votes`` are integers of shape (b, m), with -1 for no vote. Time O(b · Σ (K · block)²), on the device.
    """
    total = _count(votes[:_CHUNK_ROWS], plan, n_classes)
    for start in range(_CHUNK_ROWS, len(votes), _CHUNK_ROWS):
        total += _count(votes[start : start + _CHUNK_ROWS], plan, n_classes)
    return total


def _count(votes: Tensor, plan: CountPlan, n_classes: int) -> Tensor:
    with full_precision(votes.device):
        parts = [torch.tensor([len(votes)], device=votes.device)]
        hots = []
        for sources in plan.pair_sets:
            columns = votes if len(sources) == votes.shape[1] else votes[:, list(sources)]
            hot = _one_hot(columns, n_classes)
            pairs = (hot.T @ hot).reshape(n_classes, len(sources), n_classes, len(sources))
            parts.append(pairs.transpose(1, 2).reshape(-1).to(torch.int64))
            hots.append(hot)
        for unit, at in zip(plan.units, plan.unit_sets, strict=True):
            states = _unit_states(votes[:, list(unit)], n_classes)
            with_votes = torch.cat([torch.ones_like(hots[at][:, :1]), hots[at]], dim=1)
            parts.append((states.T @ with_votes).reshape(-1).to(torch.int64))
    return torch.cat(parts)


def _one_hot(votes: Tensor, n_classes: int) -> Tensor:
    """Return one-hot votes of shape (b, K m) with class-major columns; no vote is all zeros."""
    classes = torch.arange(n_classes, device=votes.device)
    return (votes[:, None, :] == classes[:, None]).flatten(1).to(torch.float32)


def unit_numbers(votes: Tensor, n_classes: int) -> Tensor:
    """Return the joint votes of a unit as numbers, shape (b,), with the first source as lowest digit."""
    powers = (n_classes + 1) ** torch.arange(votes.shape[1], device=votes.device)
    # Not a matrix product, which exists for integers on the CPU only.
    return ((votes.long() + 1) * powers).sum(dim=1)


def _unit_states(votes: Tensor, n_classes: int) -> Tensor:
    size = (n_classes + 1) ** votes.shape[1]
    numbers = torch.arange(size, device=votes.device)
    return (unit_numbers(votes, n_classes)[:, None] == numbers).to(torch.float32)


def moments_of_counts(flat: NDArray[np.int64], plan: CountPlan, n_classes: int) -> Moments:
    """Return the counts of :func:`count_votes` as ``Moments``."""
    (n_items,), *tables = _split(flat, count_shapes(plan, n_classes))
    missing = np.zeros((plan.n_sources, len(REASONS) - 1), np.int64)
    return moments_from_tables(plan, int(n_items), tables, missing, tuple(range(n_classes)))


def _split(flat: NDArray[np.int64], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


# ---------------------------------------------------------------------- posteriors


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


# ---------------------------------------------------------------------- processes


def sum_over_processes(counts: Tensor, group: Any) -> Tensor:
    """Return the sum of integer counts over all processes, the same on every rank."""
    if _n_processes(group) > 1:
        distributed.all_reduce(counts, op=distributed.ReduceOp.SUM, group=group)
    return counts


def gather_over_processes(rows: Tensor, group: Any) -> Tensor:
    """Return the rows of all processes in the order of ranks, shape (sum of b, m); b may differ."""
    world = _n_processes(group)
    if world == 1:
        return rows
    size = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.empty_like(size) for _ in range(world)]
    distributed.all_gather(sizes, size, group=group)
    largest = int(torch.cat(sizes).max())
    # all_gather needs tensors of one size.
    padded = torch.full((largest, rows.shape[1]), -1, dtype=rows.dtype, device=rows.device)
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(parts, padded, group=group)
    return torch.cat([part[: int(n)] for part, n in zip(parts, sizes, strict=True)])


def _n_processes(group: Any) -> int:
    """Return the number of processes; 1 if ``torch.distributed`` is not in use."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size(group))
