"""The progress of a live run: a live table on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from farm.live.wire.pool_report import LiveStatus
from farm.units import format_roughly


class RunDisplay:
    """Shows a run's status on standard error while its ``with`` block lasts."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, transient=True, auto_refresh=False)
        #: tenths of the jobs that are done, as last printed
        self._told = -1

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: LiveStatus) -> None:
        """Show the status."""
        if self._live is not None:
            self._live.update(_table(status), refresh=True)
            return
        done = sum(status.ended.values())
        step = done * 10 // max(1, status.submitted)
        if step != self._told:
            self._told = step
            sys.stderr.write(
                f"{format_roughly(status.at)}: {status.waiting} waiting, "
                f"{status.running} running, {done} done\n"
            )


def _table(status: LiveStatus) -> Table:
    done = sum(status.ended.values())
    table = Table.grid(padding=(0, 2))
    title = "stopping: running jobs end" if status.stopping else "live farm"
    table.add_row("[bold]" + title, f"farm time {format_roughly(status.at)}")
    share = done / status.submitted if status.submitted else 0.0
    table.add_row("jobs", f"{status.waiting} waiting · {status.running} running · {done} done")
    table.add_row("", _bar(share))
    states = " · ".join(f"{count} {state}" for state, count in sorted(status.builders.items()))
    hosts = f"{status.hosts} Celery host{'' if status.hosts == 1 else 's'}"
    table.add_row("builders", f"{states or 'coming up'} on {hosts}")
    return table


def _bar(share: float, width: int = 40) -> str:
    full = round(share * width)
    return f"[green]{'━' * full}[/][dim]{'━' * (width - full)}[/] {share:.0%} of those submitted"
