"""The end of a run: its summary, suggestions for what to try next, the exit code."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from farm.app.recorded.result import Result
from farm.core.commands import Command
from farm.core.errors import FarmError, InputError
from farm.core.events import Event
from farm.results.formatting import sentence
from farm.results.log.writer import EventLogLines
from farm.results.run_directory import EVENTS, next_directory
from farm.results.summary import summary_table as table
from farm.results.summary.summary import Summary
from farm.results.summary.tally import Tallied
from farm.scenario import Scenario
from farm.sim.too_large import expected_jobs
from farm.terminal.cells import styled
from farm.terminal.output import note, print_json, remark, shared_progress, warn

if TYPE_CHECKING:
    from farm.results.summary.objectives import Term


@contextmanager
def kept_in(out: Path | None, scenario: Scenario, *, save: bool) -> Iterator[Path | None]:
    """Yield where a run is kept: ``out``, or ``runs/NAME-N``; None: nowhere.

    Where nothing was run, because of a mistake, no directory of ours stays. Where none can
    be made, such as in a folder that may only be read, the run is not kept, with a warning.
    """
    if out is not None and not save:
        raise InputError("--no-save: found with --out; allowed: one of them")
    made = None
    try:
        made = out or (next_directory(scenario.name) if save else None)
    except OSError as error:
        warn(f"the run is not kept: {error.filename}: {error.strerror}; see --out")
    try:
        yield made
    except (FarmError, KeyboardInterrupt):
        if made is not None and out is None:
            with suppress(OSError):
                if not any(log.stat().st_size for log in made.glob(EVENTS)):
                    shutil.rmtree(made)
                made.parent.rmdir()  # if it holds no other run
        raise


def share_done(scenario: Scenario, at: float, ended: int) -> dict[str, int]:
    """Return how far a run is, for its progress: by its phases, else by its jobs, if known."""
    whole, done = (scenario.ends_at, at) if scenario.ends_at else (expected_jobs(scenario), ended)
    known = 0 < whole < math.inf
    return {"completed": round(1000 * min(1.0, done / whole)), "total": 1000} if known else {}


def with_size(run: Path) -> str:
    """Return a run directory and its size: that of many jobs is large."""
    size = sum(path.stat().st_size for path in run.iterdir()) / 1e6
    return f"{run} ({size:,.1f} MB)"


def show(result: Result, *, as_json: bool, quiet: bool) -> None:
    """Print the summary as a table or as JSON; warnings on standard error."""
    summary = result.kept.summary
    answer = ""
    if as_json:
        print_json(summary, pretty=True)
    else:
        with shared_progress("finding where builders are short", silent=quiet) as on_share:
            answer = result.answered(on_share, with_advice=not quiet)
        note(styled(sentence(answer), "bold"))
        note(table.render_summary(summary))
    remark(*(f"warning: {one}" for one in summary.warnings))
    # a twin's caveat stands before the answer already
    remark(*(f"remark: {one}" for one in summary.remarks if one not in answer))


def exit_code(summary: Summary) -> int:
    """Return 1 if jobs were lost or the user's functions failed, else 0."""
    return 0 if summary.ended_well else 1


class CheckedTerm(msgspec.Struct, frozen=True):
    """Whether a run met a term of an objective: a line of JSON."""

    check: str
    #: seconds, or a plain number; None: no job has such a value
    value: float | None
    met: bool


def parse_checks(texts: Sequence[str] | None, scenario: Scenario) -> list[Term]:
    """Return the terms of ``--check``; raises InputError that says what is allowed."""
    if not texts:
        return []
    from farm.results.summary.objectives import (  # noqa: PLC0415 - few runs are checked
        check_pools,
        parse_objective,
    )

    terms = [term for text in texts or () for term in parse_objective(text, "--check")]
    check_pools(terms, scenario.pools, "--check")
    return terms


def show_checks(result: Result, terms: Sequence[Term], *, as_json: bool) -> bool:
    """Print for each term whether the run met it, with the value; return whether it met all."""
    met_all = True
    for term in terms:
        value = _value_of(result, term)
        met = value is not None and term.is_met_by(value)
        met_all = met_all and met
        if as_json:
            shown_value = None if value is not None and math.isinf(value) else value
            print_json(CheckedTerm(str(term), shown_value, met))
        else:
            found = "no value" if value is None else term.show(value)
            note(f"check {term}: {'met' if met else 'not met'} ({found})")
    return met_all


def _value_of(result: Result, term: Term) -> float | None:
    """Return the value of a term in a run that has just ended; None: no job has one."""
    from farm.results.summary.objectives import value_of, value_of_tallied  # noqa: PLC0415 - as above

    summary = result.kept.summary
    records = result.records
    pools = result.scenario.pools
    if records is None:
        raise InputError(f"--check {term}: found a run that was read back; allowed: a new one")
    if isinstance(records, Tallied) and term.statistic:
        return value_of_tallied(records, term, pools)
    return value_of(records, summary, term, pools)


class EventLines:
    """Observer that prints the event log in readable form: farm time, event, ``key=value``."""

    def __init__(self) -> None:
        self._lines = EventLogLines()
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode_lines

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Print one event and its commands."""
        self._lines(event, commands)
        for line in self._decode(self._lines.take()):
            sys.stderr.write(f"{_readable(**line)}\n")


def _readable(at_s: float, event: str, **values: object) -> str:
    pairs = [f"{key}={_short(value)}" for key, value in values.items()]
    return " ".join([f"{at_s:12.3f}", f"{event:18}", *pairs])


def _short(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
