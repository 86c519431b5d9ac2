"""The line on a terminal that shows how far a piece of work is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _RestColumn(TimeRemainingColumn):
    """The remaining time, from a share of the work on."""

    def __init__(self, rest_from: float, *, compact: bool = False) -> None:
        super().__init__(compact=compact)
        self._rest_from = rest_from

    def render(self, task: Task) -> Text:
        is_early = task.percentage < 100 * self._rest_from
        return Text("") if is_early or task.time_remaining is None else super().render(task)


@contextmanager
def shown(what: str, *, counted: bool, rest_from: float) -> Iterator[Callable[..., None]]:
    """Show the line until the block ends; yields ``Progress.update`` for it.

    A bar with the numbers if what is done is counted, else something that turns. The remaining time
    is told once this share of the work is done.
    """
    description = TextColumn("{task.description}")
    columns = (
        (description, BarColumn(), MofNCompleteColumn(), _RestColumn(rest_from))
        if counted
        else (SpinnerColumn(), description, _RestColumn(rest_from, compact=True))
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield partial(progress.update, progress.add_task(what, total=None))
