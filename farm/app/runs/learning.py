"""What runtime estimators learn before a run: from a finished run, a bundle, or statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from farm.assembly import estimator_of, laws_of
from farm.core.errors import InputError, file_access
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.training import learn_from
from farm.records.bundle import is_bundle
from farm.results.run_directory import PlayAgain, load_run
from farm.scenario import Scenario
from farm.whole_files import read_whole


def seeded_estimator(scenario: Scenario, again: PlayAgain) -> RuntimeEstimator:
    """Return the scenario's estimator with what it learns before a run.

    ``again`` plays a run that is kept as its inputs. Raises InputError for statistics that cannot
    be learned from.
    """
    estimator = estimator_of(scenario)
    seed_estimator(estimator, scenario.estimates.learn_from, again)
    return estimator


def seed_estimator(estimator: RuntimeEstimator, path: str | None, again: PlayAgain) -> None:
    """Let an estimator learn from a finished run, a bundle of records, or dumped statistics.

    ``path`` None: from nothing. ``again`` plays a run that is kept as its inputs. Raises InputError
    for what is neither, and for statistics of another estimator.
    """
    if path is None:
        return
    source = Path(path)
    if is_bundle(source):
        from farm.app.recorded.bundle_history import (  # noqa: PLC0415 - few runs learn from one
            history_of,
        )

        learn_from(estimator, (entry.event for entry in history_of(source).entries))
    elif source.is_dir():
        run = load_run(source, unfinished=True, again=again)
        events = (entry.event for entry in run.entries() if not entry.ignored)
        learn_from(estimator, events, laws_of(run.scenario))
    else:
        # it reads its own dumps, such as a live farm's, and those of the estimator alone
        if not isinstance(estimator, RuntimeDistribution):
            estimator = RuntimeDistribution(estimator)
        state = _dumped(source)
        try:
            estimator.load(state)
        except InputError as error:
            raise InputError(f"learn_from: {source}: {error}") from None
    if isinstance(estimator, RuntimeDistribution):
        estimator.forget_times()


def _dumped(source: Path) -> Any:
    """Return the statistics in a file, which may be a live farm's state."""
    with file_access(f"learn_from: {source}", "be read"):
        text = read_whole(source)
    try:
        state = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InputError(f"learn_from: {source}: not JSON: {error}") from None
    if isinstance(state, dict) and "snapshot" in state:
        return state.get("statistics")
    return state
