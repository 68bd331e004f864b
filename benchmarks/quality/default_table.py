"""Compare the default of LabelModel with majority vote and other label models on real datasets.

Run ``python -m benchmarks.quality.default_table``; ``--save`` writes the results file and the page. Reads the
directory named by FLYINGSQUID_DATA; runs the peers of ``make peers`` and keeps their answers in .peers-cache.
Fits see no gold. Only the design half is computed; ``--frozen`` computes the other half instead, once, when
there is nothing left to choose (docs/quality/halves.md).
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import flyingsquid as fs
from benchmarks.harness import RESULTS, save, save_parser
from benchmarks.quality import default_page
from benchmarks.quality.data_directory import data_directory
from benchmarks.quality.halves import DESIGN, FROZEN, RealSet
from benchmarks.quality.peers import CACHE, LIMIT, PEERS, Answer, answer
from benchmarks.quality.pools import PROTOCOLS, Pool, load
from benchmarks.quality.scores import add_one_shares, scores_of
from benchmarks.quality.summary import DIGITS, MAJORITY, summarize
from flyingsquid.votes.decisions import expected_credit

DEFAULT = "auto"
CIRCULAR = ("weather", "weather5")  # their gold is made of these votes


class Ours(NamedTuple):
    """Options of LabelModel, and the numbers of classes that they support."""

    options: dict[str, Any]
    two_classes: bool = True
    many_classes: bool = True


# "marginal" is left out: it needs a class balance, and nothing here is given one.
OURS: dict[str, Ours] = {
    DEFAULT: Ours({}),
    "agreement": Ours({"method": "agreement"}),
    # Recorded under the names that methods had when the table was first measured.
    "refined": Ours({"method": "em"}),
    "consensus": Ours({"method": "weighted"}),
    "decomposition": Ours({"method": "decomposition"}),
    "triplet_mean": Ours({"method": "triplet"}, many_classes=False),
    "triplet_median": Ours({"method": fs.solvers.Triplet("median")}, many_classes=False),
    "triplet": Ours({"method": fs.solvers.Triplet("best")}, many_classes=False),
    "covariance": Ours({"method": "covariance"}, many_classes=False),
    "quadratic": Ours({"method": "quadratic"}, many_classes=False),
    "one_vs_rest": Ours({"method": "one_vs_rest"}, two_classes=False),
}


def ours_for(real: RealSet, names: Sequence[str]) -> list[str]:
    """Return the methods that support this number of classes."""
    return [n for n in names if (OURS[n].two_classes if real.n_classes == 2 else OURS[n].many_classes)]


def label(options: Mapping[str, Any], pool: Pool) -> tuple[NDArray[np.float64], float]:
    """Probabilities of the scored items, and the processor's seconds of fitting and labeling."""
    classes = tuple(range(pool.real.n_classes))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        model = fs.LabelModel(**options).fit(fs.Votes(pool.fit, classes))
    posterior = model.predict_proba(fs.Votes(pool.score, classes))
    seconds = time.process_time() - start
    if not np.isfinite(posterior).all():
        raise FloatingPointError(f"{options} gave a posterior that is not a number")
    return posterior, seconds


def measure_ours(name: str, pool: Pool) -> dict[str, Any]:
    """Return the scores of a method of this package, or the error that it raised."""
    try:
        posterior, seconds = label(OURS[name].options, pool)
    except fs.exceptions.NotIdentifiableError as error:
        return {"refused": str(error)}
    return _scores(pool, posterior, seconds)


def measure_peer(pool: Pool, given: Answer) -> dict[str, Any]:
    """Return the scores of another label model, or the reason why there are none."""
    if given.posterior is None:
        return {"refused": given.failed}
    return _scores(pool, given.posterior, given.seconds)


