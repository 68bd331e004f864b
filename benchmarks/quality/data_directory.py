"""Location of the real votes."""

from __future__ import annotations

import os
from pathlib import Path


def data_directory() -> Path:
    """Return the directory named by FLYINGSQUID_DATA."""
    directory = os.environ.get("FLYINGSQUID_DATA")
    if not directory:
        raise SystemExit("Set FLYINGSQUID_DATA to the directory with the real votes.")
    return Path(directory)


def find(directory: Path, name: str) -> Path:
    """Return the file of one dataset."""
    path = directory / name / f"{name}.npz"
    if not path.is_file():
        raise SystemExit(f"The directory FLYINGSQUID_DATA must contain {name}/{path.name}.")
    return path


def panel_directory() -> Path:
    """Return the directory of panels, next to the real votes."""
    return data_directory().parent / "panels"
