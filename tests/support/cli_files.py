"""Sample files for the tests of the command line, as users have them, and a call of a command."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.cli.main import main

NAMES = ("links", "caps", "sender", "short", "words")
ACCURACIES = (0.9, 0.85, 0.8, 0.7, 0.65)


def simulate(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Votes of five sources as codes, -1 for none, and the truth."""
    sample = fs.datasets.simulate(n, list(ACCURACIES), coverage=0.7, random_state=seed)
    return np.asarray(sample.votes.codes), np.asarray(sample.y)


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Rows of a csv file by column."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, header: list[str], rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def texts(codes: np.ndarray) -> list[list[str]]:
    return [["" if v < 0 else ("ham", "spam")[v] for v in row] for row in codes.tolist()]


def write_wide(path: Path, codes: np.ndarray, truth: np.ndarray | None = None) -> Path:
    """Item, five sources, and perhaps the truth of every second item."""
    rows: list[list[object]] = [[f"m{i}", *row] for i, row in enumerate(texts(codes))]
    if truth is not None:
        for i, row in enumerate(rows):
            row.append(("ham", "spam")[truth[i]] if i % 2 else "")
    return write_csv(path, ["id", *NAMES, *(["truth"] if truth is not None else [])], rows)


def write_systems(folder: Path, codes: np.ndarray, truth: np.ndarray, n_gold: int = 100) -> Path:
    """Votes on the answers of two systems, systems.csv, and gold labels of a random sample, gold.csv."""
    rng = np.random.default_rng(0)
    systems = np.array(["old", "new"])[rng.integers(0, 2, len(codes))].tolist()
    rows = [[f"m{i}", systems[i], *row] for i, row in enumerate(texts(codes))]
    chosen = rng.choice(len(codes), n_gold, replace=False).tolist()
    write_csv(folder / "gold.csv", ["id", "gold"], [[f"m{i}", ("ham", "spam")[truth[i]]] for i in chosen])
    return write_csv(folder / "systems.csv", ["id", "system", *NAMES], rows)


def make_samples(folder: Path) -> Path:
    """Every file that an example in a help text names."""
    codes, truth = simulate()
    write_wide(folder / "votes.csv", codes)
    write_wide(folder / "more.csv", simulate(seed=1)[0])
    write_wide(folder / "judged.csv", codes, truth)
    write_wide(folder / "frames.csv", codes)
    write_systems(folder, codes, truth)
    with gzip.open(folder / "votes.csv.gz", "wt", encoding="utf-8") as file:
        file.write((folder / "votes.csv").read_text("utf-8"))
    crowd = [
        [f"t{i}", name, vote] for i, row in enumerate(texts(codes))
        for name, vote in zip(NAMES, row, strict=True) if vote
    ]  # fmt: skip
    write_csv(folder / "crowd.csv", ["task", "worker", "answer"], crowd)
    write_csv(
        folder / "texts.csv", ["id", "text"], [[f"m{i}", f"mail <b>{i}</b>"] for i in range(len(codes))]
    )
    panel = [
        [f"m{i}", *(("ham", "spam")[max(k, 0)] for k in row)]
        for i, row in enumerate(np.repeat(codes, 2, axis=1))
    ]
    write_csv(folder / "panel.csv", ["id", *(f"{name}|{order}" for name in NAMES for order in (0, 1))], panel)
    calls = [
        [row[0], name, turn, row[1 + 2 * j + turn]]
        for row in panel
        for j, name in enumerate(NAMES)
        for turn in (0, 1)
    ]
    write_csv(folder / "calls.csv", ["pair", "rater", "turn", "verdict"], calls)
    np.save(folder / "embeddings.npy", np.random.default_rng(0).normal(truth[:, None], 1, (len(truth), 4)))
    np.save(folder / "signed.npy", np.where(codes < 0, 0, 2 * codes - 1).astype(np.int8))
    lines = [
        json.dumps({"id": i, **dict(zip(("links", "short"), (v or None for v in row[:2]), strict=True))})
        for i, row in enumerate(texts(codes))
    ]
    (folder / "votes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    named = fs.Votes.from_classes(
        np.array([[v or None for v in row] for row in texts(codes)], object), names=NAMES
    )
    fs.LabelModel().fit(named).save(folder / "spam.fsq")
    rng = np.random.default_rng(0)
    quality = rng.normal(3, 1, (100, 1))
    scores = quality + rng.normal(0, [0.4, 0.6, 1.0], (100, 3))
    header, rows = ["id", "large", "small", "tiny"], scores.round(2).tolist()
    write_csv(folder / "scores.csv", header, [[f"a{i}", *row] for i, row in enumerate(rows)])
    stars = np.clip(np.rint(scores), 1, 5).astype(int).tolist()
    write_csv(folder / "stars.csv", [*header, "text"], [[f"a{i}", *row, "x"] for i, row in enumerate(stars)])
    fs.ScoreModel().fit(scores, names=header[1:]).save(folder / "judges.fsq")
    return folder


def run(*words: object, code: int = 0, limits: dict[str, int] | None = None) -> str:
    """Return the output of a command, which must exit with ``code``."""
    with use_limits(**(limits or {})):
        result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output
