"""Where the real votes are."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder named by FLYINGSQUID_DATA."""
    folder = os.environ.get("FLYINGSQUID_DATA")
    if not folder:
        raise SystemExit("FLYINGSQUID_DATA is not set; point it to the folder with the real votes")
    return Path(folder)


def find(folder: Path, name: str) -> Path:
    """The file of one set."""
    path = folder / name / f"{name}.npz"
    if not path.is_file():
        raise SystemExit(f"FLYINGSQUID_DATA holds no {name}/{path.name}, which the table needs")
    return path
