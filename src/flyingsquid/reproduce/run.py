"""Runs tables and figures, and writes their files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError, SourceWarning
from flyingsquid.io import replacing
from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.picture import can_draw, svg_of
from flyingsquid.reproduce.real_sets import available
from flyingsquid.reproduce.registry import artifacts


@dataclass(frozen=True, slots=True)
class Done:
    """One table or figure after its turn.

    Attributes
    ----------
    artifact : Artifact
    outcome : Outcome, or None where no data was at hand
    missing : names of real sets that it would have used
    files : what was written
    """

    artifact: Artifact
    outcome: Outcome | None
    missing: tuple[str, ...]
    files: tuple[Path, ...]


def choose(names: Iterable[str]) -> list[Artifact]:
    """Tables and figures by name, in the order of the paper; all where no name is given."""
    known, wanted = artifacts(), set(names)
    unknown = sorted(wanted - set(known))
    if unknown:
        raise OptionError(f"{told(unknown[0])} is no table or figure; there are {', '.join(known)}")
    return [each for name, each in known.items() if not wanted or name in wanted]


def run(chosen: Iterable[Artifact], setting: Setting, output: Path) -> Iterator[Done]:
    """Make one after the other and write its json, its page and its picture into ``output``."""
    for artifact in chosen:
        found = available(setting.data, artifact.sets)
        missing = tuple(name for name in artifact.sets if name not in found)
        if artifact.sets and artifact.needs_data and not found:
            yield Done(artifact, None, missing, ())
            continue
        # One thread: what is summed in another order differs in its last bits, and small sums gain nothing.
        with threadpool_limits(1), warnings.catch_warnings():
            # Odd sources are what many of the tables are about.
            warnings.simplefilter("ignore", SourceWarning)
            outcome = artifact.measure(setting)
        yield Done(artifact, outcome, missing, write(artifact, outcome, output))


def page_of(artifact: Artifact, outcome: Outcome, *, picture: bool) -> str:
    """The whole page."""
    shown = [f"![{artifact.title}]({artifact.name}.svg)", ""] if picture else []
    written = f"Written by `flyingsquid reproduce {artifact.name}` ([numbers]({artifact.name}.json))."
    body = artifact.render(outcome.results, outcome.timings)
    return "\n".join([f"# {artifact.title}", "", written, "", *shown, body.rstrip(), ""])


def write(artifact: Artifact, outcome: Outcome, output: Path) -> tuple[Path, ...]:
    """Write the files of one outcome; each is replaced whole. Without matplotlib there is no picture."""
    output.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"results": outcome.results}
    if outcome.timings:
        content["timings"] = outcome.timings
    texts = {
        f"{artifact.name}.json": json.dumps(content, indent=1) + "\n",
        f"{artifact.name}.md": page_of(artifact, outcome, picture=can_draw()),
    }
    if can_draw():
        texts[f"{artifact.name}.svg"] = svg_of(artifact.draw, outcome.results, artifact.size)
    return tuple(_replace(output / name, text) for name, text in texts.items())


def _replace(path: Path, text: str) -> Path:
    with replacing(path) as file:
        file.write(text.encode())
    return path
