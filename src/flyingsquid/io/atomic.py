"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(target: Path, *, force: bool = True) -> Iterator[BinaryIO]:
    """A file that takes the place of ``target`` if all goes well, and disappears otherwise.

    It is written under another name in the same folder, forced to the disk and renamed, so that a crash
    at any moment leaves what was there, or the new file whole. Without ``force`` a file that is
    there already is an error (FileExistsError), at the start and again at the end.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    _check_free(target, force)
    temporary = target.with_name(f".flyingsquid-{secrets.token_hex(8)}.tmp")
    file = open(temporary, "xb")  # noqa: SIM115  # closed below, before it is renamed
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _check_free(target, force)
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:  # an interrupt too must leave nothing behind
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _check_free(target: Path, force: bool) -> None:
    if not force and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut. Not every system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
