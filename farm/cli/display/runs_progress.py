"""How many runs are done, and how long the others will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from farm.units import format_duration

#: real seconds between two lines where there is no terminal
EVERY = 2.5


@contextmanager
def runs_progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how far it is, and for how long it will go on; lines where there is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield (lambda *_: None) if quiet else _Lines()
        return
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs")
        yield lambda done, of: progress.update(task, completed=done, total=of)


class _Lines:
    """Says from time to time how many are done, and about how long the others take."""

    def __init__(self) -> None:
        self._began = self._told_at = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        self._first = done if self._first is None else self._first
        if now - self._told_at < EVERY and done < of:
            return
        self._told_at = now
        made = done - self._first
        left = (now - self._began) / made * (of - done) if made else None
        rest = f", about {format_duration(round(left))} left" if left else ""
        sys.stderr.write(f"{done} of {of} runs{rest}\n")
