"""What would shorten the waits of a real farm, by a simulation of its records.

Simulated is the farm that ``farm init`` makes of records: their runners, times between jobs and
order. What helps it helps the real one only if its jobs wait as they were recorded to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from farm.app.first_scenario import write_first_scenario
from farm.app.runs.advice import MAX_DEVIATION, MAX_SEARCHED_JOBS, advice_for
from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import FarmError
from farm.records.bundle import Bundle, write_bundle
from farm.results.descriptive_statistics import Spread
from farm.results.formatting import spoken_span
from farm.results.summary.answer import answer_of_run
from farm.scenario import load_scenario

SHARE_OF_SETTING_UP: Final = 0.3
"""Of the time that it takes: the rest is the search."""


class AdviceOnRecords(NamedTuple):
    """What a simulation of records says."""

    #: what would shorten the waits; empty: nothing is advised
    answer: str = ""
    #: why nothing can be said by it: it does not wait as the farm did
    unlike: str = ""


def advice_on_records(
    bundle: Bundle, on_share: Callable[[float], object] = float
) -> AdviceOnRecords:
    """Return what would shorten the waits of the farm whose records these are.

    Nothing of more records than are searched at once, nor of those that make no scenario.
    ``on_share`` is given how much is done, 0 to 1.
    """
    if len(bundle.attempts) > MAX_SEARCHED_JOBS:
        return AdviceOnRecords()
    with TemporaryDirectory(prefix="farm-") as folder:
        records = Path(folder) / "records"
        scenario_file = Path(folder) / "scenario.yaml"
        try:
            write_bundle(records, bundle)
            write_first_scenario(scenario_file, records)
            run = simulated_run(load_scenario(scenario_file)).kept
        except FarmError:
            return AdviceOnRecords()
        on_share(SHARE_OF_SETTING_UP)
        recorded = run.summary.recorded_waiting_time
        if not isinstance(recorded, Spread) or not recorded.p95:
            return AdviceOnRecords()
        wait = run.summary.waiting_time.p95 or 0.0
        waits = f"p95 wait {spoken_span(wait)} in simulation, {spoken_span(recorded.p95)} recorded"
        if abs(wait - recorded.p95) > MAX_DEVIATION * recorded.p95:
            return AdviceOnRecords(unlike=waits)
        rest = 1.0 - SHARE_OF_SETTING_UP
        advice = advice_for(run, lambda share: on_share(SHARE_OF_SETTING_UP + rest * share))
        if advice is None or not advice.remedies:
            return AdviceOnRecords()
        answer = answer_of_run(run.summary, lambda: run.jobs, run.scenario, advice)
        return AdviceOnRecords(f"{answer} ({waits})")
