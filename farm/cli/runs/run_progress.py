"""The progress of a live run: a live table on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
from typing import Self

from rich.live import Live
from rich.text import Text

from farm.live.wire.pool_report import LiveStatus
from farm.terminal.console import FarmConsole, many
from farm.terminal.tables import Listing, story
from farm.units import format_roughly


class RunDisplay:
    """Shows a run's status on standard error while its ``with`` block lasts."""

    def __init__(self) -> None:
        console = FarmConsole(stderr=True)
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


def _table(status: LiveStatus) -> Listing:
    done = sum(status.ended.values())
    share = done / status.submitted if status.submitted else 0.0
    states = " · ".join(f"{count} {state}" for state, count in sorted(status.builders.items()))
    return story(
        [
            (
                "stopping: running jobs end" if status.stopping else "live farm",
                f"farm time {format_roughly(status.at)}",
            ),
            ("jobs", f"{status.waiting} waiting · {status.running} running · {done} done"),
            ("", _bar(share)),
            ("builders", f"{states or 'coming up'} on {many(status.hosts, 'Celery host')}"),
        ]
    )


def _bar(share: float, width: int = 40) -> Text:
    full = round(share * width)
    rest = ("━" * (width - full), "dim")
    return Text.assemble(("━" * full, "green"), rest, f" {share:.0%} of those submitted")
