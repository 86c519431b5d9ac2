"""What would shorten the waits of a real farm, by a simulation of its records.

Simulated is the farm that ``farm init`` makes of records: their runners, times between jobs and
order. What helps it helps the real one only if its jobs wait as they were recorded to,
and come when they came: a job that another one releases comes sooner on a larger farm.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from farm.app.runs.advice import (
    MAX_DEVIATION,
    ComputedAdvice,
    TooLongError,
    advice_on_farm,
    simulated_as_it_is,
)
from farm.core.errors import FarmError
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle, write_bundle
from farm.results.descriptive_statistics import Spread
from farm.results.formatting import spoken_span
from farm.scenario import load_scenario
from farm.whole_files import write_document
from farm_twin.diagnosis.diagnose import Examination
from farm_twin.diagnosis.releases import releases_in
from farm_twin.first_scenario import scenario_of_bundle

SHARE_OF_SETTING_UP: Final = 0.3
"""Of the time that it takes: the rest is the search."""
MAX_SEARCHED_JOBS: Final = 40_000
"""Jobs of records that are simulated for their advice: to make a scenario of them takes longest."""
SCENARIO_FILE: Final = "mine.yaml"
"""What commands call the scenario that is made of the records."""


def advice_on_records(
    bundle: Bundle, examination: Examination, on_share: Callable[[float], object] = float
) -> ComputedAdvice:
    """Return what would shorten the waits of the farm whose records these are.

    Nothing of records that make no scenario, nor where no verdict on them can be given, or their
    jobs seem to release each other.

    Args:
        bundle: their records.
        examination: what the doctor has found in them.
        on_share: given how much is done, 0 to 1.
    """
    verdicts = examination.verdicts
    jobs = len(bundle.attempts)
    too_many = ComputedAdvice(
        command=f"farm plan {SCENARIO_FILE} --slo 'p95(waiting_time) < 5m'",
        why_not=f"{jobs:,} jobs are too many to be simulated here. farm init makes a scenario of "
        "them, with which farm plan finds it",
    )
    if jobs > MAX_SEARCHED_JOBS:
        return too_many
    if verdicts and all(verdict.kind == "cannot tell" for verdict in verdicts):
        return ComputedAdvice(why_not=verdicts[0].text)
    releases = releases_in(AttemptColumns.of(bundle.attempts))
    if releases.matter:
        return ComputedAdvice(
            why_not=f"{releases.text}, as jobs do that other jobs release; on a larger farm they "
            "would come sooner, and these records do not say when"
        )
    with TemporaryDirectory(prefix="farm-") as folder:
        records = Path(folder) / "records"
        scenario_file = Path(folder) / "scenario.yaml"
        try:
            write_bundle(records, bundle)
            text = scenario_of_bundle(records, bundle, examination.figures)
            write_document(scenario_file, text)
            farm = simulated_as_it_is(load_scenario(scenario_file))
        except TooLongError:
            return too_many
        except FarmError:
            return ComputedAdvice()
        on_share(SHARE_OF_SETTING_UP)
        summary = farm.run.summary
        recorded = summary.recorded_waiting_time
        if not isinstance(recorded, Spread) or not recorded.p95:
            return ComputedAdvice()
        wait = summary.waiting_time.p95 or 0.0
        waits = f"p95 wait {spoken_span(wait)} in simulation, {spoken_span(recorded.p95)} recorded"
        if abs(wait - recorded.p95) > MAX_DEVIATION * recorded.p95:
            return ComputedAdvice(
                why_not=f"the records' runners do not wait alike ({waits}). farm twin searches for "
                "a farm that does"
            )
        rest = 1.0 - SHARE_OF_SETTING_UP
        advice = advice_on_farm(
            farm, lambda share: on_share(SHARE_OF_SETTING_UP + rest * share), typed=SCENARIO_FILE
        )
        if not advice.sentence:
            return advice
        return advice._replace(sentence=f"{advice.sentence} ({waits})")
