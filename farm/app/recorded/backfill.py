"""A finished run's metrics, placed in the past of a Prometheus: as text, or as its own blocks."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from itertools import tee
from pathlib import Path
from typing import Self, TextIO

import msgspec

from farm.app.recorded.auditing import same_commands, scheduler_like
from farm.assembly import pool_specs
from farm.core.errors import InputError, RunError
from farm.metrics.openmetrics import Backfill, History, replay
from farm.metrics.series import Readings
from farm.results.log.reader import Entry
from farm.results.run_directory import EVENTS, Run
from farm.units import format_roughly

HOUR = 3600.0
DAY = 24 * HOUR

#: a Prometheus keeps so much in memory, and drops what is older than its blocks at its next start
IN_MEMORY = 3 * HOUR
#: length of a block, as promtool is called and as blocks begin
BLOCK, BLOCK_OPTION = 18 * HOUR, "18h"
#: a run up to so long is sampled as finely as a live farm is scraped
SHORT_RUN, FINE, COARSE = 2 * HOUR, 5.0, 60.0

#: of each series: half a year as finely as a live farm is scraped, five at the coarser interval
MAX_SAMPLES = 3_000_000


class Place(msgspec.Struct, frozen=True):
    """Where on Prometheus's time axis a run is put: Unix seconds of farm time 0, and its length."""

    began: float
    length: float
    #: farm time between two samples
    interval: float

    @classmethod
    def of(cls, run: Run, began: float | None, interval: float | None) -> Self:
        """Return the place of a run: by default, from a midnight (UTC) on.

        It is the last one from which the run ended so long before it was made that no live
        metrics of a Prometheus can be in danger. Raises InputError for years beyond 1 to 9999.
        """
        length = run.last_instant()
        if began is None:
            made = datetime.fromisoformat(run.meta.ended or run.meta.started).timestamp()
            began = (made - IN_MEMORY - length) // DAY * DAY
        if interval is None:
            interval = FINE if length <= SHORT_RUN else COARSE
        if length > interval * MAX_SAMPLES:
            raise InputError(
                f"--interval: found {interval:g}s for a run of {format_roughly(length)}; allowed: "
                f"one of which it has {MAX_SAMPLES:,} or fewer"
            )
        place = cls(began, length, interval)
        try:
            str(place)
        except (ValueError, OverflowError, OSError):
            raise InputError(
                f"--start: found {began:.0f} (seconds since 1970) for a run of "
                f"{format_roughly(length)}; "
                "allowed: one that begins and ends in the years 1 to 9999"
            ) from None
        return place

    @property
    def ended(self) -> float:
        """Unix seconds of the run's end."""
        return self.began + self.length

    @property
    def is_recent(self) -> bool:
        """Whether a Prometheus that scrapes a live farm would lose what it has in memory."""
        return self.ended > time.time() - IN_MEMORY

    def dashboard(self, instance: str) -> str:
        """Return where Grafana shows it, without Grafana's own address."""
        source = "farm-prometheus" if self.interval <= FINE else "farm-runs"
        return (
            f"/d/farm?var-datasource={source}&var-job=run&var-instance={instance}"
            f"&from={self.began * 1000:.0f}&to={self.ended * 1000:.0f}"
        )

    def __str__(self) -> str:
        first, last = (datetime.fromtimestamp(at, UTC) for at in (self.began, self.ended))
        return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


def write_text(run: Run, place: Place, sink: TextIO) -> int:
    """Write the whole run as OpenMetrics text; return how many samples there are.

    Raises InputError for a run whose decisions a new scheduler does not make again.
    """
    collected = _collector(run, place)
    _replay(run, place, collected.add)
    return collected.write(sink)


def write_blocks(run: Run, place: Place, folder: Path) -> int:
    """Let promtool make blocks, and move them into Prometheus's data directory when all are made.

    They are not made in it: a Prometheus that starts during that time removes unfinished blocks.
    Returns how many samples there are. Raises InputError where there is no promtool, RunError
    if it fails.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        raise InputError(
            "--into needs promtool, which is not on PATH; it comes with Prometheus. Or write the "
            "text with -o - and run promtool where Prometheus is (docs/reference/metrics.md)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # in the same file system, under a name that Prometheus ignores
    with tempfile.TemporaryDirectory(prefix="farm-backfill-", dir=folder) as temporary:
        blocks = Path(temporary) / "blocks"
        samples = _write_block_by_block(
            run, place, lambda text: _make_blocks(promtool, text, blocks), Path(temporary) / "text"
        )
        for block in blocks.iterdir():
            block.rename(folder / block.name)
    return samples


def _write_block_by_block(run: Run, place: Place, take: Callable[[Path], None], text: Path) -> int:
    """Write the text of each block into the same file and hand it on; return the samples' number.

    So that a run of any length needs the memory of one block.
    """
    collected, samples = _collector(run, place), 0
    current = place.began // BLOCK

    def flush() -> None:
        nonlocal samples
        with text.open("w", encoding="utf-8", newline="\n") as sink:
            samples += collected.write(sink)
        take(text)

    def add(at: float, readings: Readings) -> None:
        nonlocal current
        if (block := (place.began + at) // BLOCK) != current:
            current = block
            flush()
        collected.add(at, readings)

    _replay(run, place, add)
    flush()
    return samples


def _make_blocks(promtool: str, text: Path, folder: Path) -> None:
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    command += [f"--max-block-duration={BLOCK_OPTION}", str(text), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip().rpartition("\n")[2] or "nothing"
        raise RunError(f"promtool cannot make blocks (exit {done.returncode}): {message}")


def _collector(run: Run, place: Place) -> Backfill:
    return Backfill({"job": "run", "instance": run.name}, place.began, place.interval)


def _replay(run: Run, place: Place, take: Callable[[float, Readings], None]) -> None:
    desired = {p.name: p.builders for p in pool_specs(run.scenario) if not p.provisioned}
    check = same_commands(run)

    def history(played: Iterable[Entry]) -> History:
        for entry in played:
            if entry.event.at > place.length:
                raise InputError(
                    f"{run.path / EVENTS}, line {entry.line}: found the farm time "
                    f"{entry.event.at:g}; that of the last line is {place.length:g}"
                )
            yield entry.event, entry.commands

    with closing(run.entries()) as entries:
        played, recorded = tee(entries)
        replay(
            scheduler_like(run),
            history(played),
            place.interval,
            take,
            desired=desired,
            observe=lambda _, commands: check(next(recorded), commands),
        )
