"""Solver for panels of judges: combines the answers of each judge, then weights the judges.

Sources of one judge, in different orders or repeated, count as one source, unless they agree no more often
than sources of different judges. If judges were asked in several orders, judges with high self-agreement get
larger weights, to the extent that confusion tables do not explain the votes. If two factors explain the votes
equally well, gold labels or trusted judges decide between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from flyingsquid._values import can_be_iterated, format_count, format_list, format_value
from flyingsquid.estimation.dependence import SECOND_FACTOR, Dependence, find_copies, pair_correlations
from flyingsquid.estimation.factors import fit_factors
from flyingsquid.estimation.mixture import assess_mixture, fit_mixture
from flyingsquid.estimation.replicates import (
    SelfAgreement,
    combine_replicates,
    compare_replicates,
    consistency_weights,
    describe_positions,
    name_positions,
    support_of_accuracies,
)
from flyingsquid.estimation.source_estimates import RowLabels
from flyingsquid.estimation.table_em import Tables, rows_of
from flyingsquid.exceptions import OptionError
from flyingsquid.fits.base import Array, Fit
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference.weighted import Mixture, TableTerm
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.solvers.corrected import follow_direction, solve_corrected
from flyingsquid.solvers.weighted import (
    CONSISTENT_FOLLOWED,
    describe_mixture,
    no_votes_error,
    weighted_fit,
)
from flyingsquid.votes import SourceInfo, Structure

# Log odds per standardized score of the direction that trusted judges share.
_TRUSTED_STRENGTH = 2.0
# Answers of one judge count as sources if the trust in tables of all answers exceeds this and no pair of
# them is dependent. On 300 items it does so for 99% of panels of four simulated judges whose answers are
# independent, and for none whose second answer repeats half of the first ones; for 1 of 350 random panels of
# three to six judges of LLMBar.
_INDEPENDENT = 0.8
# A judge gets its own weight if it agrees with another judge by this many standard errors more than chance.
_CORROBORATED = 3.0
# Trust in tables if there is no evidence for or against them. On small panels of judges that share a bias,
# trust up to this value is not evidence, and the tables would decide the ties of majority vote (LLMBar: 10%
# of random panels of six judges fall below majority vote by more than a point; with this limit, 1%).
_PRIOR_TRUST = 0.3


@dataclass(frozen=True)
class Panel(Solver):
    """Combine the answers of each judge, then weight judges.

    ``method="auto"`` uses it for votes with a structure (:meth:`flyingsquid.Votes.with_structure`).

    Parameters
    ----------
    trusted : sequence of judges, optional
        Judges whose errors are known to have other causes than those of the rest. If the votes have a second
        factor, labels follow the direction of these judges. Supported for two classes only.
    share_families : bool, default=False
        Whether judges with the same ``model`` share the weight of one judge.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 500)
    >>> right = rng.random((500, 5, 2)) < [[0.95], [0.7], [0.7], [0.7], [0.7]]
    >>> votes = fs.Votes.from_panel(np.where(right, y[:, None, None], 1 - y[:, None, None]))
    >>> model = fs.LabelModel(method=fs.solvers.Panel()).fit(votes)
    >>> bool(model.score(votes, y) > 0.9)
    True
    """

    name: ClassVar[str] = "panel"
    requires: ClassVar[Requires] = Requires(rows="required", gold=True, confusion=False)

    trusted: Sequence[str] | None = None
    share_families: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.share_families, bool):
            raise OptionError(f"`share_families` must be a bool; got {format_value(self.share_families)}.")
        if self.trusted is None:
            return
        if isinstance(self.trusted, str) or not can_be_iterated(self.trusted) or not len(self.trusted):
            raise OptionError(f"`trusted` must be a list of judges; got {format_value(self.trusted)}.")
        object.__setattr__(self, "trusted", tuple(self.trusted))

    def solve(self, data: FitData) -> Fit:
        plain = solve_panel(data, self)
        return solve_corrected(data, self.name, plain) if "gold" in data.needs else plain


def solve_panel(data: FitData, panel: Panel) -> WeightedFit:
    """Fit votes of judges without gold labels."""
    votes = data.votes
    if votes is None or not np.asarray(data.moments.vote_counts).any():
        raise no_votes_error(data.moments)
    separate = Structure(tuple(SourceInfo(name) for name in votes.source_names))
    structure, balance, notes = votes.structure or separate, data.given_balance, []
    is_asked_for = panel.trusted is not None or panel.share_families
    if structure.has_replicates and not is_asked_for and _are_answers_independent(data):
        structure = separate
        notes.append("answers count as sources: those of one judge agree no more often than other ones")
    judged = combine_replicates(replace(votes, structure=structure))
    counted = Moments.of(judged, sample_weight=data.weights) if structure.has_replicates else data.moments
    found = fit_mixture(counted, rows_of(judged, data.weights), balance)
    agreement = compare_replicates(replace(votes, structure=structure), data.weights)
    is_swapped = bool(agreement.n_swapped.any())
    if is_swapped:
        weights, note = _judge_weights(agreement, counted)
        support = support_of_accuracies(agreement, found.sources.accuracies)
        found = replace(found, mixture=_with_weights(found.mixture, weights, support))
        notes.append(note)
    spread = _by_source(found.mixture, structure, share_families=panel.share_families)
    trust = replace(found.trust, share=spread.trust)
    if panel.trusted is not None:
        spread, note = _toward_trusted(spread, data.moments, structure, panel.trusted)
        notes.append(note)
        trust = replace(found.trust, share=spread.trust, n_tested=0)  # trust in judges is not tested
    tables = found.tables  # standard errors need a table for each source: that of its judge
    if tables is not None:
        tables = Tables(tables.tables[structure.judge_of], tables.balance)
    assessed = assess_mixture(
        data.moments,
        RowLabels.of(rows_of(votes, data.weights, data.counted), spread),
        balance,
        spread,
        tables,
        trust,
        _dependence_of(found.dependence, structure),
    )
    reason, concerns = describe_mixture(replace(found, mixture=spread, trust=trust))
    if is_swapped and found.dependence.second_factor >= SECOND_FACTOR:
        concerns = (*concerns, CONSISTENT_FOLLOWED)
    turned = name_positions(agreement.swapped_interval[:, 1], *agreement.position_interval.T)
    if turned.any():
        concerns = (*concerns, describe_positions([agreement.judges[j] for j in np.flatnonzero(turned)]))
    if structure.has_replicates:
        judges = format_count(len(structure.judges), "judge")
        notes.insert(0, f"{format_count(len(structure), 'source')} combined into {judges}")
    # Answers of one judge are reported as copies only if the votes show it.
    copies = find_copies(data.moments).groups
    return weighted_fit(assessed, panel.name, "; ".join([*notes, reason]), concerns, copies)


# ---------------------------------------------------------------------- weights of judges


def _are_answers_independent(data: FitData) -> bool:
    """Return whether tables of all answers explain how often any two of them agree."""
    rows = None if data.votes is None else rows_of(data.votes, data.weights, data.counted)
    found = fit_mixture(data.moments, rows, data.given_balance)
    return found.trust.share > _INDEPENDENT and not found.dependence.n_pairs


def _judge_weights(agreement: SelfAgreement, judged: Moments) -> tuple[Array, str]:
    """Return weights of judges by self-agreement under swaps, shape (J,), and a note about them.

    ``judged`` are the counts of the judges.
    """
    is_corroborated = np.ones(judged.n_sources, np.bool_)
    compared = pair_correlations(judged)
    if compared is not None:
        at, correlation, precision = compared
        is_corroborated[:] = False
        is_corroborated[at] = (correlation * np.sqrt(precision)).max(axis=1) > _CORROBORATED
    weights, share = consistency_weights(agreement, is_corroborated)
    if share == 0:
        return weights, "no judge agrees with itself often enough for weights by self-agreement"
    return weights, f"judges weighted by self-agreement under swapped orders ({share:.0%})"


def _with_weights(mixture: Mixture, weights: Array, support: float) -> Mixture:
    """Return the mixture of judges with weights by self-agreement in place of weights by agreement.

    Weights by agreement amplify a bias that judges share; weights by self-agreement do so less. The share of
    the tables is the trust in them times their support by self-agreement.
    """
    trust = max(mixture.trust - _PRIOR_TRUST, 0.0) / (1 - _PRIOR_TRUST) * (1 - mixture.majority) * support
    return replace(
        mixture,
        weights=np.repeat(weights[:, None], mixture.weights.shape[1], axis=1),
        trust=trust,
        anchored=None,
        anchored_share=0.0,
        majority=0.0,
    )


def _by_source(mixture: Mixture, structure: Structure, *, share_families: bool) -> Mixture:
    """Convert a mixture over judges to a mixture over sources, which share the weight of their judge equally.

    Contradictory answers of one judge then cancel.
    """
    of = structure.judge_of
    factors = 1 / np.bincount(of)[of]
    if share_families:
        families = structure.families()
        factors = factors / np.bincount(families)[families][of]
    mixture = mixture.of_sources(of)

    def scaled(term: TableTerm | None) -> TableTerm | None:
        if term is None:
            return None
        return TableTerm(term.logs * factors[:, None, None], term.weights * factors[:, None], term.balance)

    return replace(
        mixture,
        weights=mixture.weights * factors[:, None],
        tables=scaled(mixture.tables),
        anchored=scaled(mixture.anchored),
    )


def _dependence_of(found: Dependence, structure: Structure) -> Dependence:
    """Convert dependence between judges to sources; sources of one judge count as copies."""
    if found.shared is None or found.groups is None:
        return found
    of = structure.judge_of
    shared = found.shared[np.ix_(of, of)]
    shared[of[:, None] == of] = 1.0
    np.fill_diagonal(shared, 0.0)
    return replace(found, shared=shared, groups=found.groups[of])


# ---------------------------------------------------------------------- trusted judges


def _toward_trusted(
    mixture: Mixture, moments: Moments, structure: Structure, trusted: Sequence[str]
) -> tuple[Mixture, str]:
    """Return a mixture that follows the direction of trusted judges if there are several factors."""
    unknown = next((judge for judge in trusted if judge not in structure.judges), None)
    if unknown is not None:
        raise OptionError(
            f"`trusted` must contain names of judges, such as {format_list(structure.judges, 3)}; got "
            f"{format_value(unknown)}.",
            parameter="trusted",
        )
    if moments.n_classes != 2:
        raise OptionError("`trusted` is supported for two classes only; leave it out.", parameter="trusted")
    factors = fit_factors(moments)
    if factors is None or factors.rank < 2:
        return mixture, "the votes have one factor, so trusted judges have no effect"
    is_trusted = np.isin(structure.judge_of, [structure.judges.index(judge) for judge in trusted])
    toward = factors.loadings[is_trusted].sum(axis=0)
    toward *= _TRUSTED_STRENGTH / max(float(np.linalg.norm(toward)), 1e-12)
    return follow_direction(mixture, factors, toward), "labels follow the direction of the trusted judges"
