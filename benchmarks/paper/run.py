"""Measure tables and figures, and write their files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.paper import ablations, drift, end_model_theorems, label_model_theorems, table_1, table_2
from benchmarks.paper.artifact import Artifact, Outcome, Setting, can_draw, svg_of
from benchmarks.paper.data import available
from flyingsquid.exceptions import SourceWarning

# In the order of the paper.
ARTIFACTS = {
    artifact.name: artifact
    for artifact in (
        table_1.ARTIFACT,
        table_2.ARTIFACT,
        drift.ARTIFACT,
        ablations.ARTIFACT,
        label_model_theorems.THEOREM_1,
        label_model_theorems.THEOREM_2,
        end_model_theorems.THEOREM_3,
        label_model_theorems.THEOREM_4,
        end_model_theorems.THEOREM_5,
    )
}


@dataclass(frozen=True, slots=True)
class Done:
    """One table or figure after its run.

    Attributes
    ----------
    artifact : the table or figure
    outcome : its numbers, or None if no data was found
    missing : names of its real datasets that were not found
    """

    artifact: Artifact
    outcome: Outcome | None
    missing: tuple[str, ...]


def choose(names: Iterable[str]) -> list[Artifact]:
    """Return tables and figures by name, in the order of the paper; all of them if no name is given."""
    wanted = set(names)
    unknown = sorted(wanted - set(ARTIFACTS))
    if unknown:
        raise ValueError(f"`names` must be among {', '.join(ARTIFACTS)}; got {unknown[0]!r}.")
    return [artifact for name, artifact in ARTIFACTS.items() if not wanted or name in wanted]


def run(artifacts: Iterable[Artifact], setting: Setting, output: Path) -> Iterator[Done]:
    """Measure one artifact after the other and write its JSON, page and picture to ``output``."""
    for artifact in artifacts:
        found = available(setting.data, artifact.datasets)
        missing = tuple(name for name in artifact.datasets if name not in found)
        if artifact.datasets and artifact.needs_data and not found:
            yield Done(artifact, None, missing)
            continue
        # One thread: sums in another order differ in their last bits, and small sums gain nothing.
        with threadpool_limits(1), warnings.catch_warnings():
            # Many of the tables are about unusual sources.
            warnings.simplefilter("ignore", SourceWarning)
            outcome = artifact.measure(setting)
        write(artifact, outcome, output)
        yield Done(artifact, outcome, missing)


def page_of(artifact: Artifact, outcome: Outcome, *, picture: bool) -> str:
    """Return the complete page of an artifact."""
    image = [f"![{artifact.title}]({artifact.name}.svg)", ""] if picture else []
    origin = f"Written by `python -m benchmarks.paper {artifact.name}` ([numbers]({artifact.name}.json))."
    body = artifact.render(outcome.results, outcome.timings)
    return "\n".join([f"# {artifact.title}", "", origin, "", *image, body.rstrip(), ""])


def write(artifact: Artifact, outcome: Outcome, output: Path) -> None:
    """Write the files of one outcome; the picture only if matplotlib is installed."""
    output.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"results": outcome.results}
    if outcome.timings:
        content["timings"] = outcome.timings
    files = {
        "json": json.dumps(content, indent=1) + "\n",
        "md": page_of(artifact, outcome, picture=can_draw()),
    }
    if can_draw():
        files["svg"] = svg_of(artifact.draw, outcome.results, artifact.size)
    for ending, content_of_file in files.items():
        (output / f"{artifact.name}.{ending}").write_text(content_of_file, encoding="utf-8")
