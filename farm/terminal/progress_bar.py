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

from farm.terminal.output import MIN_SHARE_FOR_REST


class _RestColumn(TimeRemainingColumn):
    """The remaining time, if it is known."""

    def render(self, task: Task) -> Text:
        is_early = task.percentage < 100 * MIN_SHARE_FOR_REST
        return Text("") if is_early or task.time_remaining is None else super().render(task)


@contextmanager
def shown(what: str, *, counted: bool) -> Iterator[Callable[..., None]]:
    """Show the line until the block ends; yields ``Progress.update`` for it.

    A bar with the numbers if what is done is counted, else something that turns.
    """
    description = TextColumn("{task.description}")
    columns = (
        (description, BarColumn(), MofNCompleteColumn(), _RestColumn())
        if counted
        else (SpinnerColumn(), description, _RestColumn(compact=True))
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield partial(progress.update, progress.add_task(what, total=None))
