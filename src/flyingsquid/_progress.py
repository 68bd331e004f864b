"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    description: str, total: int | None, *, enabled: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; the context is a function to call with a number of finished items."""
    if not enabled:
        yield lambda _: None
        return
    # Imported here because rich takes a third of a second.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n_done: bar.advance(task, n_done)