def measure(pool: Pool, methods: Sequence[str], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Majority vote, our methods and the peers on one set."""
    start = time.process_time()
    majority = add_one_shares(pool.score, pool.real.n_classes)
    seconds = time.process_time() - start
    return {
        "name": pool.real.name,
        "kind": pool.real.kind,
        "n_classes": pool.real.n_classes,
        "items_fitted": len(pool.fit),
        "items_scored": int((pool.y >= 0).sum()),
        "one_pool": pool.is_one,
        "sources": pool.fit.shape[1],
        "in_means": pool.real.name not in CIRCULAR,
        "scores": {
            MAJORITY: _scores(pool, majority, seconds),
            **{name: measure_ours(name, pool) for name in ours_for(pool.real, methods)},
            **{peer: measure_peer(pool, given) for peer, given in answers.items()},
        },
    }


def _scores(pool: Pool, posterior: NDArray[np.float64], seconds: float) -> dict[str, Any]:
    known = pool.y >= 0
    y, posterior = pool.y[known], posterior[known]
    majority = add_one_shares(pool.score[known], pool.real.n_classes)
    # Both answer the same items, so the spread is of the difference and not of two scores.
    ahead = expected_credit(posterior, y) - expected_credit(majority, y)
    return {
        **{metric: round(value, DIGITS) for metric, value in scores_of(posterior, y).items()},
        "ahead_error": round(float(ahead.std() / np.sqrt(len(ahead))), DIGITS),
        "seconds": round(seconds, 4),
    }


def run(
    folder: Path,
    sets: Sequence[RealSet],
    *,
    methods: Sequence[str] = tuple(OURS),
    peers: Sequence[str] = tuple(PEERS),
    cache: Path = CACHE,
    limit: int = LIMIT,
    ask: bool = True,
) -> dict[str, Any]:
    """Both protocols on some sets."""
    pools = {(real.name, p): load(folder, real, p) for real in sets for p in PROTOCOLS}
    questions = {at: pool.question for at, pool in pools.items()}
    answers = {peer: answer(peer, questions.values(), cache=cache, limit=limit, ask=ask) for peer in peers}
    _warm_up(methods)
    measured: dict[str, dict[str, Any]] = {}  # a pool that everyone votes on is the same in both protocols
    with threadpool_limits(1):
        for at, pool in pools.items():
            key = questions[at].key
            if key not in measured:
                measured[key] = measure(pool, methods, {peer: answers[peer][key] for peer in peers})
    return {p: _protocol([measured[questions[real.name, p].key] for real in sets], peers) for p in PROTOCOLS}


def with_recorded(results: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """Return results with the recorded scores of the methods and peers that were not measured again."""
    merged = {}
    for protocol, found in results.items():
        known = {each["name"]: each["scores"] for each in recorded[protocol]["sets"]}
        sets = []
        for each in found["sets"]:
            old = known.get(each["name"], {})
            kept = [MAJORITY, *ours_for(_set_of(each), list(OURS)), *PEERS]
            scores = {name: each["scores"].get(name, old.get(name)) for name in kept}
            sets.append(
                {**each, "scores": {name: value for name, value in scores.items() if value is not None}}
            )
        merged[protocol] = _protocol(sets, tuple(PEERS))
    return merged


def _set_of(measured: dict[str, Any]) -> RealSet:
    return RealSet(measured["name"], measured["kind"], measured["n_classes"])


def _protocol(sets: list[dict[str, Any]], peers: Sequence[str]) -> dict[str, Any]:
    return {"sets": sets, **summarize(sets, default=DEFAULT, rivals=peers)}


def _warm_up(methods: Sequence[str]) -> None:
    """Fit each method once, so that the times of datasets do not include imports."""
    for n_classes in (2, 3):
        y = np.arange(300) % n_classes
        votes = np.stack([np.where(np.arange(300) % (i + 5) == 0, 0, y) for i in range(5)], axis=1).astype(
            np.int8
        )
        real = RealSet("warm up", "crowds", n_classes)
        for name in ours_for(real, methods):
            measure_ours(name, Pool(real, votes, votes, y.astype(np.int8)))


def main() -> None:
    parser = save_parser("Majority vote, our methods and peers on the real sets.")
    parser.add_argument("--methods", nargs="+", choices=OURS, default=list(OURS), help="only these of ours")
    parser.add_argument(
        "--peers", nargs="*", choices=PEERS, default=list(PEERS), help="only these peers, or none"
    )
    parser.add_argument("--sets", nargs="+", help="only these sets, for a quick look")
    parser.add_argument("--remembered", action="store_true", help="only answers of peers that were kept")
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds that a peer may take on one set")
    parser.add_argument(
        "--frozen",
        action="store_true",
        help="the frozen half instead; only when nothing is left to choose, see docs/quality/halves.md",
    )
    arguments = parser.parse_args()
    if arguments.save and arguments.sets:
        parser.error("--save takes all sets")
    half = FROZEN if arguments.frozen else DESIGN
    chosen = [real for real in half if not arguments.sets or real.name in arguments.sets]
    name = "default_table_frozen" if arguments.frozen else "default_table"
    results = run(
        data_directory(),
        chosen,
        methods=arguments.methods,
        peers=arguments.peers,
        limit=arguments.limit,
        ask=not arguments.remembered,
    )
    if set(arguments.methods) < set(OURS) or set(arguments.peers) < set(PEERS):
        results = with_recorded(results, json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["results"])
    print(default_page.render({"frozen" if arguments.frozen else "design": results}))
    if arguments.save:
        print(f"saved to {save(name, results).name} and {default_page.write().name}")


if __name__ == "__main__":
    main()
