"""``farm twin``: a simulated farm that waits as a real one did, from its records."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from farm.core.errors import InputError
from farm.records.bundle import is_bundle, with_capacity
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.terminal.cells import folding, numbers
from farm.terminal.error_messages import INTERRUPTED
from farm.terminal.options import (
    AsJson,
    Columns,
    Quiet,
    Slots,
    Source,
    Workflows,
    Zone,
    columns_of,
    zone_of,
)
from farm.terminal.output import (
    note,
    print_json,
    progress,
    reading_progress,
    remark,
    show_share,
    this_command,
)
from farm.terminal.tables import Listing
from farm_twin.diagnosis.occupancy import refuse_more_than_slots
from farm_twin.importing import load_records
from farm_twin.twins.baseline import Check, ResampledFigure
from farm_twin.twins.candidates import NO_LIMIT
from farm_twin.twins.triangle import Triangle
from farm_twin.twins.twin import PoolTwin, Twin, write_twin

ABOUT = (
    "on the half of the records that the twin was not made from; from, to: 95 % intervals of the "
    "errors"
)
HEADINGS = (
    "jobs", "recorded mean", "simulated", "error", "from", "to", "recorded p95", "simulated",
    "error", "from", "to", "per job", "correlation", "within 1m", "within 10m",
)  # fmt: skip
FIRST_TO_GO = ("within 10m", "correlation", "within 1m", "to", "from", "per job")
SIDES = ("recorded mean", "replayed", "drawn", "recorded p95", "replayed", "drawn")


def twin(
    files: Annotated[list[Path], typer.Argument(metavar="BUNDLE|FILES")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")] = Path("twin.yaml"),
    source: Source = None,
    slots: Slots = None,
    zone: Zone = None,
    column: Columns = None,
    workflows: Workflows = None,
    hours: Annotated[bool, typer.Option("--hours")] = False,
    strict: Annotated[bool, typer.Option("--strict")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a scenario that waits as a real farm did, and hold it against that farm's records.

    It is written in any case, the best that was found within a minute (Ctrl-C: until then), and
    each of its pools has a grade: each job, on average, rough, or none and why. The exit code is 0
    if all are at least right on average, else 1.

    Args:
        files: A bundle of farm import, or the files of a source as they were fetched (- is
            standard input); the bundle of files is written beside the scenario.
        out: The new scenario.
        hours: Show each pool by hour of the day, too.
        strict: Write nothing, and exit with 2, unless all pools are at least right on average.

    Examples:
        farm twin mine -o mine.yaml     from a bundle of farm import
        farm twin runs.json --slots 40  from files as they were fetched
        farm twin mine --hours          each pool by hour of the day, too
    """
    with reading_progress(silent=quiet) as on_read:
        bundle = load_records(files, source, columns_of(column), zone_of(zone), on_read, workflows)
        bundle = with_capacity(bundle, slots)
        refuse_more_than_slots(bundle)
    place = files[0] if is_bundle(files[0]) else None
    with stopped_by_interrupt() as is_stopped, progress("trying pools", silent=quiet) as update:
        tell = partial(show_share, update)
        made = write_twin(bundle, place, out, tell, is_stopped, strict=strict)
    remark(*made.remarks, quiet=quiet)
    written = str(out) if out.exists() else None
    if as_json:
        print_json(
            {
                "sentence": made.sentence,
                "grade": made.grade,
                "evidence": made.evidence,
                "assumed": made.assumed,
                "closed_loop": made.closed_loop,
                "open_loop": None if made.open_loop is None else made.open_loop.share,
                "pools": made.pools,
                "written": written,
            }
        )
    else:
        remark(*bundle.manifest.remarks, quiet=quiet)
        verdicts = [(one.name, one.verdict) for one in made.pools]
        checks = Listing(
            (*folding("pool"), *numbers(*HEADINGS)),
            [(one.name, *_row(one.check)) for one in made.pools],
            caption=ABOUT,
            first_to_go=FIRST_TO_GO,
        )
        note(made.sentence, "", Listing(folding("pool", "verdict"), verdicts), "", checks)
        if sides := [(one.name, one.triangle) for one in made.pools if one.triangle]:
            note("", _triangles(sides))
        for one in made.pools if hours else ():
            note("", _hours(one))
        if written:
            tried = f"would they wait less with … ? {_what_if(made, out)}"
            remark(f"{out}: written; {tried}", quiet=quiet)
    if is_stopped():
        raise typer.Exit(INTERRUPTED)
    if written is None:
        raise InputError(f"{out}: not written with --strict: {made.sentence}")
    if not made.believable:
        raise typer.Exit(1)


@contextmanager
def stopped_by_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield whether Ctrl-C was pressed; a second one ends the command as usual.

    A search that took half a minute has found something by then.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop.is_set
        return
    usual = signal.getsignal(signal.SIGINT)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop.is_set
    finally:
        signal.signal(signal.SIGINT, usual)


def _triangles(sides: Sequence[tuple[str, Triangle]]) -> Listing:
    rows = []
    for name, one in sides:
        pairs = zip(("mean", "p95"), (one.synthetic.mean, one.synthetic.p95), strict=True)
        cells = [
            (
                readable_span(getattr(one.recorded, figure)),
                readable_span(getattr(one.replayed, figure)),
                f"{readable_span(drawn.low)} to {readable_span(drawn.high)}",
            )
            for figure, drawn in pairs
        ]
        rows.append((name, *cells[0], *cells[1], one.text))
    return Listing(
        (*folding("pool"), *numbers(*SIDES), *folding("therefore")),
        rows,
        first_to_go=("replayed", "drawn"),
        caption="waits of all jobs: recorded, replayed on the twin, and of jobs drawn like them",
    )


def _what_if(made: Twin, out: Path) -> str:
    """Return the command that tries a larger pool, of the busiest that is believable, if any is."""
    one = next((pool for pool in made.pools if pool.believable), made.pools[0])
    key, size = "builders", one.document.get("builders")
    if size is None:
        key, size = "provisioner.max", one.document["provisioner"]["max"]
    if size == NO_LIMIT:
        return f"{this_command()} simulate {out}"
    more = size + max(1, size // 10)
    return f"{this_command()} sweep {out} --vary pools.{one.name}.{key}={size},{more} -n 2"


def _hours(one: PoolTwin) -> Listing:
    rows = [(f"{hour.hour:02}:00", *_row(hour.check)) for hour in one.hours]
    return Listing(
        numbers("hour", *HEADINGS), rows, caption=f"{one.name}, {ABOUT}", first_to_go=FIRST_TO_GO
    )


def _row(found: Check | None) -> tuple[str, ...]:
    if found is None:
        return tuple("-" for _ in HEADINGS)
    return (
        f"{found.jobs:,}",
        readable_span(found.recorded_mean),
        readable_span(found.simulated_mean),
        *_error(found.mean_error),
        readable_span(found.recorded_p95),
        readable_span(found.simulated_p95),
        *_error(found.p95_error),
        readable_span(found.error_per_job.value),
        readable_ratio(found.correlation.value if found.correlation else None),
        readable_percent(found.within_1m.value),
        readable_percent(found.within_10m.value),
    )


def _error(one: ResampledFigure) -> tuple[str, ...]:
    return tuple(readable_percent(share, signed=True) for share in (one.value, one.low, one.high))
