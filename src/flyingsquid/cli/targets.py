"""Files that a command will write: checked before the work starts."""

from __future__ import annotations

import os

import click

from flyingsquid.exceptions import VoteFileError


def check_targets(
    votes: str,
    targets: dict[str, str | None],
    *,
    force: bool,
    inputs: tuple[str, ...] = (),
    folders: bool = False,
) -> None:
    """Refuse what could not be written in the end.

    Parameters
    ----------
    votes : the file that is read
    targets : paths by the option that names them; None and ``-`` are no files
    force : whether files that are there are replaced
    inputs : further files that are read
    folders : whether a folder may be written to
    """
    files = {option: path for option, path in targets.items() if path not in (None, "-")}
    places: dict[str, str] = {}
    for option, path in files.items():
        real = os.path.realpath(path or "")
        if real in places:
            raise click.UsageError(f"{option} and {places[real]} name the same file, {path}.")
        places[real] = option
        if any(each != "-" and os.path.realpath(each) == real for each in (votes, *inputs)):
            raise click.UsageError(f"{option} names a file that is read, {path}; it would be overwritten.")
    for path in files.values():
        if not (folders and os.path.isdir(path or "")):
            _check_one(path or "", force)


def _check_one(path: str, force: bool) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise VoteFileError(f"{path}: this is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise VoteFileError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK) and not os.path.exists(path):
        raise VoteFileError(f"{path}: permission denied")
    if not force and os.path.isfile(path):
        raise VoteFileError(f"{path}: there is such a file already; --force replaces it")
